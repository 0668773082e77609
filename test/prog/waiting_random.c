/*
 * waiting_random KIND FIRST COUNT: random programs, each from a seed, COUNT of them from FIRST on, with
 * memory that is freed in the order of streams beside a kernel that runs on. The device has 1 GiB
 * (SIMCUDA_CAPACITY). What a program has, and what it has freed without having learned that the stream is
 * past that, is at most BUDGET; so natively no request is refused, whatever the kernel does.
 *
 * KIND: which memory: "async" (cuMemAllocAsync), "malloc" (cuMemAlloc) or "both". The streams, of two
 * contexts: the legacy ones, the thread's own, blocking and non-blocking ones. The kernel runs in a
 * non-blocking stream of either context. Prints the seed of each program in which a request was refused, and
 * the sums.
 */
#include "waiting.h"

#define BLOCKS 12
#define STEPS  120
#define BUDGET (860 * MIB) /* an eighth more is less than the device has */

enum { LEGACY, OWN, BLOCKING, OTHER_BLOCKING, FREE, OTHER_FREE, PER_CTX };
enum { CTXS = 2, STREAMS = CTXS * PER_CTX };

static struct {
  CUcontext ctx;
  CUmodule module;
  CUstream kernel;
  CUevent event; /* recorded anew for each use */
} ctxs[CTXS];

static CUstream streams[STREAMS];
static int busy; /* the kernel's context */

typedef struct {
  CUdeviceptr address; /* 0: none */
  size_t bytes;
  int at;        /* the stream of its last use */
  bool is_plain; /* of cuMemAlloc: of that context */
} block_t;

static block_t blocks[BLOCKS];
static size_t untold[STREAMS];           /* bytes that were freed there */
static unsigned requests[2], refused[2]; /* of cuMemAllocAsync, of cuMemAlloc */
static uint64_t rng;

static unsigned draw(unsigned below)
{
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return (unsigned)((rng >> 32) % below);
}

static void enter(int s)
{
  CALL(cuCtxSetCurrent(ctxs[s / PER_CTX].ctx));
}

static size_t used(void)
{
  size_t sum = 0;
  for (int i = 0; i < BLOCKS; i++)
    sum += blocks[i].address ? blocks[i].bytes : 0;
  for (int s = 0; s < STREAMS; s++)
    sum += untold[s];
  return sum;
}

/* ---- how the program learns that a stream is past its frees ---- */

static void order(int before, int after)
{
  CUevent event = ctxs[before / PER_CTX].event;
  enter(before);
  CALL(cuEventRecord(event, streams[before]));
  enter(after);
  CALL(cuStreamWaitEvent(streams[after], event, 0));
}

static void learn_one(int s)
{
  CUevent event = ctxs[s / PER_CTX].event;
  unsigned way = draw(4);

  enter(s);
  if (way > 1)
    CALL(cuEventRecord(event, streams[s]));
  switch (way) {
  case 0: CALL(cuStreamSynchronize(streams[s])); break;
  case 1:
    while (cuStreamQuery(streams[s]) == CUDA_ERROR_NOT_READY)
      ;
    break;
  case 2: CALL(cuEventSynchronize(event)); break;
  default:
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
      ;
  }
  untold[s] = 0;
}

/* Of streams of which each waits for the one before, the last is asked. */
static void learn_chain(int s)
{
  int passed[3], count = 0;

  for (unsigned more = draw(3); more > 0; more--) {
    int next = (int)draw(STREAMS);
    passed[count++] = s;
    if (next != s)
      order(s, next);
    s = next;
  }
  learn_one(s);
  while (count > 0)
    untold[passed[--count]] = 0;
}

static void learn_ctx(int c)
{
  if (c == busy)
    return;
  CALL(cuCtxSetCurrent(ctxs[c].ctx));
  CALL(cuCtxSynchronize());
  for (int s = c * PER_CTX; s < (c + 1) * PER_CTX; s++)
    untold[s] = 0;
}

/* ---- blocks ---- */

static void work(const block_t *block)
{
  enter(block->at);
  CALL(cuMemsetD8Async(block->address, 1, 4096, streams[block->at]));
}

static void block_begin(block_t *block, bool is_plain)
{
  CUdeviceptr address;
  *block = (block_t){.bytes = (draw(4) ? 1 + draw(200) : 1 + draw(20) * 16) * MIB,
      .at = (int)draw(STREAMS),
      .is_plain = is_plain};
  if (used() + block->bytes > BUDGET)
    return;
  enter(block->at);
  CUresult result = is_plain ? cuMemAlloc_v2(&address, block->bytes)
                             : cuMemAllocAsync(&address, block->bytes, streams[block->at]);
  requests[is_plain]++;
  refused[is_plain] += result != CUDA_SUCCESS;
  if (result != CUDA_SUCCESS)
    return;
  block->address = address;
  work(block);
}

static void block_end(block_t *block)
{
  enter(block->at);
  CALL(cuMemFreeAsync(block->address, streams[block->at]));
  untold[block->at] += block->bytes;
  block->address = 0;
}

/* In another stream from now on; plain memory stays in its context. */
static void move(block_t *block)
{
  int s = block->is_plain ? block->at / PER_CTX * PER_CTX + (int)draw(PER_CTX) : (int)draw(STREAMS);
  if (s != block->at)
    order(block->at, s);
  block->at = s;
  work(block);
}

/* ---- programs ---- */

static void step(const char *kind)
{
  block_t *block = &blocks[draw(BLOCKS)];
  bool is_plain = strcmp(kind, "both") == 0 ? draw(2) : strcmp(kind, "malloc") == 0;

  switch (draw(12)) {
  case 0:
  case 1: learn_one((int)draw(STREAMS)); break;
  case 2: learn_chain((int)draw(STREAMS)); break;
  case 3: learn_ctx((int)draw(CTXS)); break;
  case 4:
    if (block->address)
      move(block);
    break;
  default:
    if (!block->address)
      block_begin(block, is_plain);
    else
      block_end(block);
  }
}

/* All memory is gone when it ends, and no work is left. */
static void run_program(const char *kind, uint64_t seed)
{
  rng = seed * 0x9e3779b97f4a7c15u + 1;
  busy = (int)draw(CTXS);
  waiting_again();
  CALL(cuCtxSetCurrent(ctxs[busy].ctx));
  waiting_start_in(ctxs[busy].module, ctxs[busy].kernel);
  for (int i = 0; i < STEPS; i++)
    step(kind);
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i].address)
      block_end(&blocks[i]);
  waiting_stop();
  for (int c = 0; c < CTXS; c++) {
    CALL(cuCtxSetCurrent(ctxs[c].ctx));
    CALL(cuCtxSynchronize());
  }
  memset(untold, 0, sizeof(untold));
}

static void make_context(int c)
{
  static const unsigned char image[4] = {0};

  if (c == 0)
    ctxs[c].ctx = waiting_context;
  else
    CALL(cuCtxCreate_v2(&ctxs[c].ctx, 0, 0));
  CALL(cuCtxSetCurrent(ctxs[c].ctx));
  CALL(cuModuleLoadData(&ctxs[c].module, image));
  CALL(cuStreamCreate(&ctxs[c].kernel, CU_STREAM_NON_BLOCKING));
  CALL(cuEventCreate(&ctxs[c].event, CU_EVENT_DISABLE_TIMING));
  streams[c * PER_CTX + LEGACY] = CU_STREAM_LEGACY;
  streams[c * PER_CTX + OWN] = CU_STREAM_PER_THREAD;
  for (int i = BLOCKING; i < PER_CTX; i++)
    CALL(cuStreamCreate(&streams[c * PER_CTX + i], i < FREE ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

int main(int argc, char **argv)
{
  if (argc != 4) {
    fputs("usage: waiting_random async|malloc|both FIRST COUNT\n", stderr);
    return 2;
  }
  uint64_t first = strtoull(argv[2], NULL, 10), count = strtoull(argv[3], NULL, 10);
  waiting_setup();
  for (int c = 0; c < CTXS; c++)
    make_context(c);
  for (uint64_t seed = first; seed < first + count; seed++) {
    unsigned before = refused[0] + refused[1];
    run_program(argv[1], seed);
    if (refused[0] + refused[1] != before)
      printf("seed %llu: %u refused\n", (unsigned long long)seed, refused[0] + refused[1] - before);
  }
  printf("async: %u of %u refused\nmalloc: %u of %u refused\nend\n", refused[0], requests[0], refused[1],
      requests[1]);
  return 0;
}
