/*
 * Arrays that grow. The caller keeps a pointer to the items, NULL at first, and their count, and frees the
 * items with free(). How many there is room for follows from the count, so it is kept nowhere.
 */
#ifndef GP_TOOLS_ARRAY_H
#define GP_TOOLS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Makes room in an array for `room` items. items: the address of the pointer to them. False without memory,
 * or if so many have no size in bytes; the array is then as before. */
bool gp_array_resize(void *items, size_t room, size_t item_size);

/* Makes room in an array of count items for the next ones, up to the power of two above count. */
bool gp_array_grow(void *items, size_t count, size_t item_size);

/* Appends an item of zeros. Returns it, valid until the next is added; NULL without memory. An array that
 * also loses items at its end is legal. */
static inline void *gp_array_add(void *items, size_t *count, size_t item_size)
{
  char *first;
  if ((*count & (*count - 1)) == 0 && !gp_array_grow(items, *count, item_size))
    return NULL;
  memcpy(&first, items, sizeof(first)); /* a pointer of another type */
  return memset(first + (*count)++ * item_size, 0, item_size);
}

#define GP_ARRAY_ADD(items, count) gp_array_add(&(items), &(count), sizeof(*(items)))

#endif
