/* The CUDA runtime API behind replay_api_t. */
#include "replay.h"

#include <cuda_runtime_api.h>

static int rt_open(void)
{
  return cudaSetDevice(0);
}

static int rt_alloc(uint64_t *ret_address, uint64_t bytes)
{
  void *memory = NULL;
  cudaError_t error = cudaMalloc(&memory, bytes);
  *ret_address = (uint64_t)(uintptr_t)memory;
  return error;
}

static int rt_alloc_async(uint64_t *ret_address, uint64_t bytes, void *stream)
{
  void *memory = NULL;
  cudaError_t error = cudaMallocAsync(&memory, bytes, stream);
  *ret_address = (uint64_t)(uintptr_t)memory;
  return error;
}

static int rt_free(uint64_t address)
{
  return cudaFree((void *)(uintptr_t)address);
}

static int rt_free_async(uint64_t address, void *stream)
{
  return cudaFreeAsync((void *)(uintptr_t)address, stream);
}

static int rt_host_alloc(void **ret_memory, size_t bytes)
{
  return cudaHostAlloc(ret_memory, bytes, cudaHostAllocDefault);
}

static int rt_host_free(void *memory)
{
  return cudaFreeHost(memory);
}

static int rt_copy_in(
    uint64_t address, size_t pitch, const void *host, size_t width, size_t rows, void *stream)
{
  void *device = (void *)(uintptr_t)address;
  if (rows == 1)
    return cudaMemcpyAsync(device, host, width, cudaMemcpyHostToDevice, stream);
  return cudaMemcpy2DAsync(device, pitch, host, width, width, rows, cudaMemcpyHostToDevice, stream);
}

static int rt_copy_out(void *host, uint64_t address, size_t pitch, size_t width, size_t rows, void *stream)
{
  const void *device = (const void *)(uintptr_t)address;
  if (rows == 1)
    return cudaMemcpyAsync(host, device, width, cudaMemcpyDeviceToHost, stream);
  return cudaMemcpy2DAsync(host, width, device, pitch, width, rows, cudaMemcpyDeviceToHost, stream);
}

static int rt_stream_create(void **ret_stream)
{
  cudaStream_t stream = NULL;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  *ret_stream = stream;
  return error;
}

static int rt_stream_destroy(void *stream)
{
  return cudaStreamDestroy(stream);
}

static int rt_stream_sync(void *stream)
{
  return cudaStreamSynchronize(stream);
}

static int rt_device_sync(void)
{
  return cudaDeviceSynchronize();
}

static int rt_event_create(void **ret_event)
{
  cudaEvent_t event = NULL;
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  *ret_event = event;
  return error;
}

static int rt_event_destroy(void *event)
{
  return cudaEventDestroy(event);
}

static int rt_event_record(void *event, void *stream)
{
  return cudaEventRecord(event, stream);
}

static int rt_event_wait(void *stream, void *event)
{
  return cudaStreamWaitEvent(stream, event, 0);
}

static int rt_last_error(void)
{
  return cudaGetLastError();
}

static const char *rt_error_name(int code)
{
  return cudaGetErrorName((cudaError_t)code);
}

const replay_api_t replay_api_runtime = {
    .name = "runtime",
    .out_of_memory = cudaErrorMemoryAllocation,
    .open = rt_open,
    .enter_thread = rt_open, /* the current device is a property of the thread */
    .alloc = rt_alloc,
    .alloc_async = rt_alloc_async,
    .free = rt_free,
    .free_async = rt_free_async,
    .host_alloc = rt_host_alloc,
    .host_free = rt_host_free,
    .copy_in = rt_copy_in,
    .copy_out = rt_copy_out,
    .stream_create = rt_stream_create,
    .stream_destroy = rt_stream_destroy,
    .stream_sync = rt_stream_sync,
    .device_sync = rt_device_sync,
    .event_create = rt_event_create,
    .event_destroy = rt_event_destroy,
    .event_record = rt_event_record,
    .event_wait = rt_event_wait,
    .last_error = rt_last_error,
    .error_name = rt_error_name,
};
