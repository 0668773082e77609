/*
 * Calls libgpupool.so as torch.cuda.memory.CUDAPluggableAllocator does: looks its functions up by name, in
 * the library of which it was given the path or else in the process, and calls them with the types that
 * PyTorch publishes (torch/csrc/cuda/CUDAPluggableAllocator.h: alloc_fn, free_fn and the set_..._fn). A case
 * each:
 *
 *   order      memory that another stream still reads, named by record_stream, is freed and allocated again
 *   unnamed    the same, and not named: the program is wrong
 *   capture    it is freed while that stream is captured
 *   device     allocated and freed while another device is current
 *   rest       what begins where, limits, an empty cache, and what is no memory
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES ((size_t)8 << 20)

static void *(*torch_alloc)(size_t size, int device, cudaStream_t stream);
static void (*torch_free)(void *ptr, size_t size, int device, cudaStream_t stream);
static void (*torch_record_stream)(void *ptr, cudaStream_t stream);
static void *(*torch_base_alloc)(void *ptr, size_t *size);
static void (*torch_reset)(void);
static void (*torch_memory_fraction)(double fraction, int device);

static void *look_up(void *library, const char *name)
{
  void *function = dlsym(library, name);
  if (!function) {
    printf("no %s\n", name);
    exit(2);
  }
  return function;
}

static cudaStream_t make_stream(void)
{
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

/* What was written in one stream another one may use. */
static void wait_for(cudaStream_t stream, cudaStream_t other)
{
  cudaEvent_t event;
  CALL(cudaEventCreate(&event));
  CALL(cudaEventRecord(event, other));
  CALL(cudaStreamWaitEvent(stream, event, 0));
  CALL(cudaEventDestroy(event));
}

static void order(int is_named)
{
  cudaStream_t own = make_stream(), other = make_stream();
  char *copy = NULL;
  CALL(cudaMallocHost((void **)&copy, BYTES));
  char *memory = torch_alloc(BYTES, 0, own);
  CALL(cudaMemsetAsync(memory, 1, BYTES, own));
  wait_for(other, own);
  CALL(cudaMemcpyAsync(copy, memory, BYTES, cudaMemcpyDeviceToHost, other));
  if (is_named) {
    torch_record_stream(memory, other);
    torch_record_stream(memory, other);
  }
  torch_free(memory, BYTES, 0, own);
  char *again = torch_alloc(BYTES, 0, own);
  CALL(cudaMemsetAsync(again, 2, BYTES, own));
  CALL(cudaDeviceSynchronize());
  printf("again %d, copy %d %d\n", again == memory, copy[0], copy[BYTES - 1]);
  torch_free(again, BYTES, 0, own);
}

/* Returns what was there: its free cannot be ordered behind the other stream until the capture has ended. */
static char *free_beside_capture(cudaStream_t own)
{
  cudaStream_t other = make_stream();
  cudaGraph_t graph;
  char *memory = torch_alloc(BYTES, 0, own);
  CALL(cudaStreamSynchronize(own));
  torch_record_stream(memory, other);
  CALL(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));
  torch_free(memory, BYTES, 0, own);
  torch_free(NULL, 0, 0, own);
  CALL(cudaStreamEndCapture(other, &graph)); /* nothing has spoilt it */
  return memory;
}

static void capture(void)
{
  cudaStream_t own = make_stream();
  char *memory = free_beside_capture(own);
  char *next = torch_alloc(BYTES, 0, own); /* the other one is free since the capture has ended */
  printf("again %d\n", next == memory);
  torch_free(next, BYTES, 0, own);
  torch_reset();
}

/* What could not be freed beside a capture is freed when the program empties its cache. */
static void reset(void)
{
  (void)free_beside_capture(make_stream());
  torch_reset();
  CALL(cudaDeviceSynchronize());
  torch_reset(); /* gives it back */
}

static void other_device(void)
{
  int device = -1;
  CALL(cudaSetDevice(0));
  CALL(cudaFree(0));
  CALL(cudaSetDevice(1));
  CALL(cudaFree(0));
  char *memory = torch_alloc(BYTES, 0, 0);
  struct cudaPointerAttributes attributes;
  CALL(cudaPointerGetAttributes(&attributes, memory));
  torch_free(memory, BYTES, 0, 0);
  int (*current)(int *) = (int (*)(int *))look_up(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxGetDevice");
  CALL((cudaError_t)current(&device)); /* the runtime would name the device that was set */
  printf("memory of %d, current %d\n", attributes.device, device);
}

static void rest(void)
{
  size_t size = 0, total = 0, free_now;
  char *memory = torch_alloc(BYTES, 0, 0);
  const void *base = torch_base_alloc(memory + 512, &size);
  printf("base %d, of the size %d\n", base == memory, size >= BYTES);
  printf("unknown %d\n", torch_base_alloc(&size, NULL) == (void *)&size);
  printf("nothing %d\n", torch_alloc(0, 0, 0) == NULL);
  torch_memory_fraction(0.25, 0);
  torch_memory_fraction(0.5, 0);
  CALL(cudaMemGetInfo(&free_now, &total));
  printf("total %zu MiB\n", total >> 20);
  printf("too much %d\n", torch_alloc(total, 0, 0) == NULL);
  torch_memory_fraction(-1.0, 0);
  torch_memory_fraction(1.0, 0);
  CALL(cudaMemGetInfo(&free_now, &total));
  printf("total %zu MiB\n", total >> 20);
  torch_free(memory, BYTES, 0, 0);
}

int main(int argc, char **argv)
{
  void *library = dlopen(argc > 2 ? argv[2] : NULL, RTLD_NOW); /* as Python's ctypes.CDLL */
  const char *name = argc > 1 ? argv[1] : "";
  if (!library)
    return 2;
  *(void **)&torch_alloc = look_up(library, "gpupool_torch_alloc");
  *(void **)&torch_free = look_up(library, "gpupool_torch_free");
  *(void **)&torch_record_stream = look_up(library, "gpupool_torch_record_stream");
  *(void **)&torch_base_alloc = look_up(library, "gpupool_torch_base_alloc");
  *(void **)&torch_reset = look_up(library, "gpupool_torch_reset");
  *(void **)&torch_memory_fraction = look_up(library, "gpupool_torch_memory_fraction");
  CALL(cudaFree(0));
  if (strcmp(name, "order") == 0 || strcmp(name, "unnamed") == 0)
    order(name[0] == 'o');
  else if (strcmp(name, "capture") == 0)
    capture();
  else if (strcmp(name, "reset") == 0)
    reset();
  else if (strcmp(name, "device") == 0)
    other_device();
  else if (strcmp(name, "rest") == 0)
    rest();
  else
    return 2;
  return 0;
}
