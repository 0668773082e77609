#include "pool/reuse/known_streams.h"

#include <sched.h>
#include <stdlib.h>

#include "pool/space/driver_calls.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/stamps.h"

/* Handles that stand for default streams. CUDA uses 0 to 2 for them; other streams have greater handles. */
#define DEFAULT          0
#define LAST_OF_DEFAULTS 2

/*
 * A stream that the library knows. engine->known_streams lists these records in ascending order of serials,
 * and contexts_lock guards the list. While `asked` is set, one thread queries the driver about the stream,
 * without the lock, and has exclusive use of the other members. If is_removed is set afterwards, the record
 * is no longer in the list, and that thread frees it.
 */
typedef struct known {
  gp_list_t link;
  gp_context_t *context;
  uint64_t handle; /* DEFAULT: the context's default stream */
  uint64_t serial;
  bool was_busy; /* the stream had pending work at the last query */
  bool asked;
  bool is_removed;
} known_t;

static bool are_kept(const gp_engine_t *engine)
{
  const gp_driver_ops_t *ops = engine->driver.ops;
  return !ops->fence_record && ops->stream_query && ops->default_query;
}

void gp_known_streams_miss(gp_engine_t *engine)
{
  atomic_store(&engine->has_unknown_streams, true);
}

/* Returns the list of known streams. The caller holds contexts_lock. */
static gp_list_t *all(gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  return &engine->known_streams;
}

/* Adds a stream to the list. The caller holds contexts_lock. */
static void add(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  known_t *stream = calloc(1, sizeof(*stream));
  if (!stream) {
    engine->misses_streams = true;
    gp_known_streams_miss(engine);
    return;
  }
  stream->context = context;
  stream->handle = handle;
  stream->serial = ++engine->last_known_stream;
  gp_list_push_back(all(engine), &stream->link);
}

void gp_known_stream_add(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  if (!are_kept(engine) || !context)
    return;
  gp_lock_take(&engine->contexts_lock);
  if (!atomic_load(&context->lost))
    add(engine, context, handle);
  gp_lock_release(&engine->contexts_lock);
}

/* Removes a stream from the list. The caller holds contexts_lock. */
static void take_out(const gp_engine_t *engine, known_t *stream)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock) && !stream->is_removed);
  gp_list_remove(&stream->link);
  stream->is_removed = true;
  if (!stream->asked)
    free(stream);
}

/* Takes exclusive use of a stream's record until give() is called. Returns NULL if the stream is not known.
 * Waits while another thread queries the stream. */
static known_t *take(gp_engine_t *engine, uint64_t handle)
{
  for (;;) {
    known_t *found = NULL;
    bool is_asked = false;
    gp_lock_take(&engine->contexts_lock);
    GP_LIST_EACH(all(engine), known_t, link, stream)
      if (stream->handle == handle)
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

/* Ends the exclusive use of a record. With is_over, removes the record, because the program destroys the
 * stream. */
static void give(gp_engine_t *engine, known_t *stream, bool is_over)
{
  gp_lock_take(&engine->contexts_lock);
  gp_assert_internal(stream->asked);
  if (is_over && !stream->is_removed)
    gp_list_remove(&stream->link);
  bool is_last = is_over || stream->is_removed;
  stream->asked = false;
  gp_lock_release(&engine->contexts_lock);
  if (is_last)
    free(stream);
}

static int query(gp_engine_t *engine, const known_t *stream)
{
  const gp_driver_context_t *context = &stream->context->driver;

  if (stream->handle != DEFAULT)
    return gp_driver_stream_query(engine, context, stream->handle);
  int code = gp_driver_default_query(engine, context);
  return code != 0 ? code : gp_driver_stream_query(engine, context, LAST_OF_DEFAULTS);
}

/* Returns true if the stream has pending work. For the default stream, also queries the per-thread stream of
 * the calling thread; those of other threads cannot be queried. Counts the stream in streams_got_through if
 * it had work at the last query and has none now. */
static bool is_busy_now(gp_engine_t *engine, known_t *stream)
{
  gp_context_t *context = stream->context;
  int code = 0;

  if (!atomic_load(&context->gone) && !atomic_load(&context->lost))
    code = query(engine, stream);
  bool is_busy = code == engine->driver.ops->code_not_ready;
  if (code != 0 && !is_busy)
    gp_driver_note(engine, context, code);
  if (stream->was_busy && !is_busy)
    atomic_fetch_add(&engine->streams_got_through, 1);
  stream->was_busy = is_busy;
  return is_busy;
}

/* Records whether a stream that is about to be destroyed has pending work, because the stream cannot be
 * queried afterwards. */
static void note_work(gp_engine_t *engine, known_t *stream)
{
  bool may_ask = gp_engine_enter_question(engine);

  if (!may_ask || is_busy_now(engine, stream))
    atomic_store(&stream->context->destroyed_epoch, gp_epoch_begin(engine));
  if (may_ask)
    gp_engine_leave(engine);
}

gp_context_t *gp_known_stream_remove(gp_engine_t *engine, uint64_t handle)
{
  if (!are_kept(engine) || handle <= LAST_OF_DEFAULTS)
    return NULL;
  known_t *stream = take(engine, handle);
  if (!stream)
    return NULL;
  gp_context_t *context = stream->context;
  note_work(engine, stream);
  give(engine, stream, true);
  return context;
}

void gp_known_streams_add_context(gp_engine_t *engine, gp_context_t *context)
{
  if (are_kept(engine))
    add(engine, context, DEFAULT);
}

void gp_known_streams_drop_context(gp_engine_t *engine, const gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  GP_LIST_EACH_SAFE(all(engine), known_t, link, stream)
    if (!context || stream->context == context)
      take_out(engine, stream);
}

/* Takes exclusive use, until give() is called, of the first record with a greater serial. Returns NULL if
 * there is none. Skips records that other threads are querying, and sets *ret_skipped if there are any. */
static known_t *take_next(gp_engine_t *engine, uint64_t serial, bool *ret_skipped)
{
  known_t *next = NULL;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(all(engine), known_t, link, stream) {
    if (next || stream->serial <= serial)
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

/* Returns true if streams were destroyed with work that may still be pending. */
static bool has_destroyed(gp_engine_t *engine)
{
  bool has = false;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), const gp_context_t, live_link, context)
    has |= atomic_load(&context->completed) < atomic_load(&context->destroyed_epoch);
  gp_lock_release(&engine->contexts_lock);
  return has;
}

bool gp_known_streams_are_idle(gp_engine_t *engine)
{
  bool is_busy = false;
  uint64_t serial = 0;
  known_t *stream;

  gp_assert(!gp_holds_engine_lock());
  if (!are_kept(engine) || !gp_engine_enter_question(engine))
    return false;
  while ((stream = take_next(engine, serial, &is_busy))) { /* queries all streams, to notice progress */
    serial = stream->serial;
    is_busy |= is_busy_now(engine, stream);
    give(engine, stream, false);
  }
  gp_engine_leave(engine);
  return !is_busy && !engine->misses_streams && !has_destroyed(engine);
}
