/*
 * Sorting in place, because glibc's qsort() may call malloc.
 */
#ifndef GP_BASE_SORT_H
#define GP_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

typedef struct gp_sort_key {
  uint64_t key;
  uint32_t index; /* index of the item with this key; orders equal keys */
} gp_sort_key_t;

/* Sorts by key, then index, in linear time for any input. Allocates nothing. */
void gp_sort_keys(gp_sort_key_t *keys, size_t count);

#endif
