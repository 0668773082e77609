/*
 * Lazy initialisation, the device of each thread, the last error, and whole-device calls.
 */
#include "rt.h"

#include <pthread.h>
#include <stdlib.h>

#define MAX_DEVICES 64

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
  CUcontext ctx;       /* retained; NULL before the first use and after a reset */
  unsigned generation; /* counts resets */
} devices[MAX_DEVICES];

static _Thread_local struct {
  CUresult last;
  int device;
  bool bound;
  bool chosen;         /* the program chose the device, and is not bound to it yet: CUDA 11 */
  unsigned generation; /* of the device when this thread was bound to it */
  unsigned long long entries;
} self;

static bool unloading;

/* Calls after this answer cudaErrorCudartUnloading: the runtime's own exit handler, which is as old as its
 * first call. */
static void unload(void)
{
  __atomic_store_n(&unloading, true, __ATOMIC_RELEASE);
}

/* For tests: how many calls of the thread have come to this runtime that need a context. */
unsigned long long __cudaSimEntries(void);
unsigned long long __cudaSimEntries(void)
{
  return self.entries;
}

CUresult rt_set(CUresult code)
{
  if (code != CUDA_SUCCESS)
    self.last = code;
  return code;
}

int rt_device(void)
{
  return self.device;
}

unsigned rt_generation(int device)
{
  return __atomic_load_n(&devices[device].generation, __ATOMIC_ACQUIRE);
}

CUresult rt_init(void)
{
  static bool done;
  if (__atomic_load_n(&unloading, __ATOMIC_ACQUIRE))
    return CUDA_ERROR_DEINITIALIZED;
  if (__atomic_load_n(&done, __ATOMIC_ACQUIRE))
    return CUDA_SUCCESS;
  CUresult code = rt_driver_load();
  if (code == CUDA_SUCCESS)
    code = rt_driver.cuInit(0);
  if (code == CUDA_SUCCESS && !__atomic_exchange_n(&done, true, __ATOMIC_ACQ_REL) &&
      getenv("SIMCUDA_UNLOADS"))
    (void)atexit(unload);
  return code;
}

static CUresult retain(int device, CUcontext *ret_ctx)
{
  CUresult code = CUDA_SUCCESS;
  pthread_mutex_lock(&mutex);
  if (!devices[device].ctx)
    code = rt_driver.cuDevicePrimaryCtxRetain(&devices[device].ctx, device);
  if (code != CUDA_SUCCESS)
    devices[device].ctx = NULL;
  *ret_ctx = devices[device].ctx;
  pthread_mutex_unlock(&mutex);
  return code;
}

static CUresult bind_to(int device)
{
  CUcontext ctx;
  CUresult code = retain(device, &ctx);
  if (code == CUDA_SUCCESS)
    code = rt_driver.cuCtxSetCurrent(ctx);
  if (code == CUDA_SUCCESS) {
    self.device = device;
    self.bound = true;
    self.chosen = false;
    self.generation = rt_generation(device);
  }
  return code;
}

/* A context that the program made current through the driver API is used as it is. */
CUresult rt_bind(void)
{
  self.entries++;
  if (__atomic_load_n(&unloading, __ATOMIC_ACQUIRE))
    return CUDA_ERROR_DEINITIALIZED;
  if (self.bound && self.generation == rt_generation(self.device))
    return CUDA_SUCCESS;
  CUresult code = rt_init();
  if (code != CUDA_SUCCESS)
    return code;
  if (!self.bound && !self.chosen) {
    CUcontext ctx = NULL;
    CUdevice device;
    if (rt_driver.cuCtxGetCurrent(&ctx) == CUDA_SUCCESS && ctx &&
        rt_driver.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
      self.device = device;
      self.bound = true;
      self.generation = rt_generation(device);
      return CUDA_SUCCESS;
    }
  }
  return bind_to(self.device);
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
  CUresult last = self.last;
  self.last = CUDA_SUCCESS;
  return (cudaError_t)last;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
  return (cudaError_t)self.last;
}

/* "bind the primary context of the specified device": since 12.0, before only the next call did */
static CUresult set_device(int device)
{
  int count = 0;
  CUresult code = rt_driver.cuDeviceGetCount(&count);
  if (code != CUDA_SUCCESS)
    return code;
  if (device < 0 || device >= count)
    return CUDA_ERROR_INVALID_DEVICE;
  if (RT_MAJOR >= 12)
    return bind_to(device);
  self.device = device;
  self.bound = false;
  self.chosen = true;
  return CUDA_SUCCESS;
}

RT_FN_INIT(cudaSetDevice, (int device), set_device(device))
RT_FN_INIT(cudaInitDevice, (int device, unsigned int device_flags, unsigned int flags), set_device(device))

static CUresult store(int *ret, int value)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = value;
  return CUDA_SUCCESS;
}

RT_FN_INIT(cudaGetDevice, (int *ret), store(ret, self.device))
RT_FN_INIT(cudaGetDeviceCount, (int *ret), rt_driver.cuDeviceGetCount(ret))
RT_FN(cudaDeviceSynchronize, (void), rt_driver.cuCtxSynchronize())

static CUresult reset(void)
{
  int device = self.device;
  pthread_mutex_lock(&mutex);
  CUresult code = rt_driver.cuDevicePrimaryCtxReset(device);
  if (code == CUDA_SUCCESS) {
    devices[device].ctx = NULL;
    __atomic_fetch_add(&devices[device].generation, 1, __ATOMIC_RELEASE);
    self.bound = false;
    (void)rt_driver.cuCtxSetCurrent(NULL); /* the context is gone either way */
  }
  pthread_mutex_unlock(&mutex);
  return code;
}

RT_FN_INIT(cudaDeviceReset, (void), reset())
RT_FN(cudaDeviceGetLimit, (size_t * ret, enum cudaLimit limit), rt_driver.cuCtxGetLimit(ret, (CUlimit)limit))
RT_FN(
    cudaDeviceSetLimit, (enum cudaLimit limit, size_t value), rt_driver.cuCtxSetLimit((CUlimit)limit, value))
RT_FN(
    cudaDeviceGetCacheConfig, (enum cudaFuncCache * ret), rt_driver.cuCtxGetCacheConfig((CUfunc_cache *)ret))
RT_FN(cudaDeviceSetCacheConfig, (enum cudaFuncCache config),
    rt_driver.cuCtxSetCacheConfig((CUfunc_cache)config))
RT_FN(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
    rt_driver.cuCtxGetStreamPriorityRange(least, greatest))
RT_FN(cudaCtxResetPersistingL2Cache, (void), rt_driver.cuCtxResetPersistingL2Cache())

static CUresult get_flags(unsigned *ret)
{
  int active;
  return ret ? rt_driver.cuDevicePrimaryCtxGetState(self.device, ret, &active) : CUDA_ERROR_INVALID_VALUE;
}

RT_FN_INIT(cudaGetDeviceFlags, (unsigned int *ret), get_flags(ret))
RT_FN_INIT(cudaSetDeviceFlags, (unsigned int flags), rt_driver.cuDevicePrimaryCtxSetFlags(self.device, flags))

static CUresult peer_context(int device, CUcontext *ret)
{
  int count = 0;
  CUresult code = rt_driver.cuDeviceGetCount(&count);
  if (code != CUDA_SUCCESS)
    return code;
  return device >= 0 && device < count ? retain(device, ret) : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult enable_peer(int device, unsigned flags)
{
  CUcontext ctx;
  CUresult code = peer_context(device, &ctx);
  return code == CUDA_SUCCESS ? rt_driver.cuCtxEnablePeerAccess(ctx, flags) : code;
}

static CUresult disable_peer(int device)
{
  CUcontext ctx;
  CUresult code = peer_context(device, &ctx);
  return code == CUDA_SUCCESS ? rt_driver.cuCtxDisablePeerAccess(ctx) : code;
}

RT_FN_INIT(cudaDeviceCanAccessPeer, (int *ret, int device, int peer),
    rt_driver.cuDeviceCanAccessPeer(ret, device, peer))
RT_FN(cudaDeviceEnablePeerAccess, (int device, unsigned int flags), enable_peer(device, flags))
RT_FN(cudaDeviceDisablePeerAccess, (int device), disable_peer(device))

/* ---- versions ---- */

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *ret)
{
  return rt_result(store(ret, RT_VERSION));
}

/* 0 when there is no driver: "no driver is not an error" (cuda_runtime_api.h) */
cudaError_t CUDARTAPI cudaDriverGetVersion(int *ret)
{
  (void)rt_driver_load();
  return rt_result(store(ret, rt_driver_version));
}
