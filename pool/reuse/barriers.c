#include "pool/reuse/barriers.h"

#include "pool/driver_calls.h"
#include "pool/mode.h"
#include "pool/reuse/known_record.h"
#include "pool/reuse/stamps.h"

#define MOST_CONTEXTS 64

static bool can_be_asked(const gp_engine_t *engine)
{
  return gp_known_streams_are_kept(engine) && engine->driver.ops->stream_fence_record;
}

/* The program, or a library that looks for the driver's functions behind this one,
 * may make streams unseen. */
static bool may_miss_streams(const gp_engine_t *engine)
{
  return atomic_load(&engine->has_unknown_streams) || gp_mode_is_distrusted();
}

bool gp_barriers_are_wanted(const gp_engine_t *engine)
{
  return can_be_asked(engine) && !may_miss_streams(engine);
}

bool gp_barriers_would_tell(const gp_engine_t *engine)
{
  return gp_covered(engine) < atomic_load(&engine->newest_free_epoch) && gp_barriers_are_wanted(engine);
}

uint64_t gp_barrier_begin(gp_engine_t *engine, const gp_context_t *context)
{
  if (atomic_load(&context->barriers.newest) >= atomic_load(&engine->newest_free_epoch))
    return 0; /* nothing was freed since the last barrier */
  return gp_epoch_begin(engine);
}

void gp_barrier_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  uint64_t before = atomic_load(&context->barriers.newest);

  gp_assert(epoch != 0);
  if (!gp_engine_may_conclude(engine, epoch))
    return; /* during a capture the driver may not have submitted it */
  while (before < epoch && !atomic_compare_exchange_weak(&context->barriers.newest, &before, epoch)) {
  }
}

/* A stream was destroyed without a fence for its work, and the context has not been synchronized since. */
static bool has_untold(const gp_context_t *context)
{
  uint64_t untold = atomic_load(&context->barriers.untold);
  return untold != 0 && atomic_load(&context->completed) < untold;
}

/*
 * Sets the fence of one stream that must pass for the submitted barrier: none if the stream has no
 * work, or if the barrier itself has waited for the stream. False: the driver does not say. The caller
 * has the record and the barriers.
 */
static bool await_stream(gp_engine_t *engine, gp_known_t *stream)
{
  const gp_driver_context_t *context = &stream->context->driver;
  bool is_default = stream->handle == GP_STREAM_DEFAULT;
  int code;

  stream->awaited = NULL;
  if (stream->kind == GP_KNOWN_ENDED) {
    stream->awaited = stream->end_fence;
    return true;
  }
  if (stream->kind == GP_KNOWN_SPARE || (stream->is_blocking && !is_default))
    return true;
  code = is_default ? gp_driver_default_query(engine, context)
                    : gp_driver_stream_query(engine, context, stream->handle);
  if (code != engine->driver.ops->code_not_ready) {
    gp_driver_note(engine, stream->context, code);
    return code == 0;
  }
  uint64_t where = gp_known_fence_stream(engine, stream);
  if (where == 0)
    return false;
  code = gp_driver_stream_fence_record(engine, context, where, &stream->barrier_fence);
  gp_driver_note(engine, stream->context, code);
  if (code != 0)
    return false;
  stream->awaited = stream->barrier_fence;
  gp_driver_count(stream->context, GP_COUNT_FENCE);
  return true;
}

/* The stream's fence for the barrier has passed, or there is none. Also false if
 * the driver does not say. */
static bool has_passed(gp_engine_t *engine, gp_known_t *stream)
{
  if (!stream->awaited)
    return true;
  int code = gp_driver_fence_query(engine, &stream->context->driver, stream->awaited);
  if (code == 0)
    stream->awaited = NULL;
  else if (code != engine->driver.ops->code_not_ready)
    gp_driver_note(engine, stream->context, code);
  return code == 0;
}

/* Calls step for each record of the context until it returns false. A record that another thread has counts
 * as false. The caller has the barriers. */
static bool each_record(
    gp_engine_t *engine, const gp_context_t *context, bool (*step)(gp_engine_t *engine, gp_known_t *stream))
{
  uint64_t serial = 0;
  bool is_good = true;
  bool skipped = false;
  gp_known_t *stream;

  while (is_good && !atomic_load(&context->gone) && !atomic_load(&context->lost) &&
         (stream = gp_known_next(engine, context, serial, &skipped))) {
    serial = stream->serial;
    is_good = step(engine, stream);
    gp_known_give(engine, stream);
  }
  return is_good && !skipped && !atomic_load(&context->gone) && !atomic_load(&context->lost);
}

/* Asks for the fences of the awaited barrier. True: no barrier is awaited now. The
 * caller has the barriers. */
static bool ask(gp_engine_t *engine, gp_context_t *context)
{
  gp_barriers_t *barriers = &context->barriers;

  if (barriers->asked_epoch == 0)
    return true;
  if (!each_record(engine, context, has_passed))
    return false;
  gp_epoch_complete(context, barriers->asked_epoch);
  barriers->asked_epoch = 0;
  return true;
}

/*
 * Begins to wait for the newest barrier, which was submitted before anything is recorded here. Work in
 * streams that the barrier does not wait for, from before a free of its epoch, was submitted even earlier.
 * Streams whose records come later were made later. The caller has the barriers.
 */
static void await_newest(gp_engine_t *engine, gp_context_t *context)
{
  gp_barriers_t *barriers = &context->barriers;
  uint64_t epoch = atomic_load(&barriers->newest);

  if (epoch > atomic_load(&context->completed) && each_record(engine, context, await_stream) &&
      !has_untold(context) && !may_miss_streams(engine))
    barriers->asked_epoch = epoch;
}

static void poll_context(gp_engine_t *engine, gp_context_t *context, bool twice)
{
  if (!ask(engine, context) || gp_engine_forwards(engine))
    return;
  await_newest(engine, context);
  if (twice)
    (void)ask(engine, context);
}

/* The live contexts that have not completed all frees. */
static int find_lagging(gp_engine_t *engine, gp_context_t **array)
{
  int count = 0;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    if (count < MOST_CONTEXTS && !gp_epoch_is_current(engine, context))
      array[count++] = context;
  gp_lock_release(&engine->contexts_lock);
  return count;
}

bool gp_barriers_poll(gp_engine_t *engine, bool twice)
{
  gp_context_t *lagging[MOST_CONTEXTS];

  gp_assert(!gp_holds_engine_lock());
  if (!gp_barriers_are_wanted(engine) || !gp_engine_enter(engine))
    return false;
  int count = find_lagging(engine, lagging);
  for (int i = 0; i < count; i++) {
    gp_barriers_t *barriers = &lagging[i]->barriers;
    if (atomic_flag_test_and_set_explicit(&barriers->busy, memory_order_acquire))
      continue;
    poll_context(engine, lagging[i], twice);
    atomic_flag_clear_explicit(&barriers->busy, memory_order_release);
  }
  gp_engine_leave(engine);
  return true;
}

bool gp_barriers_cover_all(gp_engine_t *engine)
{
  uint64_t newest = atomic_load(&engine->newest_free_epoch);
  bool cover = gp_barriers_are_wanted(engine);

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), const gp_context_t, live_link, context)
    cover &= atomic_load(&context->completed) >= newest ||
             (atomic_load(&context->barriers.newest) >= newest && !has_untold(context));
  gp_lock_release(&engine->contexts_lock);
  return cover;
}
