#include "tools/model/callers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/saturated.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/stack_owners.h"

#define NAME_BYTES (3 * GP_OWNER_NAME_BYTES)

/* Returns the caller named `name` in the list *at, and moves it to the front, because neighbouring stacks are
 * often similar. Adds the caller if it is missing. Returns NULL if memory runs out. */
static gp_caller_t *find(gp_caller_t **at, const char *name)
{
  for (gp_caller_t **link = at; *link; link = &(*link)->next) {
    gp_caller_t *found = *link;
    if (strcmp(found->name, name) != 0)
      continue;
    *link = found->next;
    found->next = *at;
    *at = found;
    return found;
  }
  gp_caller_t *made = calloc(1, sizeof(*made));
  if (made)
    made->name = strdup(name);
  if (!made || !made->name) {
    free(made);
    return NULL;
  }
  made->next = *at;
  *at = made;
  return made;
}

static bool add(
    gp_caller_t **at, const char *name, const gp_site_amount_t *amount, gp_caller_t ***ret_callers)
{
  gp_caller_t *caller = find(at, name);
  if (!caller)
    return false;
  caller->amount.bytes = gp_add_saturated(caller->amount.bytes, amount->bytes);
  caller->amount.count += amount->count;
  *ret_callers = &caller->callers;
  return true;
}

static int add_stack(
    const gp_snapshot_t *snapshot, int stack, const gp_site_amount_t *amount, gp_caller_t **owners)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  size_t place = gp_stack_owner_place(snapshot, stack);
  gp_caller_t **at = owners;
  gp_owner_text_t text;
  char name[NAME_BYTES];

  if (!gp_stack_owner_text(snapshot, stack, &text)) /* stacks without frames count, too */
    return add(at, GP_SITE_EMPTY, amount, &at) ? 0 : ENOMEM;
  if (!add(at, gp_owner_describe(&text, name, sizeof(name)), amount, &at))
    return ENOMEM;
  for (int depth = 1; depth < GP_CALLERS_DEEPEST; depth++) {
    place = gp_stack_next_user(snapshot, stack, place);
    if (place == SIZE_MAX)
      break;
    if (!add(at, gp_frame_describe(snapshot, stacks->frame_indexes[place], name, sizeof(name)), amount, &at))
      return ENOMEM;
  }
  return 0;
}

static bool is_larger(const gp_caller_t *a, const gp_caller_t *b, bool by_count)
{
  uint64_t x = by_count ? a->amount.count : a->amount.bytes, y = by_count ? b->amount.count : b->amount.bytes;
  return x != y ? x > y : strcmp(a->name, b->name) < 0;
}

/* Merges two sorted lists. */
static gp_caller_t *merge(gp_caller_t *a, gp_caller_t *b, bool by_count)
{
  gp_caller_t *first = NULL, **end = &first;
  while (a && b) {
    gp_caller_t **from = is_larger(b, a, by_count) ? &b : &a;
    *end = *from;
    end = &(*from)->next;
    *from = *end;
  }
  *end = a ? a : b;
  return first;
}

/* Sorts one list of callers and returns its first element. Recurses as deep as the logarithm of the list's
 * length; sort_below adds the depth of the tree. */
static gp_caller_t *sort(gp_caller_t *list, bool by_count)
{
  gp_caller_t *half = list;
  if (!list || !list->next)
    return list;
  for (const gp_caller_t *end = list->next; end && end->next; end = end->next->next)
    half = half->next;
  gp_caller_t *rest = half->next;
  half->next = NULL;
  return merge(sort(list, by_count), sort(rest, by_count), by_count);
}

static void sort_below(gp_caller_t **list, bool by_count)
{
  *list = sort(*list, by_count);
  for (gp_caller_t *caller = *list; caller; caller = caller->next)
    sort_below(&caller->callers, by_count);
}

int gp_callers_make(const gp_sites_t *sites, const gp_snapshot_t *snapshot, gp_site_measure_t measure,
    bool by_count, gp_caller_t **ret_owners)
{
  int error = 0;
  *ret_owners = NULL;
  for (size_t i = 0; sites->stacks && !error && i < snapshot->stacks.count; i++) {
    const gp_site_amount_t *amount = &sites->stacks[i][measure];
    if (amount->count)
      error = add_stack(snapshot, (int)i, amount, ret_owners);
  }
  for (size_t i = 0; !error && i < sites->count; i++) {
    gp_caller_t **callers;
    if (sites->sites[i].is_unknown && sites->sites[i].flat[measure].count &&
        !add(ret_owners, sites->sites[i].name, &sites->sites[i].flat[measure], &callers))
      error = ENOMEM;
  }
  if (!error)
    sort_below(ret_owners, by_count);
  return error;
}

void gp_callers_destroy(gp_caller_t *owners)
{
  while (owners) {
    gp_caller_t *next = owners->next;
    gp_callers_destroy(owners->callers);
    free(owners->name);
    free(owners);
    owners = next;
  }
}
