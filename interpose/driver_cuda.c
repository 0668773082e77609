#include "interpose/driver_cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interpose/clock.h"
#include "interpose/mapped_cuda.h"
#include "interpose/process.h"
#include "interpose/routes/escape.h"
#include "interpose/hooks/mempool_records.h"
#include "interpose/routes/real.h"
#include "base/assert.h"

/* The context that enter_context has pushed, until leave_context pops it. NULL if the context was already
 * current. */
static _Thread_local CUcontext pushed_context __attribute__((tls_model("initial-exec")));

/* Makes a context current, unless it already is or its handle is NULL. Sets *ret_entered to true if
 * leave_context must pop the context. Callers must not ignore a failure: a wait in the wrong context would
 * count as a completion proof for the right one. */
static CUresult enter_context(const gp_driver_context_t *context, bool *ret_entered)
{
  CUcontext current = NULL;

  gp_assert(!pushed_context); /* otherwise an earlier call left the program in the wrong context */
  *ret_entered = false;
  if (!context->handle ||
      (GP_REAL_CALL(cuCtxGetCurrent, &current) == CUDA_SUCCESS && current == context->handle))
    return CUDA_SUCCESS;
  CUresult result = GP_REAL_CALL(cuCtxPushCurrent_v2, context->handle);
  *ret_entered = result == CUDA_SUCCESS;
  pushed_context = *ret_entered ? context->handle : NULL;
  return result;
}

static void leave_context(bool entered)
{
  CUcontext pushed = pushed_context;

  if (!entered)
    return;
  pushed_context = NULL;
  gp_real_pop_context(pushed);
}

/* Sets result to the result of `call` in the context, or to the error if the context cannot be entered. */
#define IN_CONTEXT(context, result, call)                                                                    \
  do {                                                                                                       \
    bool entered_;                                                                                           \
    (result) = enter_context(context, &entered_);                                                            \
    if ((result) == CUDA_SUCCESS)                                                                            \
      (result) = (call);                                                                                     \
    leave_context(entered_);                                                                                 \
  } while (0)

static _Atomic(gp_engine_t *) watching; /* receives reports of escapes; NULL: the library has not started */

void gp_driver_cuda_watch_escapes(gp_engine_t *engine)
{
  gp_assert(engine && !atomic_load(&watching));
  atomic_store_explicit(&watching, engine, memory_order_release);
}

static gp_engine_t *watching_engine(void)
{
  gp_engine_t *engine = atomic_load_explicit(&watching, memory_order_acquire);
  return gp_process_is_ours() ? engine : NULL;
}

static void cuda_look_for_escapes(void *self)
{
  gp_engine_t *engine = watching_engine();
  (void)self;
  if (engine)
    gp_escape_look_for_unknown(engine);
}

static int cuda_alloc(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  CUdeviceptr pointer = 0;
  (void)self;
  (void)context; /* already current */
  CUresult result = GP_REAL_CALL(cuMemAlloc_v2, &pointer, (size_t)bytes);
  if (result == CUDA_SUCCESS)
    *ret_address = (uint64_t)pointer;
  return (int)result;
}

static int cuda_alloc_in(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  CUdeviceptr pointer = 0;
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuMemAlloc_v2, &pointer, (size_t)bytes));
  if (result == CUDA_SUCCESS)
    *ret_address = (uint64_t)pointer;
  return (int)result;
}

static int cuda_free(void *self, const gp_driver_context_t *context, uint64_t address)
{
  (void)self;
  bool entered;
  (void)enter_context(context, &entered); /* a failure is harmless: the driver frees from any context */
  CUresult result = GP_REAL_CALL(cuMemFree_v2, (CUdeviceptr)address);
  leave_context(entered);
  return (int)result;
}

static int cuda_wait(void *self, const gp_driver_context_t *context)
{
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuCtxSynchronize));
  return (int)result;
}

/* Waits as long as the driver's free would. cuMemFree may wait for running work, and cuda.h does not say for
 * which work. So this function allocates and frees some driver memory: 512 bytes, the smallest block that the
 * driver allocates. */
static int cuda_wait_as_free(void *self, const gp_driver_context_t *context)
{
  CUdeviceptr pointer = 0;
  (void)self;
  bool entered;
  CUresult result = enter_context(context, &entered);
  if (result == CUDA_SUCCESS)
    result = GP_REAL_CALL(cuMemAlloc_v2, &pointer, 512);
  if (result == CUDA_SUCCESS)
    result = GP_REAL_CALL(cuMemFree_v2, pointer);
  leave_context(entered);
  return (int)result;
}

/*
 * Records a fence. cuCtxRecordEvent captures "all the activities of the context at the time of this call"
 * (cuda.h, 12.5). The event must be created in that context. Events without timing are the cheapest.
 */
static int cuda_fence_record(void *self, const gp_driver_context_t *context, void **fence)
{
  CUevent event = *fence;
  bool entered;
  (void)self;
  CUresult result = enter_context(context, &entered);
  if (result == CUDA_SUCCESS && !event)
    result = GP_REAL_CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) {
    *fence = event;
    result = GP_REAL_CALL(cuCtxRecordEvent, context->handle, event);
  }
  leave_context(entered);
  return (int)result;
}

/* Queries a fence with its context current, as all functions here do. Without a current context the driver
 * returns CUDA_ERROR_INVALID_CONTEXT, and the pool would conclude that the fence's context has ended. */

static int cuda_fence_query(void *self, const gp_driver_context_t *context, void *fence)
{
  gp_assert(fence);
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuEventQuery, fence));
  return (int)result;
}

/* Records an event in the stream; the event must belong to the stream's context. */
static int cuda_enter_stream(void *self, const gp_driver_context_t *context, uint64_t stream, void **fence)
{
  CUevent event = *fence;
  bool entered;
  (void)self;
  CUresult result = enter_context(context, &entered);
  if (result == CUDA_SUCCESS && !event)
    result = GP_REAL_CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) {
    *fence = event;
    result = GP_REAL_CALL(cuEventRecord, event, (CUstream)(uintptr_t)stream);
  }
  leave_context(entered);
  return (int)result;
}

static int cuda_stream_wait(void *self, const gp_driver_context_t *context, uint64_t stream, void *event)
{
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuStreamWaitEvent, (CUstream)(uintptr_t)stream, event, 0));
  return (int)result;
}

static int cuda_default_query(void *self, const gp_driver_context_t *context)
{
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuStreamQuery, CU_STREAM_LEGACY));
  return (int)result;
}

static int cuda_stream_query(void *self, const gp_driver_context_t *context, uint64_t stream)
{
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuStreamQuery, (CUstream)(uintptr_t)stream));
  return (int)result;
}

/* Creates a non-blocking stream: it and the legacy default stream do not wait for each other. */
static int cuda_fill_stream(void *self, const gp_driver_context_t *context, uint64_t *ret_stream)
{
  CUstream stream = NULL;
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
  if (result == CUDA_SUCCESS)
    *ret_stream = (uint64_t)(uintptr_t)stream;
  return (int)result;
}

/* Fills memory in a stream. A default stream belongs to the current context, which may be a green context, so
 * the function does not change contexts for a default stream. */
static int cuda_fill(void *self, const gp_driver_context_t *context, uint64_t stream, uint64_t address,
    uint64_t bytes, uint8_t value)
{
  (void)self;
  bool entered = false;
  CUresult result = CUDA_SUCCESS;
  if (stream > GP_STREAM_PER_THREAD)
    result = enter_context(context, &entered);
  if (result == CUDA_SUCCESS)
    result = GP_REAL_CALL(
        cuMemsetD8Async, (CUdeviceptr)address, value, (size_t)bytes, (CUstream)(uintptr_t)stream);
  leave_context(entered);
  return (int)result;
}

static int cuda_host_alloc(void *self, const gp_driver_context_t *context, uint64_t bytes, void **ret_host)
{
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuMemHostAlloc, ret_host, (size_t)bytes, 0));
  return (int)result;
}

static int cuda_copy_out(void *self, const gp_driver_context_t *context, uint64_t stream, void *host,
    uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch)
{
  const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
      .srcDevice = (CUdeviceptr)address,
      .srcPitch = (size_t)pitch,
      .dstMemoryType = CU_MEMORYTYPE_HOST,
      .dstHost = host,
      .dstPitch = (size_t)bytes,
      .WidthInBytes = (size_t)bytes,
      .Height = (size_t)rows};
  CUresult result;
  (void)self;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuMemcpy2DAsync_v2, &copy, (CUstream)(uintptr_t)stream));
  return (int)result;
}

static int cuda_memory_info(
    void *self, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  (void)self;
  if (!context->handle) { /* no context: the pool has no memory on the device, and both values are the
                             device's size */
    CUresult result = GP_REAL_CALL(cuDeviceTotalMem_v2, &total_bytes, context->device);
    *ret_free = *ret_total = total_bytes;
    return (int)result;
  }
  CUresult result;
  IN_CONTEXT(context, result, GP_REAL_CALL(cuMemGetInfo_v2, &free_bytes, &total_bytes));
  if (result == CUDA_SUCCESS) {
    *ret_free = free_bytes;
    *ret_total = total_bytes;
  }
  return (int)result;
}

/* Returns the bytes that the host can allocate without swapping: MemAvailable of /proc/meminfo, which
 * includes page cache that can be dropped (proc(5)). Returns 0 if the kernel does not report it. */
static uint64_t host_memory_available(void)
{
  static const char name[] = "MemAvailable:";
  char text[512]; /* MemAvailable is the third line */
  int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

  if (fd >= 0)
    (void)close(fd); /* opened only for reading */
  if (length <= 0)
    return 0;
  text[length] = '\0';
  const char *line = strstr(text, name);
  return line ? strtoull(line + sizeof(name) - 1, NULL, 10) * 1024 : 0; /* kB */
}

/* Returns the host memory available to an integrated device, which shares the host's memory, or 0 for other
 * devices. On an integrated device the driver's free memory excludes page cache, which the host would drop
 * for an allocation. */
static uint64_t cuda_host_available(void *self, const gp_driver_context_t *context)
{
  int is_integrated = 0;
  (void)self;
  if (GP_REAL_CALL(cuDeviceGetAttribute, &is_integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, context->device) !=
      CUDA_SUCCESS)
    return 0;
  return is_integrated ? host_memory_available() : 0;
}

/* Trims the device's pools of stream-ordered memory (since 11.2) and the memory of graphs (since 11.4). */
static void cuda_trim_async(void *self, const gp_driver_context_t *context)
{
  (void)self;
  gp_mempools_trim(context->device); /* the next allocation shows whether trimming helped */
  if (GP_REAL(cuDeviceGraphMemTrim))
    (void)GP_REAL(cuDeviceGraphMemTrim)(context->device);
}

static int cuda_async_reserved(
    void *self, const gp_driver_context_t *context, uint64_t *ret_bytes, uint64_t *ret_used)
{
  cuuint64_t graphs = 0;
  (void)self;
  CUresult result = gp_mempools_reserved(context->device, ret_bytes, ret_used);
  if (result == CUDA_SUCCESS && GP_REAL(cuDeviceGetGraphMemAttribute) &&
      GP_REAL(cuDeviceGetGraphMemAttribute)(
          context->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &graphs) == CUDA_SUCCESS) {
    *ret_bytes += graphs;
    *ret_used += graphs; /* idle memory of graphs serves no request */
  }
  return (int)result;
}

/* Returns true for the driver's errors about a context that ended without a hook seeing it (a green context,
 * or a call through an export table). */
static bool cuda_code_is_context_gone(int code)
{
  return code == CUDA_ERROR_INVALID_CONTEXT || code == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Returns true if the context has ended. By now its handle may belong to another context, with another id.
 * Drivers before 12.0 have no ids: there a second call with the handle must fail in the same way. */
static bool cuda_context_has_ended(void *self, const gp_driver_context_t *context)
{
  unsigned long long id = 0;
  unsigned version = 0;
  (void)self;
  if (!GP_REAL(cuCtxGetId))
    return cuda_code_is_context_gone((int)GP_REAL_CALL(cuCtxGetApiVersion, context->handle, &version));
  CUresult result = GP_REAL_CALL(cuCtxGetId, context->handle, &id);
  if (result == CUDA_SUCCESS)
    return id != context->id;
  return cuda_code_is_context_gone((int)result) || result == CUDA_ERROR_INVALID_VALUE ||
         result == CUDA_ERROR_INVALID_HANDLE;
}

static uint64_t cuda_now_ns(void *self)
{
  (void)self;
  return gp_clock_now_ns();
}

static void cuda_pause(void *self, uint64_t ns)
{
  struct timespec time = {(time_t)(ns / UINT64_C(1000000000)), (long)(ns % UINT64_C(1000000000))};
  int saved_errno = errno;
  (void)self;
  (void)nanosleep(&time, NULL); /* a signal may end the pause early */
  errno = saved_errno;
}

/*
 * Returns true for errors after which every call in the context fails until the process ends (cuda.h: "leaves
 * the process in an inconsistent state"), and for the end of the driver itself.
 */
static bool cuda_code_is_sticky(int code)
{
  return code == CUDA_ERROR_DEINITIALIZED || code == CUDA_ERROR_ECC_UNCORRECTABLE ||
         code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_TIMEOUT ||
         code == CUDA_ERROR_ASSERT ||
         (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED) ||
         code == CUDA_ERROR_UNKNOWN;
}

#define COMMON_OPS                                                                                           \
  .alloc = cuda_alloc, .alloc_in = cuda_alloc_in, .free = cuda_free, .enter_stream = cuda_enter_stream,      \
  .stream_wait = cuda_stream_wait, .wait = cuda_wait, .wait_as_free = cuda_wait_as_free,                     \
  .reserve = gp_mapped_cuda_reserve, .unreserve = gp_mapped_cuda_unreserve, .create = gp_mapped_cuda_create, \
  .destroy = gp_mapped_cuda_destroy, .map = gp_mapped_cuda_map, .unmap = gp_mapped_cuda_unmap,               \
  .allow = gp_mapped_cuda_allow, .pause = cuda_pause, .memory_info = cuda_memory_info,                       \
  .host_available = cuda_host_available, .trim_async = cuda_trim_async,                                      \
  .async_reserved = cuda_async_reserved, .fill_stream = cuda_fill_stream, .fill = cuda_fill,                 \
  .fill_query = cuda_stream_query, .host_alloc = cuda_host_alloc, .copy_out = cuda_copy_out,                 \
  .stream_query = cuda_stream_query, .default_query = cuda_default_query, .fence_query = cuda_fence_query,   \
  .look_for_escapes = cuda_look_for_escapes, .now_ns = cuda_now_ns,                                          \
  .code_out_of_memory = CUDA_ERROR_OUT_OF_MEMORY, .code_invalid_value = CUDA_ERROR_INVALID_VALUE,            \
  .code_not_ready = CUDA_ERROR_NOT_READY, .code_ended = CUDA_ERROR_DEINITIALIZED,                            \
  .code_is_sticky = cuda_code_is_sticky, .code_is_context_gone = cuda_code_is_context_gone,                  \
  .context_has_ended = cuda_context_has_ended

static const gp_driver_ops_t ops_without_fence = {COMMON_OPS};
static const gp_driver_ops_t ops_with_fence = {COMMON_OPS, .fence_record = cuda_fence_record};

gp_driver_t gp_driver_cuda(int *ret_version)
{
  int version = 0;
  if (GP_REAL_CALL(cuDriverGetVersion, &version) != CUDA_SUCCESS)
    version = 0;
  *ret_version = version;
  bool has_fence = version >= 12050 && GP_REAL(cuCtxRecordEvent);
  return (gp_driver_t){has_fence ? &ops_with_fence : &ops_without_fence, NULL};
}
