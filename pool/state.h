/*
 * The engine's structures, private to pool/. The functions are grouped under the file that defines them.
 *
 * Life of a block (whole allocations of the driver):
 *
 *      driver --alloc.c--> LIVE --free.c--> DEFERRED --reuse.c--> IDLE --alloc.c--> LIVE
 *                           |  \                                   |
 *                           |   `-> HELD (freed, but retained)     |
 *                           `------------ release.c ---------------'--> RELEASING --> driver
 */
#ifndef GP_POOL_STATE_H
#define GP_POOL_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/space/address_map.h"
#include "pool/space/bins.h"
#include "pool/driver.h"
#include "pool/engine.h"
#include "pool/reuse/single_stream.h"
#include "pool/observer.h"
#include "pool/forwarded/forwarded.h"
#include "trace/format/stats.h"
#include "pool/reuse/epoch/streams.h"
#include "pool/space/type.h"
#include "pool/util/list.h"
#include "pool/util/lock.h"
#include "pool/util/options.h"

typedef struct gp_device gp_device_t;

typedef enum gp_state {
  GP_STATE_LIVE,      /* the program holds it */
  GP_STATE_RETAINED,  /* the program freed it, somebody else retains it */
  GP_STATE_DEFERRED,  /* freed; the device may still use it */
  GP_STATE_IDLE,      /* ready to be handed out */
  GP_STATE_RELEASING, /* on its way to the driver; in no list but context->blocks, and not in the map */
} gp_state_t;

/*
 * Invariants, under the device's lock: refs > 0 exactly in states LIVE and HELD, also on the way from there
 * to the driver; the map leads from address to the block in every state but RELEASING; tag is meaningful in
 * states DEFERRED and IDLE only, and the tag of an idle block was completed by all contexts unless it was
 * freed under MONO. address and context are also read without the lock, by a free that raced with the end of
 * the block, and are stored atomically for that reason. Records are recycled, never returned to the host
 * before the engine ends.
 */
struct gp_block {
  uint64_t address;
  gp_context_t *context;
  uint64_t size;        /* bytes held from the driver */
  uint64_t requested;   /* bytes the present or last owner asked for */
  uint64_t incarnation; /* of the present or last owner; grows over all blocks of the engine */
  uint64_t time_ns;     /* of the present or last owner's alloc */
  uint64_t idle_ns;     /* since when idle */
  uint64_t tag;         /* epoch of the free: reusable when every context has completed it. 0: of none */
  gp_list_t all;        /* in context->blocks */
  gp_list_t order; /* DEFERRED: in context->deferred; IDLE: in device->idle; RELEASING: the releaser's list */
  gp_release_t release; /* RELEASING: in device->releases */
  gp_block_t *bin_next; /* IDLE: in its bin */
  gp_block_t *bin_previous;
  uint32_t refs;
  uint32_t origin;          /* of the present or last owner, as the observer told */
  uint32_t observer_cookie; /* the observer's, see gp_event_t; 0 at first */
  gp_state_t state;
  gp_state_t released_from; /* RELEASING: what it was, and is again if the driver refuses */
  bool tainted;             /* exported: to the driver on free */
  bool exact;               /* not of a size that the type makes: to the driver on free */
};

/*
 * The fence of a context: at most one outstanding. tag is the epoch that is complete when the fence has
 * passed. busy is a try-lock around the driver calls, so that no mutex is held across them.
 */
typedef struct gp_fence {
  atomic_flag busy;
  void *handle;
  uint64_t tag;
  bool outstanding;
} gp_fence_t;

/*
 * A context of the driver. Invariants, under the device's lock: deferred is in the order of growing tags; the
 * bins hold every block that is in the list blocks. completed only grows: all work of this context that was
 * submitted before the epoch completed began is known to be complete.
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
  gp_fence_t fence;
  _Atomic uint64_t completed;
  gp_list_t streams; /* in reuse mode `epoch`; see streams.c */
  gp_stream_t *default_stream;
  bool mono_barred; /* something was seen with which MONO cannot be; under contexts_lock */
  int suspensions;  /* of the engine's, those that end with this context; under contexts_lock, 0 once lost */
  atomic_bool lost;
};

/* A stream, see streams.c. Guarded by engine->contexts_lock, but for what is atomic, and for the fence. */
struct gp_stream {
  gp_list_t link; /* in context->streams, or engine->free_streams */
  gp_context_t *context;
  uint64_t handle;
  _Atomic uint64_t id; /* never used again; 0: in the free list */
  _Atomic uint64_t completed;
  gp_work_flag_t *mark; /* its place in gp_work_flags, or own_mark */
  gp_work_flag_t own_mark;
  uint64_t end_epoch; /* 0: it exists */
  uint64_t
      sync_epoch; /* of the last synchronization of the context that may clear the mark, with its token */
  uint32_t sync_token;
  const gp_submitter_t *marker; /* of a thread's default stream: which thread's, ... */
  uint64_t submitter_owner;     /* ... while the marker is still that thread's */
  atomic_bool asked; /* a thread asks the driver about it, see stream_fences.c: it owns the fence ... */
  void *fence;       /* ... which the driver made; NULL: not yet ... */
  gp_context_t *fence_context; /* ... in this context ... */
  gp_stream_fact_t fence_fact; /* ... and what it will tell; stream is NULL: it is not recorded */
};

/*
 * One device. Invariants, under lock: held is the bytes of all blocks, passthrough allocations, what drains
 * and reservations in flight, and held less draining <= limit unless lowered; stats.reserved_bytes is the sum
 * of block sizes, stats.cached_bytes of the idle ones, stats.deferred_bytes of HELD and DEFERRED ones,
 * stats.allocated_bytes of LIVE ones, stats.active_bytes of LIVE, HELD and DEFERRED ones; idle holds the idle
 * blocks, oldest first; releases holds what is on its way to the driver. draining: stream-ordered memory that
 * the program has freed and the driver's pools may still hold; counted only under a limit, and only if the
 * driver can be asked (see gp_limit_settle). async_live: what the program holds of it.
 */
struct gp_device {
  gp_lock_t lock;
  pthread_cond_t released;
  gp_list_t releases;
  int ordinal;
  uint64_t held;
  uint64_t draining;
  uint64_t async_live;
  bool uses_pools; /* the program has ever had memory of the driver's own pools */
  uint64_t limit;  /* UINT64_MAX: none */
  bool lowered;    /* when the limit was set, more was held: held may be above it until enough was freed */
  bool unsettled;  /* it was set without knowing what the driver's pools hold */
  uint64_t watched_use;     /* of it a higher one is told, see peak.c; UINT64_MAX: none */
  uint64_t total;           /* bytes of the device; 0: not known */
  uint64_t free_told;       /* what the driver said was free, at ... */
  uint64_t free_told_ns;    /* ... this time (0: never asked), when we held ... */
  uint64_t free_told_held;  /* ... that much less draining, and the driver's own pools, beyond what ... */
  uint64_t free_told_pools; /* ... the program had of them, this */
  gp_context_t
      stand_in; /* for the device as such while it has no context, see gp_engine_device_context; in no list */
  gp_list_t contexts;
  gp_list_t idle;
  gp_stats_t *stats; /* own_stats, until the observer has a place for them; also to be read under the lock */
  gp_stats_t own_stats;
};

struct gp_engine {
  gp_driver_t driver;
  gp_observer_t observer; /* event and origin are never NULL */
  const gp_pool_type_t *type;
  gp_type_config_t type_config;
  bool strict;
  bool single;              /* reuse mode `single`: MONO may begin */
  atomic_bool refuse_all;   /* the limit is malformed */
  uint64_t idle_release_ns; /* UINT64_MAX: never */
  uint64_t max_cached;      /* UINT64_MAX: no bound */
  gp_amount_t reserve;
  gp_amount_t max_deferred;
  gp_amount_t limits[GP_MAX_DEVICES]; /* each under its device's lock */

  _Atomic uint64_t epoch;      /* see reuse.c */
  _Atomic uint64_t newest_tag; /* of any block freed so far */
  _Atomic uint64_t incarnation;
  _Atomic uint64_t device_mask;
  atomic_int suspensions;
  atomic_int own_calls; /* driver calls of the engine's own in flight, see gp_engine_enter */
  atomic_int own_waits; /* those that wait for the device */
  _Atomic uint64_t
      void_epoch;   /* facts that were asked for in it or before are none, see gp_engine_may_conclude */
  atomic_bool dead; /* everything is forwarded, for good */
  atomic_bool
      aside; /* dead, or about to be, but not of an error: what is still ours can go back to the driver */

  _Atomic uint64_t peaks;   /* devices whose use is to be told at the next free */
  atomic_bool was_used;     /* the observer has been told */
  atomic_bool uses_streams; /* reuse modes `epoch` and `single`, unless something has escaped its sight */

  /* MONO, see mono.h and mono.c */
  atomic_bool mono;
  atomic_bool mono_all_barred; /* all live contexts are, and MONO is over */
  _Atomic uint64_t mono_debt;  /* tag of the newest free whose memory was handed out at once, 0: none; written
                                  with the  device's lock held */
  atomic_int mono_settling;    /* waits for what is owed in flight, see gp_single_stream_settle */

  gp_lock_t contexts_lock;    /* and what streams.c has */
  gp_context_t *mono_context; /* where MONO holds, or held last; NULL: nowhere, or that context is lost */
  uint64_t mono_sync;         /* the synchronization with whose end it begins again; 0: none */
  bool mono_forbidden;
  gp_list_t contexts;       /* live ones */
  gp_address_map_t streams; /* created ones, by handle */
  gp_list_t free_streams;
  uint64_t last_stream_id;
  uint64_t default_epoch; /* with default_token, 0: none; see streams.c */
  uint32_t default_token;
  gp_context_t *all_contexts;

  gp_address_map_t blocks;
  gp_lock_t forwarded_lock;
  gp_address_map_t forwarded[GP_SPACE_COUNT]; /* gp_forwarded_t by key */

  gp_lock_t records_lock;
  gp_block_t *free_records; /* linked by bin_next */
  struct gp_slab *slabs;

  gp_device_t devices[GP_MAX_DEVICES];
};

/* Bytes that the program holds, pooled or not. With the device's lock. */
static inline uint64_t gp_device_use(const gp_device_t *device)
{
  return device->stats->allocated_bytes.current + device->stats->passthrough_bytes.current;
}

/* The limit was lowered below what is held, and too little has been freed since. With the device's lock. */
static inline bool gp_device_is_over_limit(const gp_device_t *device)
{
  return device->lowered && device->held - device->draining > device->limit;
}

static inline uint64_t gp_now(const gp_engine_t *engine)
{
  return engine->driver.ops->now_ns(engine->driver.self);
}

/*
 * suspend.c. Around a driver call that the engine makes on its own account: false while it is suspended (or
 * dead), when no such call may be made. Calls may nest.
 */
bool gp_engine_enter(gp_engine_t *engine);
void gp_engine_leave(gp_engine_t *engine);

/*
 * The same for calls that wait for the device, or may, as the driver's free does. A suspension waits for
 * those in flight for GP_PATIENCE_NS and no longer: what the device does may depend on the thread that
 * suspends.
 */
bool gp_engine_enter_wait(gp_engine_t *engine);
void gp_engine_leave_wait(gp_engine_t *engine);
#define GP_PATIENCE_NS UINT64_C(1000000000)

void gp_suspend_context_lost(gp_engine_t *engine, gp_context_t *context); /* with contexts_lock held */
bool gp_engine_forwards(const gp_engine_t *engine);                       /* dead, or suspended */
gp_mode_t gp_engine_mode(const gp_engine_t *engine);                      /* of the engine's mode events */

/*
 * suspend.c. What was deferred when the engine stood aside goes back to the driver, whose free waits for the
 * device: to be called, without a lock, where the program makes a call that may wait. Returns the bytes given
 * back; 0, at little cost, if the engine has not stood aside.
 */
uint64_t gp_aside_release(gp_engine_t *engine);

/* context.c */
void gp_context_init(gp_context_t *context, const gp_driver_context_t *driver_context, gp_device_t *device);

/*
 * streams.c. add, drop and settle with contexts_lock held: a context comes, goes; what is known of streams
 * becomes what contexts have completed. sync_begin and sync_end, without: around a synchronization of a
 * context, whose epoch has just been begun.
 */
void gp_stream_table_init(gp_engine_t *engine);
void gp_stream_table_fini(gp_engine_t *engine);
void gp_streams_add_context(gp_engine_t *engine, gp_context_t *context);
void gp_streams_drop_context(gp_engine_t *engine, gp_context_t *context);
void gp_streams_settle(gp_engine_t *engine);
void gp_streams_tell_distrust(gp_engine_t *engine); /* without the lock */
void gp_streams_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);
void gp_streams_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);
uint64_t gp_streams_default_completed(const gp_context_t *context); /* by facts about its default stream */

/*
 * stream_fences.c, without a lock. poll asks fences of streams that are outstanding, and default streams, and
 * records what is not; it never waits. can_be_asked: the driver can be asked about all streams that hold
 * memory back.
 */
void gp_streams_poll(gp_engine_t *engine);
bool gp_streams_can_be_asked(gp_engine_t *engine);

/*
 * mono.c, with contexts_lock held; each returns what is to be told when it is not. end: see
 * gp_single_stream_leave. add_context and drop_context: it is in engine->contexts already, or not any more.
 * sync_begin and sync_end: around a synchronization of the context; alone: it has no stream but the default
 * one to which work may still be submitted.
 */
gp_detail_t gp_single_stream_end(gp_engine_t *engine, gp_detail_t why);
gp_detail_t gp_single_stream_add_context(gp_engine_t *engine, gp_context_t *context);
void gp_single_stream_drop_context(gp_engine_t *engine, const gp_context_t *context);
void gp_single_stream_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch, bool alone);
gp_detail_t gp_single_stream_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);
void gp_single_stream_tell(gp_detail_t what); /* without the lock */

/* mono.c's, too: freed memory may be handed out at once. With the lock of a device of which there is a block.
 */
static inline bool gp_single_stream_holds(const gp_engine_t *engine)
{
  return atomic_load_explicit(&engine->mono, memory_order_relaxed) && gp_engine_uses_streams(engine);
}

/* record.c: block records */
gp_block_t *gp_record_take(gp_engine_t *engine); /* in no list; NULL: the host is out of memory */
void gp_record_give(gp_engine_t *engine, gp_block_t *block);
void gp_records_fini(gp_engine_t *engine);

/* Before an event whose origin counts; no lock is held. */
static inline void gp_find_origin(gp_engine_t *engine, gp_occasion_t occasion, uint64_t size)
{
  gp_assert(gp_locks_held() == 0);
  if (engine->observer.find_origin)
    engine->observer.find_origin(engine->observer.self, occasion, size);
}

/*
 * events.c: what the observer is told, with the device's lock held. holders: who holds a block has changed
 * without an event; facts: what else is known of the device, where it costs nothing because the driver was
 * called.
 */
void gp_event_block(gp_engine_t *engine, gp_block_t *block, gp_action_t action, gp_detail_t detail,
    uint64_t time_ns, uint64_t duration_ns, bool hit);
void gp_event_device(
    gp_engine_t *engine, int device, gp_action_t action, gp_detail_t detail, uint64_t size, uint64_t time_ns);
void gp_event_forwarded(
    gp_engine_t *engine, gp_forwarded_t *memory, gp_action_t action, uint64_t time_ns, uint64_t duration_ns);
void gp_event_first_use(gp_engine_t *engine); /* without a lock: somebody asks for memory */
void gp_event_holders(gp_engine_t *engine, gp_block_t *block);
void gp_event_facts(gp_engine_t *engine, gp_device_t *device);

/* peak.c, with the device's lock held: note that more is in use */
void gp_peak_mark(gp_engine_t *engine, gp_device_t *device);

static inline void gp_peak_note(gp_engine_t *engine, gp_device_t *device)
{
  if (__builtin_expect(gp_device_use(device) > device->watched_use, 0))
    gp_peak_mark(engine, device);
}

/*
 * block.c: transitions of one block, with the device's lock held.
 *   prepare      room for one more block of a size; unprepare takes that back. False: the host is out of
 * memory. adopt        the driver gave it; hand_out: to the program end_ownership, end_use, enter_idle    the
 * way of a freed block take_idle    an idle block of exactly that size whose tag is at most newest, out of
 * its lists, or NULL forget       the driver has it back
 */
bool gp_block_prepare(gp_context_t *context, uint64_t size);
void gp_block_unprepare(gp_context_t *context, uint64_t size);
void gp_block_adopt(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns, uint64_t duration_ns);
void gp_block_hand_out(gp_engine_t *engine, gp_block_t *block, uint64_t requested, uint64_t time_ns,
    uint64_t duration_ns, bool hit);
void gp_block_end_ownership(gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns);
void gp_block_end_use(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns);
void gp_block_enter_idle(gp_block_t *block, uint64_t now_ns);
void gp_block_leave_idle(gp_block_t *block);
gp_block_t *gp_block_take_idle(gp_context_t *context, uint64_t size, uint64_t newest);
void gp_block_forget(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

/*
 * reuse.c: when a freed block may be used again. All without a lock held, but for defer and allowance.
 *   begin     starts a new epoch and returns the one before: all frees so far are in it or in older ones
 *   stamp     (device's lock) gives a freed block its tag; defer stamps and queues it
 *   complete  the context has completed an epoch; advance: moves what every context has completed to idle,
 * and gives surplus memory back if the program's call may_wait: the driver's free waits for all work of the
 * device poll      asks outstanding fences, records new ones; never waits wait      the host waits for the
 * contexts of own's device, or of all, so that what was freed before the call is reusable; the driver's code
 * for own, if it had to be waited for wait_for  the host waits for one context; the driver's code await the
 * same for own's device, but gives up after a second: a kernel may be waiting for this very thread note what
 * a wait or a fence of that context answered; count: that there was one allowance (device's lock) bytes that
 * may be deferred before a miss waits
 */
uint64_t gp_reuse_begin(gp_engine_t *engine);
void gp_reuse_stamp(gp_engine_t *engine, gp_block_t *block);
void gp_reuse_defer(gp_engine_t *engine, gp_block_t *block);
void gp_reuse_complete(gp_context_t *context, uint64_t epoch);
void gp_reuse_advance(gp_engine_t *engine, bool may_wait);
void gp_reuse_poll(gp_engine_t *engine);
int gp_reuse_wait(gp_engine_t *engine, gp_context_t *own, bool own_device_only);
int gp_reuse_wait_for(gp_engine_t *engine, gp_context_t *context);
bool gp_reuse_await(gp_engine_t *engine, gp_context_t *own);
void gp_reuse_note(gp_engine_t *engine, gp_context_t *context, int code);
void gp_reuse_count(gp_context_t *context, bool host_wait);
uint64_t gp_reuse_allowance(const gp_engine_t *engine, const gp_device_t *device);

/*
 * release.c: memory goes back to the driver. start takes a LIVE, DEFERRED or IDLE block out of the map and
 * its lists, with the device's lock held; the others are called without a lock and return the bytes given
 * back. unused gives all back that is idle or deferred, and may wait for the device.
 */
void gp_release_start(gp_engine_t *engine, gp_block_t *block);
void gp_release_announce(
    gp_device_t *device, gp_release_t *release); /* these three with the device's lock held */
void gp_release_finish(gp_device_t *device, gp_release_t *release);
void gp_release_await(gp_device_t *device, uint64_t address); /* until no release of address is in flight */
/* A block started from LIVE: by the driver table's free, or by free_fn if that is not NULL. The driver's
 * code. */
int gp_release_owned(gp_engine_t *engine, gp_block_t *block, gp_free_fn free_fn, void *arg);
int gp_release_held(gp_engine_t *engine, gp_block_t *block); /* the same for one started from HELD */
bool gp_release_await_all(gp_device_t *device);              /* until none is in flight; false: none was */
uint64_t gp_release_largest(
    gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason);
uint64_t gp_release_unused(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);
uint64_t gp_release_surplus(
    gp_engine_t *engine, gp_device_t *device, uint64_t now_ns); /* too many, too old */
bool gp_release_is_due(
    const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns); /* with the lock */

/*
 * limit.c: reserve counts bytes that are about to be held; false: the limit refuses, because the device's
 * memory may grow by `growth`, which is bytes or more. No lock held.
 */
bool gp_limit_reserve(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t growth, bool is_async);
/*
 * Asks the driver for the device's figures and remembers them with what we held then; false: it could not be
 * asked. note_told remembers what the program was told. No lock held.
 */
bool gp_limit_ask(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total);
bool gp_limit_use(
    const gp_device_t *device, gp_device_use_t *ret_use); /* with the lock; see gp_engine_device_use */
void gp_limit_note_told(gp_engine_t *engine, gp_device_t *device, uint64_t free_bytes, uint64_t total_bytes,
    uint64_t pools_reserved);
void gp_limit_cancel(gp_device_t *device, uint64_t bytes);
void gp_limit_settle(
    gp_engine_t *engine, gp_context_t *context); /* asks the driver what has drained; no lock held */
void gp_limit_resolve(gp_engine_t *engine, gp_context_t *context);
uint64_t gp_amount_resolve(const gp_amount_t *amount, uint64_t whole); /* UINT64_MAX: none */

/*
 * oom.c: what is done before the program is told. next_step takes the next step that may have made room for
 * `bytes`, after which the caller tries again; false: none is left. *next is 0 at first.
 */
bool gp_oom_next_step(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit, int *next);

/* Calls attempt after each step until it returns something else than code_out_of_memory. It sets *by_limit
 * when the limit refused. */
typedef int (*gp_oom_attempt_fn)(void *arg, bool *by_limit);
int gp_oom_climb(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_oom_attempt_fn attempt,
    void *arg, bool *by_limit);
bool gp_oom_is_hopeless(gp_engine_t *engine, gp_context_t *context, uint64_t bytes); /* no lock held */
uint64_t gp_oom_largest_idle(gp_device_t *device);
void gp_oom_report(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit, uint64_t largest_free);

void gp_forwarded_context_lost(
    gp_engine_t *engine, const gp_context_t *context); /* passthrough.c; no lock held */

/*
 * passthrough_records.c. keep files a copy and gives back, to be uncounted, what was there under the same
 * key; false: the host has no memory. remove and its variants take one record out; detach_next marks one of a
 * pool; false: none.
 */
bool gp_forwarded_keep(
    gp_engine_t *engine, const gp_forwarded_t *memory, gp_forwarded_t *ret_stale, bool *ret_has_stale);
bool gp_forwarded_remove(gp_engine_t *engine, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);
bool gp_forwarded_remove_of_context(
    gp_engine_t *engine, const gp_context_t *context, gp_forwarded_t *ret_memory);
bool gp_forwarded_detach_next(gp_engine_t *engine, uint64_t pool, int *ret_device, uint64_t *ret_size);
void gp_forwarded_init(gp_engine_t *engine);
void gp_forwarded_fini(gp_engine_t *engine);

/* driver.c: checked calls of the driver: arguments, results, and that no lock of ours is held. There are no
 * others. */
int gp_driver_alloc(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);
int gp_driver_free(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address);
int gp_driver_free_for_program(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address);
int gp_driver_wait(gp_engine_t *engine, const gp_driver_context_t *context);
int gp_driver_fence_record(gp_engine_t *engine, const gp_driver_context_t *context, void **fence);
int gp_driver_fence_query(gp_engine_t *engine, const gp_driver_context_t *context, void *fence);
int gp_driver_stream_fence_record(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, void **fence);
int gp_driver_default_query(gp_engine_t *engine, const gp_driver_context_t *context);
int gp_driver_order(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream);
int gp_driver_async_reserved(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_bytes);
void gp_driver_trim_async(gp_engine_t *engine, const gp_driver_context_t *context);
int gp_driver_memory_info(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total);
/* What can be had of a device that has free_bytes free: more, where that memory is the host's. */
uint64_t gp_driver_available(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t free_bytes);

#endif
