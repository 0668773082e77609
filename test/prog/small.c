/*
 * Programs with little memory that free it at once and never synchronize the device: what they free is
 * finished soon, and nothing but a fence tells a library so.
 *
 *   small buffer [ROUNDS]        one buffer of 2 MiB, copied to and freed
 *   small temporaries [ROUNDS]   as array languages do: two operands, a result, copied back, all freed
 *   small scratch [ROUNDS]       as sorts do: scratch memory for work in a stream, which alone is waited for
 *   small queued [ROUNDS]        work on scratch memory that nothing waits for
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES  (2u * 1024 * 1024)
#define ARRAY_BYTES   4000u
#define SCRATCH_BYTES 785408u

static unsigned long wrong;

static void *take(size_t bytes)
{
  void *memory;
  CALL(cudaMalloc(&memory, bytes));
  return memory;
}

static void give(void *memory)
{
  CALL(cudaFree(memory));
}

static void copy_to_and_free(int round)
{
  static unsigned char host[BUFFER_BYTES];
  unsigned char back = 0;
  void *buffer = take(BUFFER_BYTES);
  memset(host, round, 1);
  CALL(cudaMemcpy(buffer, host, BUFFER_BYTES, cudaMemcpyHostToDevice));
  CALL(cudaMemcpy(&back, buffer, 1, cudaMemcpyDeviceToHost));
  wrong += back != (unsigned char)round;
  give(buffer);
}

static void use_temporaries(int round)
{
  unsigned char host[ARRAY_BYTES];
  void *operands[2], *result = NULL;
  memset(host, 1, sizeof(host));
  for (int i = 0; i < 2; i++) {
    operands[i] = take(ARRAY_BYTES);
    CALL(cudaMemcpy(operands[i], host, ARRAY_BYTES, cudaMemcpyHostToDevice));
  }
  result = take(ARRAY_BYTES);
  CALL(cudaMemsetAsync(result, round & 255, ARRAY_BYTES, 0));
  CALL(cudaMemcpy(host, result, ARRAY_BYTES, cudaMemcpyDeviceToHost));
  for (unsigned i = 0; i < ARRAY_BYTES; i++)
    wrong += host[i] != (round & 255);
  give(result);
  give(operands[0]);
  give(operands[1]);
}

static void use_scratch(int round, cudaStream_t stream, int waits)
{
  void *scratch = take(SCRATCH_BYTES);
  CALL(cudaMemsetAsync(scratch, round & 255, SCRATCH_BYTES, stream));
  if (waits)
    CALL(cudaStreamSynchronize(stream));
  give(scratch);
}

int main(int argc, char **argv)
{
  const char *kind = argc > 1 ? argv[1] : "buffer";
  int rounds = argc > 2 ? atoi(argv[2]) : 200;
  cudaStream_t stream = 0;

  if (strcmp(kind, "scratch") == 0)
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int round = 0; round < rounds; round++) {
    if (strcmp(kind, "buffer") == 0)
      copy_to_and_free(round);
    else if (strcmp(kind, "temporaries") == 0)
      use_temporaries(round);
    else
      use_scratch(round, stream, strcmp(kind, "scratch") == 0);
  }
  if (stream)
    CALL(cudaStreamDestroy(stream));
  printf("small: rounds=%d wrong=%lu\n", rounds, wrong);
  return wrong != 0;
}
