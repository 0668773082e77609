/*
 * Shows what a stream capture does to allocations: stream-ordered ones become nodes of the graph, plain ones
 * are legal only in relaxed mode and happen at once, and elsewhere they fail and spoil the capture. Prints
 * codes by name and the bytes that the launched graphs left behind.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1024u * 1024)

static cudaStream_t stream;
static unsigned char *host; /* pinned: copies to it can be captured */

static void show(const char *part, const char *what, cudaError_t error)
{
  printf("%s: %s: %s\n", part, what, cudaGetErrorName(error));
  (void)cudaGetLastError(); /* shown already */
}

static void show_host(const char *part)
{
  unsigned wrong = 0;
  for (unsigned i = 1; i < BYTES; i++)
    wrong += host[i] != host[0];
  printf("%s: host memory holds %d, %u bytes differ\n", part, host[0], wrong);
}

/* Instantiates and launches a graph twice, then disposes of it. */
static void launch(const char *part, cudaGraph_t graph)
{
  cudaGraphExec_t exec = NULL;
  show(part, "instantiate", cudaGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < 2 && exec; i++) {
    memset(host, 0, BYTES);
    show(part, "launch", cudaGraphLaunch(exec, stream));
    show(part, "synchronize", cudaStreamSynchronize(stream));
    show_host(part);
  }
  if (exec)
    show(part, "destroy exec", cudaGraphExecDestroy(exec));
  show(part, "destroy graph", cudaGraphDestroy(graph));
}

static void stream_ordered(enum cudaStreamCaptureMode mode, const char *part)
{
  void *memory = NULL;
  cudaGraph_t graph = NULL;
  show(part, "begin", cudaStreamBeginCapture(stream, mode));
  show(part, "cudaMallocAsync", cudaMallocAsync(&memory, BYTES, stream));
  show(part, "cudaMemsetAsync", cudaMemsetAsync(memory, 17, BYTES, stream));
  show(part, "cudaMemcpyAsync", cudaMemcpyAsync(host, memory, BYTES, cudaMemcpyDeviceToHost, stream));
  show(part, "cudaFreeAsync", cudaFreeAsync(memory, stream));
  show(part, "end", cudaStreamEndCapture(stream, &graph));
  if (graph)
    launch(part, graph);
}

/* Blocks allocated before and during the capture are used by the graph, and freed
 * during another and after. */
static void relaxed(void)
{
  static const char part[] = "relaxed";
  void *early = NULL, *during = NULL, *spare = NULL;
  cudaGraph_t graph = NULL, empty = NULL;
  show(part, "cudaMalloc before", cudaMalloc(&early, BYTES));
  show(part, "cudaMalloc before", cudaMalloc(&spare, BYTES));
  show(part, "begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  show(part, "cudaMalloc during", cudaMalloc(&during, BYTES));
  show(part, "cudaFree during", cudaFree(spare));
  show(part, "cudaMemsetAsync", cudaMemsetAsync(during, 34, BYTES, stream));
  show(part, "cudaMemcpyAsync", cudaMemcpyAsync(early, during, BYTES, cudaMemcpyDeviceToDevice, stream));
  show(part, "cudaMemcpyAsync", cudaMemcpyAsync(host, early, BYTES, cudaMemcpyDeviceToHost, stream));
  show(part, "end", cudaStreamEndCapture(stream, &graph));
  if (graph)
    launch(part, graph);

  show(part, "begin again", cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  show(part, "cudaFree during", cudaFree(during));
  show(part, "end", cudaStreamEndCapture(stream, &empty));
  if (empty)
    show(part, "destroy graph", cudaGraphDestroy(empty));
  show(part, "cudaFree after", cudaFree(early));
}

/* A plain allocation or free is refused in the strict modes and ends the capture; the
 * block is still there. */
static void forbidden(enum cudaStreamCaptureMode mode, const char *part)
{
  void *block = NULL, *other = NULL;
  cudaGraph_t graph = NULL;
  show(part, "cudaMalloc before", cudaMalloc(&block, BYTES));
  show(part, "begin", cudaStreamBeginCapture(stream, mode));
  cudaError_t error = cudaMalloc(&other, BYTES);
  show(part, "cudaMalloc during", error);
  show(part, "end", cudaStreamEndCapture(stream, &graph));
  if (graph)
    show(part, "destroy graph", cudaGraphDestroy(graph));
  if (error == cudaSuccess)
    show(part, "cudaFree of it", cudaFree(other));

  graph = NULL;
  show(part, "begin", cudaStreamBeginCapture(stream, mode));
  error = cudaFree(block);
  show(part, "cudaFree during", error);
  show(part, "end", cudaStreamEndCapture(stream, &graph));
  if (graph)
    show(part, "destroy graph", cudaGraphDestroy(graph));
  if (error != cudaSuccess) {
    show(part, "cudaMemset after", cudaMemset(block, 1, BYTES));
    show(part, "cudaFree after", cudaFree(block));
  }
}

int main(void)
{
  show("setup", "stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaError_t error = cudaHostAlloc((void **)&host, BYTES, cudaHostAllocDefault);
  show("setup", "pinned memory", error);
  if (error != cudaSuccess)
    return 1;
  stream_ordered(cudaStreamCaptureModeGlobal, "stream-ordered, global");
  stream_ordered(cudaStreamCaptureModeThreadLocal, "stream-ordered, thread");
  relaxed();
  forbidden(cudaStreamCaptureModeGlobal, "forbidden, global");
  forbidden(cudaStreamCaptureModeThreadLocal, "forbidden, thread");
  relaxed(); /* a spoilt capture leaves nothing behind */
  show("end", "synchronize", cudaDeviceSynchronize());
  show("end", "free pinned memory", cudaFreeHost(host));
  show("end", "destroy stream", cudaStreamDestroy(stream));
  return 0;
}
