/* The record of the engine: its settings, and the state that all its devices share. A comment with a file
 * name marks the members of that file. */
#ifndef GP_POOL_ENGINE_RECORD_H
#define GP_POOL_ENGINE_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/device_record.h"
#include "pool/forwarded/forwarded_table.h"
#include "pool/observer.h"
#include "pool/space/address_map.h"
#include "pool/space/size_classes.h"
#include "base/options.h"

/* A running capture of reach GP_REACH_THREAD. Written under contexts_lock; any thread may compare `thread`
 * with its own number. */
typedef struct gp_capturer {
  _Atomic uint64_t thread; /* see gp_mode_thread_captures; 0: the entry is free */
  gp_context_t *owner;     /* context of the suspension */
} gp_capturer_t;

#define GP_CAPTURERS 8

/* forwarded/forwarded_counts.c. Invariant: used <= limit. */
typedef struct gp_host_limit {
  uint64_t limit; /* bytes; UINT64_MAX: no limit */
  bool refuses;   /* all page-locked allocations fail, because GPUPOOL_HOST_LIMIT is malformed */
  _Atomic uint64_t used;
  _Atomic uint64_t kept_for_good; /* part of used that stays counted until the process ends */
} gp_host_limit_t;

struct gp_engine {
  gp_driver_t driver;
  gp_observer_t observer; /* event and interest are never NULL */
  const gp_pool_type_t *type;
  bool fills; /* GPUPOOL_FILL: fills memory with fill_byte before the program gets it */
  uint8_t fill_byte;
  _Atomic unsigned checks; /* GPUPOOL_CHECK: GP_CHECK_EDGES and others; 0: off (damage.h) */
  uint8_t check_byte;      /* the pattern of this process */
  void (*flush)(
      gp_engine_t *engine, gp_device_t *device);   /* gp_damage_flush_device; NULL: nothing is checked */
  _Atomic uint64_t searches_begun, searches_ended; /* damage.c */
  _Atomic unsigned fills_omitted;                  /* reasons already reported, see fill.c */
  gp_type_config_t type_config;
  uint64_t idle_release_ns; /* UINT64_MAX: never */
  uint64_t max_cached;      /* UINT64_MAX: no bound */
  gp_amount_t reserve;
  bool asks_host;    /* GPUPOOL_INTEGRATED: query the host for free memory if the device shares it */
  gp_amount_t slack; /* GPUPOOL_SLACK; none: no budget */
  gp_amount_t max_deferred;
  uint64_t least_bound;     /* no free waits while fewer bytes than this are deferred */
  atomic_bool free_returns; /* the driver's free does not wait for the device, see wait_in_free.c */
  uint64_t patience_ns;
  gp_block_list_t prewarm_list;
  _Atomic uint64_t fences_due_ns;       /* earliest time for early fences, see reuse/fences.c */
  gp_amount_t limits[GP_MAX_DEVICES];   /* each is guarded by its device's lock */
  gp_amount_t ceilings[GP_MAX_DEVICES]; /* upper bounds for limits; constant */

  /* mode.c */
  _Atomic uint64_t service;
  atomic_uint endings;           /* contexts that threads are ending: part of the suspensions in service */
  _Atomic uint64_t endings_over; /* how often a thread has finished ending a context */
  gp_mode_t reuse_mode;
  atomic_int own_calls;        /* the engine's own driver calls in flight, see gp_engine_enter */
  atomic_int own_waits;        /* those of own_calls that may wait for the device */
  _Atomic uint64_t void_epoch; /* proofs begun in or before this epoch are void, see gp_engine_may_conclude */
  gp_capturer_t capturers[GP_CAPTURERS];

  _Atomic uint64_t peaks; /* devices whose peak the next free reports to the observer, as a bit mask */
  atomic_bool was_used;   /* the observer's first_use() has been called */

  /* The epoch has a cache line of its own, because threads that free read it but no other shared member. */
  char before_epoch[GP_CACHE_LINE];
  _Atomic uint64_t epoch; /* see reuse/stamps.h */
  char after_epoch[GP_CACHE_LINE];
  _Atomic uint64_t covered;           /* every live context has completed this epoch; only grows; < epoch */
  _Atomic uint64_t covered_ns;        /* when covered last grew beyond the epoch of a free */
  _Atomic uint64_t newest_free_epoch; /* the newest epoch in which a block was freed */
  _Atomic uint64_t last_block_id;
  gp_lock_t contexts_lock;
  char after_covered[GP_CACHE_LINE];
  _Atomic uint64_t device_mask;

  gp_list_t contexts; /* live contexts; under contexts_lock */
  gp_context_t *all_contexts;
  atomic_bool has_gone_contexts; /* some contexts may be gone (ended in the driver) but not marked lost yet */

  /* reuse/known_streams.c; under contexts_lock */
  gp_list_t known_streams;
  uint64_t last_known_stream;
  bool misses_streams;                  /* the host had no memory for the record of a stream */
  atomic_bool has_unknown_streams;      /* there may be streams that are not in known_streams */
  _Atomic uint64_t streams_got_through; /* how often a stream had work at one query and none at the next */

  gp_address_map_t blocks;
  gp_address_map_t pages; /* pages that small allocations share, see space/account.c */
  gp_forwarded_table_t forwarded;
  gp_host_limit_t host_limit;

  /* Requests of at least this size get whole driver allocations, which can be exported. UINT64_MAX: the
   * program has not exported memory. GP_DRIVER_PAGE: it has, or may have. 0: an export failed. */
  _Atomic uint64_t whole_least;

  /* Stream-ordered memory: */
  bool serves_async; /* GPUPOOL_ASYNC: the pool serves stream-ordered requests */
  bool orders_plain; /* requests get memory of contexts, if other devices have no access; needs alloc_in */
  bool is_plain;     /* GPUPOOL_ASYNC=plain */
  atomic_bool has_mapped;          /* memory has been mapped: a block may be a part, whatever the pool type */
  bool forwards_async;             /* GPUPOOL_ASYNC=driver: the driver's pools serve and keep such memory */
  bool has_heaps;                  /* the settings allow per-thread heaps, see heaps.h */
  _Atomic uint32_t open_heaps;     /* open heaps of all devices */
  _Atomic uint32_t heap_count;     /* heaps made so far */
  gp_list_t with_heaps;            /* link in the list of engines with heaps; under that list's lock */
  uint64_t serial;                 /* unique in the process: a thread may remember a destroyed engine */
  atomic_bool has_async_calls;     /* the program has made a stream-ordered allocation or free */
  atomic_bool has_programmatic;    /* a kernel was launched that does not wait for the preceding kernel */
  gp_address_map_t stream_records; /* records of created streams, by the driver's handle */
  gp_list_t free_stream_records;   /* under contexts_lock */
  uint64_t last_record;            /* id of the newest stream record; under contexts_lock */

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

/* Returns the list of live contexts. The caller walks or changes it under contexts_lock. */
static inline const gp_list_t *gp_live_contexts(const gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  return &engine->contexts;
}

/* Returns true if this thread holds a lock of the engine, or of a module that the engine calls. Used in
 * asserts of debug builds. */
static inline bool gp_holds_engine_lock(void)
{
  return gp_locks_held() >> GP_RANK_CONTEXTS != 0;
}

/* Returns true if memory was exported from the process, or may have been. */
static inline bool gp_has_exports(const gp_engine_t *engine)
{
  return atomic_load_explicit(&engine->whole_least, memory_order_relaxed) != UINT64_MAX;
}

static inline uint64_t gp_now(const gp_engine_t *engine)
{
  return engine->driver.ops->now_ns(engine->driver.self);
}

/* Reserves `count` new block ids and returns the first. */
static inline uint64_t gp_next_block_ids(gp_engine_t *engine, uint64_t count)
{
  return atomic_fetch_add_explicit(&engine->last_block_id, count, memory_order_relaxed) + 1;
}

static inline uint64_t gp_next_block_id(gp_engine_t *engine)
{
  return gp_next_block_ids(engine, 1);
}

/* The only bit of engine->checks after the checks have stopped. Late searches may still have blocks. */
#define GP_CHECK_STOPPED (1u << 31)

/* Returns true if GPUPOOL_CHECK is on: freed memory is searched for damage before it is reused. Also returns
 * true after the checks have stopped. */
static inline bool gp_damage_is_checked(const gp_engine_t *engine)
{
  return atomic_load_explicit(&engine->checks, memory_order_relaxed) != 0;
}

/* Returns which of these checks (GP_CHECK_EDGES and others) are on; none after the checks have stopped. */
static inline unsigned gp_damage_checks(const gp_engine_t *engine, unsigned which)
{
  return atomic_load_explicit(&engine->checks, memory_order_relaxed) & which;
}

/* Makes the device's quarantined blocks idle, as far as they can be searched. The caller holds no lock. */
static inline void gp_engine_flush(gp_engine_t *engine, gp_device_t *device)
{
  if (__builtin_expect(engine->flush != NULL, 0))
    engine->flush(engine, device);
}

/* Returns true if blocks may be parts of segments or of mapped memory. */
static inline bool gp_engine_has_parts(const gp_engine_t *engine)
{
  return engine->type->cuts || atomic_load_explicit(&engine->has_mapped, memory_order_relaxed);
}

#endif
