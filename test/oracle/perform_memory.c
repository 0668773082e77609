/*
 * Memory, taken and given back by plain calls and in stream order.
 */
#include "perform.h"

#define TRIMMED (1u << 20) /* what a trim leaves in a pool */

/* Whether, in the order of the list, a kernel waits when the step is taken */
static bool is_beside_wait(int index)
{
  bool open[MAX_WAITS] = {false};
  for (int i = 0; i < index; i++) {
    const step_t *step = &program->steps[i];
    if (step_infos[step->kind].flags & F_WAIT)
      open[step->wait] = step->kind == STEP_WAIT || (step->kind == STEP_MEET && !open[step->wait]);
  }
  for (int w = 0; w < MAX_WAITS; w++) {
    if (open[w])
      return true;
  }
  return false;
}

static bool is_beside_capture(int index)
{
  bool captures = false;
  for (int i = 0; i < index; i++) {
    if (program->steps[i].kind == STEP_CAPTURE_BEGIN || program->steps[i].kind == STEP_CAPTURE_END)
      captures = program->steps[i].kind == STEP_CAPTURE_BEGIN;
  }
  return captures;
}

/* Before 12.5 the library cannot ask about the work of a stream that was destroyed, only synchronizations of
 * its context show that it is done (doc/waits.md). */
static bool follows_destroyed_stream(int index)
{
  bool follows[CTXS] = {false};

  if (program->options.ctx_events)
    return false;
  for (int i = 0; i < index; i++) {
    const step_t *step = &program->steps[i];
    if (step->kind == STEP_STREAM_DESTROY)
      follows[ctx_of(step->lane)] = true;
    else if (step->kind == STEP_CTX_SYNC)
      follows[step->ctx] = false;
  }
  for (int ctx = 0; ctx < CTXS; ctx++) {
    if (follows[ctx])
      return true;
  }
  return false;
}

/* Where memory is short, an allocation that natively fits may be refused. The program goes on without it. The
 * library has patience once: what it spent beside a kernel that waits, later allocations lack. */
static CUresult refuse(const step_t *step, int index)
{
  bool is_async = step->kind == STEP_ALLOC_ASYNC;
  int ctx = is_async ? ctx_of(step->lane) : step->ctx;
  uint64_t limit = program->options.limit;
  /* Under a limit the driver's pools count as grown by more than they are asked for. */
  bool fits = is_alone(index) && !(is_async && limit) && !follows_destroyed_stream(index) &&
              device_fits(ctx == 1, step->bytes, limit ? limit : UINT64_MAX);
  refused[step->mem] = true;
  pthread_mutex_lock(&outcome_lock);
  outcome->refused++;
  if (is_beside_wait(index) || outcome->refused_beside)
    outcome->refused_beside++;
  else if (is_beside_capture(index))
    outcome->refused_captured++;
  else if (fits)
    outcome->refused_fitting++;
  pthread_mutex_unlock(&outcome_lock);
  return CUDA_SUCCESS;
}

/* The program has the memory, if the driver gave it. */
static CUresult take(const step_t *step, int index, CUresult result, CUdeviceptr pointer)
{
  if (result == CUDA_ERROR_OUT_OF_MEMORY && program->options.tight)
    return refuse(step, index);
  if (result != CUDA_SUCCESS)
    return result;
  mems[step->mem] = pointer;
  mem_live[step->mem] = true;
  own(pointer, step->bytes, step->mem);
  return CUDA_SUCCESS;
}

CUresult perform_alloc(const driver_t *driver, const step_t *step, int index)
{
  CUdeviceptr pointer = 0;
  CUresult result = driver->cuMemAlloc_v2(&pointer, step->bytes);
  return take(step, index, result, pointer);
}

static CUresult default_pool(const driver_t *driver, int ctx, CUmemoryPool *ret_pool)
{
  return driver->cuDeviceGetDefaultMemPool(ret_pool, ctx == 1);
}

/* By each of the ways that name the stream */
CUresult perform_alloc_async(const driver_t *driver, const step_t *step, int index)
{
  CUdeviceptr pointer = 0;
  CUstream stream = lanes[step->lane];
  CUmemoryPool pool;
  CUresult result = CUDA_SUCCESS;

  if (step->value % 4 == 0)
    result = default_pool(driver, ctx_of(step->lane), &pool);
  if (result != CUDA_SUCCESS)
    return result;
  if (step->value % 4 == 0)
    result = driver->cuMemAllocFromPoolAsync(&pointer, step->bytes, pool, stream);
  else if (stream == CU_STREAM_PER_THREAD && step->value % 2)
    result = driver->cuMemAllocAsync_ptsz(&pointer, step->bytes, NULL);
  else
    result = driver->cuMemAllocAsync(
        &pointer, step->bytes, stream == CU_STREAM_LEGACY && step->value % 2 ? NULL : stream);
  return take(step, index, result, pointer);
}

CUresult perform_free_async(const driver_t *driver, const step_t *step)
{
  CUstream stream = lanes[step->lane];
  mem_live[step->mem] = false;
  disown(mems[step->mem]);
  if (driver->cuMemFreeAsync_v2 && is_freed_by_newer(step->mem, true)) {
    CUresult result = driver->cuMemFreeAsync_v2(mems[step->mem], stream, 0);
    if (result != CUDA_ERROR_NOT_SUPPORTED) /* the library may refuse it */
      return result;
  }
  return stream == CU_STREAM_PER_THREAD && step->value % 2 && program->options.ordered
             ? driver->cuMemFreeAsync_ptsz(mems[step->mem], NULL)
             : driver->cuMemFreeAsync(mems[step->mem], stream);
}

CUresult perform_trim(const driver_t *driver, const step_t *step)
{
  CUmemoryPool pool;
  CUresult result = default_pool(driver, step->ctx, &pool);
  return result == CUDA_SUCCESS ? driver->cuMemPoolTrimTo(pool, step->value % 2 ? 0 : TRIMMED) : result;
}

/* Nodes of the graph that is being captured: memory of its own, which a kernel writes */
CUresult perform_in_capture(const driver_t *driver, const step_t *step)
{
  uint64_t words = WORDS, value = VALUE(step->value);
  CUdeviceptr pointer;
  void *params[] = {&pointer, &words, &value};
  CUresult result = driver->cuMemAllocAsync(&pointer, BYTES, lanes[step->lane]);
  if (result == CUDA_SUCCESS)
    result = launch_with(driver, step, fills, params);
  return result == CUDA_SUCCESS ? driver->cuMemFreeAsync(pointer, lanes[step->lane]) : result;
}

CUresult perform_free(const driver_t *driver, int m)
{
  mem_live[m] = false;
  disown(mems[m]);
  CUresult result = CUDA_ERROR_NOT_SUPPORTED; /* likewise */
  if (driver->cuMemFree_v3 && is_freed_by_newer(m, false))
    result = driver->cuMemFree_v3(mems[m], 0);
  return result == CUDA_ERROR_NOT_SUPPORTED ? driver->cuMemFree_v2(mems[m]) : result;
}
