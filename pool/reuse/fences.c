#include "pool/reuse/fences.h"

#include "pool/space/driver_calls.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/stamps.h"

/* Stores the live contexts of the device, or of all devices if it is NULL, and returns their number. With
 * `lagging`, stores only contexts that have not completed all frees. */
static int find_contexts(
    gp_engine_t *engine, const gp_device_t *device, bool lagging, gp_context_t **array, int capacity)
{
  int count = 0;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context) {
    if (count == capacity)
      break;
    if (!(lagging && gp_epoch_is_current(engine, context)) && !atomic_load(&context->gone) &&
        (!device || context->device == device))
      array[count++] = context;
  }
  gp_lock_release(&engine->contexts_lock);
  return count;
}

int gp_fences_lagging(gp_engine_t *engine, const gp_device_t *device, gp_context_t **array, int capacity)
{
  return find_contexts(engine, device, true, array, capacity);
}

/* Takes exclusive use of the context's fences until give() is called. Returns false if another thread is
 * using them in a driver call. */
static bool try_take(gp_context_t *context)
{
  return !atomic_flag_test_and_set_explicit(&context->fences.busy, memory_order_acquire);
}

static gp_fence_t *slot(gp_fences_t *fences, unsigned i)
{
  return &fences->slots[(fences->first + i) % GP_FENCE_SLOTS];
}

static void give(gp_context_t *context)
{
  gp_fences_t *fences = &context->fences;
  uint64_t epoch = 0;

  gp_assert(fences->count <= GP_FENCE_SLOTS);
  atomic_store(&fences->recorded_ns, fences->count > 0 ? slot(fences, 0)->recorded_ns : 0);
  for (unsigned i = 0; i < fences->count; i++) {
    gp_assert_internal(i == 0 || slot(fences, i)->epoch > slot(fences, i - 1)->epoch);
    if (slot(fences, i)->at_free)
      epoch = slot(fences, i)->epoch;
  }
  atomic_store(&fences->at_free_epoch, epoch);
  atomic_store(&fences->oldest_epoch, fences->count > 0 ? slot(fences, 0)->epoch : 0);
  atomic_flag_clear_explicit(&fences->busy, memory_order_release);
}

static void note_failure(gp_engine_t *engine, gp_context_t *context, int code)
{
  atomic_fetch_add(&context->fences.failures, 1);
  gp_driver_note(engine, context, code);
}

/* Queries the outstanding fences, oldest first, until one is not complete. Returns false if the context has
 * ended. The caller has exclusive use of the fences. */
static bool ask_fences(gp_engine_t *engine, gp_context_t *context)
{
  gp_fences_t *fences = &context->fences;

  while (fences->count > 0 && !atomic_load(&context->gone)) {
    const gp_fence_t *fence = slot(fences, 0);
    int code = gp_driver_fence_query(engine, &context->driver, fence->handle);
    if (code == engine->driver.ops->code_not_ready)
      return true;
    fences->count--;
    fences->first = fences->count > 0 ? (fences->first + 1) % GP_FENCE_SLOTS : 0; /* reuses low slots */
    if (code == 0)
      gp_epoch_complete(context, fence->epoch);
    else
      note_failure(engine, context, code);
  }
  return !atomic_load(&context->gone);
}

/*
 * Frees a slot when all are used, by dropping the fence that was recorded closest in time to its neighbours.
 * The others then remain spread over the pending work, however much there is. Keeps the oldest fence, because
 * otherwise none might ever complete. The caller has exclusive use of the fences.
 */
static void make_slot(gp_engine_t *engine, gp_fences_t *fences)
{
  uint64_t least_ns = UINT64_MAX;
  unsigned given_up = 1;

  for (unsigned i = 1; i < fences->count; i++) {
    bool is_newest = i + 1 == fences->count;
    uint64_t after_ns = is_newest ? gp_now(engine) : slot(fences, i + 1)->recorded_ns;
    uint64_t between_ns = after_ns - slot(fences, i - 1)->recorded_ns;
    if (between_ns <= least_ns) {
      least_ns = between_ns;
      given_up = i;
    }
  }
  gp_fence_t fence = *slot(fences, given_up);
  for (unsigned i = given_up; i + 1 < fences->count; i++)
    *slot(fences, i) = *slot(fences, i + 1);
  fences->count--;
  *slot(fences, fences->count) = fence; /* the free slot keeps the event's handle for reuse */
}

/* Records a fence in the context. Returns false if the driver failed. The caller has exclusive use of the
 * fences. */
static bool record_fence(gp_engine_t *engine, gp_context_t *context, bool at_free)
{
  gp_fences_t *fences = &context->fences;

  if (fences->count == GP_FENCE_SLOTS)
    make_slot(engine, fences);
  gp_fence_t *fence = slot(fences, fences->count);
  fence->epoch = gp_epoch_begin(engine); /* first, because the fence does not cover later frees */
  int code = gp_driver_fence_record(engine, &context->driver, &fence->handle);
  fence->recorded_ns = gp_now(engine);
  fence->at_free = at_free;
  fences->count += code == 0;
  if (code == 0)
    gp_driver_count(context, GP_COUNT_FENCE);
  else
    note_failure(engine, context, code);
  return code == 0;
}

/* Polls the fences of one context. With `twice`, also queries the fence that it has just recorded. The caller
 * has exclusive use of the fences. */
static void poll_context(gp_engine_t *engine, gp_context_t *context, bool twice)
{
  if (!atomic_load(&context->lost) && ask_fences(engine, context) && context->fences.count == 0 &&
      !gp_epoch_is_current(engine, context) && !gp_engine_forwards(engine) &&
      record_fence(engine, context, false) && twice)
    (void)ask_fences(engine, context);
}

static bool poll(gp_engine_t *engine, bool twice)
{
  gp_context_t *lagging[GP_LAGGING_MAX];

  gp_assert(!gp_holds_engine_lock());
  if (!engine->driver.ops->fence_record || !gp_engine_enter(engine))
    return false;
  int count = gp_fences_lagging(engine, NULL, lagging, GP_LAGGING_MAX);
  for (int i = 0; i < count; i++) {
    gp_context_t *context = lagging[i];
    if (!try_take(context))
      continue;
    poll_context(engine, context, twice);
    give(context);
  }
  gp_engine_leave(engine);
  return true;
}

bool gp_fences_poll(gp_engine_t *engine)
{
  return poll(engine, false);
}

bool gp_fences_poll_twice(gp_engine_t *engine)
{
  return poll(engine, true);
}

bool gp_fences_ask(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert(!gp_holds_engine_lock());
  if (!engine->driver.ops->fence_record || !gp_engine_enter(engine))
    return false;
  bool asks = !atomic_load(&context->lost) && try_take(context);
  if (asks) {
    asks = ask_fences(engine, context);
    give(context);
  }
  gp_engine_leave(engine);
  return asks;
}

/* Early fences may take a hundredth of the elapsed time. engine->fences_due_ns is the time at which that
 * share will equal the time spent so far. If it is in the past, budget is left. At most SAVED_NS of elapsed
 * time is saved up. */
#define SHARE_OF_TIME 100
#define SAVED_NS      UINT64_C(50000000)

bool gp_fences_have_time(const gp_engine_t *engine, uint64_t now_ns)
{
  return atomic_load_explicit(&engine->fences_due_ns, memory_order_relaxed) <= now_ns;
}

void gp_fences_took_time(gp_engine_t *engine, uint64_t begin_ns)
{
  uint64_t due_ns = atomic_load_explicit(&engine->fences_due_ns, memory_order_relaxed);
  uint64_t now_ns = gp_now(engine);
  uint64_t earliest_ns = now_ns > SAVED_NS ? now_ns - SAVED_NS : 0;
  uint64_t paid_ns;

  if (due_ns > begin_ns)
    return;
  do
    paid_ns = (due_ns > earliest_ns ? due_ns : earliest_ns) + SHARE_OF_TIME * (now_ns - begin_ns);
  while (!atomic_compare_exchange_weak(&engine->fences_due_ns, &due_ns, paid_ns));
}

bool gp_fences_record_at_free(gp_engine_t *engine, const gp_device_t *freed)
{
  gp_context_t *lagging[GP_LAGGING_MAX];

  gp_assert(!gp_holds_engine_lock());
  if (!engine->driver.ops->fence_record || !gp_engine_enter(engine))
    return false;
  int count = gp_fences_lagging(engine, NULL, lagging, GP_LAGGING_MAX);
  for (int i = 0; i < count; i++) {
    gp_context_t *context = lagging[i];
    if (!try_take(context))
      continue;
    if (!atomic_load(&context->lost) && ask_fences(engine, context))
      (void)record_fence(engine, context, context->device == freed);
    give(context);
  }
  gp_engine_leave(engine);
  return true;
}

/* Records a fence and queries it. Returns true if the fence is complete, so that the context is idle. The
 * caller has exclusive use of the fences, and none is outstanding. */
static bool passes_at_once(gp_engine_t *engine, gp_context_t *context, bool at_free)
{
  if (!record_fence(engine, context, at_free))
    return false;
  uint64_t epoch = slot(&context->fences, 0)->epoch;
  return ask_fences(engine, context) && atomic_load(&context->completed) >= epoch;
}

bool gp_fences_are_quiet(gp_engine_t *engine, const gp_device_t *freed)
{
  gp_context_t *contexts[GP_LAGGING_MAX];

  gp_assert(!gp_holds_engine_lock());
  if (!engine->driver.ops->fence_record || !gp_engine_enter_question(engine))
    return false;
  int count = find_contexts(engine, NULL, false, contexts, GP_LAGGING_MAX);
  bool quiet = count < GP_LAGGING_MAX;
  for (int i = 0; i < count; i++) {
    gp_context_t *context = contexts[i];
    if (!try_take(context)) {
      quiet = false;
      continue;
    }
    bool is_there = !atomic_load(&context->lost) && ask_fences(engine, context);
    bool is_quiet =
        is_there && context->fences.count == 0 && passes_at_once(engine, context, context->device == freed);
    quiet = quiet && (is_quiet || atomic_load(&context->gone) || atomic_load(&context->lost));
    give(context);
  }
  gp_engine_leave(engine);
  return quiet;
}

int gp_fences_wait_context(gp_engine_t *engine, gp_context_t *context)
{
  uint64_t epoch = gp_epoch_begin(engine);

  gp_assert(!gp_holds_engine_lock());
  int code = gp_driver_wait(engine, &context->driver);
  gp_driver_count(context, GP_COUNT_HOST_WAIT);
  if (code != 0)
    gp_driver_note(engine, context, code);
  else if (epoch > atomic_load(&engine->void_epoch)) /* no capture began meanwhile, see void_epoch */
    gp_epoch_complete(context, epoch);
  return code;
}
