/* A CUDA runtime that does nothing: what CUB's allocator calls, so that nothing but the allocator is
 * measured. */
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>

cudaError_t cudaMalloc(void **ret, size_t bytes)
{
  static _Atomic uint64_t next_address = UINT64_C(0x100000000000);
  *ret = (void *)(uintptr_t)atomic_fetch_add(&next_address, (bytes + 511) / 512 * 512);
  return cudaSuccess;
}

cudaError_t cudaFree(void *block)
{
  (void)block;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *ret_device)
{
  *ret_device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *ret_count)
{
  *ret_count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
  (void)device;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned int flags)
{
  (void)flags;
  *ret_event = NULL;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  (void)event;
  (void)stream;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  (void)event;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  (void)event;
  return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
  return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void)
{
  return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
  (void)error;
  return "";
}

cudaError_t cudaDeviceSynchronize(void)
{
  return cudaSuccess;
}
