#include "interpose/hooks/stream_place.h"

#include "interpose/hooks/current_context.h"
#include "interpose/routes/real.h"
#include "pool/reuse/stream_records.h"

static bool is_handle(CUstream stream)
{
  return stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
}

/* Records an event in the stream and destroys it at once. The event must belong to the stream's context,
 * which is current. An event may be destroyed before it has completed (cuda.h at cuEventDestroy). */
static CUresult record(CUstream stream)
{
  CUevent event;
  CUresult result = GP_REAL_CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);

  if (result != CUDA_SUCCESS)
    return result;
  result = GP_REAL_CALL(cuEventRecord, event, stream);
  (void)GP_REAL_CALL(cuEventDestroy_v2, event);
  return result;
}

CUresult gp_stream_take_place(CUstream stream, bool per_thread)
{
  CUstreamCaptureStatus status;
  CUcontext context, current = NULL;

  if (!stream)
    stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  CUresult result = GP_REAL_CALL(cuStreamIsCapturing, stream, &status);
  if (result != CUDA_SUCCESS)
    return result;
  if (status != CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!is_handle(stream))
    return record(stream);
  result = GP_REAL_CALL(cuStreamGetCtx, stream, &context);
  if (result != CUDA_SUCCESS)
    return result;
  if (GP_REAL_CALL(cuCtxGetCurrent, &current) == CUDA_SUCCESS && current == context)
    return record(stream);
  result = GP_REAL_CALL(cuCtxPushCurrent_v2, context);
  if (result != CUDA_SUCCESS)
    return result;
  result = record(stream);
  gp_real_pop_context(context);
  return result;
}

bool gp_stream_is_captured(CUstream stream, bool per_thread)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = per_thread ? GP_REAL_CALL(cuStreamIsCapturing_ptsz, stream, &status)
                               : GP_REAL_CALL(cuStreamIsCapturing, stream, &status);
  return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

gp_stream_record_t *gp_stream_record_find(gp_engine_t *engine, CUstream stream, bool per_thread)
{
  if (is_handle(stream))
    return gp_stream_record_of(engine, (uint64_t)(uintptr_t)stream);
  gp_context_t *context = gp_current_context(engine);
  if (!context || gp_green_contexts_exist() || !gp_engine_serves_async(engine))
    return NULL;
  bool is_own = stream ? stream == CU_STREAM_PER_THREAD : per_thread;
  return gp_stream_record_of_default(engine, context, is_own ? GP_STREAM_PER_THREAD : GP_STREAM_LEGACY);
}
