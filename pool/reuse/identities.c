#include "pool/reuse/identities.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "pool/space/driver_calls.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/stamps.h"
#include "pool/reuse/stream_points.h"
#include "pool/space/block_life.h"
#include "pool/space/bound_parts.h"
#include "pool/async/ordered_blocks.h"

_Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

static _Atomic(gp_submitter_t *) submitters;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* Destructor of the key: the thread has ended, and all its calls have returned. */
static void thread_ended(void *value)
{
  gp_submitter_t *submitter = value;

  gp_own_submitter = NULL; /* another destructor may submit work, and then gets a new submitter */
  atomic_fetch_add(&submitter->owners, 1);
  atomic_store(&submitter->in_use, false);
}

static void make_key(void)
{
  has_key = pthread_key_create(&key, thread_ended) == 0;
}

static gp_submitter_t *take_over(void)
{
  for (gp_submitter_t *submitter = atomic_load(&submitters); submitter; submitter = submitter->next) {
    bool free_one = false;
    if (!atomic_load(&submitter->in_use) &&
        atomic_compare_exchange_strong(&submitter->in_use, &free_one, true))
      return submitter;
  }
  return NULL;
}

bool gp_submitter_init(void)
{
  if (gp_own_submitter)
    return true;
  pthread_once(&key_once, make_key);
  gp_submitter_t *submitter = take_over();
  if (!submitter) {
    submitter = calloc(1, sizeof(*submitter));
    if (!submitter)
      return false;
    atomic_init(&submitter->in_use, true);
    submitter->next = atomic_load(&submitters);
    while (!atomic_compare_exchange_weak(&submitters, &submitter->next, submitter)) {
    }
  }
  /* Without the key the submitter stays in use after the thread has ended, which only wastes one record. */
  if (has_key)
    (void)pthread_setspecific(key, submitter);
  gp_own_submitter = submitter;
  return true;
}

/* The record of the calling thread's per-thread stream, in the context of its last look-up. */
static _Thread_local struct {
  uint64_t engine; /* the engine's serial */
  const gp_context_t *context;
  gp_identity_t *identity;
} of_thread __attribute__((tls_model("initial-exec")));

/* Initializes the record for a stream. The caller holds the device's lock, because a thread may still have a
 * pointer to the record from its earlier use. */
static void begin(
    gp_engine_t *engine, gp_identity_t *identity, gp_context_t *context, uint64_t handle, bool is_blocking)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_assert_internal(atomic_load(&identity->id) == 0 && gp_list_is_empty(&identity->passed_link));
  identity->context = context;
  identity->handle = handle;
  identity->is_blocking = is_blocking;
  identity->submitter = NULL;
  identity->frees = identity->entered = 0;
  atomic_store(&identity->handed_on, 0);
  atomic_store(&identity->settled, 0);
  identity->has_ended = false;
  identity->passed = 0;
  identity->awaits = false;
  memset(identity->awaited, 0, sizeof(identity->awaited));
  atomic_store(&identity->id, ++engine->last_identity);
}

/* Returns a recycled or new record; NULL if the host has no memory. The caller holds contexts_lock. */
static gp_identity_t *make(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking)
{
  gp_identity_t *identity;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (atomic_load(&context->lost))
    return NULL;
  if (!gp_list_is_empty(&engine->free_identities)) {
    identity = gp_list_entry(engine->free_identities.next, gp_identity_t, link);
    gp_list_remove(&identity->link);
  } else {
    identity = calloc(1, sizeof(*identity));
    if (!identity)
      return NULL;
    gp_bins_init(&identity->freed);
    identity->others = (gp_bin_t){.size = 0};
    gp_list_init(&identity->link);
    gp_list_init(&identity->passed_link);
  }
  gp_lock_take(&context->device->lock);
  begin(engine, identity, context, handle, is_blocking);
  gp_lock_release(&context->device->lock);
  gp_list_push_back(&context->identities, &identity->link);
  return identity;
}

/* The caller holds contexts_lock. */
static void end(gp_engine_t *engine, gp_identity_t *identity)
{
  gp_device_t *device = identity->context->device;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  gp_lock_take(&device->lock);
  if (!gp_list_is_empty(&identity->passed_link))
    (void)gp_stream_points_drain_one(engine, identity, gp_now(engine), UINT_MAX);
  gp_ordered_unfile_all(identity);
  identity->has_ended = true;
  atomic_store(&identity->id, 0);
  gp_lock_release(&device->lock);
  gp_list_remove(&identity->link);
  gp_list_push_back(&engine->free_identities, &identity->link);
}

void gp_identity_created(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking)
{
  gp_assert(!gp_holds_engine_lock());
  if (!engine->keeps_ordered || !context || handle <= GP_STREAM_PER_THREAD)
    return;
  gp_lock_take(&engine->contexts_lock);
  /* A stream that had this handle before has ended unnoticed, with its context. */
  gp_identity_t *stale = gp_address_map_remove(&engine->identities, handle);
  if (stale)
    end(engine, stale);
  gp_identity_t *identity = make(engine, context, handle, is_blocking);
  if (identity && !gp_address_map_insert(&engine->identities, handle, identity))
    end(engine, identity);
  gp_lock_release(&engine->contexts_lock);
}

void gp_identity_ends(gp_engine_t *engine, uint64_t handle)
{
  gp_assert(!gp_holds_engine_lock());
  if (!engine->keeps_ordered || handle <= GP_STREAM_PER_THREAD)
    return;
  gp_lock_take(&engine->contexts_lock);
  gp_identity_t *identity = gp_address_map_remove(&engine->identities, handle);
  if (identity)
    end(engine, identity);
  gp_lock_release(&engine->contexts_lock);
  while (identity && atomic_load(&identity->users) > 0)
    sched_yield(); /* another thread uses the stream in a driver call that does not wait */
}

void gp_identities_lose_context(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH_SAFE(&context->identities, gp_identity_t, link, identity) {
    if (identity->handle > GP_STREAM_PER_THREAD)
      gp_address_map_remove_value(&engine->identities, identity->handle, identity);
    end(engine, identity);
  }
  atomic_store(&context->legacy_identity, NULL);
  gp_lock_release(&engine->contexts_lock);
}

gp_identity_t *gp_identity_of(gp_engine_t *engine, uint64_t handle)
{
  return handle > GP_STREAM_PER_THREAD ? gp_address_map_find(&engine->identities, handle) : NULL;
}

gp_context_t *gp_identity_context(const gp_identity_t *identity)
{
  return identity->context;
}

/* Returns true if the stream is the per-thread stream of a thread that has ended, and so gets no more
 * work. */
static bool thread_has_ended(const gp_identity_t *identity)
{
  const gp_submitter_t *submitter = identity->submitter;
  return submitter && atomic_load(&submitter->owners) != identity->owner;
}

static bool is_own(const gp_identity_t *identity, uint64_t handle)
{
  if (identity->handle != handle)
    return false;
  return handle == GP_STREAM_LEGACY ||
         (identity->submitter == gp_own_submitter && !thread_has_ended(identity));
}

bool gp_identity_can_be_named(const gp_identity_t *identity)
{
  return identity->handle != GP_STREAM_PER_THREAD || is_own(identity, GP_STREAM_PER_THREAD);
}

/* Returns the record of a default stream, and creates it at first use. Also ends the records of ended
 * threads. */
static gp_identity_t *find_or_make(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  gp_identity_t *found = NULL;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH_SAFE(&context->identities, gp_identity_t, link, identity) {
    if (!found && is_own(identity, handle))
      found = identity;
    else if (thread_has_ended(identity))
      end(engine, identity);
  }
  if (!found)
    found = make(engine, context, handle, true);
  if (found && handle == GP_STREAM_PER_THREAD && !found->submitter) {
    found->submitter = gp_own_submitter;
    found->owner = atomic_load(&gp_own_submitter->owners);
  }
  gp_lock_release(&engine->contexts_lock);
  return found;
}

gp_identity_t *gp_identity_of_default(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  gp_assert(!gp_holds_engine_lock());
  gp_assert(handle == GP_STREAM_LEGACY || handle == GP_STREAM_PER_THREAD);
  if (handle == GP_STREAM_LEGACY) {
    gp_identity_t *known = atomic_load_explicit(&context->legacy_identity, memory_order_acquire);
    if (!known) {
      known = find_or_make(engine, context, handle);
      atomic_store_explicit(&context->legacy_identity, known, memory_order_release);
    }
    return known;
  }
  if (!gp_submitter_init())
    return NULL;
  /* A destructor of the thread may call this after thread_ended, when the old record is no longer valid. */
  if (of_thread.engine != engine->serial || of_thread.context != context || !of_thread.identity ||
      !is_own(of_thread.identity, handle)) {
    of_thread.engine = engine->serial;
    of_thread.context = context;
    of_thread.identity = find_or_make(engine, context, handle);
  }
  return of_thread.identity;
}

/* Takes a whole block for gp_identity_take. Its events record it as idle in between. */
static gp_block_t *take_whole(gp_engine_t *engine, gp_identity_t *identity, const gp_context_t *arena,
    const gp_fit_t *fit, uint64_t now_ns, bool *ret_entry)
{
  gp_block_t *block = gp_ordered_find(identity, fit);

  if (block && block->context != arena)
    block = NULL;
  *ret_entry = block && identity->is_blocking && block->freed_as > identity->entered;
  if (block && !*ret_entry)
    gp_stamp_leave_deferred(block);
  else
    block = gp_stream_points_take(engine, identity, arena, fit, false);
  if (block) {
    gp_block_end_use(engine, block, now_ns);
    gp_gauge_pass(&gp_device_stats(identity->context->device)->cached_bytes, block->size);
  }
  return block;
}

/* Returns true if an idle part is smaller than `own`, and so fits better: large pieces should stay
 * unsplit. */
static bool fits_better(const gp_context_t *arena, uint64_t bytes, const gp_block_t *own)
{
  const gp_cut_entry_t *idle = gp_cut_bins_find(&arena->cut, bytes, UINT64_MAX);
  return idle && idle->size < own->size;
}

/* Returns a part of the arena among the first `frees` in the stream, or NULL. */
static gp_block_t *find_part(
    const gp_identity_t *identity, const gp_context_t *arena, uint64_t bytes, uint64_t frees)
{
  gp_block_t *part = gp_bound_find(identity, bytes, frees);
  return part && part->context == arena ? part : NULL;
}

static gp_block_t *take_part(gp_engine_t *engine, gp_identity_t *identity, const gp_context_t *arena,
    const gp_fit_t *fit, bool *ret_entry)
{
  gp_block_t *own =
      find_part(identity, arena, fit->fresh, identity->is_blocking ? identity->entered : UINT64_MAX);

  if (own && fits_better(arena, fit->fresh, own))
    return NULL;
  if (own)
    return gp_bound_take(engine, own, fit->fresh) ? own : NULL;
  gp_block_t *block = gp_stream_points_take(engine, identity, arena, fit, true);
  *ret_entry = !block && identity->is_blocking && find_part(identity, arena, fit->fresh, UINT64_MAX);
  return block;
}

gp_block_t *gp_identity_take(gp_engine_t *engine, gp_identity_t *identity, const gp_context_t *arena,
    const gp_fit_t *fit, bool is_cut, uint64_t now_ns, bool *ret_entry)
{
  *ret_entry = false;
  gp_assert_internal(!identity || gp_lock_is_held(&identity->context->device->lock));
  if (!identity || identity->has_ended ||
      atomic_load_explicit(&engine->has_programmatic, memory_order_relaxed))
    return NULL;
  gp_block_t *block = is_cut ? take_part(engine, identity, arena, fit, ret_entry)
                             : take_whole(engine, identity, arena, fit, now_ns, ret_entry);
  if (block) {
    *ret_entry = false;
    atomic_fetch_add(&identity->handed_on, 1);
  }
  return block;
}

/*
 * Records an event in the stream. All streams of the context share one event, because no thread queries it or
 * waits for it. The first call creates it. If two threads create one concurrently, the later one stays unused
 * until the context ends.
 */
static bool record(gp_engine_t *engine, const gp_identity_t *identity)
{
  gp_context_t *context = identity->context;
  void *event = atomic_load(&context->entry_event);
  void *none = NULL;
  bool is_made = event != NULL;

  bool done = gp_driver_enter_stream(engine, &context->driver, identity->handle, &event) == 0;
  if (!is_made)
    (void)atomic_compare_exchange_strong(&context->entry_event, &none, event);
  return done;
}

/* frees_so_far and note_entered: the caller holds the device's lock. */

static uint64_t frees_so_far(const gp_identity_t *identity)
{
  gp_assert_internal(gp_lock_is_held(&identity->context->device->lock));
  return identity->frees;
}

static void note_entered(gp_identity_t *identity, uint64_t frees)
{
  gp_assert_internal(gp_lock_is_held(&identity->context->device->lock));
  if (identity->entered < frees)
    identity->entered = frees;
}

/* Records an event in the stream, and notes that earlier frees lie before it. enter: gp_engine_enter or
 * gp_engine_enter_stream. */
static bool put_operation(gp_engine_t *engine, gp_identity_t *identity, bool (*enter)(gp_engine_t *))
{
  gp_device_t *device = identity->context->device;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  uint64_t frees = frees_so_far(identity);
  gp_lock_release(&device->lock);
  if (!enter(engine))
    return false;
  bool has_entered = record(engine, identity);
  gp_engine_leave(engine);
  gp_lock_take(&device->lock);
  if (has_entered)
    note_entered(identity, frees);
  gp_lock_release(&device->lock);
  return has_entered;
}

bool gp_identity_enter(gp_engine_t *engine, gp_identity_t *identity)
{
  return put_operation(engine, identity, gp_engine_enter);
}

gp_stream_point_t gp_identity_point(gp_identity_t *identity, bool by_operation)
{
  gp_stream_point_t point = {.identity = identity};

  if (!identity)
    return point;
  point.device = identity->context->device;
  gp_lock_take(&point.device->lock);
  point.id = atomic_load(&identity->id);
  point.frees = by_operation || !identity->is_blocking ? frees_so_far(identity) : identity->entered;
  gp_lock_release(&point.device->lock);
  return point;
}

/* Returns the stream with the next id after `after` among those in which deferred memory of the device was
 * freed, and that the calling thread can use; NULL if there is none. The stream is not destroyed before the
 * caller decrements users. */
static gp_identity_t *next_to_ask(gp_engine_t *engine, gp_device_t *device, uint64_t after)
{
  gp_identity_t *next = NULL;

  gp_lock_take(&engine->contexts_lock);
  gp_lock_take(&device->lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    GP_LIST_EACH(&context->identities, gp_identity_t, link, identity)
      if (context->device == device && identity->filed > 0 && atomic_load(&identity->id) > after &&
          (!next || atomic_load(&identity->id) < atomic_load(&next->id)) &&
          gp_identity_can_be_named(identity))
        next = identity;
  if (next)
    atomic_fetch_add(&next->users, 1);
  gp_lock_release(&device->lock);
  gp_lock_release(&engine->contexts_lock);
  return next;
}

void gp_identities_ask(gp_engine_t *engine, gp_device_t *device)
{
  gp_identity_t *identity;
  uint64_t asked = 0;

  gp_assert(!gp_holds_engine_lock());
  if (!engine->driver.ops->stream_query || !gp_stream_points_are_wanted(engine) || !gp_engine_enter(engine))
    return;
  while ((identity = next_to_ask(engine, device, asked))) {
    gp_stream_point_t point = gp_identity_point(identity, false);
    asked = point.id;
    if (gp_driver_stream_query(engine, &identity->context->driver, identity->handle) == 0)
      gp_stream_point_passed(&point);
    atomic_fetch_sub(&identity->users, 1);
  }
  gp_engine_leave(engine);
  gp_lock_take(&device->lock);
  (void)gp_stream_points_drain(engine, device, gp_now(engine), UINT_MAX);
  gp_lock_release(&device->lock);
}

/* A captured launch needs no event, because the work of a graph begins behind all work from before the
 * graph. */
void gp_identity_launches_early(gp_engine_t *engine, gp_identity_t *identity, bool is_captured)
{
  if (!atomic_load_explicit(&engine->has_programmatic, memory_order_relaxed))
    atomic_store(&engine->has_programmatic, true);
  if (!identity || is_captured)
    return;
  /* The program got the memory before this launch, so handed_on already counts its reuse. settled is raised
   * only after the operation is in the stream, because another thread may launch meanwhile. */
  uint64_t handed_on = atomic_load(&identity->handed_on);
  if (atomic_load(&identity->settled) < handed_on && put_operation(engine, identity, gp_engine_enter_stream))
    gp_stamps_raise(&identity->settled, handed_on);
}

/* Returns true for the legacy default stream, which orders other streams. This holds even if no other stream
 * is known, because the library does not see most work in other streams. */
static bool orders_others(const gp_identity_t *identity)
{
  return identity->handle == GP_STREAM_LEGACY;
}

bool gp_identity_needs_no_call(const gp_identity_t *identity)
{
  return identity && !orders_others(identity);
}

bool gp_identity_freed(gp_engine_t *engine, gp_identity_t *identity)
{
  return identity && identity->is_blocking && gp_identity_enter(engine, identity);
}

bool gp_identity_take_place(gp_engine_t *engine, gp_identity_t *identity)
{
  return identity && orders_others(identity) && gp_identity_enter(engine, identity);
}

void gp_identities_fini(gp_engine_t *engine)
{
  for (gp_context_t *context = engine->all_contexts; context; context = context->next_any)
    GP_LIST_EACH_SAFE(&context->identities, gp_identity_t, link, identity) {
      gp_list_remove(&identity->link);
      gp_list_push_back(&engine->free_identities, &identity->link);
    }
  GP_LIST_EACH_SAFE(&engine->free_identities, gp_identity_t, link, identity) {
    gp_bins_fini(&identity->freed);
    free(identity->bound);
    free(identity);
  }
  gp_address_map_fini(&engine->identities);
}
