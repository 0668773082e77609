#include "pool/reuse/known_streams.h"

#include <sched.h>
#include <stdlib.h>

#include "pool/driver_calls.h"
#include "pool/mode.h"
#include "pool/reuse/known_record.h"
#include "pool/reuse/stamps.h"

#define ENDED_ASKED 2 /* destroyed streams to ask about at each destruction of another one */

bool gp_known_streams_are_kept(const gp_engine_t *engine)
{
  return !engine->driver.ops->fence_record && engine->driver.ops->stream_query &&
         engine->driver.ops->default_query;
}

void gp_known_streams_miss(gp_engine_t *engine)
{
  atomic_store(&engine->has_unknown_streams, true);
}

/* The list, for callers that hold its lock and change its records. */
static gp_list_t *all(gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  return &engine->known_streams;
}

/* Reuses a record of the context that has fences but no stream, or makes a new one; NULL:
 * the host has no memory. */
static gp_known_t *make(gp_engine_t *engine, const gp_context_t *context)
{
  GP_LIST_EACH(all(engine), gp_known_t, link, stream)
    if (stream->kind == GP_KNOWN_SPARE && stream->context == context && !stream->asked) {
      gp_list_remove(&stream->link);
      return stream;
    }
  return calloc(1, sizeof(gp_known_t));
}

/* The caller holds contexts_lock. */
static void add(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  gp_known_t *stream = make(engine, context);
  if (!stream) {
    engine->misses_streams = true;
    gp_known_streams_miss(engine);
    return;
  }
  stream->context = context;
  stream->kind = GP_KNOWN_STREAM;
  stream->handle = handle;
  stream->is_blocking = is_blocking;
  stream->serial = ++engine->last_known_stream;
  stream->is_fenced = false;
  stream->had_work_at_free = false;
  stream->was_busy = false;
  gp_list_push_back(all(engine), &stream->link);
}

/* The caller holds contexts_lock. */
static void take_out(const gp_engine_t *engine, gp_known_t *stream)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock) && !stream->is_removed);
  gp_list_remove(&stream->link);
  stream->is_removed = true;
  if (!stream->asked)
    free(stream);
}

void gp_known_stream_add(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking)
{
  if (!gp_known_streams_are_kept(engine) || !context)
    return;
  gp_lock_take(&engine->contexts_lock);
  if (!atomic_load(&context->lost))
    add(engine, context, handle, is_blocking);
  gp_lock_release(&engine->contexts_lock);
}

/* Takes the stream, which the caller has until give; NULL: it is not known. Waits for a
 * thread that asks about it. */
static gp_known_t *take(gp_engine_t *engine, uint64_t handle)
{
  for (;;) {
    gp_known_t *found = NULL;
    bool is_asked = false;
    gp_lock_take(&engine->contexts_lock);
    GP_LIST_EACH(all(engine), gp_known_t, link, stream)
      if (stream->kind == GP_KNOWN_STREAM && stream->handle == handle)
        found = stream;
    if (found) {
      is_asked = found->asked;
      found->asked = true;
    }
    gp_lock_release(&engine->contexts_lock);
    if (!is_asked)
      return found;
    sched_yield();
  }
}

/* The caller holds contexts_lock. */
static void end_asking(const gp_engine_t *engine, gp_known_t *stream)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock) && stream->asked);
  stream->asked = false;
  if (stream->is_removed)
    free(stream);
}

void gp_known_give(gp_engine_t *engine, gp_known_t *stream)
{
  gp_lock_take(&engine->contexts_lock);
  end_asking(engine, stream);
  gp_lock_release(&engine->contexts_lock);
}

/* Takes the destroyed stream after the last one, to ask about it; NULL: the next
 * call begins with the first. */
static gp_known_t *take_ended(gp_engine_t *engine)
{
  gp_known_t *ended = NULL;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(all(engine), gp_known_t, link, stream)
    if (!ended && !stream->asked && stream->kind == GP_KNOWN_ENDED &&
        stream->serial > engine->last_ended_asked)
      ended = stream;
  engine->last_ended_asked = ended ? ended->serial : 0;
  if (ended)
    ended->asked = true;
  gp_lock_release(&engine->contexts_lock);
  return ended;
}

static bool is_busy_now(gp_engine_t *engine, gp_known_t *stream);

/* Records of destroyed streams would pile up in a program that makes a stream for each task and does not
 * wait for its work. So each destruction asks about some of them, in turn. */
static void ask_ended(gp_engine_t *engine)
{
  gp_known_t *stream;

  if (!gp_engine_enter_question(engine))
    return;
  for (int i = 0; i < ENDED_ASKED && (stream = take_ended(engine)); i++) {
    if (!is_busy_now(engine, stream))
      stream->had_work_at_free = stream->is_fenced = false;
    gp_known_give(engine, stream);
  }
  gp_engine_leave(engine);
}

/* If it gets no fence, nothing can show later that the stream's work is complete.
 * The caller has the record. */
static void end_stream(gp_engine_t *engine, gp_known_t *stream)
{
  gp_context_t *context = stream->context;
  const gp_driver_ops_t *ops = engine->driver.ops;
  bool can_ask = ops->stream_fence_record && gp_engine_enter_question(engine);
  int code = ops->code_not_ready;

  stream->kind = GP_KNOWN_SPARE;
  if (can_ask) {
    code = gp_driver_stream_query(engine, &context->driver, stream->handle);
    if (code == ops->code_not_ready &&
        gp_driver_stream_fence_record(engine, &context->driver, stream->handle, &stream->end_fence) == 0)
      stream->kind = GP_KNOWN_ENDED;
    gp_engine_leave(engine);
  }
  if (code != 0 && stream->kind == GP_KNOWN_SPARE)
    atomic_store(&context->barriers.untold, gp_epoch_begin(engine));
}

/* Takes out a record, unless its fences can be used again. The caller holds contexts_lock. */
static void take_out_unless_fenced(const gp_engine_t *engine, gp_known_t *stream)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock) && stream->asked);
  if (!stream->is_removed && stream->kind == GP_KNOWN_SPARE && !stream->end_fence && !stream->free_fence &&
      !stream->barrier_fence)
    take_out(engine, stream);
}

gp_context_t *gp_known_stream_remove(gp_engine_t *engine, uint64_t handle)
{
  if (!gp_known_streams_are_kept(engine) || handle <= GP_STREAM_LAST_OF_DEFAULTS)
    return NULL;
  ask_ended(engine);
  gp_known_t *stream = take(engine, handle);
  if (!stream)
    return NULL;
  gp_context_t *context = stream->context;
  end_stream(engine, stream);
  gp_lock_take(&engine->contexts_lock);
  take_out_unless_fenced(engine, stream);
  gp_lock_release(&engine->contexts_lock);
  gp_known_give(engine, stream);
  return context;
}

void gp_known_streams_add_context(gp_engine_t *engine, gp_context_t *context)
{
  if (gp_known_streams_are_kept(engine))
    add(engine, context, GP_STREAM_DEFAULT, true);
}

void gp_known_streams_drop_context(gp_engine_t *engine, const gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  GP_LIST_EACH_SAFE(all(engine), gp_known_t, link, stream)
    if (!context || stream->context == context)
      take_out(engine, stream);
}

gp_known_t *gp_known_next(
    gp_engine_t *engine, const gp_context_t *context, uint64_t serial, bool *ret_skipped)
{
  gp_known_t *next = NULL;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(all(engine), gp_known_t, link, stream) {
    /* A record that a thread asks about may be changing its kind. */
    bool is_meant = context ? stream->context == context : stream->asked || stream->kind != GP_KNOWN_SPARE;
    if (next || stream->serial <= serial || !is_meant)
      continue;
    if (stream->asked)
      *ret_skipped = true;
    else
      next = stream;
  }
  if (next)
    next->asked = true;
  gp_lock_release(&engine->contexts_lock);
  return next;
}

static int query(gp_engine_t *engine, const gp_known_t *stream)
{
  const gp_driver_context_t *context = &stream->context->driver;

  if (stream->kind == GP_KNOWN_ENDED)
    return gp_driver_fence_query(engine, context, stream->end_fence);
  if (stream->handle != GP_STREAM_DEFAULT)
    return gp_driver_stream_query(engine, context, stream->handle);
  int code = gp_driver_default_query(engine, context);
  return code != 0 ? code : gp_driver_stream_query(engine, context, GP_STREAM_LAST_OF_DEFAULTS);
}

/* With the default stream this asks the calling thread's own stream; it cannot ask
 * those of other threads. */
static bool has_work(gp_engine_t *engine, gp_known_t *stream)
{
  gp_context_t *context = stream->context;

  if (stream->kind == GP_KNOWN_SPARE || atomic_load(&context->gone) || atomic_load(&context->lost))
    return false;
  int code = query(engine, stream);
  if (stream->kind == GP_KNOWN_ENDED && code == 0)
    stream->kind = GP_KNOWN_SPARE;
  if (code != 0 && code != engine->driver.ops->code_not_ready)
    gp_driver_note(engine, context, code);
  return code == engine->driver.ops->code_not_ready;
}

uint64_t gp_known_fence_stream(gp_engine_t *engine, gp_known_t *stream)
{
  const gp_driver_ops_t *ops = engine->driver.ops;

  if (!ops->stream_fence_record || stream->kind == GP_KNOWN_ENDED)
    return 0;
  if (stream->handle != GP_STREAM_DEFAULT)
    return stream->handle;
  if (stream->side == 0 && ops->side_stream &&
      gp_driver_side_stream(engine, &stream->context->driver, &stream->side) != 0)
    stream->side = 0;
  return stream->side;
}

uint64_t gp_known_streams_side(gp_engine_t *engine, gp_context_t *context)
{
  gp_known_t *found = NULL;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(all(engine), gp_known_t, link, stream)
    if (stream->kind == GP_KNOWN_STREAM && stream->handle == GP_STREAM_DEFAULT &&
        stream->context == context && !stream->asked)
      found = stream;
  if (found)
    found->asked = true;
  gp_lock_release(&engine->contexts_lock);
  if (!found)
    return 0;
  uint64_t side = gp_known_fence_stream(engine, found);
  gp_known_give(engine, found);
  return side;
}

static void note_work(gp_engine_t *engine, gp_known_t *stream)
{
  uint64_t where = gp_known_fence_stream(engine, stream);

  stream->had_work_at_free = true;
  stream->is_fenced = where != 0 && gp_driver_stream_fence_record(
                                        engine, &stream->context->driver, where, &stream->free_fence) == 0;
}

/* The work at the last noted free is still pending. Without a fence: the stream has had work ever since.
 * The stream has work now. */
static bool has_work_of_free(gp_engine_t *engine, gp_known_t *stream)
{
  if (!stream->had_work_at_free || !stream->is_fenced)
    return stream->had_work_at_free;
  int code = gp_driver_fence_query(engine, &stream->context->driver, stream->free_fence);
  if (code != engine->driver.ops->code_not_ready)
    stream->had_work_at_free = stream->is_fenced = false;
  return stream->had_work_at_free;
}

/* Also counts the stream if it has finished its work since the last query. */
static bool is_busy_now(gp_engine_t *engine, gp_known_t *stream)
{
  bool is_busy = has_work(engine, stream);

  if (stream->was_busy && !is_busy)
    atomic_fetch_add(&engine->streams_got_through, 1);
  stream->was_busy = is_busy;
  return is_busy;
}

/* freed: the device whose memory the program frees; notes that device's streams. NULL: none. */
static gp_known_work_t ask(gp_engine_t *engine, const gp_device_t *freed)
{
  gp_known_work_t work = GP_KNOWN_WORK_NONE;
  uint64_t serial = 0;
  bool skipped = false;
  gp_known_t *stream;

  gp_assert(!gp_holds_engine_lock());
  if (!gp_known_streams_are_kept(engine) || !gp_engine_enter_question(engine))
    return GP_KNOWN_WORK_UNKNOWN;
  if (engine->misses_streams)
    work = GP_KNOWN_WORK_LATER; /* nothing is known of a stream without a record */
  while ((stream = gp_known_next(engine, NULL, serial, &skipped))) {
    serial = stream->serial;
    bool is_busy = is_busy_now(engine, stream);
    if (!is_busy)
      stream->had_work_at_free = stream->is_fenced = false;
    else if (stream->context->device == freed)
      note_work(engine, stream);
    if (is_busy && !has_work_of_free(engine, stream))
      work = GP_KNOWN_WORK_LATER;
    else if (is_busy && work == GP_KNOWN_WORK_NONE)
      work = GP_KNOWN_WORK_BEFORE;
    gp_known_give(engine, stream);
  }
  gp_engine_leave(engine);
  return skipped ? GP_KNOWN_WORK_LATER : work;
}

gp_known_work_t gp_known_streams_ask(gp_engine_t *engine)
{
  return ask(engine, NULL);
}

void gp_known_streams_note_free(gp_engine_t *engine, const gp_device_t *freed)
{
  (void)ask(engine, freed);
}
