/* The record of a device, and what its lock guards. */
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
  GP_PREWARM_DONE, /* or there is nothing to do */
  GP_PREWARM_DUE,
  GP_PREWARM_RUNNING, /* in one thread; the others go on without it */
} gp_prewarm_state_t;

/* The progress of GPUPOOL_PREWARM on a device, see prewarm.h. Only the thread that set the state to RUNNING
 * uses the other members. */
typedef struct gp_prewarm {
  _Atomic(gp_prewarm_state_t) state;
  unsigned entry;    /* index of the next one in engine->prewarm_list, and ... */
  uint32_t done;     /* ... how many allocations for it have been made */
  uint64_t obtained; /* bytes so far */
  const char *why;   /* the first reason why something was left out; NULL: all was allocated */
} gp_prewarm_t;

/* Which request makes room on the device, see oom_turn.h. */
typedef struct gp_oom_turn {
  uintptr_t holder;    /* the thread that has the turn (gp_this_thread); 0: none has it */
  bool is_reserved;    /* what the holder releases is reserved for its next attempt */
  uint64_t tickets;    /* issued so far; an older request has a lower one */
  uint64_t changes;    /* counts the holder's steps, so that waiting threads see its progress */
  gp_list_t waiting;   /* threads that wait for the turn, oldest request first */
  uintptr_t thread;    /* the last thread that asked the driver for memory; 0: none has */
  bool is_shared;      /* more than one thread has asked the driver for memory */
  uint64_t waited_for; /* a wait for this free, by its number, timed out; 0: none has */
} gp_oom_turn_t;

/* Returns a number that is unique among live threads: the address of the calling thread's errno. */
static inline uintptr_t gp_this_thread(void)
{
  return (uintptr_t)&errno;
}

/*
 * A device. Invariants, under its lock:
 * - committed_bytes is what the driver takes of the device for all blocks and forwarded allocations
 *   (space/account.h), plus draining, kept_bytes, orphan_bytes, and reservations in flight.
 *   committed_bytes - draining - kept_bytes <= limit unless lowered.
 * - Sums of block sizes: stats.reserved_bytes of all blocks, cached_bytes of the IDLE and BOUND ones,
 *   deferred_bytes of RETAINED and DEFERRED, allocated_bytes of LIVE, active_bytes of LIVE, RETAINED and
 *   DEFERRED ones.
 * - idle lists the idle blocks, oldest first; releases has the blocks on their way to the driver.
 * draining: stream-ordered memory that the program has freed and the driver's pools may still have; counted
 * only under a limit, and only if the driver can be queried (gp_limit_settle). async_live: bytes in use from
 * the driver's own pools. ordered_bytes: blocks whose present or last owner allocated them in a stream.
 * ordered_live: the LIVE part of these.
 */
struct gp_device {
  gp_lock_t lock;
  uint64_t newest_ns; /* see gp_device_time */
  unsigned unclocked; /* requests since one read the clock, see gp_request_clock */
  gp_releases_t releases;
  gp_oom_turn_t oom_turn;
  uint64_t cancelled;  /* reservations that threads without the turn have given back, see gp_account_cancel */
  gp_heap_t *heaps;    /* of all threads, past and present, linked by next; freed when the engine ends */
  unsigned open_heaps; /* how many of them are open */
  int ordinal;
  uint64_t committed_bytes;
  uint64_t draining;
  uint64_t kept_bytes;    /* freed, but still counted (pending_frees.h), except ... */
  uint64_t kept_pages;    /* ... so many allocations of at most 1 MiB, which share pages */
  uint64_t kept_for_good; /* counted until the process ends */
  uint64_t
      orphan_count; /* allocations whose pool the program has destroyed, and pools being destroyed, and ... */
  uint64_t orphan_bytes;     /* ... what these pools had beyond allocations in use */
  gp_list_t pending_frees;   /* see pending_frees.h */
  uint64_t unlisted_pending; /* bytes of those for whose records the host had no memory, and ... */
  uint64_t unlisted_host;    /* ... page-locked bytes, and ... */
  uint64_t unlisted_epoch;   /* ... the newest epoch of these frees */
  gp_vain_t vain_pending;    /* the last wait for them that timed out */
  uint64_t async_live;
  uint64_t pools_piece; /* the driver's pools grow by whole pieces of this size, see gp_limit_settle */
  uint64_t growing;     /* by how much calls in flight may grow the driver's pools, beyond ... */
  uint64_t pools_asked; /* ... what these calls ask for; part of pools.taken */
  uint64_t pools_grown; /* how often they may have grown */
  uint64_t settled_reserved,
      settled_grown;       /* what they had when the driver was last asked, and pools_grown then */
  uint64_t shared_pages;   /* pages of the driver that small allocations share, and ... */
  uint64_t unlisted_pages; /* ... those for whose record the host had no memory, and ... */
  uint64_t shared_bytes;   /* ... the bytes of the unlisted ones */
  gp_pools_use_t pools;    /* the driver's own */
  bool uses_pools;         /* the program has had memory of the driver's own pools */
  uint64_t limit;          /* UINT64_MAX: none */
  bool lowered;            /* more than the new limit was committed; ends when enough is freed */
  atomic_bool told_range;  /* a message has said that the device cannot map memory */
  bool unsettled; /* what the driver's pools reserve is not known: the limit was set, or a pool ended */
  uint64_t freed_since_fence;  /* bytes freed since a free last recorded fences */
  uint64_t newest_free_epoch;  /* of the newest of these frees */
  uint64_t asked_covered;      /* engine->covered when a miss last queried in vain; UINT64_MAX: it learned */
  uint64_t wanted_back;        /* idle bytes that must go back for ... */
  gp_trim_reason_t wanted_for; /* ... this reason; GP_TRIM_RESERVE or GP_TRIM_REQUESTED */
  uint64_t aged_ns;            /* when the age of idle mapped memory was last checked */
  uint64_t drained_ns;         /* when all deferred blocks were last checked, see reuse/drain.h */
  uint64_t closed_idle;        /* idle closed segments, which must go back */
  uint64_t part_active;        /* of active_bytes, and ... */
  uint64_t part_cached;        /* ... of cached_bytes, what is part of segments and mapped memory */
  uint64_t bound_bytes;        /* of part_cached: BOUND blocks, and ... */
  uint64_t bound_releasable;   /* ... of these, what could go back if they were idle */
  uint64_t filed_bytes; /* of active_bytes, whole blocks freed in a stream that may have them at once */
  uint64_t
      events_beyond; /* of bound_bytes and filed_bytes: beyond so much stream-ordered frees need events */
  atomic_bool needs_events; /* they do, see wait_in_stream.h */
  uint64_t borrowed_bytes;  /* of active_bytes, the sum of what whole blocks have borrowed */
  uint64_t highest_parts;   /* highest use so far of parts, and ... */
  uint64_t highest_whole;   /* ... of whole blocks, see budget.h */
  unsigned segments_spared; /* segments given back because they were not needed, see segment.h */
  uint64_t largest_spared;  /* bytes of the largest of these since the pool last grew by as much */
  uint64_t needed_bytes;    /* bytes held when the program asked for such memory again */
  uint64_t moved_again;     /* moves of chunks that had moved before, see mapped.h */
  unsigned surplus_pause;   /* frees before the next check for surplus */
  gp_prewarm_t prewarm;
  uint64_t watched_use; /* use beyond it is reported to the observer, see peak.c; UINT64_MAX: never */
  uint64_t total;       /* bytes of the device; 0: not known */
  uint64_t told_free;   /* what the driver last reported as free, at ... */
  uint64_t told_ns;     /* ... this time (0: never queried). At that time committed_bytes less draining ... */
  uint64_t told_committed; /* ... was this, and the driver's own pools had reserved, beyond what ... */
  uint64_t told_pools;     /* ... the program used of them, this */
  gp_context_t stand_in;   /* while the device has no context, see gp_engine_device_context; in no list */
  /*
   * The owner of mapped memory for stream-ordered requests. That memory outlives contexts, so this record
   * stands for no driver context: its driver handle is NULL, it is never lost, and it is always the last of
   * `contexts`.
   */
  gp_context_t ordered;
  uint64_t ordered_bytes;
  uint64_t ordered_live;
  uint64_t ordered_peak;      /* of ordered_live, since the program reset it */
  uint64_t reserved_peak;     /* of what is reserved for such requests, likewise, by itself */
  gp_list_t passed;           /* identities with blocks that may be complete, by passed_link */
  atomic_bool async_is_apart; /* `ordered` serves such requests with any type: other devices have access */
  gp_list_t contexts;
  gp_list_t idle;
  gp_stats_t *stats; /* own_stats until the observer has a place; read it under the lock, too */
  gp_stats_t own_stats;
};

/* Return the device, or its statistics, and assert that the caller holds the device's lock. Functions that
 * take the lock themselves use these two; all other functions assert the lock at their beginning. */
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

/* Returns the bytes that the driver last reported as free, less what was committed since. The caller holds
 * the device's lock. */
static inline uint64_t gp_device_left(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  uint64_t taken =
      device->committed_bytes > device->told_committed ? device->committed_bytes - device->told_committed : 0;
  return device->told_free > taken ? device->told_free - taken : 0;
}

static inline const gp_list_t *gp_device_contexts(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return &device->contexts;
}

/* Returns the idle bytes that can be released to the driver; other idle bytes lie in segments between blocks
 * in use. The caller holds the device's lock. */
static inline uint64_t gp_device_releasable(const gp_device_t *device)
{
  return gp_device_stats(device)->cached_bytes.current -
         gp_device_stats(device)->inactive_split_bytes.current - device->bound_releasable;
}

/* Returns the freed bytes that the device may still use. The caller holds the device's lock. */
static inline uint64_t gp_device_pending(const gp_device_t *device)
{
  return gp_device_stats(device)->deferred_bytes.current + device->bound_bytes;
}

/* Returns the idle bytes that any request may get. The caller holds the device's lock. */
static inline uint64_t gp_device_idle(const gp_device_t *device)
{
  return gp_device_stats(device)->cached_bytes.current - device->bound_bytes;
}

/* True if the pool keeps memory that the program has freed, and that the driver would have without the pool.
 * Takes the device's lock. */
static inline bool gp_device_keeps_memory(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  bool keeps =
      gp_device_stats(device)->cached_bytes.current + gp_device_stats(device)->deferred_bytes.current > 0;
  gp_lock_release(&device->lock);
  return keeps;
}

/* True if the limit was lowered below the committed bytes, and too little has been freed since. The caller
 * holds the device's lock. */
static inline bool gp_device_is_over_limit(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return device->lowered && device->committed_bytes - device->draining - device->growing > device->limit;
}

/*
 * Returns now_ns, or the device's newest time if that is later: so the times of a device never decrease from
 * one event to the next. The caller holds the device's lock.
 */
static inline uint64_t gp_device_time(gp_device_t *device, uint64_t now_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (device->newest_ns < now_ns)
    device->newest_ns = now_ns;
  return device->newest_ns;
}

#endif
