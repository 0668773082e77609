/*
 * Shows a program compiled for per-thread default streams: its calls go to the _ptsz and _ptds twins, where
 * stream 0 is another stream in every thread although the handle is the same. A library that takes the handle
 * for the stream's identity hands a block to a second thread while the first thread's work on it is pending.
 *
 * per_thread [THREADS [ROUNDS]]
 */
#include "calls.h"

#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_THREADS 64
#define BLOCK_BYTES (256u * 1024)
#define LIVE        4

typedef struct job {
  pthread_t thread;
  int index, rounds;
  unsigned long wrong;
} job_t;

/* Every thread writes values of its own; a byte of another thread's value is memory shared by mistake. */
static void *work(void *data)
{
  job_t *job = data;
  unsigned char *host;
  void *blocks[LIVE];
  CALL(cudaSetDevice(0));
  CALL(cudaHostAlloc((void **)&host, (size_t)LIVE * BLOCK_BYTES, cudaHostAllocDefault));
  for (int round = 0; round < job->rounds; round++) {
    int value = (job->index * 16 + round % 16) & 255;
    int ordered = round % 2;
    for (int i = 0; i < LIVE; i++) {
      if (ordered)
        CALL(cudaMallocAsync(&blocks[i], BLOCK_BYTES, 0));
      else
        CALL(cudaMalloc(&blocks[i], BLOCK_BYTES));
      CALL(cudaMemsetAsync(blocks[i], value, BLOCK_BYTES, 0));
      CALL(
          cudaMemcpyAsync(host + (size_t)i * BLOCK_BYTES, blocks[i], BLOCK_BYTES, cudaMemcpyDeviceToHost, 0));
    }
    for (int i = 0; i < LIVE; i++) { /* freed while the copies may be pending */
      if (ordered)
        CALL(cudaFreeAsync(blocks[i], 0));
      else
        CALL(cudaFree(blocks[i]));
    }
    CALL(cudaStreamSynchronize(0));
    for (size_t i = 0; i < (size_t)LIVE * BLOCK_BYTES; i++)
      job->wrong += host[i] != value;
  }
  CALL(cudaFreeHost(host));
  return NULL;
}

int main(int argc, char **argv)
{
  int threads = argc > 1 ? atoi(argv[1]) : 4, rounds = argc > 2 ? atoi(argv[2]) : 50;
  static job_t jobs[MAX_THREADS];
  if (threads < 1 || threads > MAX_THREADS || rounds < 1) {
    fprintf(stderr, "usage: per_thread [THREADS (1 to %d) [ROUNDS]]\n", MAX_THREADS);
    return 2;
  }
  for (int i = 0; i < threads; i++) {
    jobs[i].index = i;
    jobs[i].rounds = rounds;
    if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i]) != 0)
      abort();
  }
  unsigned long wrong = 0;
  for (int i = 0; i < threads; i++) {
    pthread_join(jobs[i].thread, NULL);
    wrong += jobs[i].wrong;
  }
  printf("per_thread: threads=%d rounds=%d wrong_bytes=%lu\n", threads, rounds, wrong);
  return wrong > 0;
}
