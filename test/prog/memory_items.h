/*
 * Every kind of memory that the driver has, for memory_kinds.c.
 */
#pragma once

#include "calls.h"

#include <cuda.h>
#include <stddef.h>

typedef struct item {
  CUdeviceptr pointer;
  void *handle;
  CUmemGenericAllocationHandle physical;
  size_t bytes;
  void *more;
  int command;
  const struct kind *kind;
} item_t;

typedef struct kind {
  const char *name;
  CUresult (*alloc)(item_t *item);
  CUresult (*release)(item_t *item);
  size_t step; /* sizes are multiples of it */
} kind_t;

extern CUmemoryPool own_pool, host_pool; /* of the kinds that take from one; NULL: not made */

const char *name_of(CUresult result);

/* NULL: there is none of that name. */
const kind_t *find_kind(const char *name, size_t length);
