/*
 * When memory went back to the driver, and why, as far as the events of PyTorch's allocator tell. They name
 * no reason: what follows, and the stack, show it.
 */
#ifndef GP_TOOLS_MODEL_RETURNS_H
#define GP_TOOLS_MODEL_RETURNS_H

#include "tools/model/lifetimes.h"

typedef enum gp_return_cause {
  GP_RETURN_UNKNOWN,
  GP_RETURN_RETRY,   /* the driver had no memory for a request, so the allocator emptied its cache and asked
                        again */
  GP_RETURN_PROGRAM, /* the program called empty_cache */
} gp_return_cause_t;

/* Segments or parts of them that went back one after the other. Bytes. */
typedef struct gp_return {
  gp_return_cause_t cause;
  size_t event; /* the first */
  int stack;    /* of the first event; -1: none */
  uint64_t bytes;
  uint64_t largest;   /* the largest piece of it */
  uint64_t needed;    /* what the driver was asked for directly after it; 0: nothing */
  uint64_t again;     /* what the driver supplied until memory went back again, or to the end */
  uint64_t calls;     /* that many times */
  uint64_t lasted_ns; /* from the first event to the last; of a retry to the supply or the end of it */
  bool is_in_vain;    /* a retry after which memory ran out */
} gp_return_t;

typedef struct gp_returns {
  gp_return_t *items;
  size_t count;
} gp_returns_t;

/* Finds those of one device. Returns 0 or ENOMEM. Call fini in any case. */
int gp_returns_init(gp_returns_t *returns, const gp_lifetimes_t *lifetimes, int device);
void gp_returns_fini(gp_returns_t *returns);

#endif
