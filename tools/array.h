/*
 * Growing arrays. The caller stores a pointer to the items, initially NULL, and their count, and frees the
 * items with free(). The capacity is not stored, because it follows from the count.
 */
#ifndef GP_TOOLS_ARRAY_H
#define GP_TOOLS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Changes the capacity of an array to `room` items. `items` is the address of the caller's item pointer.
 * Returns false and leaves the array unchanged if memory runs out or the size in bytes would overflow. */
bool gp_array_resize(void *items, size_t room, size_t item_size);

/* Makes room for at least one more item in an array of `count` items. `count` must be 0 or a power of two.
 * Doubles the capacity when the array is full. Returns false as gp_array_resize does. */
bool gp_array_grow(void *items, size_t count, size_t item_size);

/* Appends a zeroed item and returns it, or NULL if memory runs out. The pointer is valid until the next item
 * is added. The caller may also remove items at the end of the array. */
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
