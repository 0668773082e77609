#include "interpose/hooks/capture_records.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "interpose/hooks/current_context.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"

/*
 * Identifies a stream while it captures. A created stream is identified by its handle: no other stream can
 * have the handle before this one is destroyed, and a hook sees the destruction. All per-thread default
 * streams share one handle: thread and context distinguish them.
 */
struct gp_capture {
  gp_list_t link; /* in captures */
  gp_engine_t *engine;
  CUstream stream; /* CU_STREAM_PER_THREAD for the per-thread stream, even if the program passed NULL */
  uint64_t thread; /* number of the thread that owns the per-thread stream, else 0 */
  gp_context_t *context;
  gp_suspension_t suspension;
};

static gp_lock_t lock = GP_LOCK_INIT(GP_RANK_HOOKS);
static gp_list_t captures = {&captures, &captures};

/* Returns the list of captures. The caller holds the lock. */
static gp_list_t *filed(void)
{
  gp_assert_internal(gp_lock_is_held(&lock));
  return &captures;
}

static _Atomic uint64_t last_thread;
static _Thread_local uint64_t this_thread
    __attribute__((tls_model("initial-exec"))); /* 0: no number yet; numbers are never reused */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* Ends the captures of a thread's per-thread default streams, which end with the thread. */
static void thread_ended(void *thread)
{
  gp_list_t ended;

  gp_list_init(&ended);
  gp_lock_take(&lock);
  GP_LIST_EACH_SAFE(filed(), gp_capture_t, link, capture)
    if (capture->thread == (uint64_t)(uintptr_t)thread) {
      gp_list_remove(&capture->link);
      gp_list_push_back(&ended, &capture->link);
    }
  gp_lock_release(&lock);
  GP_LIST_EACH_SAFE(&ended, gp_capture_t, link, capture) {
    gp_list_remove(&capture->link);
    gp_capture_finish(capture->engine, capture);
  }
}

static void make_key(void)
{
  has_key = pthread_key_create(&key, thread_ended) == 0;
}

static uint64_t own_thread(void)
{
  if (!this_thread) {
    this_thread = atomic_fetch_add(&last_thread, 1) + 1;
    pthread_once(&key_once, make_key);
    /* Without a key, the captures of an ended thread end only with their context. */
    if (has_key)
      (void)pthread_setspecific(key, (void *)(uintptr_t)this_thread);
  }
  return this_thread;
}

static bool is_same_stream(const gp_capture_t *a, const gp_capture_t *b)
{
  return a->stream == b->stream && a->thread == b->thread && (a->thread == 0 || a->context == b->context);
}

static gp_capture_t describe(gp_engine_t *engine, CUstream stream)
{
  gp_capture_t capture = {.engine = engine, .stream = stream ? stream : CU_STREAM_PER_THREAD};

  if (capture.stream == CU_STREAM_PER_THREAD) {
    capture.thread = own_thread();
    capture.context = gp_current_context(engine);
  }
  return capture;
}

static gp_capture_t *find_same(const gp_capture_t *wanted)
{
  GP_LIST_EACH(filed(), gp_capture_t, link, capture)
    if (capture != wanted && is_same_stream(capture, wanted))
      return capture;
  return NULL;
}

static gp_capture_t *remove_same(const gp_capture_t *wanted)
{
  gp_capture_t *capture = find_same(wanted);
  if (capture)
    gp_list_remove(&capture->link);
  return capture;
}

gp_capture_t *gp_capture_begin(gp_engine_t *engine, CUstream stream, gp_reach_t reach)
{
  gp_capture_t *capture = malloc(sizeof(*capture));

  if (!capture) {
    gp_log(GP_LOG_ERROR, "out of host memory: cannot follow a stream capture; nothing is pooled from now on");
    gp_engine_stop_pooling(engine);
    return NULL;
  }
  *capture = describe(engine, stream);
  if (!capture->context)
    capture->context = gp_stream_context(engine, capture->stream);
  gp_list_init(&capture->link);
  if (capture->context)
    gp_engine_expect_capture(engine, capture->context);
  capture->suspension = gp_engine_suspend_in(engine, capture->context, reach);
  return capture;
}

void gp_capture_put(gp_engine_t *engine, gp_capture_t *capture)
{
  gp_assert(capture->engine == engine && gp_list_is_empty(&capture->link)); /* not in the list */
  gp_lock_take(&lock);
  gp_capture_t *stale = remove_same(capture);
  gp_list_push_back(filed(), &capture->link);
  gp_lock_release(&lock);
  gp_capture_finish(engine, stale);
}

bool gp_capture_is_followed(gp_engine_t *engine, CUstream stream)
{
  gp_capture_t wanted = describe(engine, stream);

  gp_lock_take(&lock);
  bool followed = find_same(&wanted) != NULL;
  gp_lock_release(&lock);
  return followed;
}

gp_capture_t *gp_capture_take(gp_engine_t *engine, CUstream stream)
{
  gp_capture_t wanted;

  gp_lock_take(&lock);
  bool none = gp_list_is_empty(filed());
  gp_lock_release(&lock);
  if (none)
    return NULL; /* the usual case when a stream is destroyed */
  wanted = describe(engine, stream);
  gp_lock_take(&lock);
  gp_capture_t *capture = remove_same(&wanted);
  gp_lock_release(&lock);
  return capture;
}

void gp_capture_finish(gp_engine_t *engine, gp_capture_t *capture)
{
  if (!capture)
    return;
  gp_assert(capture->engine == engine && gp_list_is_empty(&capture->link)); /* not in the list */
  gp_engine_resume_in(engine, &capture->suspension);
  free(capture);
}
