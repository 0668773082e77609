/*
 * Eight threads on four devices, two on each: each allocates in turn large blocks that it keeps and small
 * ones that it does not, and one in eight leaves its blocks behind.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 8
#define DEVICES 4
#define STEPS   12
#define MIB     ((size_t)1 << 20)

static void must(const char *what, cudaError_t error)
{
  if (error == cudaSuccess)
    return;
  fprintf(stderr, "devices: %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

static void *work(void *arg)
{
  int number = (int)(size_t)arg;
  void *kept[STEPS];
  cudaStream_t stream;

  must("cudaSetDevice", cudaSetDevice(number % DEVICES));
  must("cudaStreamCreate", cudaStreamCreate(&stream));
  for (int step = 0; step < STEPS; step++) {
    void *temporary;
    must("cudaMalloc", cudaMalloc(&kept[step], (size_t)(number + 1) * 4 * MIB));
    must("cudaMalloc", cudaMalloc(&temporary, (size_t)(step % 3 + 1) * 100000));
    must("cudaMemsetAsync", cudaMemsetAsync(temporary, 1, 1000, stream));
    must("cudaStreamSynchronize", cudaStreamSynchronize(stream));
    must("cudaFree", cudaFree(temporary));
  }
  for (int step = 0; step < STEPS && number != THREADS - 1; step++)
    must("cudaFree", cudaFree(kept[step]));
  must("cudaDeviceSynchronize", cudaDeviceSynchronize());
  return NULL;
}

/* One after the other: what it does is then the same every time. */
int main(void)
{
  for (size_t i = 0; i < THREADS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, (void *)i) != 0 || pthread_join(thread, NULL) != 0)
      return 1;
  }
  return 0;
}
