/* The records of what tells that a context has completed work. */
#ifndef GP_POOL_REUSE_FENCE_RECORD_H
#define GP_POOL_REUSE_FENCE_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/records.h"

/* One fence of a context. epoch is complete when the fence has passed. at_free: it was recorded right at a
 * free, so it covers only work from before that free, and work that other threads submit meanwhile. */
typedef struct gp_fence {
  void *handle; /* the driver's, made at the first record and reused */
  uint64_t epoch;
  uint64_t recorded_ns;
  bool at_free;
} gp_fence_t;

/*
 * The fences of a context: `count` of them are outstanding, from slots[first] on, in the order of
 * their records and of their epochs. busy is a try-lock around the driver calls, so that no thread
 * holds a lock during them. Only the thread that has it touches the other members, except that any
 * thread reads the last four.
 */
#define GP_FENCE_SLOTS 8
typedef struct gp_fences {
  atomic_flag busy;
  gp_fence_t slots[GP_FENCE_SLOTS];
  unsigned first, count;
  _Atomic uint64_t at_free_epoch; /* of the newest outstanding fence with at_free; 0: none */
  _Atomic uint64_t oldest_epoch;  /* of the oldest outstanding one; 0: none */
  _Atomic uint64_t recorded_ns;   /* when the oldest outstanding one was recorded; 0: none */
  _Atomic uint64_t failures;      /* records and questions that the driver answered with an error */
} gp_fences_t;

#endif
