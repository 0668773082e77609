/*
 * Runs a program on the simulated GPU and says what was wrong.
 */
#include "driver.h"
#include "program.h"
#include "turns.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BYTES   (WORDS * 8u)
#define TRIMMED (1u << 20) /* what a trim leaves in a pool */

static const program_t *program;
static outcome_t *outcome;
static int device_count;

static CUdeviceptr mems[MAX_MEMS];
static bool mem_live[MAX_MEMS];
static CUstream lanes[LANES];
static CUevent events[MAX_EVENTS];
static CUgraphExec graphs[MAX_GRAPHS];
static CUcontext ctxs[CTXS];
static uint64_t ctx_numbers[CTXS]; /* of incarnations; 0: there is none */
static uint64_t last_ctx_number;
static CUfunction fills[CTXS], expects[CTXS], busies[CTXS], waits[CTXS], meets[CTXS], empties[CTXS];
static uint32_t host_flags[MAX_WAITS],
    cells[MAX_WAITS];          /* that kernels wait for, and that name collectives */
static bool refused[MAX_MEMS]; /* the allocation was */
static unsigned char *pinned[CTXS], registered[CTXS][THREADS * BYTES] __attribute__((aligned(4096)));
static CUdeviceptr managed[CTXS];
static bool has_places[CTXS]; /* under places_lock */
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool step_done[MAX_STEPS];
static bool runs_freely;
static pthread_mutex_t outcome_lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local uint64_t current_number; /* of the context that this thread has made current */

/* The steps that stand inside this thread's step and have not been taken; moment: driver calls until they
 * are; -1: they are not begun in a call any more. */
static _Thread_local struct {
  int next, last, moment;
} inside = {0, -1, -1};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
  va_list args;
  if (outcome->first[0])
    return;
  va_start(args, format);
  vsnprintf(outcome->first, sizeof outcome->first, format, args);
  va_end(args);
}

static void note(int index, CUresult result)
{
  if (result == CUDA_SUCCESS)
    return;
  pthread_mutex_lock(&outcome_lock);
  outcome->failed_calls++;
  say("step %d, %s: error %d", index, index < 0 ? "clean-up" : step_infos[program->steps[index].kind].name,
      (int)result);
  pthread_mutex_unlock(&outcome_lock);
}

static const driver_t *driver_of(const step_t *step)
{
  return step->route ? &by_version : &by_name;
}

/* ---- contexts ---- */

static CUresult enter_ctx(const driver_t *driver, int c)
{
  if (current_number == ctx_numbers[c])
    return CUDA_SUCCESS;
  CUresult result = driver->cuCtxSetCurrent(ctxs[c]);
  if (result == CUDA_SUCCESS)
    current_number = ctx_numbers[c];
  return result;
}

/* A free is legal with any context current, so the thread's own stays. */
static CUresult enter_any(const driver_t *driver)
{
  int any = -1;
  for (int c = CTXS - 1; c >= 0; c--) {
    if (ctx_numbers[c] && current_number == ctx_numbers[c])
      return CUDA_SUCCESS;
    if (ctx_numbers[c])
      any = c;
  }
  return any < 0 ? CUDA_SUCCESS : enter_ctx(driver, any);
}

static CUresult enable_peers(const driver_t *driver, int c)
{
  CUresult result = CUDA_SUCCESS;
  if (c >= 2 || !ctx_numbers[1 - c])
    return CUDA_SUCCESS;
  for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
    result = enter_ctx(driver, i);
    if (result == CUDA_SUCCESS)
      result = driver->cuCtxEnablePeerAccess(ctxs[1 - i], 0);
    if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
      result = CUDA_SUCCESS;
  }
  return result;
}

/* Only for programs that need them: the others make the calls that their seeds were found with. */
static CUresult find_further(const driver_t *driver, int c, CUmodule module)
{
  CUresult result = driver->cuModuleGetFunction(&waits[c], module, "simcuda_wait");
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleGetFunction(&busies[c], module, "simcuda_busy");
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleGetFunction(&meets[c], module, "simcuda_meet");
  return result == CUDA_SUCCESS ? driver->cuModuleGetFunction(&empties[c], module, "empty") : result;
}

static CUresult create_ctx(const driver_t *driver, int c)
{
  static char image[] = "no image";
  CUmodule module;
  CUresult result =
      c == 2 ? driver->cuCtxCreate_v2(&ctxs[c], 0, 0) : driver->cuDevicePrimaryCtxRetain(&ctxs[c], c);
  CUcontext ignored;
  if (result == CUDA_SUCCESS && c == 2)
    result = driver->cuCtxPopCurrent_v2(&ignored); /* creating pushes; the stack must not grow */
  if (result != CUDA_SUCCESS)
    return result;
  ctx_numbers[c] = ++last_ctx_number;
  current_number = 0;
  result = enter_ctx(driver, c);
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleLoadData(&module, image);
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleGetFunction(&fills[c], module, "simcuda_fill");
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleGetFunction(&expects[c], module, "simcuda_expect");
  if (result == CUDA_SUCCESS && (program->options.waits || program->options.tight))
    result = find_further(driver, c, module);
  has_places[c] = false;
  for (int t = 0; t < THREADS; t++)
    lanes[LANE_THREAD(c, t)] = CU_STREAM_PER_THREAD;
  lanes[LANE_LEGACY(c)] = CU_STREAM_LEGACY;
  return result == CUDA_SUCCESS ? enable_peers(driver, c) : result;
}

static CUresult destroy_ctx(const driver_t *driver, int c)
{
  CUresult result = c == 2 ? driver->cuCtxDestroy_v2(ctxs[c]) : driver->cuDevicePrimaryCtxReset_v2(c);
  ctx_numbers[c] = 0;
  return result;
}

/* ---- steps ---- */

static int ctx_of(int lane)
{
  if (lane < CTXS)
    return lane;
  if (lane < LANE_CREATED)
    return (lane - CTXS) / THREADS;
  for (int i = 0; i < program->count; i++) {
    if (program->steps[i].kind == STEP_STREAM_CREATE && program->steps[i].lane == lane)
      return program->steps[i].ctx;
  }
  return 0;
}

static CUresult launch_with(
    const driver_t *driver, const step_t *step, const CUfunction *functions, void **params)
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

/* Where memory is short, an allocation that natively fits may be refused. The program goes on without it. The
 * library has patience once: what it spent beside a kernel that waits, later allocations lack. */
static CUresult refuse(const step_t *step, int index)
{
  refused[step->mem] = true;
  pthread_mutex_lock(&outcome_lock);
  outcome->refused++;
  if (is_beside_wait(index) || outcome->refused_beside)
    outcome->refused_beside++;
  else if (is_beside_capture(index))
    outcome->refused_captured++;
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

static CUresult allocate(const driver_t *driver, const step_t *step, int index)
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
static CUresult allocate_async(const driver_t *driver, const step_t *step, int index)
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

static CUresult release_async(const driver_t *driver, const step_t *step)
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

static CUresult trim(const driver_t *driver, const step_t *step)
{
  CUmemoryPool pool;
  CUresult result = default_pool(driver, step->ctx, &pool);
  return result == CUDA_SUCCESS ? driver->cuMemPoolTrimTo(pool, step->value % 2 ? 0 : TRIMMED) : result;
}

/* Nodes of the graph that is being captured: memory of its own, which a kernel writes */
static CUresult capture_memory(const driver_t *driver, const step_t *step)
{
  uint64_t words = WORDS, value = VALUE(step->value);
  CUdeviceptr pointer;
  void *params[] = {&pointer, &words, &value};
  CUresult result = driver->cuMemAllocAsync(&pointer, BYTES, lanes[step->lane]);
  if (result == CUDA_SUCCESS)
    result = launch_with(driver, step, fills, params);
  return result == CUDA_SUCCESS ? driver->cuMemFreeAsync(pointer, lanes[step->lane]) : result;
}

static CUresult release(const driver_t *driver, int m)
{
  mem_live[m] = false;
  disown(mems[m]);
  CUresult result = CUDA_ERROR_NOT_SUPPORTED; /* likewise */
  if (driver->cuMemFree_v3 && is_freed_by_newer(m, false))
    result = driver->cuMemFree_v3(mems[m], 0);
  return result == CUDA_ERROR_NOT_SUPPORTED ? driver->cuMemFree_v2(mems[m]) : result;
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

static CUresult perform(const driver_t *driver, const step_t *step, int index)
{
  CUstream lane = lanes[step->lane];
  CUevent event = events[step->event];
  if (lacks_memory(step))
    return perform_without(driver, step);
  switch (step->kind) {
  case STEP_ALLOC: return allocate(driver, step, index);
  case STEP_FREE: return release(driver, step->mem);
  case STEP_ALLOC_ASYNC: return allocate_async(driver, step, index);
  case STEP_FREE_ASYNC: return release_async(driver, step);
  case STEP_TRIM: return trim(driver, step);
  case STEP_CAPTURE_MEMORY: return capture_memory(driver, step);
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

static bool is_pool_call(step_kind_t kind)
{
  return kind == STEP_ALLOC_ASYNC || kind == STEP_FREE_ASYNC;
}

/* A primary context has to be current for a call that takes no context; -1: none */
static int ctx_needed(const step_t *step)
{
  unsigned flags = step_infos[step->kind].flags;
  if (step->kind == STEP_CTX_CREATE || step->kind == STEP_CTX_DESTROY || step->kind == STEP_THREAD_END)
    return -1;
  if (flags & F_CTX)
    return step->ctx;
  if (is_pool_call(step->kind) && program->options.ordered && step->lane >= LANE_CREATED &&
      step->value % 8 == 1)
    return -1; /* the stream says where */
  return flags & F_LANE ? ctx_of(step->lane) : -1;
}

static void take_step(int index)
{
  const step_t *step = &program->steps[index];
  const driver_t *driver = driver_of(step);
  int ctx = ctx_needed(step);
  CUresult result = CUDA_SUCCESS;

  at_step((uint64_t)index);
  if (ctx >= 0)
    result = enter_ctx(driver, ctx);
  else if (step->kind != STEP_CTX_CREATE && step->kind != STEP_CTX_DESTROY && step->kind != STEP_WRITE)
    result = enter_any(driver);
  if (step->inside && !runs_freely) {
    inside.next = index + 1;
    inside.last = index + step->inside < program->count ? index + step->inside : program->count - 1;
    inside.moment = step->moment;
  }
  if (result == CUDA_SUCCESS)
    result = perform(driver, step, index);
  note(index, result);
}

/* Ends when a step cannot be completed before the caller's. */
static void take_inside(void)
{
  bool done = true;
  inside.moment = -1;
  while (inside.next <= inside.last && done) {
    int index = inside.next++;
    done = turns_take(program->steps[index].thread, index);
  }
}

static void between_calls(int entering)
{
  (void)entering;
  if (inside.moment >= 0 && inside.moment-- == 0)
    take_inside();
}

static void take_turn(int index)
{
  take_step(index);
  if (!program->steps[index].inside)
    return;
  for (turns_await(); inside.next <= inside.last; turns_await())
    take_inside();
}

/* ---- freely ---- */

static void await_earlier(int index)
{
  for (int i = 0; i < index; i++) {
    if (!(program->after[index][i / 64] >> (i % 64) & 1))
      continue;
    while (!atomic_load_explicit(&step_done[i], memory_order_acquire))
      sched_yield();
  }
}

static void run_thread(int thread)
{
  for (int i = 0; i < program->count; i++) {
    if (program->steps[i].thread != thread)
      continue;
    await_earlier(i);
    take_step(i);
    atomic_store_explicit(&step_done[i], true, memory_order_release);
  }
}

/* ---- whole programs ---- */

bool execute_init(void)
{
  if (!driver_find())
    return false;
  return by_name.cuInit(0) == CUDA_SUCCESS && by_name.cuDeviceGetCount(&device_count) == CUDA_SUCCESS;
}

static void clean_up(void)
{
  for (int c = 0; c < CTXS; c++) {
    if (!ctx_numbers[c])
      continue;
    note(-1, enter_ctx(&by_name, c));
    note(-1, by_name.cuCtxSynchronize());
  }
  for (int m = 0; m < MAX_MEMS; m++) {
    if (mem_live[m])
      note(-1, release(&by_name, m));
  }
  for (int g = 0; g < MAX_GRAPHS; g++) {
    if (graphs[g])
      (void)by_name.cuGraphExecDestroy(graphs[g]); /* gone already, perhaps */
    graphs[g] = NULL;
  }
  for (int c = CTXS - 1; c >= 0; c--) {
    if (ctx_numbers[c])
      note(-1, destroy_ctx(&by_name, c));
  }
  current_number = 0;
}

static void judge(const simcuda_oracle_t *before)
{
  simcuda_oracle_t now;
  oracle_counts(&now);
  outcome->early_reuse = now.early_reuse - before->early_reuse;
  outcome->strays = now.strays - before->strays;
  outcome->violations = now.violations - before->violations;
  outcome->corrupt_stamps = now.corrupt_stamps - before->corrupt_stamps;
  outcome->reuses = now.reuses - before->reuses;
  outcome->pending_reuses = now.pending_reuses - before->pending_reuses;
  if (outcome->early_reuse || outcome->strays || outcome->violations || outcome->corrupt_stamps)
    say("%llu early reuses, %llu strays, %llu violations, %llu corrupt words",
        (unsigned long long)outcome->early_reuse, (unsigned long long)outcome->strays,
        (unsigned long long)outcome->violations, (unsigned long long)outcome->corrupt_stamps);
}

bool outcome_is_good(const outcome_t *result)
{
  return !result->failed_calls && !result->wrong_values && !result->early_reuse && !result->strays &&
         !result->violations && !result->corrupt_stamps;
}

void execute(const program_t *the_program, bool freely, outcome_t *ret_outcome)
{
  simcuda_oracle_t before;
  bool one_thread = true;

  program = the_program;
  outcome = ret_outcome;
  runs_freely = freely;
  memset(outcome, 0, sizeof *outcome);
  memset(host_flags, 0, sizeof host_flags);
  memset(refused, 0, sizeof refused);
  for (int i = 0; i < program->count; i++)
    one_thread &= program->steps[i].thread == 0;
  oracle_counts(&before);
  seed_driver(program->seed);
  note(-1, create_ctx(&by_name, 0));
  on_call(between_calls);
  if (one_thread) {
    for (int i = 0; i < program->count; i++)
      take_step(i);
  } else if (freely) {
    for (int i = 0; i < program->count; i++)
      atomic_store(&step_done[i], false);
    turns_begin(run_thread);
    turns_all(THREADS);
  } else {
    turns_begin(take_turn);
    for (int i = 0; i < program->count; i += 1 + program->steps[i].inside) {
      if (program->steps[i].kind == STEP_THREAD_END)
        turns_end_thread(program->steps[i].thread);
      else
        turns_take(program->steps[i].thread, i);
    }
  }
  on_call(NULL);
  if (!one_thread)
    turns_end();
  clean_up();
  judge(&before);
}
