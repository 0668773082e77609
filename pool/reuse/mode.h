/*
 * How the engine serves requests (pools, forwards or refuses them), and by which rule it reuses freed memory.
 * These are two state machines; each is one atomic variable that one function of mode.c changes.
 */
#ifndef GP_POOL_REUSE_MODE_H
#define GP_POOL_REUSE_MODE_H

#include "pool/engine_record.h"

/* In order of precedence: the last one that applies decides. */
typedef enum gp_service {
  GP_SERVICE_POOL,      /* the pool serves them */
  GP_SERVICE_BESIDE,    /* during a capture: from memory of the pool, but forwarded for a capturing thread */
  GP_SERVICE_SUSPENDED, /* forwarded while the engine is suspended: a stream capture, a context that is ending
                         */
  GP_SERVICE_STOPPED,   /* forwarded permanently: pooling stopped for a reason that a message gave */
  GP_SERVICE_DEAD,      /* forwarded permanently: the driver reported a sticky error */
  GP_SERVICE_REFUSE,    /* refused: the limit is malformed */
} gp_service_t;

/* engine->service has these bits, and above them counts of suspensions and of captures of each reach. */
#define GP_SERVICE_BIT_REFUSE      UINT64_C(1)
#define GP_SERVICE_BIT_STOPPED     UINT64_C(2)
#define GP_SERVICE_BIT_DEAD        UINT64_C(4)
#define GP_SERVICE_SUSPENSION      UINT64_C(8)         /* GP_REACH_EVERYTHING */
#define GP_SERVICE_CAPTURE_FOR_ALL (UINT64_C(1) << 24) /* GP_REACH_THREADS */
#define GP_SERVICE_CAPTURE         (UINT64_C(1) << 44) /* GP_REACH_THREAD, GP_REACH_NONE */

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

/* True if the engine may make no driver calls of its own: it is suspended, a capture is running, or it
 * forwards permanently. Whether it refuses requests does not matter here. */
static inline bool gp_engine_forwards(const gp_engine_t *engine)
{
  return (atomic_load(&engine->service) & ~GP_SERVICE_BIT_REFUSE) != 0;
}

/* True if the calling thread has begun a capture during which it may not allocate: its requests are then
 * forwarded. Takes no lock. */
bool gp_mode_thread_captures(const gp_engine_t *engine);

/* True if the engine forwards a request of the calling thread that names no stream. Takes no lock. */
static inline bool gp_mode_forwards(const gp_engine_t *engine)
{
  if (__builtin_expect(!gp_engine_forwards(engine), 1))
    return false;
  gp_service_t service = gp_service_of(atomic_load(&engine->service) & ~GP_SERVICE_BIT_REFUSE);
  return service > GP_SERVICE_BESIDE || (service == GP_SERVICE_BESIDE && gp_mode_thread_captures(engine));
}

/* True if the engine forwards all stream-ordered requests. Otherwise it forwards only those whose stream is
 * capturing. */
static inline bool gp_mode_forwards_ordered(const gp_engine_t *engine)
{
  return atomic_load(&engine->service) % GP_SERVICE_CAPTURE_FOR_ALL != 0;
}

/* True while the engine is suspended. A capture counts as a suspension here: it forbids the engine's own
 * driver calls, and voids completion proofs. */
static inline bool gp_service_is_suspended(uint64_t service)
{
  return service >= GP_SERVICE_SUSPENSION;
}

/* Called at the engine's start, before any other function of this header. refuses: the limit is malformed. */
void gp_mode_init(gp_engine_t *engine, bool refuses, gp_mode_t reuse_mode);

/* Called when all limits were set anew: forgets that a limit was malformed. */
void gp_mode_accept_limits(gp_engine_t *engine);

/* Stops pooling permanently, for a reason that is no error. False: it has stopped already. The caller holds
 * no lock. */
bool gp_mode_stop(gp_engine_t *engine);

/* Ends the suspensions of a context that is lost. The caller holds contexts_lock. */
void gp_mode_context_lost(gp_engine_t *engine, gp_context_t *context);

/* Enclose a driver call that the engine makes on its own account. False: the engine may make no such call,
 * since it is suspended or forwards permanently. Calls may nest. */
bool gp_engine_enter(gp_engine_t *engine);
void gp_engine_leave(gp_engine_t *engine);

/*
 * Encloses an operation in a stream to which the program itself is about to submit one. This is legal also
 * during captures, if that stream is not capturing: whatever the operation does to a capture, the program's
 * own does, too.
 */
bool gp_engine_enter_stream(gp_engine_t *engine);

/* Encloses a query whether the device is busy, which the engine may also make after pooling has stopped. */
bool gp_engine_enter_question(gp_engine_t *engine);

/* Enclose a call that may wait for the device, such as the driver's free. A suspension waits for such calls
 * in flight for at most GP_AWAIT_CALLS_NS: the device's work may depend on the thread that suspends. */
bool gp_engine_enter_wait(gp_engine_t *engine);
void gp_engine_leave_wait(gp_engine_t *engine);
#define GP_AWAIT_CALLS_NS UINT64_C(100000000)

/* Returns the mode for mode events and snapshots. */
gp_mode_t gp_engine_mode(const gp_engine_t *engine);

/* GP_MODE_STRICT or GP_MODE_CONTEXT. */
static inline gp_mode_t gp_engine_reuse_mode(const gp_engine_t *engine)
{
  return engine->reuse_mode;
}

/* Records a mode event on every device. The caller holds no device's lock. */
void gp_mode_record(gp_engine_t *engine, gp_detail_t mode);

/*
 * Called when a look-up shows that the program may submit work that the library does not see. From then on no
 * engine of the process reuses memory by stream order alone. It only sets a flag, so a look-up may call it.
 */
void gp_mode_distrust(void);

extern atomic_bool gp_mode_distrusted; /* one engine serves a process */

static inline bool gp_mode_is_distrusted(void)
{
  return atomic_load_explicit(&gp_mode_distrusted, memory_order_relaxed);
}

#endif
