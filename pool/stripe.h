/*
 * Memory that threads take and give back without the device's lock: the structures. stripes.h says when there
 * is any and who may touch it.
 */
#ifndef GP_POOL_STRIPE_H
#define GP_POOL_STRIPE_H

#include <stdint.h>

#include "pool/engine.h"
#include "pool/space/bins.h"
#include "pool/util/list.h"
#include "pool/util/lock.h"

/* Bytes between members that different threads write, so that they share no cache line. */
#define GP_APART 64

#define GP_STRIPES 16u /* of a device; a thread always uses the same */

#define GP_STRIPE_QUEUES 32u

/* Freed blocks of one size, oldest first, linked by in_bin.next. size means nothing while it is empty. */
typedef struct gp_stripe_queue {
  uint64_t size;
  gp_bin_entry_t *oldest;
  gp_bin_entry_t *newest;
} gp_stripe_queue_t;

/*
 * What has happened in a stripe and is not in the device's statistics yet. What was allocated less what was
 * freed has been at most most_... and at least least_bytes since.
 */
typedef struct gp_stripe_tally {
  uint64_t allocs, frees;
  uint64_t alloc_bytes, free_bytes;
  uint64_t alloc_requested, free_requested;
  int64_t most_count, most_bytes, most_requested, least_bytes;
  uint64_t largest; /* bytes of the largest block that went from one owner to the next */
} gp_stripe_tally_t;

/*
 * A stripe has a block whose home it is, with the generation that it is in: LIVE blocks, and DEFERRED ones,
 * which are in its list and not in the context's. Of such a block it guards everything but what never changes
 * (address, size, context) and the place in the context's list of all blocks.
 *
 * Invariants, under its lock: all its blocks are whole driver allocations of its context, of the size of
 * their class and GP_STRIPE_MOST at most, not exported, with no stream, no reference but the program's, and
 * no number of the observer's; deferred is in the order of growing free_epochs; every block in it is in the
 * queue of its size, in the same order; kept_bytes are the bytes of these, at most allowance;
 * tally.alloc_bytes and tally.free_bytes are at most allowance; without a context it has no block, and the
 * tally is empty. generation and context change with the device's lock held, too; generation only grows.
 */
typedef struct gp_stripe {
  char apart[GP_APART];
  gp_lock_t lock;
  uint64_t generation; /* 0: never used */
  gp_context_t *context;
  gp_list_t deferred;
  uint64_t kept_bytes;
  uint64_t allowance;    /* bytes */
  uint64_t newest_epoch; /* of the newest free */
  uint64_t next_id;      /* numbers for blocks, ... */
  uint64_t end_id;       /* ... up to below this one */
  gp_stripe_tally_t tally;
  gp_stripe_queue_t queues[GP_STRIPE_QUEUES];
} gp_stripe_t;

/* Under the device's lock, but for what is a stripe's. */
typedef struct gp_stripes {
  uint32_t used;   /* those with a context, as a bit mask */
  uint64_t served; /* allocations since there was none */
  unsigned price;  /* so often threads have to wait for the device's lock before there are stripes ... */
  unsigned paid;   /* ... and so often they have */
  gp_stripe_t stripe[GP_STRIPES];
} gp_stripes_t;

#endif
