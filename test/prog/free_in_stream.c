/*
 * free_in_stream [ordered]: frees memory of cuMemAlloc, or of cuMemAllocAsync, in stream order, and prints
 * what the program can see of that besides the memory: the order between streams, the answers for streams
 * that cannot take it, and that it waits for nothing.
 */
#include "waiting.h"

enum { ROUNDS = 200 };

static CUdeviceptr blocks[ROUNDS + 4];

static void print(const char *what, CUresult first, CUresult second)
{
  printf("%s: %d, then %d\n", what, (int)first, (int)second);
}

/* The second answer: of a free that is not in stream order. */
static void free_in_capture(CUdeviceptr block)
{
  CUgraph graph = NULL;
  CUstream stream;

  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUresult result = cuMemFreeAsync(block, stream);
  print("end of the capture", cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  print("captured stream", result, cuMemFree_v2(block));
  if (graph)
    CALL(cuGraphDestroy(graph));
  CALL(cuStreamDestroy_v2(stream));
}

static void free_in_destroyed(CUdeviceptr block)
{
  CUstream stream;

  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamDestroy_v2(stream));
  CUresult result = cuMemFreeAsync(block, stream);
  print("destroyed stream", result, cuMemFree_v2(block));
}

static void free_beside_kernel(CUdeviceptr block)
{
  waiting_start();
  CUresult result = cuMemFreeAsync(block, waiting_work);
  print("beside a kernel", result, cuMemFreeAsync(block, waiting_work));
  waiting_stop();
  CALL(cuCtxSynchronize());
}

/*
 * A blocking stream reads what the thread's own stream wrote before. Nothing but the free, an operation of
 * the legacy default stream, is between the two.
 */
static void free_in_between(void)
{
  CUdeviceptr memory = waiting_take(4096);
  CUstream reader;
  unsigned *host;
  int wrong = 0;

  CALL(cuStreamCreate(&reader, CU_STREAM_DEFAULT));
  CALL(cuMemHostAlloc((void **)&host, sizeof(*host), 0));
  for (unsigned i = 0; i < ROUNDS; i++) {
    CALL(cuMemsetD32Async(memory, i + 1, 1024, CU_STREAM_PER_THREAD));
    CALL(cuMemFreeAsync(blocks[i], CU_STREAM_LEGACY));
    CALL(cuMemcpyDtoHAsync_v2(host, memory, sizeof(*host), reader));
    CALL(cuStreamSynchronize(reader));
    wrong += *host != i + 1;
  }
  printf("order: %d wrong\n", wrong);
  CALL(cuMemFreeHost(host));
  CALL(cuStreamDestroy_v2(reader));
  CALL(cuMemFree_v2(memory));
}

static CUdeviceptr take_in_stream(void)
{
  CUdeviceptr block;

  CALL(cuMemAllocAsync(&block, 4096, waiting_work));
  return block;
}

int main(int argc, char **argv)
{
  bool is_async = argc == 2 && strcmp(argv[1], "ordered") == 0;

  waiting_setup();
  for (int i = 0; i < ROUNDS + 4; i++)
    blocks[i] = is_async ? take_in_stream() : waiting_take(4096);
  CALL(cuStreamSynchronize(waiting_work));
  free_in_between();
  free_in_capture(blocks[ROUNDS]);
  free_in_destroyed(blocks[ROUNDS + 1]);
  free_beside_kernel(blocks[ROUNDS + 2]);
  CALL(cuMemFree_v2(blocks[ROUNDS + 3]));
  puts("end");
  return 0;
}
