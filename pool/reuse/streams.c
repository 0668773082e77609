/*
 * Destroyed streams whose work may be pending stay in the list until their context has completed the epoch of
 * their end: the driver returns from cuStreamDestroy before the work is done (cuda.h).
 */
#include "pool/reuse/streams.h"

#include <sched.h>
#include <stdlib.h>

#include "pool/mode.h"
#include "pool/reuse/stamps.h"
#include "pool/reuse/stream_record.h"

/* The calling thread's default stream, in the context that it used last. */
static _Thread_local struct {
  uint64_t engine; /* its serial: another one's records are gone */
  gp_stream_t *stream;
  uint64_t id;
  gp_context_t *context;
} of_thread __attribute__((tls_model("initial-exec")));

uint64_t gp_stream_id(const gp_stream_t *stream)
{
  return atomic_load(&stream->id);
}

/* Gives the stream a flag: the place of its handle if that is free. The caller holds the lock. */
static void take_flag(gp_stream_t *stream)
{
  gp_work_flag_t *place = gp_work_flag_place(stream->handle);

  if (atomic_load(&place->handle) != GP_WORK_FLAG_FREE)
    return;
  atomic_store(&place->state, GP_WORK_FLAG_CLEAN);
  stream->flag = place;
  atomic_store(&place->handle, stream->handle); /* last: from now on stubs set it by themselves */
}

/* The place becomes free; the stream, which gets no work any more, keeps what the flag said. The caller holds
 * the lock.
 */
static void leave_flag(gp_stream_t *stream)
{
  gp_work_flag_t *place = stream->flag;

  if (place == &stream->own_flag || stream->handle == GP_STREAM_DEFAULT)
    return;
  atomic_store(&place->handle, GP_WORK_FLAG_FREE);
  atomic_store(
      &stream->own_flag.state, gp_work_flag_is_clean(place) ? GP_WORK_FLAG_CLEAN : GP_WORK_FLAG_DIRTY);
  stream->flag = &stream->own_flag;
}

/* The records of created streams. The caller holds the lock; gp_stream_find looks without it. */
static gp_address_map_t *handles_of(const gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  return &engine->streams->by_handle;
}

/*
 * A free record; NULL: there is none. Its fence belongs to its context, and a thread that still asks the
 * driver about the stream that it was may use that fence. The caller holds the lock.
 */
static gp_stream_t *take_free(gp_stream_table_t *table, const gp_context_t *context)
{
  GP_LIST_EACH(&table->free, gp_stream_t, link, stream) {
    if ((stream->fence && stream->fence_context != context) || atomic_load(&stream->asked))
      continue;
    stream->fence_fact.stream = NULL;
    gp_list_remove(&stream->link);
    return stream;
  }
  return NULL;
}

/* A record in context->streams; NULL: no host memory. The caller holds the lock. */
static gp_stream_t *make(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool has_place)
{
  gp_stream_t *stream = take_free(engine->streams, context);

  if (!stream)
    stream = calloc(1, sizeof(*stream));
  if (!stream)
    return NULL;
  stream->context = context;
  stream->handle = handle;
  stream->end_epoch = 0;
  stream->sync_epoch = 0;
  stream->submitter = NULL;
  stream->flag = &stream->own_flag;
  atomic_store(&stream->own_flag.state, GP_WORK_FLAG_CLEAN);
  atomic_store(&stream->completed, 0); /* meaningless while the flag is clean */
  atomic_store(&stream->id, ++engine->streams->last_id);
  if (has_place)
    take_flag(stream);
  gp_list_push_back(&context->streams, &stream->link);
  return stream;
}

static void unmake(gp_engine_t *engine, gp_stream_t *stream)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  leave_flag(stream);
  gp_list_remove(&stream->link);
  atomic_store(&stream->id, 0);
  gp_list_push_back(&engine->streams->free, &stream->link);
}

bool gp_streams_have_one_context(const gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  return gp_live_contexts(engine)->next == gp_live_contexts(engine)->prev;
}

bool gp_streams_add_context(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  context->default_stream = make(engine, context, GP_STREAM_DEFAULT, false);
  if (!context->default_stream)
    return false;
  context->default_stream->flag = gp_work_flag_place(GP_STREAM_DEFAULT);
  return true;
}

void gp_streams_drop_context(gp_engine_t *engine, gp_context_t *context)
{
  gp_stream_table_t *table = engine->streams;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (!table)
    return;
  GP_LIST_EACH_SAFE(&context->streams, gp_stream_t, link, stream) {
    if (stream->handle > GP_STREAM_DEFAULT &&
        gp_address_map_find(&table->by_handle, stream->handle) == stream)
      (void)gp_address_map_remove(&table->by_handle, stream->handle);
    unmake(engine, stream);
  }
  GP_LIST_EACH(&table->free, gp_stream_t, link, stream)
    if (stream->fence_context == context)
      stream->fence = NULL; /* it went with its context */
  context->default_stream = NULL;
}

gp_stream_t *gp_stream_add(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  gp_address_map_t *by_handle = handles_of(engine);

  /*
   * The handle of a stream that went with its context, before the library has seen that: its place has to be
   * free, for otherwise the stubs would set the old stream's flag in the new one's stead.
   */
  gp_stream_t *stale = gp_address_map_remove(by_handle, handle);
  if (stale) {
    leave_flag(stale);
    stale->end_epoch = gp_epoch_begin(engine);
  }
  gp_stream_t *stream = make(engine, context, handle, true);
  return stream && gp_address_map_insert(by_handle, handle, stream) ? stream : NULL;
}

gp_stream_t *gp_stream_take(gp_engine_t *engine, uint64_t handle)
{
  gp_assert(!gp_holds_engine_lock());
  if (handle <= GP_STREAM_LAST_OF_DEFAULTS || !gp_mode_uses_streams(engine))
    return NULL;
  gp_lock_take(&engine->contexts_lock);
  gp_stream_t *stream = gp_address_map_remove(handles_of(engine), handle);
  if (stream)
    leave_flag(stream);
  gp_lock_release(&engine->contexts_lock);
  while (stream && atomic_load(&stream->asked))
    sched_yield(); /* another thread asks the driver about it, which does not wait for this one */
  return stream;
}

/* Without work nothing keeps it. The caller holds the lock. */
static void end_stream(gp_engine_t *engine, gp_stream_t *stream)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  stream->end_epoch = gp_epoch_begin(engine);
  if (gp_work_flag_is_clean(stream->flag))
    unmake(engine, stream);
}

void gp_stream_destroyed(gp_engine_t *engine, gp_stream_t *stream)
{
  gp_assert(!gp_holds_engine_lock());
  if (!stream)
    return;
  gp_lock_take(&engine->contexts_lock);
  if (atomic_load(&stream->id) != 0) /* else it went with its context */
    end_stream(engine, stream);
  gp_lock_release(&engine->contexts_lock);
}

bool gp_stream_put_back(gp_engine_t *engine, gp_stream_t *stream)
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  bool kept =
      atomic_load(&stream->id) == 0 || gp_address_map_insert(handles_of(engine), stream->handle, stream);
  gp_lock_release(&engine->contexts_lock);
  return kept;
}

gp_stream_t *gp_stream_find(gp_engine_t *engine, uint64_t handle)
{
  return engine->streams && handle > GP_STREAM_LAST_OF_DEFAULTS
             ? gp_address_map_find(&engine->streams->by_handle, handle)
             : NULL;
}

gp_stream_t *gp_stream_default(gp_context_t *context)
{
  return context->default_stream;
}

/* A thread's default stream gets no more work when the thread has ended. */
static bool thread_has_ended(const gp_stream_t *stream)
{
  return stream->submitter && atomic_load(&stream->submitter->owners) != stream->submitter_owner;
}

gp_stream_t *gp_stream_known_of_thread(const gp_engine_t *engine, const gp_context_t *context)
{
  /* Destructors of a thread may submit work after the library's has run: the record is ended then, and they
   * get another. */
  bool is_known = of_thread.engine == engine->serial && of_thread.stream && of_thread.context == context &&
                  gp_stream_id(of_thread.stream) == of_thread.id && !thread_has_ended(of_thread.stream);
  return is_known ? of_thread.stream : NULL;
}

gp_stream_t *gp_stream_add_of_thread(gp_engine_t *engine, gp_context_t *context)
{
  gp_stream_t *before = of_thread.engine == engine->serial ? of_thread.stream : NULL;
  bool can = gp_submitter_init() && !atomic_load(&context->lost);
  gp_stream_t *stream = can ? make(engine, context, GP_STREAM_LAST_OF_DEFAULTS, false) : NULL;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (stream) {
    stream->submitter = gp_own_submitter;
    stream->submitter_owner = atomic_load(&gp_own_submitter->owners);
  }
  /* A record for each context that the thread comes from; the ones before stay until their context has
   * completed them. */
  if (before && gp_stream_id(before) == of_thread.id && !before->end_epoch)
    before->end_epoch = gp_epoch_begin(engine);
  if (!stream)
    return NULL;
  of_thread.engine = engine->serial;
  of_thread.stream = stream;
  of_thread.id = gp_stream_id(stream);
  of_thread.context = context;
  return stream;
}

bool gp_streams_are_default_only(const gp_context_t *context)
{
  GP_LIST_EACH(&context->streams, const gp_stream_t, link, stream)
    if (stream->handle != GP_STREAM_DEFAULT && !stream->end_epoch && !thread_has_ended(stream))
      return false;
  return true;
}

void gp_streams_drop_ended(gp_engine_t *engine, gp_context_t *context, uint64_t epoch, uint64_t completed)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  GP_LIST_EACH_SAFE(&context->streams, gp_stream_t, link, stream) {
    uint64_t own = atomic_load(&stream->completed);
    if (!stream->end_epoch && thread_has_ended(stream))
      stream->end_epoch = epoch + 1;
    if (!stream->end_epoch)
      continue;
    if (gp_work_flag_is_clean(stream->flag) || own >= stream->end_epoch || completed >= stream->end_epoch)
      unmake(engine, stream);
  }
}

bool gp_stream_table_init(gp_engine_t *engine, bool follows)
{
  gp_work_flag_t *flag = gp_work_flag_place(GP_STREAM_DEFAULT);

  if (!follows)
    return true;
  engine->streams = calloc(1, sizeof(*engine->streams));
  if (!engine->streams)
    return false;
  gp_list_init(&engine->streams->free);
  gp_address_map_init(&engine->streams->by_handle);
  atomic_store(&flag->state, GP_WORK_FLAG_CLEAN); /* one engine serves a process */
  atomic_store(&flag->handle, GP_STREAM_DEFAULT);
  return true;
}

void gp_stream_table_fini(gp_engine_t *engine)
{
  if (!engine->streams)
    return;
  GP_LIST_EACH_SAFE(&engine->streams->free, gp_stream_t, link, stream)
    free(stream);
  gp_address_map_fini(&engine->streams->by_handle);
  free(engine->streams);
}
