#include "pool/reuse/wait.h"

#include "pool/space/driver_calls.h"
#include "pool/serve/heaps.h"
#include "pool/reuse/mode.h"
#include "pool/limits/oom_turn.h"
#include "pool/limits/reclaim.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/known_streams.h"
#include "pool/reuse/stamps.h"
#include "base/log.h"

#define TELL_AFTER_NS UINT64_C(2000000000)

/* The kind of work for which a thread waits: work submitted before the memory was freed, or newer work. */
typedef enum work { WORK_NONE, WORK_BEFORE, WORK_LATER } work_t;

/* The state of one wait. before_ns and later_ns limit its time for each kind of work. */
typedef struct polling {
  gp_engine_t *engine;
  gp_device_t *device; /* device whose memory the program requests */
  gp_oom_attempts_t *attempts;
  uint64_t before_ns, later_ns;
  uint64_t last_ns;
  uint64_t pause_ns;
  bool has_paused;
  uint64_t held_epoch; /* epoch for which the thread waits */
  uint64_t held;       /* sum of `completed` over the contexts that delayed the epoch at the last poll */
} polling_t;

static polling_t begin(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts,
    uint64_t before_ns, uint64_t later_ns)
{
  return (polling_t){.engine = engine,
      .device = device,
      .attempts = attempts,
      .before_ns = before_ns,
      .later_ns = later_ns,
      .last_ns = gp_now(engine),
      .pause_ns = GP_FIRST_PAUSE_NS};
}

static bool has_fences(const gp_engine_t *engine)
{
  return engine->driver.ops->fence_record != NULL;
}

/* Returns the kind of work that keeps a context from completing the epoch. The caller holds contexts_lock. */
static work_t work_of(const gp_context_t *context, uint64_t epoch)
{
  if (atomic_load(&context->gone) || atomic_load(&context->completed) >= epoch)
    return WORK_NONE;
  return atomic_load(&context->fences.at_free_epoch) >= epoch ? WORK_BEFORE : WORK_LATER;
}

/* Restarts the time limit if a context that delays the epoch has made progress. This cannot repeat forever,
 * because such a context has only a few fences recorded before the wait. */
static void note_progress(polling_t *polling, uint64_t epoch, uint64_t held)
{
  if (polling->held_epoch == epoch && polling->held != held)
    polling->attempts->progress_ns = polling->attempts->later_ns;
  polling->held_epoch = epoch;
  polling->held = held;
}

/* Returns the kind of work that delays the epoch, and stores in `attempts` a context that has such work. */
static work_t find_work(polling_t *polling, uint64_t epoch)
{
  gp_engine_t *engine = polling->engine;
  gp_oom_attempts_t *attempts = polling->attempts;
  work_t found = WORK_NONE;
  uint64_t held = 0;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context) {
    work_t work = work_of(context, epoch);
    if (work != WORK_NONE)
      held += atomic_load(&context->completed);
    if (work > found) {
      found = work;
      attempts->busy_context = context->driver.id;
      attempts->busy_since_ns = atomic_load(&context->fences.recorded_ns);
    }
  }
  gp_lock_release(&engine->contexts_lock);
  note_progress(polling, epoch, held);
  return found;
}

/* Returns a number that grows when the context makes progress or, on a driver without fences, when any known
 * stream does. */
static uint64_t progress_of(const gp_engine_t *engine, const gp_context_t *context)
{
  return atomic_load(&context->completed) + atomic_load(&engine->streams_got_through);
}

/* Returns true if an earlier wait of that length timed out and the context that delays the epoch has made no
 * progress since. */
static bool has_timed_out(gp_engine_t *engine, uint64_t epoch, uint64_t limit_ns)
{
  bool has_failed = false;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    if (work_of(context, epoch) != WORK_NONE && atomic_load(&context->failed_wait.ns) >= limit_ns &&
        atomic_load(&context->failed_wait.progress) == progress_of(engine, context))
      has_failed = true;
  gp_lock_release(&engine->contexts_lock);
  return has_failed;
}

static void note_failed_wait(gp_engine_t *engine, uint64_t epoch, uint64_t limit_ns)
{
  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context) {
    uint64_t progress = progress_of(engine, context);
    if (work_of(context, epoch) == WORK_NONE)
      continue;
    if (atomic_load(&context->failed_wait.progress) != progress ||
        atomic_load(&context->failed_wait.ns) < limit_ns)
      atomic_store(&context->failed_wait.ns, limit_ns);
    atomic_store(&context->failed_wait.progress, progress);
  }
  gp_lock_release(&engine->contexts_lock);
}

static void tell(const polling_t *polling)
{
  gp_oom_attempts_t *attempts = polling->attempts;

  if (attempts->has_told || attempts->before_ns < TELL_AFTER_NS)
    return;
  attempts->has_told = true;
  gp_log(GP_LOG_ERROR,
      "an allocation is waiting for freed memory: work submitted to context %llu before the free may still use it",
      (unsigned long long)attempts->busy_context);
}

static void count_wait(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_device_stats(device)->host_waits++;
  gp_lock_release(&device->lock);
}

/* Sleeps until the next poll. Returns false if the time for this kind of work has elapsed, or if further
 * polls are useless. */
static bool go_on(polling_t *polling, work_t work, uint64_t epoch)
{
  gp_engine_t *engine = polling->engine;
  uint64_t limit_ns = work == WORK_BEFORE ? polling->before_ns : polling->later_ns;
  uint64_t *spent_ns = work == WORK_BEFORE ? &polling->attempts->before_ns : &polling->attempts->later_ns;
  uint64_t since_ns = work == WORK_BEFORE ? 0 : polling->attempts->progress_ns;

  bool is_over = *spent_ns - since_ns >= limit_ns;
  if (is_over)
    note_failed_wait(engine, epoch, limit_ns);
  if (is_over || (!polling->has_paused && has_timed_out(engine, epoch, limit_ns))) {
    polling->attempts->has_timed_out = true;
    return false;
  }
  if (!polling->has_paused)
    count_wait(polling->device);
  polling->has_paused = true;
  uint64_t left_ns = limit_ns - (*spent_ns - since_ns);
  gp_oom_turn_pause(engine, polling->device, polling->pause_ns < left_ns ? polling->pause_ns : left_ns);
  polling->pause_ns = gp_next_pause(polling->pause_ns);
  uint64_t now_ns = gp_now(engine);
  *spent_ns += now_ns > polling->last_ns ? now_ns - polling->last_ns : 0;
  polling->last_ns = now_ns;
  tell(polling);
  return true;
}

/* Returns the oldest stamp among the device's deferred blocks, or 0 if none is deferred. */
static uint64_t oldest_deferred(gp_engine_t *engine, gp_device_t *device)
{
  uint64_t oldest = 0;

  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context) {
    if (gp_list_is_empty(&context->deferred))
      continue;
    uint64_t stamp = gp_list_entry(context->deferred.next, gp_block_t, order)->free_epoch;
    if (oldest == 0 || stamp < oldest)
      oldest = stamp;
  }
  gp_lock_release(&device->lock);
  return oldest;
}

bool gp_wait_for_deferred(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  polling_t polling = begin(engine, device, attempts, GP_WAIT_BEFORE_NS, engine->patience_ns);
  uint64_t oldest = oldest_deferred(engine, device);

  gp_assert(!gp_holds_engine_lock());
  if (attempts->begin_epoch == 0)
    attempts->begin_epoch = atomic_load(&engine->epoch);
  if (oldest > attempts->begin_epoch || gp_engine_forwards(engine) || !has_fences(engine))
    return false;
  while (oldest != 0) {
    gp_reclaim_poll(engine);
    if (oldest_deferred(engine, device) != oldest)
      return true;
    if (gp_engine_service(engine) > GP_SERVICE_SUSPENDED ||
        !go_on(&polling, find_work(&polling, oldest), oldest))
      return false;
  }
  return false;
}

/* Polls until no known stream has work. Used on drivers without fences. Returns false if the time has
 * elapsed. */
static bool wait_for_known_streams(polling_t *polling, uint64_t epoch)
{
  gp_engine_t *engine = polling->engine;

  while (!gp_known_streams_are_idle(engine)) {
    (void)find_work(polling, epoch); /* stores a context in `attempts` for the report */
    if (gp_engine_service(engine) >= GP_SERVICE_DEAD || !go_on(polling, WORK_LATER, epoch))
      return false;
  }
  return true;
}

/* On a device that is always busy, progress means that all work submitted before `epoch` completes, then all
 * work submitted before the next epoch, and so on. A kernel that was submitted meanwhile and does not end
 * prevents progress. */
bool gp_wait_until_quiet(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  uint64_t epoch = gp_epoch_begin(engine);
  polling_t polling = begin(engine, device, attempts, GP_WAIT_BEFORE_NS, engine->patience_ns);
  uint64_t passed_ns = 0; /* time at which all work from before the call was found complete; 0: not yet */

  gp_assert(!gp_holds_engine_lock());
  if (gp_engine_is_suspended(engine))
    return false; /* this thread may be the one that must end the suspension */
  if (!has_fences(engine))
    return wait_for_known_streams(&polling, epoch);
  while (!gp_fences_are_quiet(engine, NULL)) {
    if (find_work(&polling, epoch) == WORK_NONE) {
      uint64_t now_ns = gp_now(engine);
      if (passed_ns != 0 && now_ns - passed_ns >= GP_WAIT_MISS_NS)
        return true;
      passed_ns = passed_ns != 0 ? passed_ns : now_ns;
      epoch = gp_epoch_begin(engine);
    }
    if (gp_engine_service(engine) >= GP_SERVICE_DEAD || !go_on(&polling, WORK_LATER, epoch))
      return false;
  }
  return true;
}

bool gp_wait_for_endings(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  bool any = atomic_load(&engine->endings) > 0;
  uint64_t pause_ns = GP_FIRST_PAUSE_NS;

  gp_assert(!gp_holds_engine_lock());
  while (atomic_load(&engine->endings) > 0) {
    if (attempts->later_ns >= engine->patience_ns)
      return false;
    uint64_t begin_ns = gp_now(engine);
    gp_oom_turn_pause(engine, device, pause_ns);
    pause_ns = gp_next_pause(pause_ns);
    uint64_t end_ns = gp_now(engine);
    attempts->later_ns += end_ns > begin_ns ? end_ns - begin_ns : 0;
  }
  return any;
}

bool gp_wait_in_doubt(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  return !attempts->has_timed_out && gp_wait_until_quiet(engine, device, attempts);
}
