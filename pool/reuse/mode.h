/*
 * How the engine serves requests (it pools, forwards or refuses them), and by which rule it reuses freed
 * memory. engine->service is an atomic state that only one function of mode.c changes. engine->reuse_mode is
 * set once, by gp_mode_init.
 */
#ifndef GP_POOL_REUSE_MODE_H
#define GP_POOL_REUSE_MODE_H

#include "pool/engine_record.h"

/* How requests are served. If several values apply, the last one in this order takes precedence. */
typedef enum gp_service {
  GP_SERVICE_POOL,      /* served by the pool */
  GP_SERVICE_BESIDE,    /* during a capture: served from pool memory, except for threads that capture */
  GP_SERVICE_SUSPENDED, /* forwarded while suspended, by a stream capture or by the end of a context */
  GP_SERVICE_STOPPED,   /* forwarded permanently: pooling has stopped; a message gave the reason */
  GP_SERVICE_DEAD,      /* forwarded permanently: the driver reported a sticky error */
  GP_SERVICE_REFUSE,    /* refused: the limit is malformed */
} gp_service_t;

/* Bits of engine->service. The higher bits count suspensions, and captures by their reach (gp_reach_t). */
#define GP_SERVICE_BIT_REFUSE      UINT64_C(1)
#define GP_SERVICE_BIT_STOPPED     UINT64_C(2)
#define GP_SERVICE_BIT_DEAD        UINT64_C(4)
#define GP_SERVICE_SUSPENSION      UINT64_C(8)         /* a suspension, or GP_REACH_EVERYTHING */
#define GP_SERVICE_CAPTURE_FOR_ALL (UINT64_C(1) << 24) /* a capture of GP_REACH_THREADS */
#define GP_SERVICE_CAPTURE         (UINT64_C(1) << 44) /* a capture of a lesser reach */

static inline gp_service_t gp_service_of(uint64_t service)
{
  if (__builtin_expect(service == 0, 1))
    return GP_SERVICE_POOL;
  return service & GP_SERVICE_BIT_REFUSE     ? GP_SERVICE_REFUSE
         : service & GP_SERVICE_BIT_DEAD     ? GP_SERVICE_DEAD
         : service & GP_SERVICE_BIT_STOPPED  ? GP_SERVICE_STOPPED
         : service % GP_SERVICE_CAPTURE != 0 ? GP_SERVICE_SUSPENDED
                                             : GP_SERVICE_BESIDE;
}

static inline gp_service_t gp_engine_service(const gp_engine_t *engine)
{
  return gp_service_of(atomic_load(&engine->service));
}

static inline bool gp_engine_refuses(const gp_engine_t *engine)
{
  return gp_engine_service(engine) == GP_SERVICE_REFUSE;
}

/* Returns true if the engine may make no driver calls of its own, because it is suspended, a capture is
 * running, or it forwards permanently. A malformed limit does not affect the result. */
static inline bool gp_engine_forwards(const gp_engine_t *engine)
{
  return (atomic_load(&engine->service) & ~GP_SERVICE_BIT_REFUSE) != 0;
}

/* Returns true if the calling thread has begun a capture during which it may not allocate, so that its
 * requests are forwarded. Takes no lock. */
bool gp_mode_thread_captures(const gp_engine_t *engine);

/* Returns true if the engine forwards the calling thread's requests without a stream. Takes no lock. */
static inline bool gp_mode_forwards(const gp_engine_t *engine)
{
  if (__builtin_expect(!gp_engine_forwards(engine), 1))
    return false;
  gp_service_t service = gp_service_of(atomic_load(&engine->service) & ~GP_SERVICE_BIT_REFUSE);
  return service > GP_SERVICE_BESIDE || (service == GP_SERVICE_BESIDE && gp_mode_thread_captures(engine));
}

/* Returns true if the engine forwards all stream-ordered requests. If the result is false, it forwards only
 * requests whose stream is capturing. */
static inline bool gp_mode_forwards_async(const gp_engine_t *engine)
{
  return atomic_load(&engine->service) % GP_SERVICE_CAPTURE_FOR_ALL != 0;
}

/* Returns true while the engine is suspended. A capture counts as a suspension here: it forbids the engine's
 * own driver calls, and invalidates completion proofs. */
static inline bool gp_service_is_suspended(uint64_t service)
{
  return service >= GP_SERVICE_SUSPENSION;
}

/* Initializes the states. Must be called before any other function of this header. `refuses`: the limit is
 * malformed. */
void gp_mode_init(gp_engine_t *engine, bool refuses, gp_mode_t reuse_mode);

/* Stops refusing requests after new limits have replaced a malformed one. */
void gp_mode_accept_limits(gp_engine_t *engine);

/* Stops pooling permanently, for a reason that is not an error. Returns false if pooling had already stopped.
 * The caller holds no lock. */
bool gp_mode_stop(gp_engine_t *engine);

/* Ends the suspensions of a context that is lost. The caller holds contexts_lock. */
void gp_mode_context_lost(gp_engine_t *engine, gp_context_t *context);

/* gp_engine_enter precedes a driver call that the program did not request, and gp_engine_leave follows it.
 * gp_engine_enter returns false if the engine may make no such call, because it is suspended or forwards
 * permanently. In that case gp_engine_leave must not be called. Pairs may nest. */
bool gp_engine_enter(gp_engine_t *engine);
void gp_engine_leave(gp_engine_t *engine);

/*
 * Does what gp_engine_enter does, for an operation in a stream to which the program itself is about to submit
 * one. Such an operation is also legal during captures, if the stream is not capturing, because the program's
 * own operation has the same effect on a capture.
 */
bool gp_engine_enter_stream(gp_engine_t *engine);

/* Does what gp_engine_enter does, for a query whether the device is busy. Such a query is allowed even after
 * pooling has stopped. */
bool gp_engine_enter_question(gp_engine_t *engine);

/* Do what gp_engine_enter and gp_engine_leave do, for a call that may wait for the device, such as the
 * driver's free. A suspension waits for such calls in flight for at most GP_AWAIT_CALLS_NS, because the
 * device's work may depend on the thread that suspends. */
bool gp_engine_enter_wait(gp_engine_t *engine);
void gp_engine_leave_wait(gp_engine_t *engine);
#define GP_AWAIT_CALLS_NS UINT64_C(100000000)

/* Returns the mode for mode events and snapshots. */
gp_mode_t gp_engine_mode(const gp_engine_t *engine);

/* Returns GP_MODE_STRICT or GP_MODE_CONTEXT. */
static inline gp_mode_t gp_engine_reuse_mode(const gp_engine_t *engine)
{
  return engine->reuse_mode;
}

/* Sends a mode event for every device to the observer. The caller holds no device's lock. */
void gp_mode_record(gp_engine_t *engine, gp_detail_t mode);

/*
 * Called when a look-up of a driver function shows that the program may submit work that the library does not
 * see. From then on, no engine of the process reuses memory by stream order alone. Only sets a flag, so it is
 * safe to call in a look-up.
 */
void gp_mode_distrust(void);

extern atomic_bool gp_mode_distrusted; /* global, because a process has one engine */

static inline bool gp_mode_is_distrusted(void)
{
  return atomic_load_explicit(&gp_mode_distrusted, memory_order_relaxed);
}

#endif
