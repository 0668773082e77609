/*
 * Growing arrays. The caller stores a pointer to the items, initially NULL, and their count, and frees the
 * items with free(). The capacity is not stored, because it follows from the count.
 */
#ifndef GP_TOOLS_ARRAY_H
#define GP_TOOLS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Makes room for `room` items in an array. items is the address of the caller's item pointer. Returns
 * false and leaves the array unchanged if memory runs out or the size in bytes would overflow. */
bool gp_array_resize(void *items, size_t room, size_t item_size);

/* Makes room for more items in an array of count items, up to the power of two above count. */
bool gp_array_grow(void *items, size_t count, size_t item_size);

/* Appends a zeroed item. Returns it, valid until the next item is added, or NULL without memory. The
 * caller may also remove items at the end of the array. */
static inline void *gp_array_add(void *items, size_t *count, size_t item_size)
{
  char *first;
  if ((*count & (*count - 1)) == 0 && !gp_array_grow(items, *count, item_size))
    return NULL;
  memcpy(&first, items, sizeof(first)); /* the caller's pointer has another type */
  return memset(first + (*count)++ * item_size, 0, item_size);
}

#define GP_ARRAY_ADD(items, count) gp_array_add(&(items), &(count), sizeof(*(items)))

#endif
