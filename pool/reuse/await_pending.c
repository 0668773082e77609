#include "pool/reuse/await_pending.h"

#include "pool/space/driver_calls.h"
#include "pool/reuse/mode.h"
#include "pool/limits/oom_turn.h"
#include "pool/reuse/pending_frees.h"
#include "pool/limits/reclaim.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/stream_records.h"
#include "pool/engine_record.h"

#define PAUSE_NS UINT64_C(100000)

/* Returns the number of releases that have finished. *ret_waits is true if waiting for the next one is
 * worthwhile. */
static uint64_t count_finished(gp_device_t *device, bool *ret_waits)
{
  gp_lock_take(&device->lock);
  const gp_releases_t *releases = &gp_locked(device)->releases;
  uint64_t count = releases->finished_count;
  *ret_waits = !gp_releases_are_none(releases) && releases->given_up != count + 1;
  gp_lock_release(&device->lock);
  return count;
}

static void give_up(gp_device_t *device, uint64_t count)
{
  gp_lock_take(&device->lock);
  gp_releases_t *releases = &gp_locked(device)->releases;
  if (releases->finished_count == count)
    releases->given_up = count + 1;
  gp_lock_release(&device->lock);
}

bool gp_await_release(
    gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts, uint64_t limit_ns)
{
  bool waits;

  gp_assert(!gp_holds_engine_lock());
  uint64_t before = count_finished(device, &waits);
  while (waits) {
    if (attempts->later_ns >= limit_ns) {
      attempts->has_timed_out = true;
      if (limit_ns >= engine->patience_ns)
        give_up(device, before);
      return false;
    }
    uint64_t begin_ns = gp_now(engine);
    gp_oom_turn_pause(engine, device, PAUSE_NS);
    uint64_t end_ns = gp_now(engine);
    attempts->later_ns += end_ns > begin_ns ? end_ns - begin_ns : 0;
    if (count_finished(device, &waits) != before)
      return true;
  }
  return false;
}

/* Returns a stream that has pending frees and that the calling thread can use: the one with the next id after
 * *id. Updates *id. Returns NULL if there is none. The program cannot destroy the stream until the caller
 * decrements `users`. */
static gp_stream_record_t *next_to_ask(gp_device_t *device, uint64_t *id)
{
  uint64_t after = *id;
  gp_stream_record_t *next = NULL;

  gp_lock_take(&device->lock);
  gp_assert_internal(gp_lock_is_held(&device->lock));
  GP_LIST_EACH(&device->pending_frees, const gp_pending_free_t, link, pending) {
    gp_stream_record_t *stream_record = pending->stream_record;
    if (stream_record && pending->record_id > after &&
        atomic_load(&stream_record->id) == pending->record_id &&
        (!next || pending->record_id < atomic_load(&next->id)) && gp_stream_record_is_passable(stream_record))
      next = stream_record;
  }
  if (next) {
    atomic_fetch_add(&next->users, 1);
    *id = atomic_load(&next->id);
  }
  gp_lock_release(&device->lock);
  return next;
}

/* Queries all streams that have pending frees. A stream without pending work has reached all frees made
 * before the query. */
static void ask_streams(gp_engine_t *engine, gp_device_t *device)
{
  gp_stream_record_t *stream_record;
  uint64_t id = 0;

  if (!engine->driver.ops->stream_query || !gp_engine_enter(engine))
    return;
  while ((stream_record = next_to_ask(device, &id))) {
    uint64_t epoch = gp_epoch_begin(engine);
    bool is_idle =
        gp_driver_stream_query(engine, &stream_record->context->driver, stream_record->handle) == 0;
    gp_lock_take(&device->lock);
    if (is_idle)
      gp_pending_frees_passed(engine, device, stream_record, id, epoch);
    gp_lock_release(&device->lock);
    atomic_fetch_sub(&stream_record->users, 1);
  }
  gp_engine_leave(engine);
}

static size_t count(gp_engine_t *engine, gp_device_t *device)
{
  gp_lock_take(&device->lock);
  (void)gp_pending_frees_retire(engine, device);
  size_t pending = gp_locked(device)->unlisted_pending + device->unlisted_host > 0;
  GP_LIST_EACH(&device->pending_frees, const gp_pending_free_t, link, free)
    pending++;
  gp_lock_release(&device->lock);
  return pending;
}

/* Queries the streams, and all contexts by fences. Never waits. Returns true if some pending memory no longer
 * counts. */
static bool ask(gp_engine_t *engine, gp_device_t *device)
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  bool any = !gp_pending_frees_are_none(gp_locked(device));
  bool has_retired = gp_pending_frees_retire(engine, device);
  gp_lock_release(&device->lock);
  if (!any || has_retired)
    return has_retired;
  size_t before = count(engine, device);
  ask_streams(engine, device);
  if (count(engine, device) < before)
    return true;
  if (!gp_fences_poll_twice(engine))
    return false;
  gp_reclaim(engine);
  return count(engine, device) < before;
}

void gp_engine_ask_pending(gp_engine_t *engine, gp_context_t *context)
{
  while (ask(engine, context->device)) {
  }
}

static bool is_pending(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  bool any = !gp_pending_frees_are_none(gp_locked(device));
  gp_lock_release(&device->lock);
  return any;
}

/* Returns a number that changes when a context completes work. After a timeout no thread waits again before
 * this number changes. Also stores, for the report, a context whose work may delay the wait. */
static uint64_t find_progress(gp_engine_t *engine, gp_oom_attempts_t *attempts)
{
  uint64_t progress = 0;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), const gp_context_t, live_link, context) {
    progress += atomic_load(&context->completed);
    if (gp_epoch_is_current(engine, context))
      continue;
    attempts->busy_context = context->driver.id;
    attempts->busy_since_ns = atomic_load(&context->fences.recorded_ns);
  }
  gp_lock_release(&engine->contexts_lock);
  return progress;
}

/* Returns the time that the wait may still take; 0: the wait is over. */
static uint64_t time_left(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  gp_failed_wait_t *failed_wait = &device->failed_pending_wait;
  uint64_t progress = find_progress(engine, attempts);
  uint64_t spent_ns = attempts->later_ns - attempts->progress_ns;

  if (atomic_load(&failed_wait->progress) != progress) {
    atomic_store(&failed_wait->progress, progress);
    atomic_store(&failed_wait->ns, 0);
  }
  if (spent_ns < engine->patience_ns && atomic_load(&failed_wait->ns) < engine->patience_ns &&
      !gp_engine_forwards(engine))
    return engine->patience_ns - spent_ns;
  if (atomic_load(&failed_wait->ns) < spent_ns)
    atomic_store(&failed_wait->ns, spent_ns);
  attempts->has_timed_out = true;
  return 0;
}

bool gp_pending_frees_wait(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  uint64_t pause_ns = GP_FIRST_PAUSE_NS, last_ns = gp_now(engine), left_ns;

  gp_assert(!gp_holds_engine_lock());
  while (is_pending(device)) {
    if (ask(engine, device))
      return true;
    if ((left_ns = time_left(engine, device, attempts)) == 0)
      return false;
    gp_oom_turn_pause(engine, device, pause_ns < left_ns ? pause_ns : left_ns);
    pause_ns = gp_next_pause(pause_ns);
    uint64_t now_ns = gp_now(engine);
    attempts->later_ns += now_ns > last_ns ? now_ns - last_ns : 0;
    last_ns = now_ns;
  }
  return false;
}
