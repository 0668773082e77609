/*
 * A random program whose driver calls fail at random (SIMCUDA_FAIL=*:*@1/N): random_faults SEED. It keeps
 * what no failure may take from it:
 *
 *   owners    memory that it is given overlaps with none that it holds, unless their context has ended
 *   contents  a block that was filled, and copied back, holds its owner's bytes
 *   frees     a block that it holds can be freed: a free that fails is tried again, until the context has
 * ended or says that nothing works in it any more
 *
 * Prints wrong=N allocations=N frees=N tried_again=N dead=N: of the frees, those in a context in which
 * nothing works.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define HELD    24
#define STEPS   220
#define STREAMS 2
#define TRIES   8
#define MOST    ((size_t)96 << 10)

typedef struct {
  CUdeviceptr address; /* 0: none */
  size_t bytes;
  CUcontext context;
  CUstream stream; /* of its allocation, if is_async */
  unsigned char value;
  bool is_filled, is_async;
} held_t;

static held_t held[HELD];
static CUcontext contexts[2], primary;
static CUstream streams[2][STREAMS];
static unsigned long long state;
static unsigned wrong, allocations, frees, tried_again, dead;

static unsigned draw(unsigned below)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

/* Injected failures are no news; only one that stays tells. */
static bool enter(int which)
{
  CUcontext current = NULL;
  for (int i = 0; i < TRIES; i++)
    if (cuCtxSetCurrent(contexts[which]) == CUDA_SUCCESS && cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
        current == contexts[which])
      return true;
  return false;
}

/* Nothing works in the context: the same error again and again. */
static bool is_dead(void)
{
  CUresult first = cuCtxSynchronize();
  int same = 0;
  for (int i = 0; i < TRIES; i++)
    same += cuCtxSynchronize() != CUDA_SUCCESS;
  return first != CUDA_SUCCESS && same == TRIES;
}

static int index_of(CUcontext context)
{
  return context == contexts[1];
}

static void say(const char *what, const held_t *block, int code)
{
  wrong++;
  printf("%s: %llx, %zu bytes, code %d\n", what, (unsigned long long)block->address, block->bytes, code);
}

static void take(int which)
{
  held_t *block = NULL;
  for (int i = 0; i < HELD && !block; i++)
    if (!held[i].address)
      block = &held[i];
  if (!block)
    return;
  CUstream stream = streams[which][draw(STREAMS)];
  held_t made = {.bytes = 1 + draw(MOST),
      .context = contexts[which],
      .stream = stream,
      .value = (unsigned char)draw(256)};
  made.is_async = stream && draw(4) == 0;
  CUresult result = made.is_async ? cuMemAllocAsync(&made.address, made.bytes, stream)
                                  : cuMemAlloc_v2(&made.address, made.bytes);
  if (result != CUDA_SUCCESS)
    return;
  allocations++;
  for (int i = 0; i < HELD; i++)
    if (held[i].address && made.address < held[i].address + held[i].bytes &&
        held[i].address < made.address + made.bytes)
      say("two owners", &made, 0);
  *block = made;
  if (!stream)
    return;
  block->is_filled = cuMemsetD8Async(made.address, made.value, made.bytes, stream) == CUDA_SUCCESS &&
                     cuStreamSynchronize(stream) == CUDA_SUCCESS;
}

static void look(const held_t *block)
{
  static unsigned char bytes[MOST];
  if (!block->is_filled || cuMemcpyDtoH_v2(bytes, block->address, block->bytes) != CUDA_SUCCESS)
    return;
  for (size_t i = 0; i < block->bytes; i++)
    if (bytes[i] != block->value) {
      say("another's bytes", block, bytes[i]);
      return;
    }
}

static void give(held_t *block)
{
  CUresult result = CUDA_SUCCESS;
  /* Where no synchronization with its stream has succeeded only that stream may free it. */
  bool in_order = block->is_async && (!block->is_filled || draw(2));
  CUstream stream = block->is_filled ? streams[index_of(block->context)][0] : block->stream;

  if (!enter(index_of(block->context)))
    return;
  look(block);
  frees++;
  for (int i = 0; i < TRIES; i++) {
    result = in_order ? cuMemFreeAsync(block->address, stream) : cuMemFree_v2(block->address);
    if (result == CUDA_SUCCESS)
      break;
    tried_again++;
  }
  if (result != CUDA_SUCCESS) {
    if (is_dead())
      dead++;
    else
      say("not freed", block, (int)result);
  }
  block->address = 0;
}

/* A graph with a copy of a block's own bytes; a graph with memory of its own. */
static void use_graph(const held_t *block, CUstream stream)
{
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  CUdeviceptr inner = 0;

  if (!block->is_filled || cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
    return;
  (void)cuMemsetD8Async(block->address, block->value, block->bytes, stream);
  if (draw(2) && cuMemAllocAsync(&inner, 4096, stream) == CUDA_SUCCESS) {
    (void)cuMemsetD8Async(inner, 1, 4096, stream);
    (void)cuMemFreeAsync(inner, stream);
  }
  for (int i = 0; i < TRIES && !graph; i++)
    (void)cuStreamEndCapture(stream, &graph);
  if (graph && cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS)
    (void)cuGraphLaunch(exec, stream);
  for (int i = 0; i < TRIES && cuStreamSynchronize(stream) != CUDA_SUCCESS; i++)
    ;
  if (exec)
    (void)cuGraphExecDestroy(exec);
  if (graph)
    (void)cuGraphDestroy(graph);
}

static void step(void)
{
  int which = (int)draw(2);
  held_t *block = &held[draw(HELD)];

  if (!contexts[which] || !enter(which))
    return;
  CUstream stream = streams[which][draw(STREAMS)];
  switch (draw(8)) {
  case 0:
  case 1:
  case 2: take(which); break;
  case 3:
  case 4:
    if (block->address)
      give(block);
    break;
  case 5: (void)cuCtxSynchronize(); break;
  case 6:
    if (stream)
      (void)cuStreamSynchronize(stream);
    break;
  default:
    if (stream && block->address && index_of(block->context) == which && enter(which))
      use_graph(block, stream);
    break;
  }
}

int main(int argc, char **argv)
{
  state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  for (int i = 0; i < 64 && cuInit(0) != CUDA_SUCCESS; i++)
    ;
  for (int i = 0; i < TRIES && !primary; i++)
    (void)cuDevicePrimaryCtxRetain(&primary, 0);
  contexts[0] = primary;
  if (draw(2))
    (void)cuCtxCreate_v2(&contexts[1], 0, 0);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < STREAMS && contexts[i] && enter(i); k++)
      (void)cuStreamCreate(&streams[i][k], k ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < STEPS; i++)
    step();
  for (int i = 0; i < HELD; i++)
    if (held[i].address)
      give(&held[i]);
  printf("wrong=%u allocations=%u frees=%u tried_again=%u dead=%u\n", wrong, allocations, frees, tried_again,
      dead);
  return wrong > 0;
}
