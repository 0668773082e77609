/*
 * Uses memory in streams and learns of its completion in one way for each run: streams WAY [ROUNDS].
 * Each round allocates a block for each stream, fills it there, frees it while the work may be pending,
 * allocates again, fills the new block in another stream and reads it back: what the reader sees is the new
 * owner's, or the memory was handed out too early. Blocks are filled by memsets; under WAY graph by graphs
 * that are launched once and destroyed; under hidden in streams that the driver made by a way of its own,
 * where it has one. WAY, what happens at the end of each round: stream (synchronizes each), query (asks each
 * until it is done), event (waits for an event recorded in each), copy (copies from the device, in the
 * default stream), destroy (makes new streams, the old ones are destroyed with their work pending), device
 * (synchronizes the device), graph and hidden (as stream), none.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS 4
#define BYTES   (1u << 16)

static cudaStream_t work[STREAMS];
static cudaStream_t capturing;
static cudaEvent_t events[STREAMS];
static unsigned char *host;
static unsigned long wrong;

typedef int unseen_stream_fn(void **ret_stream); /* of the simulated driver */

static void make_streams(const char *way)
{
  unseen_stream_fn *unseen = NULL;

  if (strcmp(way, "hidden") == 0)
    *(void **)&unseen = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "simcuda_unseen_stream");
  for (int i = 0; i < STREAMS && unseen; i++)
    must_succeed("making a stream unseen", unseen((void **)&work[i]));
  for (int i = 0; i < STREAMS && !unseen; i++)
    CALL(cudaStreamCreateWithFlags(&work[i], cudaStreamNonBlocking));
}

static void fill(const char *way, void *block, int value, cudaStream_t stream)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;

  if (strcmp(way, "graph") != 0) {
    CALL(cudaMemsetAsync(block, value, BYTES, stream));
    return;
  }
  CALL(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeRelaxed));
  CALL(cudaMemsetAsync(block, value, BYTES, capturing));
  CALL(cudaStreamEndCapture(capturing, &graph));
  CALL(cudaStreamSynchronize(capturing)); /* it has no work, whatever passed through it */
  CALL(cudaGraphInstantiate(&exec, graph, 0));
  CALL(cudaGraphLaunch(exec, stream));
  CALL(cudaGraphExecDestroy(exec));
  CALL(cudaGraphDestroy(graph));
}

static void finish_round(const char *way)
{
  for (int i = 0; i < STREAMS; i++) {
    if (strcmp(way, "stream") == 0 || strcmp(way, "graph") == 0 || strcmp(way, "hidden") == 0) {
      CALL(cudaStreamSynchronize(work[i]));
    } else if (strcmp(way, "query") == 0) {
      cudaError_t result;
      do {
        result = cudaStreamQuery(work[i]);
      } while (result == cudaErrorNotReady);
      must_succeed("cudaStreamQuery", result);
    } else if (strcmp(way, "event") == 0) {
      CALL(cudaEventRecord(events[i], work[i]));
      CALL(cudaEventSynchronize(events[i]));
    } else if (strcmp(way, "destroy") == 0) {
      CALL(cudaStreamDestroy(work[i]));
    }
  }
  if (strcmp(way, "destroy") == 0)
    make_streams(way);
  if (strcmp(way, "device") == 0)
    CALL(cudaDeviceSynchronize());
}

static void one_round(const char *way, int round)
{
  void *blocks[STREAMS];
  unsigned char value = (unsigned char)(round % 250);
  bool in_default = strcmp(way, "copy") == 0;

  for (int i = 0; i < STREAMS; i++) {
    CALL(cudaMalloc(&blocks[i], BYTES));
    fill(way, blocks[i], value + 1, in_default ? NULL : work[i]);
  }
  for (int i = 0; i < STREAMS; i++)
    CALL(cudaFree(blocks[i]));
  for (int i = 0; i < STREAMS; i++) {
    cudaStream_t other = in_default ? NULL : work[(i + 1) % STREAMS];
    CALL(cudaMalloc(&blocks[i], BYTES));
    fill(way, blocks[i], value + 2, other);
    CALL(cudaMemcpyAsync(host + i * BYTES, blocks[i], BYTES, cudaMemcpyDeviceToHost, other));
  }
  if (in_default) {
    for (int i = 0; i < STREAMS; i++)
      CALL(cudaMemcpy(host + i * BYTES, blocks[i], BYTES, cudaMemcpyDeviceToHost));
  }
  bool is_read = in_default;
  if (strcmp(way, "destroy") != 0 && strcmp(way, "none") != 0) {
    finish_round(way);
    is_read = true;
  }
  for (int i = 0; i < STREAMS && is_read; i++)
    for (unsigned k = 0; k < BYTES; k += 4099)
      wrong += host[i * BYTES + k] != value + 2;
  for (int i = 0; i < STREAMS; i++)
    CALL(cudaFree(blocks[i]));
  if (!is_read)
    finish_round(way);
}

int main(int argc, char **argv)
{
  const char *way = argc > 1 ? argv[1] : "stream";
  int rounds = argc > 2 ? atoi(argv[2]) : 50;
  cudaStream_t idle;

  CALL(cudaStreamCreate(&idle)); /* as a library keeps one */
  CALL(cudaStreamCreate(&capturing));
  CALL(cudaMallocHost((void **)&host, STREAMS * BYTES));
  make_streams(way);
  for (int i = 0; i < STREAMS; i++)
    CALL(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
  for (int round = 0; round < rounds; round++)
    one_round(way, round);
  CALL(cudaDeviceSynchronize());
  printf("streams: %s, %d rounds, wrong=%lu\n", way, rounds, wrong);
  return wrong > 0;
}
