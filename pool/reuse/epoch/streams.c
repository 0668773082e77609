/*
 * Reuse mode `epoch`: what is known of single streams.
 *
 * A context has completed epoch e if each of its streams has: a stream that a synchronization covered up to
 * e, or one whose mark is clean. Clean is read after a new epoch has begun: work that was submitted before a
 * free of the old epoch was marked before that free, whose stamp is a read-modify-write on the epoch; so the
 * mark is seen, unless it has been cleared because the work is complete (marks.h). Frees that come later have
 * a later stamp and are not concerned.
 *
 * Destroyed streams whose work may be pending stay in the list until their context has completed the epoch of
 * their end: the driver returns from cuStreamDestroy before the work is done (cuda.h).
 */
#include "pool/reuse/epoch/streams.h"

#include <sched.h>
#include <stdlib.h>

#include "pool/state.h"
#include "pool/util/log.h"

/* The calling thread's default stream, in the context that it used last. */
static _Thread_local struct {
  gp_stream_t *stream;
  uint64_t id;
  gp_context_t *context;
} of_thread __attribute__((tls_model("initial-exec")));

static atomic_bool distrusted; /* one engine serves a process */

bool gp_engine_uses_streams(const gp_engine_t *engine)
{
  return atomic_load_explicit(&engine->uses_streams, memory_order_relaxed) &&
         !atomic_load_explicit(&distrusted, memory_order_relaxed);
}

void gp_streams_distrust(void)
{
  atomic_store(&distrusted, true);
}

void gp_streams_tell_distrust(gp_engine_t *engine)
{
  if (atomic_load_explicit(&distrusted, memory_order_relaxed))
    gp_streams_escape(engine, "a library looks for the driver's functions behind this one");
}

uint64_t gp_stream_id(const gp_stream_t *stream)
{
  return atomic_load(&stream->id);
}

void gp_streams_escape(gp_engine_t *engine, const char *why)
{
  if (!atomic_exchange(&engine->uses_streams, false)) {
    (void)gp_single_stream_settle(engine); /* another thread was first, and may be at that still */
    return;
  }
  gp_lock_take(&engine->contexts_lock);
  (void)gp_single_stream_end(engine, GP_MODE_CONTEXT); /* told here */
  gp_lock_release(&engine->contexts_lock);
  (void)gp_single_stream_settle(engine);
  gp_log(GP_LOG_INFO, "reuse mode is context from now on: %s", why);
  for (uint64_t devices = atomic_load(&engine->device_mask); devices; devices &= devices - 1) {
    gp_device_t *device = &engine->devices[__builtin_ctzll(devices)];
    gp_lock_take(&device->lock);
    gp_event_device(engine, device->ordinal, GP_ACTION_MODE, GP_MODE_CONTEXT, 0, gp_now(engine));
    gp_lock_release(&device->lock);
  }
}

/* Gives the stream a mark: the place of its handle if nobody has it. With the lock. */
static void take_mark(gp_stream_t *stream)
{
  gp_work_flag_t *place = gp_work_flag_place(stream->handle);

  if (atomic_load(&place->handle) != GP_WORK_FLAG_FREE)
    return;
  atomic_store(&place->state, GP_WORK_FLAG_CLEAN);
  stream->mark = place;
  atomic_store(&place->handle, stream->handle); /* last: from now on stubs mark it by themselves */
}

/* The place becomes nobody's; the stream, which gets no work any more, keeps what the mark said. With the
 * lock. */
static void leave_mark(gp_stream_t *stream)
{
  gp_work_flag_t *place = stream->mark;

  if (place == &stream->own_mark || stream->handle == GP_STREAM_DEFAULT)
    return;
  atomic_store(&place->handle, GP_WORK_FLAG_FREE);
  atomic_store(
      &stream->own_mark.state, gp_work_flag_is_clean(place) ? GP_WORK_FLAG_CLEAN : GP_WORK_FLAG_DIRTY);
  stream->mark = &stream->own_mark;
}

/*
 * A record that nobody uses; NULL: there is none. Its fence is of its context, and whoever still asks the
 * driver about the stream that it was may use that. With the lock.
 */
static gp_stream_t *take_free(gp_engine_t *engine, const gp_context_t *context)
{
  for (gp_list_t *link = engine->free_streams.next; link != &engine->free_streams; link = link->next) {
    gp_stream_t *stream = gp_list_entry(link, gp_stream_t, link);
    if ((stream->fence && stream->fence_context != context) || atomic_load(&stream->asked))
      continue;
    stream->fence_fact.stream = NULL;
    gp_list_remove(&stream->link);
    return stream;
  }
  return NULL;
}

/* A record in context->streams; NULL: no host memory. With the lock. */
static gp_stream_t *make(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool has_place)
{
  gp_stream_t *stream = take_free(engine, context);

  if (!stream)
    stream = calloc(1, sizeof(*stream));
  if (!stream)
    return NULL;
  stream->context = context;
  stream->handle = handle;
  stream->end_epoch = 0;
  stream->sync_epoch = 0;
  stream->marker = NULL;
  stream->mark = &stream->own_mark;
  atomic_store(&stream->own_mark.state, GP_WORK_FLAG_CLEAN);
  atomic_store(&stream->completed, 0); /* meaningless while the mark is clean */
  atomic_store(&stream->id, ++engine->last_stream_id);
  if (has_place)
    take_mark(stream);
  gp_list_push_back(&context->streams, &stream->link);
  return stream;
}

/* With the lock. */
static void unmake(gp_engine_t *engine, gp_stream_t *stream)
{
  leave_mark(stream);
  gp_list_remove(&stream->link);
  atomic_store(&stream->id, 0);
  gp_list_push_back(&engine->free_streams, &stream->link);
}

/*
 * The default stream has the same handle in all contexts, so one mark stands for the default streams of all:
 * dirty if any of them was given work. With one context it is cleared like others; with several when all of
 * them have completed an epoch that began after the token was taken (see settle_default).
 */
static bool has_one_context(const gp_engine_t *engine)
{
  return engine->contexts.next == engine->contexts.prev;
}

void gp_streams_add_context(gp_engine_t *engine, gp_context_t *context)
{
  if (!gp_engine_uses_streams(engine))
    return;
  context->default_stream = make(engine, context, GP_STREAM_DEFAULT, false);
  if (context->default_stream)
    context->default_stream->mark = gp_work_flag_place(GP_STREAM_DEFAULT);
  else
    atomic_store(&engine->uses_streams, false);
}

void gp_streams_drop_context(gp_engine_t *engine, gp_context_t *context)
{
  while (!gp_list_is_empty(&context->streams)) {
    gp_stream_t *stream = gp_list_entry(context->streams.next, gp_stream_t, link);
    if (stream->handle > GP_STREAM_DEFAULT && gp_address_map_find(&engine->streams, stream->handle) == stream)
      (void)gp_address_map_remove(&engine->streams, stream->handle);
    unmake(engine, stream);
  }
  for (gp_list_t *link = engine->free_streams.next; link != &engine->free_streams; link = link->next) {
    gp_stream_t *stream = gp_list_entry(link, gp_stream_t, link);
    if (stream->fence_context == context)
      stream->fence = NULL; /* it went with its context */
  }
  context->default_stream = NULL;
}

void gp_stream_created(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  gp_lock_take(&engine->contexts_lock);
  /*
   * The handle of a stream that went with its context, before that has been told: its place has to be free,
   * for otherwise the stubs would mark the old stream in the new one's stead.
   */
  gp_stream_t *stale = gp_address_map_remove(&engine->streams, handle);
  if (stale) {
    leave_mark(stale);
    stale->end_epoch = gp_reuse_begin(engine);
  }
  gp_stream_t *stream = make(engine, context, handle, true);
  bool kept = stream && gp_address_map_insert(&engine->streams, handle, stream);
  gp_detail_t left = gp_single_stream_end(engine, GP_MODE_CAUSE_STREAM);
  gp_lock_release(&engine->contexts_lock);
  gp_single_stream_tell(left);
  if (!kept)
    gp_streams_escape(engine, "the host has no memory to follow streams");
}

gp_stream_t *gp_stream_take(gp_engine_t *engine, uint64_t handle)
{
  if (handle <= 2 || !gp_engine_uses_streams(engine))
    return NULL;
  gp_lock_take(&engine->contexts_lock);
  gp_stream_t *stream = gp_address_map_remove(&engine->streams, handle);
  if (stream)
    leave_mark(stream);
  gp_lock_release(&engine->contexts_lock);
  while (stream && atomic_load(&stream->asked))
    sched_yield(); /* another thread asks the driver about it, which does not wait for us; it would be about
                      nothing */
  return stream;
}

void gp_stream_destroyed(gp_engine_t *engine, gp_stream_t *stream)
{
  if (!stream)
    return;
  gp_lock_take(&engine->contexts_lock);
  if (atomic_load(&stream->id) != 0) { /* else it went with its context */
    stream->end_epoch = gp_reuse_begin(engine);
    if (gp_work_flag_is_clean(stream->mark))
      unmake(engine, stream);
  }
  gp_lock_release(&engine->contexts_lock);
}

void gp_stream_restored(gp_engine_t *engine, gp_stream_t *stream)
{
  if (!stream)
    return;
  gp_lock_take(&engine->contexts_lock);
  bool kept =
      atomic_load(&stream->id) == 0 || gp_address_map_insert(&engine->streams, stream->handle, stream);
  gp_lock_release(&engine->contexts_lock);
  if (!kept)
    gp_streams_escape(engine, "the host has no memory to follow streams");
}

gp_stream_t *gp_stream_find(gp_engine_t *engine, uint64_t handle)
{
  return handle > 2 ? gp_address_map_find(&engine->streams, handle) : NULL;
}

gp_stream_t *gp_stream_default(gp_context_t *context)
{
  return context->default_stream;
}

/* A thread's default stream gets no more work when the thread has ended. */
static bool thread_has_ended(const gp_stream_t *stream)
{
  return stream->marker && atomic_load(&stream->marker->owners) != stream->submitter_owner;
}

gp_stream_t *gp_stream_of_thread(gp_engine_t *engine, gp_context_t *context)
{
  /* Destructors of a thread may work after ours has run: its record is ended then, and they get another. */
  if (of_thread.stream && of_thread.context == context && gp_stream_id(of_thread.stream) == of_thread.id &&
      !thread_has_ended(of_thread.stream))
    return of_thread.stream;
  /* A record for each context that the thread comes from; the ones before stay until their context has
   * completed them. */
  gp_lock_take(&engine->contexts_lock);
  gp_stream_t *stream =
      gp_submitter_init() && !atomic_load(&context->lost) ? make(engine, context, 2, false) : NULL;
  if (stream) {
    stream->marker = gp_own_submitter;
    stream->submitter_owner = atomic_load(&gp_own_submitter->owners);
  }
  if (of_thread.stream && gp_stream_id(of_thread.stream) == of_thread.id && !of_thread.stream->end_epoch)
    of_thread.stream->end_epoch = gp_reuse_begin(engine);
  gp_detail_t left = gp_single_stream_end(engine, GP_MODE_CAUSE_PER_THREAD);
  gp_lock_release(&engine->contexts_lock);
  gp_single_stream_tell(left);
  if (!stream) {
    gp_streams_escape(engine, "the host has no memory to follow streams");
    return NULL;
  }
  of_thread.stream = stream;
  of_thread.id = gp_stream_id(stream);
  of_thread.context = context;
  return stream;
}

void gp_stream_mark(gp_engine_t *engine, gp_stream_t *stream)
{
  if (gp_submitter_init())
    gp_work_flag_set(stream->mark);
  else
    gp_streams_escape(engine, "the host has no memory to follow streams");
}

gp_stream_fact_t gp_stream_fact_begin(gp_engine_t *engine, gp_stream_t *stream)
{
  gp_stream_fact_t fact = {.stream = stream};

  gp_work_submitted();
  if (!stream)
    return fact;
  fact.id = gp_stream_id(stream);
  fact.epoch = gp_reuse_begin(engine);
  gp_lock_take(&engine->contexts_lock);
  if (stream->handle != GP_STREAM_DEFAULT || has_one_context(engine))
    fact.token = gp_work_flag_sync_begin(stream->mark);
  gp_lock_release(&engine->contexts_lock);
  return fact;
}

void gp_stream_fact_end(gp_engine_t *engine, const gp_stream_fact_t *fact)
{
  gp_stream_t *stream = fact->stream;

  if (!stream || !gp_engine_uses_streams(engine))
    return;
  gp_lock_take(&engine->contexts_lock);
  if (gp_stream_id(stream) == fact->id) {
    if (atomic_load(&stream->completed) < fact->epoch)
      atomic_store(&stream->completed, fact->epoch);
    gp_work_flag_sync_end(stream->mark, fact->token);
  }
  gp_lock_release(&engine->contexts_lock);
  gp_reuse_advance(engine, false); /* the program may only have asked */
}

/* Nobody can submit work to it any more. */
static bool is_over(const gp_stream_t *stream)
{
  return stream->end_epoch || thread_has_ended(stream);
}

void gp_streams_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  gp_work_submitted();
  if (!gp_engine_uses_streams(engine))
    return;
  gp_lock_take(&engine->contexts_lock);
  bool one = has_one_context(engine);
  bool alone = true;
  for (gp_list_t *link = context->streams.next; link != &context->streams; link = link->next) {
    gp_stream_t *stream = gp_list_entry(link, gp_stream_t, link);
    alone &= stream->handle == GP_STREAM_DEFAULT || is_over(stream);
    if (stream->handle == GP_STREAM_DEFAULT && !one)
      continue;
    stream->sync_token = gp_work_flag_sync_begin(stream->mark);
    stream->sync_epoch = epoch;
  }
  gp_work_flag_t *mark = gp_work_flag_place(GP_STREAM_DEFAULT);
  if (!one && (!engine->default_token || atomic_load(&mark->state) != engine->default_token)) {
    engine->default_token = gp_work_flag_sync_begin(mark);
    /* Only facts that begin from now on, with the token in place, cover all that was marked before it. */
    engine->default_epoch = gp_reuse_begin(engine) + 1;
  }
  gp_single_stream_sync_begin(engine, context, epoch, alone);
  gp_lock_release(&engine->contexts_lock);
}

void gp_streams_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  if (!gp_engine_uses_streams(engine))
    return;
  gp_lock_take(&engine->contexts_lock);
  for (gp_list_t *link = context->streams.next; link != &context->streams; link = link->next) {
    gp_stream_t *stream = gp_list_entry(link, gp_stream_t, link);
    if (stream->sync_epoch == epoch)
      gp_work_flag_sync_end(stream->mark, stream->sync_token);
  }
  gp_detail_t begun = gp_single_stream_sync_end(engine, context, epoch);
  gp_lock_release(&engine->contexts_lock);
  gp_single_stream_tell(begun);
}

uint64_t gp_streams_default_completed(const gp_context_t *context)
{
  return context->default_stream ? atomic_load(&context->default_stream->completed) : 0;
}

/*
 * The mark of the default streams of several contexts. Each context has completed an epoch by a fact that
 * began after the token was taken: what was marked before is complete, and what was marked since has replaced
 * the token.
 */
static void settle_default(gp_engine_t *engine)
{
  if (!engine->default_token)
    return;
  for (gp_list_t *link = engine->contexts.next; link != &engine->contexts; link = link->next) {
    const gp_context_t *context = gp_list_entry(link, gp_context_t, live_link);
    if (atomic_load(&context->completed) < engine->default_epoch)
      return;
  }
  gp_work_flag_sync_end(gp_work_flag_place(GP_STREAM_DEFAULT), engine->default_token);
  engine->default_token = 0;
}

/*
 * The epoch that all streams of a context have completed, at most `epoch`, which has just ended. Also lets go
 * of ended streams that need not be waited for any more. With the lock.
 */
static uint64_t completed_by_streams(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  uint64_t by_context = atomic_load(&context->completed);
  uint64_t completed = epoch;

  for (gp_list_t *link = context->streams.next; link != &context->streams;) {
    gp_stream_t *stream = gp_list_entry(link, gp_stream_t, link);
    uint64_t own = atomic_load(&stream->completed);
    link = link->next;
    if (!stream->end_epoch && thread_has_ended(stream))
      stream->end_epoch = epoch + 1;
    bool is_clean = gp_work_flag_is_clean(stream->mark);
    if (own < by_context)
      own = by_context;
    if (stream->end_epoch && (is_clean || own >= stream->end_epoch)) {
      unmake(engine, stream);
      continue;
    }
    if (!is_clean && own < completed)
      completed = own;
  }
  return completed;
}

void gp_streams_settle(gp_engine_t *engine)
{
  if (!gp_engine_uses_streams(engine))
    return;
  settle_default(engine);
  uint64_t epoch = gp_reuse_begin(engine); /* before any mark is read: see above */
  if (!atomic_load(&engine->uses_streams) || atomic_load(&distrusted))
    return; /* it ended meanwhile: work that no mark tells of may be older than the epoch */
  for (gp_list_t *link = engine->contexts.next; link != &engine->contexts; link = link->next) {
    gp_context_t *context = gp_list_entry(link, gp_context_t, live_link);
    gp_reuse_complete(context, completed_by_streams(engine, context, epoch));
  }
}

void gp_stream_table_init(gp_engine_t *engine)
{
  gp_work_flag_t *mark = gp_work_flag_place(GP_STREAM_DEFAULT);

  gp_list_init(&engine->free_streams);
  gp_address_map_init(&engine->streams);
  if (!gp_engine_uses_streams(engine))
    return;
  atomic_store(&mark->state, GP_WORK_FLAG_CLEAN); /* one engine serves a process */
  atomic_store(&mark->handle, GP_STREAM_DEFAULT);
}

void gp_stream_table_fini(gp_engine_t *engine)
{
  while (!gp_list_is_empty(&engine->free_streams)) {
    gp_stream_t *stream = gp_list_entry(engine->free_streams.next, gp_stream_t, link);
    gp_list_remove(&stream->link);
    free(stream);
  }
  gp_address_map_fini(&engine->streams);
}
