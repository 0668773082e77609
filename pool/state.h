/*
 * The engine's structures, for pool/ only. Functions are in the header of the module that has them.
 *
 * Life of a block, a whole allocation of the driver or, with the types segment and vmm, a part of one or of a
 * range of mapped memory (space/segment.h, space/mapped.h):
 *
 *      driver --alloc.c--> LIVE --free.c--> DEFERRED --reuse/drain.c--> IDLE --alloc.c--> LIVE
 *                           |  \ `-> BOUND --reuse/drain.c--> IDLE        |
 *                           |   `-> RETAINED (freed, but referenced)      |
 *                           `--------------- release.c -------------------'--> RELEASING --> driver
 */
#ifndef GP_POOL_STATE_H
#define GP_POOL_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/engine.h"
#include "pool/forwarded/forwarded_table.h"
#include "pool/observer.h"
#include "pool/pools_use.h"
#include "pool/space/address_map.h"
#include "pool/space/bins.h"
#include "pool/space/cut_bins.h"
#include "pool/space/releases.h"
#include "pool/space/size_classes.h"
#include "pool/util/list.h"
#include "pool/util/lock.h"
#include "pool/util/options.h"
#include "trace/format/stats.h"

typedef struct gp_block gp_block_t;
typedef struct gp_device gp_device_t;
typedef struct gp_segment gp_segment_t;
typedef struct gp_fill gp_fill_t; /* fill.c */
typedef struct gp_range gp_range_t;

typedef enum gp_state {
  GP_STATE_LIVE,     /* the program holds it */
  GP_STATE_RETAINED, /* the program freed it; another holder keeps a reference */
  GP_STATE_DEFERRED, /* freed; the device may still use it */
  GP_STATE_BOUND,    /* part of a segment freed in a stream's order: the stream may have it, others not yet */
  GP_STATE_IDLE,     /* ready to be handed out */
  GP_STATE_RELEASING, /* on its way to the driver; only in the list context->blocks, and not in the map */
  GP_STATE_UNMAPPED,  /* addresses of a range without memory; lists and map as for RELEASING */
  GP_STATE_MAPPING,   /* part of a range where a thread is about to map or unmap memory; likewise */
} gp_state_t;

/*
 * Invariants, under the device's lock: refs > 0 exactly in states LIVE and RETAINED, and while RELEASING
 * from these. The map leads from address to the block in every state but RELEASING. free_epoch is
 * meaningful only in states DEFERRED, BOUND and IDLE; every context has completed that of an idle block,
 * unless the block was freed in mode `single`. Writers store address and context atomically, since a free
 * that races with the block's end also reads them without the lock. Records are recycled, and the host gets
 * them back when the engine ends.
 */
struct gp_block {
  /* First the members that each allocation and free touches. */
  uint64_t address;
  gp_context_t *context;
  uint64_t size;         /* bytes that the driver gave */
  gp_bin_t *bin;         /* of its size class; NULL: the block is a part of a segment */
  uint64_t requested;    /* bytes the present or last owner asked for */
  uint64_t block_id;     /* of this owner; grows over all blocks of the engine, never used again */
  uint64_t time_ns;      /* of this owner's alloc */
  uint64_t stream;       /* the driver's handle of the stream in which this owner asked for it; 0: none */
  uint64_t free_epoch;   /* epoch of the free: reusable when every context has completed it; 0: none */
  gp_segment_t *segment; /* that it is a part of; NULL: a driver allocation by itself */
  gp_list_t order; /* DEFERRED, BOUND: in context->deferred; IDLE: in device->idle; RELEASING: the releaser's
                      list */
  gp_identity_t *freed_in; /* DEFERRED, BOUND: in the order of that stream; NULL: of none, or it has ended */
  uint32_t refs;
  uint32_t origin;          /* of the present or last owner, as the observer told */
  uint32_t observer_cookie; /* the observer's, see gp_event_t; 0 at first */
  gp_state_t state;
  gp_state_t released_from; /* RELEASING: the state before, which returns if the driver refuses */
  bool tainted;             /* exported: goes to the driver on free */
  bool exact;               /* not of a size that the type makes: goes to the driver on free */
  bool is_aside;            /* with freed_in: it is in freed_in->others */
  gp_bin_entry_t in_bin;    /* IDLE: in its bin; DEFERRED: in a bin of freed_in */
  uint64_t freed_as;        /* number of this free among those in freed_in */
  uint64_t idle_ns;         /* since when idle */
  uint64_t releasable; /* part of a segment: IDLE: bytes that could go back to the driver now; BOUND: later */
  uint64_t borrowed;   /* bytes beyond what the owner's request would get otherwise, see budget.h */
  gp_list_t all;       /* in context->blocks */
  gp_release_t release;  /* RELEASING: in device->releases */
  gp_cut_entry_t in_cut; /* part of an open segment: IDLE: in context->cut; BOUND: in freed_in->bound */
};

/*
 * A driver allocation that is cut into blocks. Invariants, under the device's lock: its blocks follow each
 * other in context->blocks, in the order of their addresses, and cover it without a gap; no two idle blocks
 * are neighbours; idle blocks of an open segment are in context->cut, those of a closed one are not, and
 * are never handed out; an idle block that is the whole segment is in device->idle, too. A segment closes
 * when a block of it is exported, and stays closed.
 */
struct gp_segment {
  uint64_t address;
  uint64_t size; /* bytes that the driver gave */
  gp_context_t *context;
  gp_list_t link;    /* in context->segments */
  gp_block_t *first; /* its block with the lowest address */
  gp_range_t *range; /* that has this segment; NULL: an allocation of the driver */
  uint32_t observer_cookie;
  bool is_closed;
};

/* Physical memory of one handle of the driver, mapped as a whole. */
typedef struct gp_chunk {
  uint64_t address;
  uint64_t size;
  uint64_t handle;    /* the driver's */
  bool has_no_handle; /* without a handle only the mapping holds the memory, which cannot move any more */
  bool has_moved;
  uint32_t observer_cookie;
} gp_chunk_t;

/*
 * Type vmm: addresses that a context has reserved, with the physical memory that is mapped there. A
 * context has one range at most. The segment covers all of it and is never closed. Invariants, under the
 * device's lock: chunks are in the order of their addresses, do not overlap, and begin and end at
 * multiples of GP_CHUNK_STEP from the range's beginning; UNMAPPED blocks have no chunk and are not
 * neighbours, and there is always at least one; chunks cover all other blocks except the MAPPING ones;
 * capacity >= count + promised.
 */
struct gp_range {
  gp_segment_t segment;
  gp_chunk_t *chunks;
  size_t count;
  size_t capacity;
  size_t promised;     /* chunks on their way into the table */
  uint64_t mapped;     /* bytes of all chunks */
  uint64_t releasable; /* of its idle blocks */
  uint64_t peers;      /* devices that may use the memory, too, as a bit mask */
};

typedef enum gp_range_use {
  GP_RANGE_UNTRIED,
  GP_RANGE_BEING_TRIED, /* by one thread; the others go on without a range */
  GP_RANGE_USED,
  GP_RANGE_REFUSED, /* for good */
} gp_range_use_t;

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
 * thread reads the last two.
 */
#define GP_FENCE_SLOTS 8
typedef struct gp_fences {
  atomic_flag busy;
  gp_fence_t slots[GP_FENCE_SLOTS];
  unsigned first, count;
  _Atomic uint64_t at_free_epoch; /* of the newest outstanding fence with at_free; 0: none */
  _Atomic uint64_t recorded_ns;   /* when the oldest outstanding one was recorded; 0: none */
} gp_fences_t;

/* Barriers: operations of the program in the context's default stream, see reuse/barriers.h. busy is a
 * try-lock around the driver calls; only the thread that has it touches asked_epoch. newest only grows. */
typedef struct gp_barriers {
  atomic_flag busy;
  _Atomic uint64_t newest; /* the epoch just before the newest barrier was submitted; 0: none yet */
  _Atomic uint64_t untold; /* the epoch of work that no fence covers: of a destroyed stream, say; 0: none */
  uint64_t asked_epoch;    /* of the barrier whose end the library asks for; 0: none */
} gp_barriers_t;

/*
 * The identity of a stream that the program names in cudaMallocAsync and cudaFreeAsync. The handle does not
 * identify it: once the stream has ended, the driver gives the handle to another stream. Memory freed in
 * the stream's order may be used there again at once (reuse/identities.h). Invariants, under the device's
 * lock: freed (by class) and others hold the DEFERRED blocks with this freed_in, bound the BOUND ones, and
 * none after the stream has ended; filed counts them; BOUND blocks with one freed_in are not neighbours;
 * entered <= frees; passed <= frees; settled <= handed_on. Records are recycled, and the host gets them back
 * when the engine ends.
 */
#define GP_AWAITED_POINTS 8u
struct gp_identity {
  gp_list_t link;        /* in context->identities, or engine->free_identities */
  gp_context_t *context; /* the stream's */
  uint64_t handle;       /* the driver's; GP_STREAM_LEGACY or GP_STREAM_PER_THREAD for a default stream */
  bool is_blocking;      /* it and the legacy default stream wait for each other, or it is that stream */
  const void *submitter; /* of a per-thread stream: its thread's (reuse/submitters.h), and ... */
  uint64_t owner;        /* ... which of the threads that have had it */
  gp_bins_t freed;       /* blocks that later requests in the stream may get */
  gp_bin_t others;       /* blocks that they may not get: memory of cudaMalloc */
  gp_cut_bins_t *bound;  /* parts of segments for later requests in the stream, by size; NULL: never any */
  uint64_t filed;        /* blocks in freed, others and bound */
  uint64_t frees;        /* blocks freed in it so far */
  uint64_t entered;      /* ... of these, before the newest operation that the library put into it */
  _Atomic uint64_t handed_on; /* how often memory went from one owner to the next in this stream, and ... */
  _Atomic uint64_t settled;   /* ... how often before the newest operation of gp_identity_launches_early */
  atomic_int users; /* driver calls in flight that name it; raised under the device's lock while it lives */
  bool has_ended;

  /* reuse/stream_points.h */
  _Atomic uint64_t id;   /* never used again; 0: it has ended */
  uint64_t passed;       /* ... of the frees, before a point that the device has passed */
  gp_list_t passed_link; /* in device->passed, if freed may have blocks from before that point */
  gp_stream_point_t awaited[GP_AWAITED_POINTS]; /* later work in this stream runs behind these points */
  unsigned next_awaited;                        /* index of the next one to be written, in turn */
  bool awaits;                                  /* there is such a point */
};

/* A vain wait: after `ns` nanoseconds of polling, the context had got no further than this. */
typedef struct gp_vain {
  _Atomic uint64_t progress;
  _Atomic uint64_t ns;
} gp_vain_t;

/*
 * A context of the driver. Invariants, under the device's lock: deferred is in the order of growing
 * free_epochs; the bins hold every block that is in the list blocks. completed only grows: all work of this
 * context submitted before the epoch `completed` began is known to be complete.
 */
struct gp_context {
  gp_driver_context_t driver;
  gp_device_t *device;
  gp_list_t live_link;    /* in engine->contexts while not lost */
  gp_list_t device_link;  /* in device->contexts while not lost */
  gp_context_t *next_any; /* every context ever made, for gp_engine_destroy */
  gp_list_t blocks;
  gp_list_t deferred;
  gp_bins_t bins;
  gp_list_t segments;
  gp_cut_bins_t cut; /* idle parts of segments */
  gp_range_t *range; /* NULL: none, yet */
  gp_range_use_t range_use;
  uint64_t peers; /* devices from which the program may reach its memory, as a bit mask */
  gp_fences_t fences;
  gp_barriers_t barriers;
  gp_vain_t vain;
  gp_fill_t *fills;      /* the library's streams for filling memory that have no work; see fill.c */
  gp_fill_t *late_fills; /* those that keep a block, which the device may fill at any time */
  _Atomic uint64_t completed;
  gp_list_t identities;                     /* of its live streams; under contexts_lock */
  _Atomic(gp_identity_t *) legacy_identity; /* of its legacy default stream; NULL: not made */
  _Atomic(void *) entry_event;              /* the driver's event to put into streams; NULL: not made */
  bool is_ordered;                          /* it is device->ordered */
  uint64_t
      suspensions; /* those of engine->service that end with this context; under contexts_lock, 0 once lost */
  atomic_bool gone; /* the driver says that it has ended: it holds no memory back, and will be lost soon */
  atomic_bool lost;
};

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

/*
 * One device. Invariants, under lock: committed_bytes is what the driver takes of the device for all
 * blocks and forwarded allocations (space/account.h), plus draining and reservations in flight.
 * committed_bytes less draining <= limit unless lowered. stats.reserved_bytes is the sum of block sizes,
 * stats.cached_bytes of the idle and BOUND ones, stats.deferred_bytes of RETAINED and DEFERRED ones,
 * stats.allocated_bytes of LIVE ones, stats.active_bytes of LIVE, RETAINED and DEFERRED ones. idle holds
 * the idle blocks, oldest first; releases holds the blocks on their way to the driver. draining:
 * stream-ordered memory that the program has freed and the driver's pools may still hold; counted only
 * under a limit, and only if the driver can be asked (see gp_limit_settle). async_live: stream-ordered
 * memory that the program and the pool hold. ordered_bytes: bytes of blocks whose present or last owner
 * asked for them in a stream: those of `ordered`, or with GPUPOOL_ASYNC=plain some of the contexts'.
 * ordered_live: the LIVE part of ordered_bytes.
 */
struct gp_device {
  gp_lock_t lock;
  uint64_t newest_ns; /* see gp_device_time */
  gp_releases_t releases;
  int ordinal;
  uint64_t committed_bytes;
  uint64_t draining;
  uint64_t async_live;
  uint64_t growing;            /* by how much calls in flight may grow the driver's pools, beyond ... */
  uint64_t pools_asked;        /* ... what these calls ask for; part of pools.taken */
  uint64_t pools_grown;        /* how often they may have grown */
  uint64_t shared_pages;       /* pages of the driver that small allocations share, and ... */
  uint64_t unlisted_pages;     /* ... those for whose record the host had no memory, and ... */
  uint64_t shared_bytes;       /* ... the bytes of the unlisted ones */
  gp_pools_use_t pools;        /* the driver's own */
  bool uses_pools;             /* the program has had memory of the driver's own pools */
  uint64_t limit;              /* UINT64_MAX: none */
  bool lowered;                /* more than the new limit was committed; ends when enough is freed */
  atomic_bool told_range;      /* the user knows that no memory can be mapped */
  bool unsettled;              /* the limit was set before the pool knew what the driver's pools hold */
  uint64_t freed_since_fence;  /* bytes freed since a free last recorded fences */
  uint64_t newest_free_epoch;  /* of the newest of these frees */
  uint64_t wanted_back;        /* idle bytes that must go back for ... */
  gp_trim_reason_t wanted_for; /* ... this reason; GP_TRIM_RESERVE or GP_TRIM_REQUESTED */
  uint64_t aged_ns;            /* when the age of idle mapped memory was last checked */
  uint64_t drained_ns;         /* when all deferred blocks were last checked, see reuse/drain.h */
  uint64_t closed_idle;        /* idle closed segments, which must go back */
  uint64_t part_active;        /* of active_bytes, and ... */
  uint64_t part_cached;        /* ... of cached_bytes, what is part of segments and mapped memory */
  uint64_t bound_bytes;        /* of part_cached: BOUND blocks, and ... */
  uint64_t bound_releasable;   /* ... of these, what could go back if they were idle */
  uint64_t filed_bytes;     /* of active_bytes, whole blocks freed in a stream that may have them at once */
  uint64_t borrowed_bytes;  /* of active_bytes, the sum of what whole blocks have borrowed */
  uint64_t highest_parts;   /* highest use so far of parts, and ... */
  uint64_t highest_whole;   /* ... of whole blocks, see budget.h */
  unsigned segments_spared; /* segments given back because they were not needed, see segment_policy.h */
  uint64_t largest_spared;  /* bytes of the largest of these since the pool last grew by as much */
  uint64_t needed_bytes;    /* bytes held when the program asked for such memory again */
  uint64_t moved_again;     /* moves of chunks that had moved before, see mapped_policy.h */
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
   * Stream-ordered memory of the device. It outlives contexts, so its blocks belong to a record that
   * stands for no context of the driver: its driver handle is NULL, it is never lost, and it is
   * always the last of `contexts`.
   */
  gp_context_t ordered;
  uint64_t ordered_bytes;
  uint64_t ordered_live;
  uint64_t ordered_peak;      /* of ordered_live, since the program reset it */
  uint64_t reserved_peak;     /* of ordered_bytes, likewise, by itself */
  gp_list_t passed;           /* identities with blocks that may be complete, by passed_link */
  atomic_bool ordered_barred; /* the program changed the driver's pool: its requests are forwarded */
  gp_list_t contexts;
  gp_list_t idle;
  gp_stats_t *stats; /* own_stats until the observer has a place; read it under the lock, too */
  gp_stats_t own_stats;
};

typedef enum gp_single_fence {
  GP_SINGLE_NO_FENCE,
  GP_SINGLE_RECORDING,
  GP_SINGLE_HAS_FENCE
} gp_single_fence_t;

/* Mode `single`, see reuse/single.h. */
typedef struct gp_single_state {
  gp_context_t *context;            /* where it holds or held; NULL: nowhere, or
                                     * lost; under contexts_lock */
  _Atomic uint64_t unordered_epoch; /* of the newest free whose memory was handed out at once, 0: none;
                                     * grows with the device's lock held, and is cleared without it */
  void *fence;                      /* the driver's, behind the unordered work; it ends with the context */
  atomic_int fence_state;           /* gp_single_fence_t: by whom it is recorded is in single.c */
} gp_single_state_t;

/* A capture that reaches one thread only. Written under contexts_lock; any thread may compare
 * `thread` with its own number. */
typedef struct gp_capturer {
  _Atomic uint64_t thread; /* see gp_mode_thread_captures; 0: the place is free */
  gp_context_t *owner;     /* of the suspension */
} gp_capturer_t;

#define GP_CAPTURERS 8

struct gp_engine {
  gp_driver_t driver;
  gp_observer_t observer; /* event is never NULL */
  const gp_pool_type_t *type;
  bool fills; /* GPUPOOL_FILL: fills handed-out memory with fill_byte */
  uint8_t fill_byte;
  _Atomic unsigned fills_omitted; /* reasons already reported, see fill.c */
  gp_type_config_t type_config;
  uint64_t idle_release_ns; /* UINT64_MAX: never */
  uint64_t max_cached;      /* UINT64_MAX: no bound */
  gp_amount_t reserve;
  gp_amount_t slack; /* none: no budget */
  gp_amount_t max_deferred;
  uint64_t patience_ns;
  gp_block_list_t prewarm_list;
  _Atomic uint64_t fences_due_ns;     /* no time for fences ahead of need before this, see reuse/fences.c */
  gp_amount_t limits[GP_MAX_DEVICES]; /* each under its device's lock */

  /* mode.c */
  _Atomic uint64_t service;
  _Atomic gp_mode_t reuse_mode;
  atomic_int own_calls;        /* driver calls of the engine's own in flight, see gp_engine_enter */
  atomic_int own_waits;        /* those that wait for the device */
  _Atomic uint64_t void_epoch; /* facts begun in it or before are void, see gp_engine_may_conclude */
  gp_capturer_t capturers[GP_CAPTURERS];

  _Atomic uint64_t peaks;  /* devices whose peak the next free reports to the observer */
  atomic_bool was_used;    /* the observer has got first_use */
  atomic_bool has_exports; /* memory was made visible outside the process, or may have been */

  _Atomic uint64_t epoch;      /* see reuse/stamps.h */
  _Atomic uint64_t covered;    /* every live context has completed it; only grows, and is below epoch */
  _Atomic uint64_t covered_ns; /* when covered last grew past a free */
  _Atomic uint64_t newest_free_epoch; /* of any block freed so far */
  _Atomic uint64_t last_block_id;
  _Atomic uint64_t device_mask;

  gp_lock_t contexts_lock;
  gp_list_t contexts; /* live ones */
  gp_context_t *all_contexts;
  atomic_bool has_gone_contexts; /* some may be gone and not lost yet */
  gp_single_state_t single;

  /* reuse/known_streams.c; under contexts_lock */
  gp_list_t known_streams;
  uint64_t last_known_stream;
  uint64_t last_ended_asked;            /* serial of the destroyed stream last asked; 0: begin anew */
  bool misses_streams;                  /* the host had no memory for one */
  atomic_bool has_unknown_streams;      /* there may be streams that are not in known_streams */
  _Atomic uint64_t streams_got_through; /* how often a stream that had work had none at the next query */

  gp_address_map_t blocks;
  gp_address_map_t pages; /* pages that small allocations share, see space/account.c */
  gp_forwarded_table_t forwarded;

  uint64_t cut_most; /* requests of up to this many bytes get parts of segments: 0: none, UINT64_MAX: all */

  /* Stream-ordered memory */
  bool keeps_ordered;  /* GPUPOOL_ASYNC */
  bool orders_plain;   /* its blocks belong to contexts, and come as other memory; the driver's alloc_in */
  bool leaves_ordered; /* GPUPOOL_ASYNC=driver: the driver's pools serve and keep it */
  uint64_t serial;     /* unique in the process: a thread may remember an engine that is gone */
  atomic_bool has_ordered_calls; /* the program has allocated or freed memory in the order of a stream */
  atomic_bool has_programmatic;  /* a launch was seen that does not wait for the kernel in front of it */
  gp_address_map_t identities;   /* of created streams, by the driver's handle */
  gp_list_t free_identities;     /* under contexts_lock */
  uint64_t last_identity;        /* id; under contexts_lock */

  gp_lock_t slab_lock;
  gp_block_t *free_records; /* linked by in_bin.next */
  struct gp_slab *slabs;

  gp_device_t devices[GP_MAX_DEVICES];
};

/* Iterates over the devices that have ever had a context, as `device`. A break ends the loop. */
#define GP_DEVICE_EACH(engine, device)                                                                       \
  for (uint64_t device##_left = atomic_load(&(engine)->device_mask), device##_once = 1; device##_once;       \
       device##_once = 0)                                                                                    \
    for (gp_device_t * device; (device = gp_device_next((engine), &device##_left));)

static inline gp_device_t *gp_device_next(gp_engine_t *engine, uint64_t *left)
{
  if (*left == 0)
    return NULL;
  gp_device_t *device = &engine->devices[__builtin_ctzll(*left)];
  *left &= *left - 1;
  return device;
}

static inline gp_block_t *gp_block_of_entry(gp_bin_entry_t *entry)
{
  return gp_list_entry(entry, gp_block_t, in_bin);
}

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

/* The block's present or last owner asked for it in a stream: cudaMallocAsync. The caller
 * holds the device's lock. */
static inline bool gp_block_is_ordered(const gp_block_t *block)
{
  return block->stream != 0;
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

/* The lists of contexts, for functions that walk or change them under contexts_lock. */
static inline const gp_list_t *gp_live_contexts(const gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  return &engine->contexts;
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

/*
 * The driver may lack memory that it would have natively: the program freed it, and the pool keeps it, or
 * gave it back late, in a stream that is not there yet. Takes the device's lock.
 */
static inline bool gp_device_keeps_memory(gp_device_t *device, uint64_t covered)
{
  gp_lock_take(&device->lock);
  bool keeps =
      gp_device_stats(device)->cached_bytes.current + gp_device_stats(device)->deferred_bytes.current > 0 ||
      gp_pools_wait_for_given(&device->pools, covered);
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
 * The time of a request: it read the clock before it took the device's lock, which the caller holds. The
 * result is no earlier than the time of any request that came first. So times of a device are in the order
 * of its events, and no thread waits for the lock while another one reads the clock.
 */
static inline uint64_t gp_device_time(gp_device_t *device, uint64_t now_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (device->newest_ns < now_ns)
    device->newest_ns = now_ns;
  return device->newest_ns;
}

/* For asserts, in a debug build: this thread holds a lock of the engine, or of a
 * module that the engine calls. */
static inline bool gp_holds_engine_lock(void)
{
  return gp_locks_held() >> GP_RANK_CONTEXTS != 0;
}

static inline gp_block_t *gp_block_of_cut(gp_cut_entry_t *entry)
{
  return gp_list_entry(entry, gp_block_t, in_cut);
}

static inline uint64_t gp_now(const gp_engine_t *engine)
{
  return engine->driver.ops->now_ns(engine->driver.self);
}

static inline uint64_t gp_next_block_id(gp_engine_t *engine)
{
  return atomic_fetch_add_explicit(&engine->last_block_id, 1, memory_order_relaxed) + 1;
}

#endif
