/*
 * The functions that torch.cuda.memory.CUDAPluggableAllocator looks up (gpupool.h). As in PyTorch's own
 * allocators, memory is stream-ordered: it is freed in the stream in which it was allocated, after the work
 * of the streams passed to record_stream.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/api/api.h"
#include "interpose/hooks/hooks.h"
#include "interpose/routes/real.h"
#include "base/log.h"

#define BUCKETS 256

/* Calls the driver as PyTorch would. If the library is preloaded, the library's own hook makes the call.
 * Otherwise the hooks must not run, because they would start the library. */
#define CALL(symbol, ...)                                                                                    \
  (gp_api_is_preloaded() ? hook_##symbol(__VA_ARGS__) : GP_REAL_CALL(symbol, __VA_ARGS__))

/* A use of a block in a stream other than the block's own. */
typedef struct use {
  struct use *next;
  CUdeviceptr pointer;
  CUstream stream;
} use_t;

/* A block whose free is deferred, because one of its streams is capturing. */
typedef struct late {
  struct late *next;
  CUdeviceptr pointer;
  int device;
  CUstream stream;
  use_t *uses;
} late_t;

static gp_lock_t lock = GP_LOCK_INIT(GP_RANK_HOOKS); /* guards the variables below */
static use_t *buckets[BUCKETS];
static late_t *lates;

static use_t **bucket_of(CUdeviceptr pointer)
{
  gp_assert_internal(gp_lock_is_held(&lock));
  return &buckets[((uint64_t)pointer * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
}

static bool is_ready(void)
{
  static _Atomic bool has_told;
  if (!gp_api_is_preloaded() && !atomic_exchange(&has_told, true))
    gp_log(GP_LOG_ERROR,
        "libgpupool.so was loaded but not preloaded: PyTorch gets memory from the driver's own pool, and nothing is recorded; start the program with LD_PRELOAD=libgpupool.so");
  return gp_real_bind();
}

/* Makes the device's primary context current, unless a context of the device is current. Returns the context
 * that leave_device must pop, or NULL. */
static CUcontext enter_device(int device)
{
  CUdevice current;
  CUcontext context;
  if (GP_REAL_CALL(cuCtxGetDevice, &current) == CUDA_SUCCESS && current == device)
    return NULL;
  if (GP_REAL_CALL(cuDevicePrimaryCtxRetain, &context, device) != CUDA_SUCCESS)
    return NULL;
  if (CALL(cuCtxPushCurrent_v2, context) == CUDA_SUCCESS)
    return context;
  (void)CALL(cuDevicePrimaryCtxRelease_v2, device);
  return NULL;
}

static void leave_device(CUcontext entered, int device)
{
  if (!entered)
    return;
  gp_real_pop_context(entered);
  (void)CALL(cuDevicePrimaryCtxRelease_v2, device);
}

static bool is_captured(CUstream stream)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return GP_REAL_CALL(cuStreamIsCapturing, stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Returns true if the free can be ordered after `uses`: if `uses` is empty, or none of the streams is
 * capturing. A capturing stream cannot be ordered with one that is not capturing. */
static bool may_order(CUstream stream, const use_t *uses)
{
  bool captured = uses && is_captured(stream);
  for (; uses && !captured; uses = uses->next)
    captured = is_captured(uses->stream);
  return !captured;
}

/* Makes later work in `stream` begin after all work submitted to `other` so far. */
static void order_behind(CUstream stream, CUstream other)
{
  CUevent event = NULL;
  if (GP_REAL_CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return;
  if (CALL(cuEventRecord, event, other) == CUDA_SUCCESS)
    (void)CALL(cuStreamWaitEvent, stream, event, 0);
  (void)CALL(cuEventDestroy_v2, event); /* the driver releases the event once it has completed */
}

static void free_behind(CUdeviceptr pointer, int device, CUstream stream, use_t *uses)
{
  CUcontext entered = enter_device(device);
  while (uses) {
    use_t *next = uses->next;
    order_behind(stream, uses->stream);
    free(uses);
    uses = next;
  }
  CUresult result = CALL(cuMemFreeAsync, pointer, stream);
  leave_device(entered, device);
  if (result != CUDA_SUCCESS)
    gp_log(GP_LOG_INFO, "PyTorch's free of %#llx failed: CUDA error %d", (unsigned long long)pointer,
        (int)result);
}

/* The caller of the two functions below holds the lock. */

static void push_late(late_t *late)
{
  gp_assert_internal(gp_lock_is_held(&lock));
  late->next = lates;
  lates = late;
}

static late_t *take_all_lates(void)
{
  late_t *all = lates;

  gp_assert_internal(gp_lock_is_held(&lock));
  lates = NULL;
  return all;
}

static void put_late(late_t *late)
{
  gp_lock_take(&lock);
  push_late(late);
  gp_lock_release(&lock);
}

static void free_lates(void)
{
  gp_lock_take(&lock);
  late_t *list = take_all_lates();
  gp_lock_release(&lock);
  while (list) {
    late_t *next = list->next;
    if (may_order(list->stream, list->uses)) {
      free_behind(list->pointer, list->device, list->stream, list->uses);
      free(list);
    } else {
      put_late(list);
    }
    list = next;
  }
}

static use_t *take_uses(CUdeviceptr pointer)
{
  use_t *taken = NULL;
  gp_lock_take(&lock);
  for (use_t **at = bucket_of(pointer); *at;) {
    use_t *use = *at;
    if (use->pointer != pointer) {
      at = &use->next;
      continue;
    }
    *at = use->next;
    use->next = taken;
    taken = use;
  }
  gp_lock_release(&lock);
  return taken;
}

GP_API void *gpupool_torch_alloc(size_t size, int device, struct CUstream_st *stream)
{
  CUdeviceptr pointer = 0;
  if (size == 0 || !is_ready())
    return NULL;
  free_lates();
  CUcontext entered = enter_device(device);
  CUresult result = CALL(cuMemAllocAsync, &pointer, size, stream);
  leave_device(entered, device);
  return result == CUDA_SUCCESS ? (void *)(uintptr_t)pointer : NULL;
}

GP_API void gpupool_torch_free(void *address, size_t size, int device, struct CUstream_st *stream)
{
  CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
  if (!address || !is_ready())
    return;
  use_t *uses = take_uses(pointer);
  if (may_order(stream, uses)) {
    free_lates();
    free_behind(pointer, device, stream, uses);
    return;
  }
  late_t *late = malloc(sizeof(*late));
  if (!late) {
    gp_log(GP_LOG_ERROR, "out of host memory: a free of PyTorch's is lost, and its %zu bytes stay allocated",
        size);
    return;
  }
  *late = (late_t){.pointer = pointer, .device = device, .stream = stream, .uses = uses};
  put_late(late);
}

GP_API void gpupool_torch_record_stream(void *address, struct CUstream_st *stream)
{
  CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
  if (!address)
    return;
  use_t *use = malloc(sizeof(*use));
  if (!use) {
    gp_log(GP_LOG_ERROR, "out of host memory: a record_stream call of PyTorch's has no effect");
    return;
  }
  gp_lock_take(&lock);
  use_t **bucket = bucket_of(pointer);
  const use_t *known = *bucket;
  while (known && (known->pointer != pointer || known->stream != stream))
    known = known->next;
  if (!known) {
    *use = (use_t){.next = *bucket, .pointer = pointer, .stream = stream};
    *bucket = use;
  }
  gp_lock_release(&lock);
  if (known)
    free(use);
}

GP_API void *gpupool_torch_base_alloc(void *address, size_t *ret_size)
{
  CUdeviceptr base = 0;
  size_t size = 0;
  if (!address || !is_ready() ||
      CALL(cuMemGetAddressRange_v2, &base, &size, (CUdeviceptr)(uintptr_t)address) != CUDA_SUCCESS)
    return address;
  if (ret_size)
    *ret_size = size;
  return (void *)(uintptr_t)base;
}

GP_API void gpupool_torch_reset(void)
{
  if (is_ready())
    free_lates();
  (void)gpupool_api_empty_cache(NULL);
}

GP_API void gpupool_torch_memory_fraction(double fraction, int device)
{
  gp_engine_t *engine;
  if (!(fraction > 0.0) || gp_api_device(&engine, &device) != GPUPOOL_OK)
    return;
  gp_amount_t limit = {.is_none = fraction >= 1.0};
  gp_device_use_t use;
  uint64_t free_bytes, total_bytes;
  if (!limit.is_none) { /* a fraction of the whole device, whatever the limit was before */
    if (!gp_engine_ask_info(engine, gp_engine_device_context(engine, device), &free_bytes, &total_bytes) ||
        !gp_engine_device_use(engine, device, &use))
      return;
    limit.number = (uint64_t)(fraction * (double)use.total);
  }
  (void)gp_engine_set_limit(engine, device, &limit);
}
