/* Hooks of streams: their creation and destruction, and synchronizations and queries that prove work
 * complete. */
#include "interpose/hooks/capture_records.h"
#include "interpose/hooks/current_context.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/stream_place.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/known_streams.h"
#include "pool/reuse/stream_points.h"
#include "base/cancel.h"

/*
 * Records a new stream and its context. A stream shows that its context can get work, and no hook may have
 * seen the context before (a runtime may make it current through the driver's export tables). So the function
 * creates the context's record in every mode.
 */
static void follow(gp_engine_t *engine, CUstream stream, unsigned flags)
{
  gp_context_t *context = gp_current_context(engine);
  gp_known_stream_add(engine, context, (uint64_t)(uintptr_t)stream);
  if (!context)
    gp_known_streams_miss(engine);
  gp_stream_record_begin(engine, context, (uint64_t)(uintptr_t)stream, !(flags & CU_STREAM_NON_BLOCKING));
}

static CUresult created(CUresult result, const CUstream *stream, unsigned flags)
{
  gp_engine_t *engine = gp_library_engine();

  if (result == CUDA_SUCCESS && engine)
    follow(engine, *stream, flags);
  return result;
}

CUresult CUDAAPI hook_cuStreamCreate(CUstream *stream, unsigned flags)
{
  (void)gp_library_engine(); /* binds the driver */
  return created(GP_REAL_CALL(cuStreamCreate, stream, flags), stream, flags);
}

CUresult CUDAAPI hook_cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
  (void)gp_library_engine();
  return created(GP_REAL_CALL(cuStreamCreateWithPriority, stream, flags, priority), stream, flags);
}

/* State of a stream's destruction during the driver's call. */
typedef struct leaving {
  gp_engine_t *engine;
  gp_capture_t *capture; /* a capture that began in the stream, or NULL */
  gp_context_t *known;   /* the stream's context if the stream was known, else NULL */
} leaving_t;

/* Keeps the capture after the thread was cancelled in the driver's call: the stream may still exist. */
static void keep(void *arg)
{
  const leaving_t *leaving = arg;
  if (leaving->capture)
    gp_capture_put(leaving->engine, leaving->capture);
  if (leaving->known)
    gp_known_streams_miss(leaving->engine);
}

static void restore(const leaving_t *leaving, CUstream stream)
{
  gp_known_stream_add(leaving->engine, leaving->known, (uint64_t)(uintptr_t)stream);
  if (leaving->capture)
    gp_capture_put(leaving->engine, leaving->capture);
}

/* Destroys a stream. Only the stream in which a capture began can end the capture. The program may destroy
 * another stream of the capture: that invalidates the capture, which remains active until it is ended. */
static CUresult destroy(CUresult(CUDAAPI *call)(CUstream), CUstream stream)
{
  leaving_t leaving = {.engine = gp_library_engine()};
  CUresult result;

  if (leaving.engine) {
    leaving.capture = gp_capture_take(leaving.engine, stream);
    leaving.known = gp_known_stream_remove(leaving.engine, (uint64_t)(uintptr_t)stream);
    gp_stream_record_end(leaving.engine, (uint64_t)(uintptr_t)stream);
  }
  GP_CANCEL_UNDO(result, call ? call(stream) : CUDA_ERROR_NOT_FOUND, keep, &leaving);
  if (!leaving.engine)
    return result;
  if (result == CUDA_SUCCESS)
    gp_capture_finish(leaving.engine, leaving.capture);
  else
    restore(&leaving, stream);
  gp_engine_note_result(leaving.engine, (int)result);
  return result;
}

CUresult CUDAAPI hook_cuStreamDestroy(CUstream stream)
{
  (void)gp_library_engine(); /* binds the driver */
  return destroy(GP_REAL(cuStreamDestroy), stream);
}

CUresult CUDAAPI hook_cuStreamDestroy_v2(CUstream stream)
{
  (void)gp_library_engine();
  return destroy(GP_REAL(cuStreamDestroy_v2), stream);
}

/* The completion proof that a synchronization or query of a stream gives if it succeeds. */
typedef struct proof {
  gp_engine_t *engine; /* NULL: the call proves nothing, and the members below are undefined */
  uint64_t asked;
  gp_stream_point_t point; /* the call proves that stream-ordered frees before this point are complete */
} proof_t;

static void begin(proof_t *proof, CUstream stream, bool per_thread)
{
  gp_engine_t *engine = gp_library_engine();

  proof->engine = engine && gp_stream_points_are_wanted(engine) ? engine : NULL;
  if (!proof->engine)
    return;
  proof->asked = gp_engine_ask_begin(engine);
  proof->point = gp_stream_record_point(gp_stream_record_find(engine, stream, per_thread), false);
}

static CUresult end(const proof_t *proof, CUresult result)
{
  if (!proof->engine || result == CUDA_ERROR_NOT_READY)
    return result;
  if (result != CUDA_SUCCESS)
    gp_engine_note_result(proof->engine, (int)result);
  else if (gp_engine_may_conclude(proof->engine, proof->asked))
    gp_engine_stream_passed(proof->engine, &proof->point);
  return result;
}

/* Ends a synchronization. Unlike a query it may wait, so it also searches freed memory for damage. */
static CUresult end_synchronize(const proof_t *proof, CUresult result)
{
  result = end(proof, result);
  if (proof->engine && result == CUDA_SUCCESS && proof->point.stream_record)
    gp_engine_search(proof->engine, gp_stream_record_context(proof->point.stream_record));
  return result;
}

CUresult CUDAAPI hook_cuStreamSynchronize(CUstream stream)
{
  proof_t proof;
  begin(&proof, stream, false);
  return end_synchronize(&proof, GP_REAL_CALL(cuStreamSynchronize, stream));
}

CUresult CUDAAPI hook_cuStreamSynchronize_ptsz(CUstream stream)
{
  proof_t proof;
  begin(&proof, stream, true);
  return end_synchronize(&proof, GP_REAL_CALL(cuStreamSynchronize_ptsz, stream));
}

CUresult CUDAAPI hook_cuStreamQuery(CUstream stream)
{
  proof_t proof;
  begin(&proof, stream, false);
  return end(&proof, GP_REAL_CALL(cuStreamQuery, stream));
}

CUresult CUDAAPI hook_cuStreamQuery_ptsz(CUstream stream)
{
  proof_t proof;
  begin(&proof, stream, true);
  return end(&proof, GP_REAL_CALL(cuStreamQuery_ptsz, stream));
}
