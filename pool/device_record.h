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

/* Memory that the pool takes from the driver ahead of need, see prewarm.h. Only the thread that made it
 * RUNNING touches the rest. */
typedef struct gp_prewarm {
  _Atomic(gp_prewarm_state_t) state;
  unsigned entry;    /* index of the next one in engine->prewarm_list, and ... */
  uint32_t done;     /* ... how many allocations for it have been made */
  uint64_t obtained; /* bytes so far */
  const char *why;   /* the first reason for leaving something out; NULL: nothing was */
} gp_prewarm_t;

/* Which request makes room on the device, see oom_turn.h. */
typedef struct gp_oom_turn {
  uintptr_t holder;    /* the thread that has the turn (gp_this_thread); 0: none has it */
  bool is_reserved;    /* what the holder releases is reserved for its next attempt */
  uint64_t tickets;    /* given to requests so far, the older the lower */
  uint64_t changes;    /* counts what the holder did: a thread that waits sees progress */
  gp_list_t waiting;   /* threads that wait for the turn, oldest request first */
  uintptr_t thread;    /* that last asked the driver for memory; 0: none has */
  bool is_shared;      /* several threads have asked */
  uint64_t waited_for; /* a wait for this free, by its number, timed out; 0: none has */
} gp_oom_turn_t;

/* A number of the calling thread that no other has while it lives: where it keeps its errno. */
static inline uintptr_t gp_this_thread(void)
{
  return (uintptr_t)&errno;
}

/*
 * One device. Invariants, under lock: committed_bytes is what the driver takes of the device for all
 * blocks and forwarded allocations (space/account.h), plus draining, the bytes that are kept, those of
 * orphans, and reservations in flight. committed_bytes less draining and kept_bytes <= limit unless lowered.
 * stats.reserved_bytes is the sum of block sizes, stats.cached_bytes of the idle and BOUND ones,
 * stats.deferred_bytes of RETAINED and DEFERRED ones, stats.allocated_bytes of LIVE ones, stats.active_bytes
 * of LIVE, RETAINED and DEFERRED ones. idle holds the idle blocks, oldest first; releases holds the blocks on
 * their way to the driver. draining: stream-ordered memory that the program has freed and the driver's pools
 * may still hold; counted only under a limit, and only if the driver can be asked (see gp_limit_settle).
 * async_live: bytes that the program has from the driver's own pools. ordered_bytes: bytes of blocks whose
 * present or last owner asked for them in a stream. ordered_live: the LIVE part of ordered_bytes.
 */
struct gp_device {
  gp_lock_t lock;
  uint64_t newest_ns; /* see gp_device_time */
  unsigned unclocked; /* requests since one read the clock, see gp_request_clock */
  gp_releases_t releases;
  gp_oom_turn_t oom_turn;
  uint64_t cancelled;  /* reservations that threads without the turn have given back, see gp_account_cancel */
  gp_heap_t *heaps;    /* all that threads have or had, linked by next; none is removed before the end */
  unsigned open_heaps; /* how many of them are open */
  int ordinal;
  uint64_t committed_bytes;
  uint64_t draining;
  uint64_t kept_bytes;    /* freed, but counted on: see pending_frees.h, without ... */
  uint64_t kept_pages;    /* ... what shares pages: so many allocations of at most 1 MiB */
  uint64_t kept_for_good; /* counted until the process ends */
  uint64_t
      orphan_count; /* allocations whose pool the program has destroyed, and pools being destroyed, and ... */
  uint64_t orphan_bytes;     /* ... what these pools had beyond allocations in use */
  gp_list_t pending_frees;   /* see pending_frees.h */
  uint64_t unlisted_pending; /* bytes of those for whose records the host had no memory, and ... */
  uint64_t unlisted_host;    /* ... page-locked bytes, and ... */
  uint64_t unlisted_epoch;   /* ... the newest epoch of these frees */
  gp_vain_t vain_pending;    /* the last vain wait for them */
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
  atomic_bool told_range;  /* the user knows that no memory can be mapped */
  bool unsettled; /* it is not known what the driver's pools reserve: the limit was set, or one ended */
  uint64_t freed_since_fence;  /* bytes freed since a free last recorded fences */
  uint64_t newest_free_epoch;  /* of the newest of these frees */
  uint64_t asked_covered;      /* what was covered when a miss asked for nothing; UINT64_MAX: one did not */
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
  uint64_t watched_use;    /* the observer wants to hear of more use, see peak.c; UINT64_MAX: never */
  uint64_t total;          /* bytes of the device; 0: not known */
  uint64_t told_free;      /* what the driver said was free, at ... */
  uint64_t told_ns;        /* ... this time (0: never asked), when committed_bytes was ... */
  uint64_t told_committed; /* ... this, less draining, and the driver's own pools held, beyond what ... */
  uint64_t told_pools;     /* ... the program had from them, this */
  gp_context_t stand_in;   /* while the device has no context, see gp_engine_device_context; in no list */
  /*
   * Mapped memory for stream-ordered requests. It outlives contexts, so its blocks belong to a record that
   * stands for no context of the driver: its driver handle is NULL, it is never lost, and it is always the
   * last of `contexts`.
   */
  gp_context_t ordered;
  uint64_t ordered_bytes;
  uint64_t ordered_live;
  uint64_t ordered_peak;      /* of ordered_live, since the program reset it */
  uint64_t reserved_peak;     /* of what is reserved for such requests, likewise, by itself */
  gp_list_t passed;           /* identities with blocks that may be complete, by passed_link */
  atomic_bool async_is_apart; /* `ordered` serves such requests whatever the type: others need access */
  gp_list_t contexts;
  gp_list_t idle;
  gp_stats_t *stats; /* own_stats until the observer has a place; read it under the lock, too */
  gp_stats_t own_stats;
};

/* What the device's lock guards, for readers and writers. The engine calls these two in functions that take
 * the lock and touch the data; all other functions assert the lock at their beginning. */
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

/* Bytes that the program holds, pooled or not. The caller holds the device's lock. */
static inline uint64_t gp_device_use(const gp_device_t *device)
{
  return gp_device_stats(device)->allocated_bytes.current +
         gp_device_stats(device)->passthrough_bytes.current;
}

/* Bytes that the driver called free, less what was committed since. The caller holds the device's lock. */
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

/* Idle bytes that can go back to the driver; the other idle bytes are in pieces. The caller
 * holds the device's lock. */
static inline uint64_t gp_device_releasable(const gp_device_t *device)
{
  return gp_device_stats(device)->cached_bytes.current -
         gp_device_stats(device)->inactive_split_bytes.current - device->bound_releasable;
}

/* Freed bytes that the device may still use. The caller holds the device's lock. */
static inline uint64_t gp_device_pending(const gp_device_t *device)
{
  return gp_device_stats(device)->deferred_bytes.current + device->bound_bytes;
}

/* Bytes that any request may get. The caller holds the device's lock. */
static inline uint64_t gp_device_idle(const gp_device_t *device)
{
  return gp_device_stats(device)->cached_bytes.current - device->bound_bytes;
}

/* The driver may lack memory that it would have natively: the program freed it, and the pool keeps it. Takes
 * the device's lock. */
static inline bool gp_device_keeps_memory(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  bool keeps =
      gp_device_stats(device)->cached_bytes.current + gp_device_stats(device)->deferred_bytes.current > 0;
  gp_lock_release(&device->lock);
  return keeps;
}

/* The limit was lowered below the committed bytes, and too little has been freed since. The caller
 * holds the device's lock. */
static inline bool gp_device_is_over_limit(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return device->lowered && device->committed_bytes - device->draining - device->growing > device->limit;
}

/*
 * now_ns, or the time of a request that came first, if that was later: so times of a device are in the
 * order of its events. The caller holds the device's lock.
 */
static inline uint64_t gp_device_time(gp_device_t *device, uint64_t now_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (device->newest_ns < now_ns)
    device->newest_ns = now_ns;
  return device->newest_ns;
}

#endif
