/*
 * What the steps of a program are made of: kernels, copies, streams, events, captures.
 */
#include "perform.h"

#include <pthread.h>
#include <string.h>

static CUevent events[MAX_EVENTS];
static uint32_t cells[MAX_WAITS]; /* that name collectives */
static unsigned char *pinned[CTXS], registered[CTXS][THREADS * BYTES] __attribute__((aligned(4096)));
static CUdeviceptr managed[CTXS];
static bool has_places[CTXS]; /* under places_lock */
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

void forget_places(int c)
{
  has_places[c] = false;
}

CUresult launch_with(const driver_t *driver, const step_t *step, const CUfunction *functions, void **params)
{
  CUfunction function = functions[ctx_of(step->lane)];
  CUstream stream = lanes[step->lane];
  if (step->kind == STEP_FILL_EARLY && driver->cuLaunchKernelEx) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
    return driver->cuLaunchKernelEx(&config, function, params, NULL);
  }
  if (stream == CU_STREAM_PER_THREAD && step->value % 2)
    return driver->cuLaunchKernel_ptsz(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
  if (stream == CU_STREAM_LEGACY && step->value % 2)
    stream = NULL;
  return driver->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static CUresult launch(const driver_t *driver, const step_t *step, const CUfunction *functions)
{
  uint64_t words = WORDS, value = VALUE(step->value);
  void *params[] = {&mems[step->mem], &words, &value};
  return launch_with(driver, step, functions, params);
}

static CUresult launch_busy(const driver_t *driver, const step_t *step)
{
  uint64_t ns = BUSY_NS(step->value);
  void *params[] = {&ns};
  return launch_with(driver, step, busies, params);
}

static CUresult launch_wait(const driver_t *driver, const step_t *step)
{
  uint64_t address = (uintptr_t)&host_flags[step->wait];
  void *params[] = {&address};
  return launch_with(driver, step, waits, params);
}

static CUresult launch_meet(const driver_t *driver, const step_t *step)
{
  uint64_t address = (uintptr_t)&cells[step->wait], parties = PARTIES;
  void *params[] = {&address, &parties};
  return launch_with(driver, step, meets, params);
}

/*
 * The memory that copies of the context go to, when the first needs it: a new context makes no calls that
 * other programs do not make. No step stands inside one that comes here.
 */
static CUresult make_places(const driver_t *driver, int c)
{
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&places_lock);
  if (!has_places[c]) {
    result = driver->cuMemHostAlloc((void **)&pinned[c], THREADS * BYTES, CU_MEMHOSTALLOC_DEVICEMAP);
    if (result == CUDA_SUCCESS)
      result = driver->cuMemHostRegister_v2(registered[c], sizeof registered[c], 0);
    if (result == CUDA_SUCCESS)
      result = driver->cuMemAllocManaged(&managed[c], THREADS * BYTES, CU_MEM_ATTACH_GLOBAL);
    has_places[c] = result == CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&places_lock);
  return result;
}

static const unsigned char *place_on_host(const step_t *step, const unsigned char *pageable)
{
  int c = ctx_of(step->lane);
  switch ((place_t)step->flags) {
  case PLACE_PINNED: return pinned[c] + step->thread * BYTES;
  case PLACE_REGISTERED: return registered[c] + step->thread * BYTES;
  default: return pageable;
  }
}

/* The call that is for copies to the host, which takes any addresses */
static CUresult copy_by(const driver_t *driver, const step_t *step, void *target, CUdeviceptr source)
{
  return step->lane >= CTXS ? driver->cuMemcpyDtoH_v2_ptds(target, source, BYTES)
                            : driver->cuMemcpyDtoH_v2(target, source, BYTES);
}

static CUresult copy_to_managed(const driver_t *driver, const step_t *step)
{
  int c = ctx_of(step->lane);
  CUresult result = make_places(driver, c);
  return result != CUDA_SUCCESS
             ? result
             : copy_by(driver, step, (void *)(uintptr_t)(managed[c] + step->thread * BYTES), mems[step->mem]);
}

static CUresult copy_between_hosts(const driver_t *driver, const step_t *step)
{
  unsigned char bytes[BYTES];
  CUresult result = make_places(driver, ctx_of(step->lane));
  return result != CUDA_SUCCESS
             ? result
             : copy_by(driver, step, bytes,
                   (CUdeviceptr)(uintptr_t)(pinned[ctx_of(step->lane)] + step->thread * BYTES));
}

static CUresult copy_with_host(const driver_t *driver, const step_t *step, int index)
{
  unsigned char bytes[BYTES];
  uint64_t value = VALUE(step->value);
  bool per_thread = step->lane >= CTXS;
  if (step->kind == STEP_TO_DEVICE) {
    memset(bytes, step->value, sizeof bytes);
    return per_thread ? driver->cuMemcpyHtoD_v2_ptds(mems[step->mem], bytes, sizeof bytes)
                      : driver->cuMemcpyHtoD_v2(mems[step->mem], bytes, sizeof bytes);
  }
  CUresult result = step->flags == PLACE_PAGEABLE ? CUDA_SUCCESS : make_places(driver, ctx_of(step->lane));
  if (result != CUDA_SUCCESS)
    return result;
  const unsigned char *target = place_on_host(step, bytes);
  result = copy_by(driver, step, (void *)(uintptr_t)target, mems[step->mem]);
  uint64_t wrong = 0;
  for (size_t i = 0; i < sizeof bytes; i += sizeof value)
    wrong += memcmp(target + i, &value, sizeof value) != 0;
  if (wrong) {
    pthread_mutex_lock(&outcome_lock);
    outcome->wrong_values += wrong;
    say("step %d, to_host: %d words are not those that were written", index, (int)wrong);
    pthread_mutex_unlock(&outcome_lock);
  }
  return result;
}

static CUresult end_capture(const driver_t *driver, const step_t *step)
{
  CUgraph graph = NULL;
  CUresult result = driver->cuStreamEndCapture(lanes[step->lane], &graph);
  if (result == CUDA_SUCCESS)
    result = driver->cuGraphInstantiate_v2(&graphs[step->graph], graph, NULL, NULL, 0);
  if (graph && result == CUDA_SUCCESS)
    result = driver->cuGraphDestroy(graph);
  return result;
}

static void CUDA_CB host_function(void *user)
{
  (void)user;
}

static CUresult unless_not_ready(CUresult result)
{
  return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

/* One that is not current, where the driver can */
static CUresult synchronize_ctx(const driver_t *driver, const step_t *step)
{
  if (!by_name.cuCtxSynchronize_v2 || step->value % 2)
    return driver->cuCtxSynchronize();
  for (int c = 0; c < CTXS; c++) {
    if (ctx_numbers[c] && c != step->ctx) {
      CUresult result = enter_ctx(driver, c);
      return result == CUDA_SUCCESS ? by_name.cuCtxSynchronize_v2(ctxs[step->ctx]) : result;
    }
  }
  return by_name.cuCtxSynchronize_v2(NULL);
}

/*
 * A step on memory that was refused: what is in its place keeps the order of its stream, and leaves what
 * later steps expect in the memory that is there.
 */
static CUresult perform_without(const driver_t *driver, const step_t *step)
{
  if (!(step_infos[step->kind].flags & F_LANE))
    return CUDA_SUCCESS;
  step_t other = *step;
  other.kind = STEP_FILL;
  bool is_source = step_infos[step->kind].flags & F_SOURCE && refused[step->mem2] && !refused[step->mem];
  return is_source ? launch(driver, &other, fills) : launch_with(driver, &other, empties, NULL);
}

static CUresult synchronize_stream(const driver_t *driver, CUstream lane, int index)
{
  return lane == CU_STREAM_PER_THREAD && index % 2 ? driver->cuStreamSynchronize_ptsz(NULL)
                                                   : driver->cuStreamSynchronize(lane);
}

/* Of memory that was freed in the order of a lane which waits for a flag */
static CUresult use_late(const driver_t *driver, const step_t *step, int index)
{
  CUresult result;
  late(step->mem);
  if (refused[step->mem])
    result = launch_with(driver, step, empties, NULL);
  else
    result = launch(driver, step, step->kind == STEP_LATE_FILL ? fills : expects);
  late(SIM_NO_OWNER);
  return result == CUDA_SUCCESS ? synchronize_stream(driver, lanes[step->lane], index) : result;
}

static bool lacks_memory(const step_t *step)
{
  unsigned uses = step_infos[step->kind].flags;
  return step->kind != STEP_ALLOC && step->kind != STEP_ALLOC_ASYNC && !(uses & F_LATE) &&
         ((uses & F_MEM && refused[step->mem]) || (uses & F_SOURCE && refused[step->mem2]));
}

CUresult perform(const driver_t *driver, const step_t *step, int index)
{
  CUstream lane = lanes[step->lane];
  CUevent event = events[step->event];
  if (lacks_memory(step))
    return perform_without(driver, step);
  switch (step->kind) {
  case STEP_ALLOC: return perform_alloc(driver, step, index);
  case STEP_FREE: return perform_free(driver, step->mem);
  case STEP_ALLOC_ASYNC: return perform_alloc_async(driver, step, index);
  case STEP_FREE_ASYNC: return perform_free_async(driver, step);
  case STEP_TRIM: return perform_trim(driver, step);
  case STEP_CAPTURE_MEMORY: return perform_in_capture(driver, step);
  case STEP_FILL:
  case STEP_FILL_EARLY: return launch(driver, step, fills);
  case STEP_EXPECT: return launch(driver, step, expects);
  case STEP_MEMSET: return driver->cuMemsetD8Async(mems[step->mem], step->value, BYTES, lane);
  case STEP_COPY: return driver->cuMemcpyDtoDAsync_v2(mems[step->mem], mems[step->mem2], BYTES, lane);
  case STEP_MEMSET_SYNC:
    return step->lane >= CTXS ? driver->cuMemsetD8_v2_ptds(mems[step->mem], step->value, BYTES)
                              : driver->cuMemsetD8_v2(mems[step->mem], step->value, BYTES);
  case STEP_TO_DEVICE:
  case STEP_TO_HOST: return copy_with_host(driver, step, index);
  case STEP_TO_MANAGED: return copy_to_managed(driver, step);
  case STEP_TO_OTHER: return copy_by(driver, step, (void *)(uintptr_t)mems[step->mem], mems[step->mem2]);
  case STEP_HOST_TO_HOST: return copy_between_hosts(driver, step);
  case STEP_HOST_FUNC: return driver->cuLaunchHostFunc(lane, host_function, NULL);
  case STEP_STREAM_CREATE: return driver->cuStreamCreate(&lanes[step->lane], step->flags);
  case STEP_STREAM_DESTROY: return driver->cuStreamDestroy_v2(lane);
  case STEP_STREAM_SYNC: return synchronize_stream(driver, lane, index);
  case STEP_STREAM_QUERY: return unless_not_ready(driver->cuStreamQuery(lane));
  case STEP_EVENT_CREATE: return driver->cuEventCreate(&events[step->event], CU_EVENT_DISABLE_TIMING);
  case STEP_EVENT_DESTROY: return driver->cuEventDestroy_v2(event);
  case STEP_EVENT_RECORD: return driver->cuEventRecord(event, lane);
  case STEP_EVENT_WAIT: return driver->cuStreamWaitEvent(lane, event, 0);
  case STEP_EVENT_SYNC: return driver->cuEventSynchronize(event);
  case STEP_EVENT_QUERY: return unless_not_ready(driver->cuEventQuery(event));
  case STEP_CTX_RECORD: return driver->cuCtxRecordEvent(ctxs[step->ctx], event);
  case STEP_CTX_WAIT: return driver->cuCtxWaitEvent(ctxs[step->ctx], event);
  case STEP_CTX_SYNC: return synchronize_ctx(driver, step);
  case STEP_CTX_CREATE: return create_ctx(driver, step->ctx);
  case STEP_CTX_DESTROY:
    for (int i = 0; i < index; i++) {
      if (program->steps[i].kind == STEP_ALLOC && program->steps[i].ctx == step->ctx)
        mem_live[program->steps[i].mem] = false;
    }
    return destroy_ctx(driver, step->ctx);
  case STEP_CAPTURE_BEGIN: return driver->cuStreamBeginCapture_v2(lane, (CUstreamCaptureMode)step->flags);
  case STEP_CAPTURE_END: return end_capture(driver, step);
  case STEP_GRAPH_LAUNCH: return driver->cuGraphLaunch(graphs[step->graph], lane);
  case STEP_GRAPH_DESTROY: return driver->cuGraphExecDestroy(graphs[step->graph]);
  case STEP_BUSY: return launch_busy(driver, step);
  case STEP_WAIT: return launch_wait(driver, step);
  case STEP_MEET: return launch_meet(driver, step);
  case STEP_WRITE:
    writes(&host_flags[step->wait]);
    __atomic_store_n(&host_flags[step->wait], 1, __ATOMIC_RELEASE);
    break;
  case STEP_LATE_FILL:
  case STEP_LATE_EXPECT: return use_late(driver, step, index);
  case STEP_THREAD_END:
  case STEP_KINDS: break;
  }
  return CUDA_SUCCESS;
}
