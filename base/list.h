/*
 * Intrusive doubly linked list with a sentinel.
 * Invariant: for every link l of a list, l->next->prev == l and l->prev->next == l. A link that is in no list
 * points to itself (after gp_list_init or gp_list_remove). The caller holds the lock that guards the list.
 */
#ifndef GP_BASE_LIST_H
#define GP_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gp_list {
  struct gp_list *next;
  struct gp_list *prev;
} gp_list_t;

#define gp_list_entry(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/*
 * Loops over the entries of a list, from first to last. The macro declares `name` as a pointer to `type`;
 * `member` is the link in the entry. In the _SAFE form, the body may remove the current entry from the list,
 * or free it, but must not change the rest of the list.
 */
#define GP_LIST_EACH(list, type, member, name)                                                               \
  for (type *name = gp_list_entry((list)->next, type, member); &name->member != (list);                      \
       name = gp_list_entry(name->member.next, type, member))
#define GP_LIST_EACH_SAFE(list, type, member, name)                                                          \
  for (type *name = gp_list_entry((list)->next, type, member),                                               \
            *name##_next = gp_list_entry(name->member.next, type, member);                                   \
       &name->member != (list);                                                                              \
       name = name##_next, name##_next = gp_list_entry(name->member.next, type, member))

static inline void gp_list_init(gp_list_t *list)
{
  list->next = list;
  list->prev = list;
}

static inline bool gp_list_is_empty(const gp_list_t *list)
{
  return list->next == list;
}

static inline void gp_list_insert_after(gp_list_t *position, gp_list_t *link)
{
  link->prev = position;
  link->next = position->next;
  position->next->prev = link;
  position->next = link;
}

static inline void gp_list_push_front(gp_list_t *list, gp_list_t *link)
{
  gp_list_insert_after(list, link);
}

static inline void gp_list_push_back(gp_list_t *list, gp_list_t *link)
{
  gp_list_insert_after(list->prev, link);
}

static inline void gp_list_remove(gp_list_t *link)
{
  link->prev->next = link->next;
  link->next->prev = link->prev;
  gp_list_init(link);
}

#endif
