/* The record of a device, and the data that its lock guards. */
#ifndef GP_POOL_DEVICE_RECORD_H
#define GP_POOL_DEVICE_RECORD_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/context_record.h"
#include "pool/async/pools_use.h"
#include "base/lock.h"
#include "format/stats.h"

typedef enum gp_prewarm_state {
  GP_PREWARM_DONE, /* finished, or there is nothing to allocate */
  GP_PREWARM_DUE,
  GP_PREWARM_RUNNING, /* one thread allocates; other threads do not wait for it */
} gp_prewarm_state_t;

/* The progress of GPUPOOL_PREWARM on a device, see prewarm.h. Only the thread that set the state to RUNNING
 * uses the other members. */
typedef struct gp_prewarm {
  _Atomic(gp_prewarm_state_t) state;
  unsigned entry;    /* index of the next entry in engine->prewarm_list */
  uint32_t done;     /* number of allocations made for that entry */
  uint64_t obtained; /* bytes allocated so far */
  const char *why;   /* reason for the first omission; NULL: everything was allocated */
} gp_prewarm_t;

/* The turn to make room on the device: the thread that has it makes room for its request, see oom_turn.h. */
typedef struct gp_oom_turn {
  uintptr_t holder;    /* thread that has the turn (gp_this_thread); 0: none */
  bool is_reserved;    /* memory that the holder releases is reserved for its next attempt */
  uint64_t tickets;    /* number of tickets issued; an older request has a lower ticket */
  uint64_t changes;    /* number of steps by the holder, so that waiting threads see its progress */
  gp_list_t waiting;   /* waiter_t of the threads that wait for the turn, oldest request first */
  uintptr_t thread;    /* last thread that requested memory from the driver; 0: none */
  bool is_shared;      /* more than one thread has requested memory from the driver */
  uint64_t waited_for; /* number of the free for which a wait has timed out; 0: none */
} gp_oom_turn_t;

/* Returns a number that is unique among live threads: the address of the calling thread's errno. */
static inline uintptr_t gp_this_thread(void)
{
  return (uintptr_t)&errno;
}

/*
 * A device. Invariants, under its lock:
 * - committed_bytes is the device memory that the driver uses for all blocks and forwarded allocations
 *   (space/account.h), plus draining, kept_bytes, orphan_bytes, and reservations in flight. committed_bytes -
 *   draining - kept_bytes <= limit, except after the limit was lowered.
 * - Each statistic is a sum of block sizes: reserved_bytes of all blocks, cached_bytes of IDLE and BOUND
 *   blocks, deferred_bytes of RETAINED and DEFERRED blocks, allocated_bytes of LIVE blocks, and active_bytes
 *   of LIVE, RETAINED and DEFERRED blocks.
 * - `idle` lists the idle blocks, oldest first. `releases` lists the blocks that are being released to the
 *   driver.
 *
 * draining: stream-ordered memory that the program has freed and that the driver's pools may still have
 * reserved. It is counted only under a limit, and only if the driver can be queried (gp_limit_settle).
 * async_live: bytes in use from the driver's own pools. pooled_async_bytes: bytes of the blocks whose present
 * or last owner allocated them in stream order. pooled_async_live: the part of pooled_async_bytes in LIVE
 * blocks.
 */
struct gp_device {
  gp_lock_t lock;
  uint64_t newest_ns; /* newest time of an event, see gp_device_time */
  unsigned unclocked; /* requests since the last one that read the clock, see gp_request_clock */
  gp_releases_t releases;
  gp_oom_turn_t oom_turn;
  uint64_t cancelled;  /* reservations that threads without the turn have cancelled, see gp_account_cancel */
  gp_heap_t *heaps;    /* heaps of all threads, past and present, linked by next; freed with the engine */
  unsigned open_heaps; /* number of heaps that are open */
  int ordinal;
  uint64_t committed_bytes;
  uint64_t draining;
  uint64_t kept_bytes;       /* freed bytes that still count (pending_frees.h), except kept_pages */
  uint64_t kept_pages;       /* freed allocations of at most 1 MiB that still count; they share pages */
  uint64_t kept_for_good;    /* bytes that stay counted until the process ends */
  uint64_t orphan_count;     /* allocations in use whose pool was destroyed, plus pools being destroyed */
  uint64_t orphan_bytes;     /* bytes that these pools have reserved beyond allocations in use */
  gp_list_t pending_frees;   /* the records of pending_frees.h */
  uint64_t unlisted_pending; /* bytes of pending frees without a record: the host was out of memory */
  uint64_t unlisted_host;    /* page-locked bytes of these frees */
  uint64_t unlisted_epoch;   /* newest epoch of these frees */
  gp_failed_wait_t failed_pending_wait; /* the last wait for pending frees that timed out */
  uint64_t async_live;
  uint64_t pools_piece; /* size in whose multiples the driver's pools grow, see gp_limit_settle */
  uint64_t growing;     /* bytes by which calls in flight may grow the driver's pools beyond pools_asked */
  uint64_t pools_asked; /* bytes that these calls request; a part of pools.taken */
  uint64_t pools_grown; /* number of calls that may have grown the driver's pools */
  uint64_t settled_reserved, settled_grown; /* the pools' reserved bytes and pools_grown at the last query */
  uint64_t shared_pages;                    /* driver pages that small allocations share */
  uint64_t unlisted_pages;    /* the part of shared_pages that is not in engine->pages: no host memory */
  uint64_t shared_bytes;      /* bytes of all small allocations that share pages */
  gp_pools_use_t pools;       /* use of the driver's own pools */
  bool uses_pools;            /* the program has allocated from the driver's own pools */
  uint64_t limit;             /* in bytes; UINT64_MAX: no limit */
  bool lowered;               /* a new limit was below the committed bytes, and too little was freed since */
  atomic_bool reported_range; /* the message that the device cannot map memory was printed */
  bool unsettled;             /* the driver's pools were not queried since a new limit or the end of a pool */
  uint64_t freed_since_fence; /* bytes freed since the last free that recorded fences */
  uint64_t newest_free_epoch; /* epoch of the newest free since that fence */
  uint64_t asked_covered;     /* gp_covered at a miss's last query if it proved nothing, else UINT64_MAX */
  uint64_t wanted_back;       /* idle bytes that must be released to the driver */
  gp_trim_reason_t wanted_for; /* the reason for wanted_back: GP_TRIM_RESERVE or GP_TRIM_REQUESTED */
  uint64_t aged_ns;            /* when the age of idle mapped memory was last checked */
  uint64_t drained_ns;         /* when all deferred blocks were last checked, see reuse/drain.h */
  uint64_t closed_idle;        /* idle bytes of closed segments, which must be released */
  uint64_t part_active;        /* part of active_bytes that lies in segments and mapped memory */
  uint64_t part_cached;        /* part of cached_bytes that lies in segments and mapped memory */
  uint64_t bound_bytes;        /* bytes of BOUND blocks, a part of part_cached */
  uint64_t bound_releasable;   /* part of bound_bytes that could be released if it were idle */
  uint64_t stream_block_bytes; /* part of active_bytes: whole blocks that their stream may reuse at once */
  uint64_t events_beyond;      /* above this bound_bytes + stream_block_bytes, stream frees need events */
  atomic_bool needs_events;    /* stream-ordered frees need events, see wait_in_stream.h */
  uint64_t borrowed_bytes;     /* part of active_bytes: excess of whole blocks, see budget.h */
  uint64_t highest_parts;      /* highest use of parts so far */
  uint64_t highest_whole;      /* highest use of whole blocks so far, see budget.h */
  unsigned segments_spared;    /* segments released because they were not needed, see segment.h */
  uint64_t largest_spared;     /* bytes of the largest segment spared since the pool last grew by as much */
  uint64_t needed_bytes;       /* highest reserved bytes with which a spared segment was needed again */
  uint64_t moved_again;        /* moves of chunks that had been moved before, see mapped.h */
  unsigned surplus_pause;      /* frees before the next check for surplus */
  gp_prewarm_t prewarm;
  uint64_t watched_use;       /* use above which the observer is called, see peak.c; UINT64_MAX: never */
  uint64_t total;             /* bytes of memory that the device has; 0: unknown */
  uint64_t queried_free;      /* free bytes at the driver's last report */
  uint64_t told_ns;           /* time of that report; 0: the driver was never queried */
  uint64_t queried_committed; /* committed_bytes less draining at that report */
  uint64_t queried_pools;     /* bytes reserved by the driver's pools at that report and not in use */
  gp_context_t stand_in; /* used while the device has no context, see gp_engine_device_context; in no list */
  /*
   * Owns mapped memory for stream-ordered requests. That memory outlives contexts, so this record belongs to
   * no driver context. Its driver handle is NULL, it is never lost, and it is always the last of `contexts`.
   */
  gp_context_t async_context;
  uint64_t pooled_async_bytes;
  uint64_t pooled_async_live;
  uint64_t pooled_async_peak; /* highest pooled_async_live since the program reset it */
  uint64_t reserved_peak;     /* highest bytes reserved for stream-ordered requests; reset separately */
  gp_list_t passed;           /* stream records with blocks that may be complete, linked by passed_link */
  atomic_bool
      async_is_apart; /* other devices have access: async_context serves such requests in any pool type */
  gp_list_t contexts;
  gp_list_t idle;
  gp_stats_t *stats; /* &own_stats until the observer provides memory; the lock guards the pointer, too */
  gp_stats_t own_stats;
};

/* Return the device, or its statistics, and assert that the caller holds the device's lock. Functions that
 * take the lock themselves call these two. Other functions assert the lock at their beginning. */
static inline gp_device_t *gp_locked(gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return device;
}

static inline gp_stats_t *gp_device_stats(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return device->stats;
}

/* Returns the bytes in use by the program, pooled or forwarded. The caller holds the device's lock. */
static inline uint64_t gp_device_use(const gp_device_t *device)
{
  return gp_device_stats(device)->allocated_bytes.current +
         gp_device_stats(device)->passthrough_bytes.current;
}

/* Returns the bytes that the driver last reported as free, less the bytes committed since. The caller
 * holds the device's lock. */
static inline uint64_t gp_device_left(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  uint64_t taken = device->committed_bytes > device->queried_committed
                       ? device->committed_bytes - device->queried_committed
                       : 0;
  return device->queried_free > taken ? device->queried_free - taken : 0;
}

static inline const gp_list_t *gp_device_contexts(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return &device->contexts;
}

/* Returns the idle bytes that can be released to the driver. Other idle bytes lie in segments between
 * blocks in use. The caller holds the device's lock. */
static inline uint64_t gp_device_releasable(const gp_device_t *device)
{
  return gp_device_stats(device)->cached_bytes.current -
         gp_device_stats(device)->inactive_split_bytes.current - device->bound_releasable;
}

/* Returns the freed bytes that device work may still use. The caller holds the device's lock. */
static inline uint64_t gp_device_pending(const gp_device_t *device)
{
  return gp_device_stats(device)->deferred_bytes.current + device->bound_bytes;
}

/* Returns the idle bytes that any request may reuse. The caller holds the device's lock. */
static inline uint64_t gp_device_idle(const gp_device_t *device)
{
  return gp_device_stats(device)->cached_bytes.current - device->bound_bytes;
}

/* Returns true if the pool keeps memory that the program has freed, and that the driver would have back
 * without the library. Takes the device's lock. */
static inline bool gp_device_keeps_memory(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  bool keeps =
      gp_device_stats(device)->cached_bytes.current + gp_device_stats(device)->deferred_bytes.current > 0;
  gp_lock_release(&device->lock);
  return keeps;
}

/* Returns true if the limit was lowered below the committed bytes, and too little has been freed since.
 * The caller holds the device's lock. */
static inline bool gp_device_is_over_limit(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return device->lowered && device->committed_bytes - device->draining - device->growing > device->limit;
}

/*
 * Returns now_ns, or the time of the device's newest event if that is later. So the times of a device never
 * decrease from one event to the next. The caller holds the device's lock.
 */
static inline uint64_t gp_device_time(gp_device_t *device, uint64_t now_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (device->newest_ns < now_ns)
    device->newest_ns = now_ns;
  return device->newest_ns;
}

#endif
