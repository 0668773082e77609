#include "pool/reuse/stream_records.h"

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
#include "pool/async/stream_blocks.h"

_Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

static _Atomic(gp_submitter_t *) submitters;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* Destructor of the thread-specific key. The thread has ended, and all its calls have returned. */
static void thread_ended(void *value)
{
  gp_submitter_t *submitter = value;

  gp_own_submitter = NULL; /* a later destructor that submits work gets a new submitter */
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
  /* Without the key the submitter stays in use after the thread has ended. That only wastes one record. */
  if (has_key)
    (void)pthread_setspecific(key, submitter);
  gp_own_submitter = submitter;
  return true;
}

/* The record of the calling thread's per-thread stream in the context of its last look-up. */
static _Thread_local struct {
  uint64_t engine; /* serial number of the engine */
  const gp_context_t *context;
  gp_stream_record_t *stream_record;
} of_thread __attribute__((tls_model("initial-exec")));

/* Initializes the record for a stream. The caller holds the device's lock, because a thread may still have a
 * pointer to the record from its earlier use. */
static void begin(gp_engine_t *engine, gp_stream_record_t *stream_record, gp_context_t *context,
    uint64_t handle, bool is_blocking)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_assert_internal(atomic_load(&stream_record->id) == 0 && gp_list_is_empty(&stream_record->passed_link));
  stream_record->context = context;
  stream_record->handle = handle;
  stream_record->is_blocking = is_blocking;
  stream_record->submitter = NULL;
  stream_record->frees = stream_record->entered = 0;
  atomic_store(&stream_record->reuses, 0);
  atomic_store(&stream_record->settled, 0);
  stream_record->has_ended = false;
  stream_record->passed = 0;
  stream_record->awaits = false;
  memset(stream_record->awaited, 0, sizeof(stream_record->awaited));
  atomic_store(&stream_record->id, ++engine->last_record);
}

/* Returns a recycled or new record, or NULL if the host has no memory. The caller holds contexts_lock. */
static gp_stream_record_t *make(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking)
{
  gp_stream_record_t *stream_record;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (atomic_load(&context->lost))
    return NULL;
  if (!gp_list_is_empty(&engine->free_stream_records)) {
    stream_record = gp_list_entry(engine->free_stream_records.next, gp_stream_record_t, link);
    gp_list_remove(&stream_record->link);
  } else {
    stream_record = calloc(1, sizeof(*stream_record));
    if (!stream_record)
      return NULL;
    gp_bins_init(&stream_record->freed);
    stream_record->others = (gp_bin_t){.size = 0};
    gp_list_init(&stream_record->link);
    gp_list_init(&stream_record->passed_link);
  }
  gp_lock_take(&context->device->lock);
  begin(engine, stream_record, context, handle, is_blocking);
  gp_lock_release(&context->device->lock);
  gp_list_push_back(&context->stream_records, &stream_record->link);
  return stream_record;
}

/* Ends the record of a stream. The caller holds contexts_lock. */
static void end(gp_engine_t *engine, gp_stream_record_t *stream_record)
{
  gp_device_t *device = stream_record->context->device;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  gp_lock_take(&device->lock);
  if (!gp_list_is_empty(&stream_record->passed_link))
    (void)gp_stream_points_drain_one(engine, stream_record, gp_now(engine), UINT_MAX);
  gp_stream_blocks_remove_all(stream_record);
  stream_record->has_ended = true;
  atomic_store(&stream_record->id, 0);
  gp_lock_release(&device->lock);
  gp_list_remove(&stream_record->link);
  gp_list_push_back(&engine->free_stream_records, &stream_record->link);
}

void gp_stream_record_begin(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking)
{
  gp_assert(!gp_holds_engine_lock());
  if (!engine->serves_async || !context || handle <= GP_STREAM_PER_THREAD)
    return;
  gp_lock_take(&engine->contexts_lock);
  /* An earlier stream with this handle has ended unnoticed, with its context. */
  gp_stream_record_t *stale = gp_address_map_remove(&engine->stream_records, handle);
  if (stale)
    end(engine, stale);
  gp_stream_record_t *stream_record = make(engine, context, handle, is_blocking);
  if (stream_record && !gp_address_map_insert(&engine->stream_records, handle, stream_record))
    end(engine, stream_record);
  gp_lock_release(&engine->contexts_lock);
}

void gp_stream_record_end(gp_engine_t *engine, uint64_t handle)
{
  gp_assert(!gp_holds_engine_lock());
  if (!engine->serves_async || handle <= GP_STREAM_PER_THREAD)
    return;
  gp_lock_take(&engine->contexts_lock);
  gp_stream_record_t *stream_record = gp_address_map_remove(&engine->stream_records, handle);
  if (stream_record)
    end(engine, stream_record);
  gp_lock_release(&engine->contexts_lock);
  while (stream_record && atomic_load(&stream_record->users) > 0)
    sched_yield(); /* another thread uses the stream in a driver call, which does not wait */
}

void gp_stream_records_lose_context(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH_SAFE(&context->stream_records, gp_stream_record_t, link, stream_record) {
    if (stream_record->handle > GP_STREAM_PER_THREAD)
      gp_address_map_remove_value(&engine->stream_records, stream_record->handle, stream_record);
    end(engine, stream_record);
  }
  atomic_store(&context->legacy_record, NULL);
  gp_lock_release(&engine->contexts_lock);
}

gp_stream_record_t *gp_stream_record_of(gp_engine_t *engine, uint64_t handle)
{
  return handle > GP_STREAM_PER_THREAD ? gp_address_map_find(&engine->stream_records, handle) : NULL;
}

gp_context_t *gp_stream_record_context(const gp_stream_record_t *stream_record)
{
  return stream_record->context;
}

/* Returns true if the stream is the per-thread stream of a thread that has ended, so that no more work is
 * submitted to it. */
static bool thread_has_ended(const gp_stream_record_t *stream_record)
{
  const gp_submitter_t *submitter = stream_record->submitter;
  return submitter && atomic_load(&submitter->owners) != stream_record->owner;
}

static bool is_own(const gp_stream_record_t *stream_record, uint64_t handle)
{
  if (stream_record->handle != handle)
    return false;
  return handle == GP_STREAM_LEGACY ||
         (stream_record->submitter == gp_own_submitter && !thread_has_ended(stream_record));
}

bool gp_stream_record_is_passable(const gp_stream_record_t *stream_record)
{
  return stream_record->handle != GP_STREAM_PER_THREAD || is_own(stream_record, GP_STREAM_PER_THREAD);
}

/* Returns the record of a default stream, and creates it at first use. Also ends the records of streams whose
 * thread has ended. */
static gp_stream_record_t *find_or_make(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  gp_stream_record_t *found = NULL;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH_SAFE(&context->stream_records, gp_stream_record_t, link, stream_record) {
    if (!found && is_own(stream_record, handle))
      found = stream_record;
    else if (thread_has_ended(stream_record))
      end(engine, stream_record);
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

gp_stream_record_t *gp_stream_record_of_default(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  gp_assert(!gp_holds_engine_lock());
  gp_assert(handle == GP_STREAM_LEGACY || handle == GP_STREAM_PER_THREAD);
  if (handle == GP_STREAM_LEGACY) {
    gp_stream_record_t *known = atomic_load_explicit(&context->legacy_record, memory_order_acquire);
    if (!known) {
      known = find_or_make(engine, context, handle);
      atomic_store_explicit(&context->legacy_record, known, memory_order_release);
    }
    return known;
  }
  if (!gp_submitter_init())
    return NULL;
  /* A destructor of the thread may call this function after thread_ended, when the old record is no longer
   * valid. */
  if (of_thread.engine != engine->serial || of_thread.context != context || !of_thread.stream_record ||
      !is_own(of_thread.stream_record, handle)) {
    of_thread.engine = engine->serial;
    of_thread.context = context;
    of_thread.stream_record = find_or_make(engine, context, handle);
  }
  return of_thread.stream_record;
}

/* Takes a whole block for gp_stream_record_take. The block's events record it as idle in between. */
static gp_block_t *take_whole(gp_engine_t *engine, gp_stream_record_t *stream_record,
    const gp_context_t *arena, const gp_fit_t *fit, uint64_t now_ns, bool *ret_entry)
{
  gp_block_t *block = gp_stream_block_find(stream_record, fit);

  if (block && block->context != arena)
    block = NULL;
  *ret_entry = block && stream_record->is_blocking && block->freed_as > stream_record->entered;
  if (block && !*ret_entry)
    gp_stamp_leave_deferred(block);
  else
    block = gp_stream_points_take(engine, stream_record, arena, fit, false);
  if (block) {
    gp_block_end_use(engine, block, now_ns);
    gp_gauge_pass(&gp_device_stats(stream_record->context->device)->cached_bytes, block->size);
  }
  return block;
}

/* Returns true if an idle part fits better than `own` because it is smaller: large pieces should stay
 * unsplit. */
static bool fits_better(const gp_context_t *arena, uint64_t bytes, const gp_block_t *own)
{
  const gp_cut_entry_t *idle = gp_cut_bins_find(&arena->cut, bytes, UINT64_MAX);
  return idle && idle->size < own->size;
}

/* Returns a part of the arena that is among the first `frees` frees in the stream, or NULL. */
static gp_block_t *find_part(
    const gp_stream_record_t *stream_record, const gp_context_t *arena, uint64_t bytes, uint64_t frees)
{
  gp_block_t *part = gp_bound_find(stream_record, bytes, frees);
  return part && part->context == arena ? part : NULL;
}

static gp_block_t *take_part(gp_engine_t *engine, gp_stream_record_t *stream_record,
    const gp_context_t *arena, const gp_fit_t *fit, bool *ret_entry)
{
  gp_block_t *own = find_part(
      stream_record, arena, fit->fresh, stream_record->is_blocking ? stream_record->entered : UINT64_MAX);

  if (own && fits_better(arena, fit->fresh, own))
    return NULL;
  if (own)
    return gp_bound_take(engine, own, fit->fresh) ? own : NULL;
  gp_block_t *block = gp_stream_points_take(engine, stream_record, arena, fit, true);
  *ret_entry =
      !block && stream_record->is_blocking && find_part(stream_record, arena, fit->fresh, UINT64_MAX);
  return block;
}

gp_block_t *gp_stream_record_take(gp_engine_t *engine, gp_stream_record_t *stream_record,
    const gp_context_t *arena, const gp_fit_t *fit, bool is_cut, uint64_t now_ns, bool *ret_entry)
{
  *ret_entry = false;
  gp_assert_internal(!stream_record || gp_lock_is_held(&stream_record->context->device->lock));
  if (!stream_record || stream_record->has_ended ||
      atomic_load_explicit(&engine->has_programmatic, memory_order_relaxed))
    return NULL;
  gp_block_t *block = is_cut ? take_part(engine, stream_record, arena, fit, ret_entry)
                             : take_whole(engine, stream_record, arena, fit, now_ns, ret_entry);
  if (block) {
    *ret_entry = false;
    atomic_fetch_add(&stream_record->reuses, 1);
  }
  return block;
}

/*
 * Records an event in the stream. All streams of a context share one event, because no thread queries it or
 * waits for it. The first call creates the event. If two threads create one concurrently, the later one stays
 * unused until the context ends.
 */
static bool record(gp_engine_t *engine, const gp_stream_record_t *stream_record)
{
  gp_context_t *context = stream_record->context;
  void *event = atomic_load(&context->entry_event);
  void *none = NULL;
  bool is_made = event != NULL;

  bool done = gp_driver_enter_stream(engine, &context->driver, stream_record->handle, &event) == 0;
  if (!is_made)
    (void)atomic_compare_exchange_strong(&context->entry_event, &none, event);
  return done;
}

/* The caller of frees_so_far and of note_entered holds the device's lock. */

static uint64_t frees_so_far(const gp_stream_record_t *stream_record)
{
  gp_assert_internal(gp_lock_is_held(&stream_record->context->device->lock));
  return stream_record->frees;
}

static void note_entered(gp_stream_record_t *stream_record, uint64_t frees)
{
  gp_assert_internal(gp_lock_is_held(&stream_record->context->device->lock));
  if (stream_record->entered < frees)
    stream_record->entered = frees;
}

/* Records an event in the stream, and notes that earlier frees precede it. `enter` is gp_engine_enter or
 * gp_engine_enter_stream. */
static bool put_operation(
    gp_engine_t *engine, gp_stream_record_t *stream_record, bool (*enter)(gp_engine_t *))
{
  gp_device_t *device = stream_record->context->device;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  uint64_t frees = frees_so_far(stream_record);
  gp_lock_release(&device->lock);
  if (!enter(engine))
    return false;
  bool has_entered = record(engine, stream_record);
  gp_engine_leave(engine);
  gp_lock_take(&device->lock);
  if (has_entered)
    note_entered(stream_record, frees);
  gp_lock_release(&device->lock);
  return has_entered;
}

bool gp_stream_record_add_event(gp_engine_t *engine, gp_stream_record_t *stream_record)
{
  return put_operation(engine, stream_record, gp_engine_enter);
}

gp_stream_point_t gp_stream_record_point(gp_stream_record_t *stream_record, bool by_operation)
{
  gp_stream_point_t point = {.stream_record = stream_record};

  if (!stream_record)
    return point;
  point.device = stream_record->context->device;
  gp_lock_take(&point.device->lock);
  point.id = atomic_load(&stream_record->id);
  point.frees =
      by_operation || !stream_record->is_blocking ? frees_so_far(stream_record) : stream_record->entered;
  gp_lock_release(&point.device->lock);
  return point;
}

/* Returns a stream in which deferred memory of the device was freed, and that the calling thread can use: the
 * one with the next id after `after`. Returns NULL if there is none. The stream is not destroyed before the
 * caller decrements `users`. */
static gp_stream_record_t *next_to_ask(gp_engine_t *engine, gp_device_t *device, uint64_t after)
{
  gp_stream_record_t *next = NULL;

  gp_lock_take(&engine->contexts_lock);
  gp_lock_take(&device->lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    GP_LIST_EACH(&context->stream_records, gp_stream_record_t, link, stream_record)
      if (context->device == device && stream_record->block_count > 0 &&
          atomic_load(&stream_record->id) > after &&
          (!next || atomic_load(&stream_record->id) < atomic_load(&next->id)) &&
          gp_stream_record_is_passable(stream_record))
        next = stream_record;
  if (next)
    atomic_fetch_add(&next->users, 1);
  gp_lock_release(&device->lock);
  gp_lock_release(&engine->contexts_lock);
  return next;
}

void gp_stream_records_query(gp_engine_t *engine, gp_device_t *device)
{
  gp_stream_record_t *stream_record;
  uint64_t asked = 0;

  gp_assert(!gp_holds_engine_lock());
  if (!engine->driver.ops->stream_query || !gp_stream_points_are_wanted(engine) || !gp_engine_enter(engine))
    return;
  while ((stream_record = next_to_ask(engine, device, asked))) {
    gp_stream_point_t point = gp_stream_record_point(stream_record, false);
    asked = point.id;
    if (gp_driver_stream_query(engine, &stream_record->context->driver, stream_record->handle) == 0)
      gp_stream_point_passed(&point);
    atomic_fetch_sub(&stream_record->users, 1);
  }
  gp_engine_leave(engine);
  gp_lock_take(&device->lock);
  (void)gp_stream_points_drain(engine, device, gp_now(engine), UINT_MAX);
  gp_lock_release(&device->lock);
}

/* A captured launch needs no event, because the work of a graph begins after all work submitted before the
 * graph's launch. */
void gp_stream_record_prevent_overlap(
    gp_engine_t *engine, gp_stream_record_t *stream_record, bool is_captured)
{
  if (!atomic_load_explicit(&engine->has_programmatic, memory_order_relaxed))
    atomic_store(&engine->has_programmatic, true);
  if (!stream_record || is_captured)
    return;
  /* The program got the memory before this launch, so `reuses` already counts its reuse. `settled` is raised
   * only after the operation is in the stream, because another thread may launch meanwhile. */
  uint64_t reuses = atomic_load(&stream_record->reuses);
  if (atomic_load(&stream_record->settled) < reuses &&
      put_operation(engine, stream_record, gp_engine_enter_stream))
    gp_stamps_raise(&stream_record->settled, reuses);
}

/* Returns true for the legacy default stream, whose operations order other streams. The result is true even
 * if no other stream is known, because the library does not see most work in other streams. */
static bool orders_others(const gp_stream_record_t *stream_record)
{
  return stream_record->handle == GP_STREAM_LEGACY;
}

bool gp_stream_record_needs_no_call(const gp_stream_record_t *stream_record)
{
  return stream_record && !orders_others(stream_record);
}

bool gp_stream_record_after_free(gp_engine_t *engine, gp_stream_record_t *stream_record)
{
  return stream_record && stream_record->is_blocking && gp_stream_record_add_event(engine, stream_record);
}

bool gp_stream_record_replace_call(gp_engine_t *engine, gp_stream_record_t *stream_record)
{
  return stream_record && orders_others(stream_record) && gp_stream_record_add_event(engine, stream_record);
}

void gp_stream_records_fini(gp_engine_t *engine)
{
  for (gp_context_t *context = engine->all_contexts; context; context = context->next_any)
    GP_LIST_EACH_SAFE(&context->stream_records, gp_stream_record_t, link, stream_record) {
      gp_list_remove(&stream_record->link);
      gp_list_push_back(&engine->free_stream_records, &stream_record->link);
    }
  GP_LIST_EACH_SAFE(&engine->free_stream_records, gp_stream_record_t, link, stream_record) {
    gp_bins_fini(&stream_record->freed);
    free(stream_record->bound);
    free(stream_record);
  }
  gp_address_map_fini(&engine->stream_records);
}
