/*
 * ordered_random FIRST COUNT [programmatic] [leaving]: random programs with stream-ordered memory, each from
 * a seed, COUNT of them from FIRST on, all in one process, so that what one leaves in a pool is there for the
 * next. Where the driver is the simulated one, the program says who owns which memory (test/sim/oracle.h),
 * and it judges.
 *
 * They are legal. All work on a block so far comes before what its stream (`at`) does next. A block changes
 * its stream by an event, or between the legacy stream and a blocking one of its context by the rule of
 * those, and then with an operation in the legacy one, or between two blocking ones by calls for other memory
 * in the legacy one alone. It is freed in its stream, or by a host that has
 * waited for that. There are streams of two contexts: legacy, blocking and non-blocking ones, and those of
 * two threads. Streams, a thread and a context end and begin again while work is pending, a stream is
 * captured for a while, with "programmatic" some launches are, and memory of cuMemAlloc is freed in the order
 * of a stream, too. With "leaving" a context that ends leaves nothing behind that was asked for in its
 * streams, although the driver would keep it: GPUPOOL_ASYNC=plain does not.
 */
#include "ordered_random_streams.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS    16
#define STEPS     100
#define MAX_WORDS 128u

/* Of the simulated driver; NULL elsewhere */
static void (*own)(uint64_t address, uint64_t bytes, uint64_t owner);
static void (*disown)(uint64_t address);
static void (*at_step)(uint64_t step);
static void (*seed_driver)(uint64_t seed);

static uint64_t rng;

static unsigned draw(unsigned below)
{
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return (unsigned)((rng >> 32) % below);
}

static int captured = -1; /* stream */
static bool with_programmatic, is_leaving;
static unsigned programmatic; /* launches of 16 in this program */

/* ---- blocks ---- */

typedef struct {
  CUdeviceptr address; /* 0: none */
  uint64_t bytes;
  uint64_t value; /* written last */
  int at;
  int home;      /* stream of its allocation */
  bool is_plain; /* of cuMemAlloc: ends with the context of that */
} block_t;

static block_t blocks[BLOCKS];
static uint64_t owners;

typedef struct {
  task_t task;
  block_t *block;
} work_t;

static void fill(void *arg)
{
  const work_t *work = arg;
  block_t *block = work->block;
  uint64_t words = block->bytes / 8 < MAX_WORDS ? block->bytes / 8 : MAX_WORDS;
  block->value = owners * 1000 + draw(1000);
  void *params[] = {&block->address, &words, &block->value};
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {
      1, 1, 1, 1, 1, 1, 0, streams[work->task.stream], &attribute, draw(16) < programmatic};
  CALL(cuLaunchKernelEx(&config, ctxs[ctx_of(work->task.stream)].fill, params, NULL));
}

static void expect(void *arg)
{
  const work_t *work = arg;
  block_t *block = work->block;
  uint64_t words = block->bytes / 8 < MAX_WORDS ? block->bytes / 8 : MAX_WORDS;
  void *params[] = {&block->address, &words, &block->value};
  CALL(cuLaunchKernel(
      ctxs[ctx_of(work->task.stream)].expect, 1, 1, 1, 1, 1, 1, 0, streams[work->task.stream], params, NULL));
}

static void allocate(void *arg)
{
  const work_t *work = arg;
  CALL(cuMemAllocAsync(&work->block->address, work->block->bytes, streams[work->task.stream]));
}

static void free_in_stream(void *arg)
{
  const work_t *work = arg;
  CALL(cuMemFreeAsync(work->block->address, streams[work->task.stream]));
}

static void on_block(block_t *block, void (*run)(void *))
{
  work_t work = {.task = {run, block->at}, .block = block};
  in_stream(&work.task);
}

static bool rule_orders(int one, int other)
{
  return ctx_of(one) == ctx_of(other) && is_blocking(one) && is_blocking(other) &&
         (kind_of(one) == LEGACY || kind_of(other) == LEGACY);
}

static void tell_owner(const block_t *block)
{
  owners++;
  if (own)
    own(block->address, block->bytes, owners);
}

static void take(block_t *block)
{
  on_block(block, allocate);
  tell_owner(block);
}

static void give(block_t *block)
{
  if (disown)
    disown(block->address);
  on_block(block, free_in_stream);
}

/* Between two blocking streams, threads' own too: by the calls for other memory in
 * the legacy stream alone. */
static void order_by_calls(int one)
{
  block_t passing = {.bytes = 512, .at = one - kind_of(one) + LEGACY};
  take(&passing);
  give(&passing);
}

/* With a use there, since the rule is one for operations. */
static void use_in(block_t *block, int s)
{
  bool is_by_calls = ctx_of(s) == ctx_of(block->at) && is_blocking(s) && is_blocking(block->at) && draw(2);
  if (s != block->at && is_by_calls)
    order_by_calls(s);
  else if (s != block->at && (!rule_orders(s, block->at) || draw(4) == 0))
    order(block->at, s);
  block->at = s;
  on_block(block, draw(3) ? fill : expect);
}

/* The next operation there, whichever call makes it, comes after all work on the block:
 * by the rule, perhaps. */
static int by_rule(int s)
{
  static const int blocking[] = {THREAD, OF_HELPER, BLOCKING, OTHER_BLOCKING};
  int first = s - kind_of(s);
  if (!is_blocking(s) || draw(2))
    return s;
  return kind_of(s) == LEGACY ? first + blocking[draw(4)] : first + LEGACY;
}

static int any_stream(void)
{
  int s;
  do {
    s = (int)draw(draw(4) ? PER_CTX : STREAMS); /* most work is in one context */
  } while (s == captured);
  return s;
}

static void block_begin(block_t *block)
{
  static const uint64_t sizes[] = {512, 512, 1024, 4096, 65536, 1 << 20, 3 << 20, 3 << 20};
  *block = (block_t){.bytes = sizes[draw(sizeof sizes / sizeof *sizes)], .at = any_stream()};
  block->home = block->at;
  block->is_plain = draw(8) == 0;
  CALL(cuCtxSetCurrent(ctxs[ctx_of(block->at)].ctx));
  if (block->is_plain) {
    CALL(cuMemAlloc(&block->address, block->bytes));
    tell_owner(block);
  } else {
    take(block);
    block->at = by_rule(block->at);
  }
  on_block(block, fill);
}

/* cuMemFree waits for work of its memory's context at most, and memory of cuMemAlloc ends with that context:
 * the second one, since the first lives as long as the program. */
static void block_end(block_t *block)
{
  bool is_elsewhere = ctx_of(block->home) != ctx_of(block->at) &&
                      (block->is_plain || (is_leaving && ctx_of(block->home) != 0));
  bool by_host = is_elsewhere || draw(block->is_plain ? 2 : 10) == 0;
  if (draw(2))
    on_block(block, expect);
  if (!by_host)
    block->at = by_rule(block->at);
  if (by_host && (!block->is_plain || is_elsewhere))
    synchronize(block->at);
  if (by_host) {
    if (disown)
      disown(block->address);
    CALL(cuMemFree(block->address));
  } else {
    give(block);
  }
  block->address = 0;
}

/* ---- ends, captures, steps ---- */

static void end_blocks_of(int first, int last)
{
  for (int i = 0; i < BLOCKS; i++) {
    if (blocks[i].address && blocks[i].at >= first && blocks[i].at <= last)
      block_end(&blocks[i]);
  }
}

static void replace_stream(int s)
{
  end_blocks_of(s, s);
  CALL(cuStreamDestroy(streams[s]));
  stream_create(s);
}

static void replace_helper(void)
{
  for (int c = 0; c < CTXS; c++)
    end_blocks_of(c * PER_CTX + OF_HELPER, c * PER_CTX + OF_HELPER);
  helper_end();
  helper_start();
}

static void end_capture(void)
{
  CUgraph graph;
  CUgraphExec exec;
  if (captured < 0)
    return;
  CALL(cuCtxSetCurrent(ctxs[ctx_of(captured)].ctx));
  CALL(cuStreamEndCapture(streams[captured], &graph));
  if (draw(2)) {
    CALL(cuGraphInstantiate(&exec, graph, 0));
    CALL(cuGraphLaunch(exec, streams[captured]));
    CALL(cuGraphExecDestroy(exec));
  }
  CALL(cuGraphDestroy(graph));
  captured = -1;
}

/* With memory of the graph's own, which the driver serves */
static void begin_capture(void)
{
  block_t inside = {.bytes = 4096, .at = (int)draw(CTXS) * PER_CTX + FREE};
  end_blocks_of(inside.at, inside.at);
  CALL(cuCtxSetCurrent(ctxs[ctx_of(inside.at)].ctx));
  CALL(cuStreamBeginCapture(streams[inside.at], CU_STREAM_CAPTURE_MODE_RELAXED));
  captured = inside.at;
  on_block(&inside, allocate);
  on_block(&inside, fill);
  on_block(&inside, free_in_stream);
}

static void replace_ctx(void)
{
  if (captured >= PER_CTX)
    end_capture();
  end_blocks_of(PER_CTX, STREAMS - 1);
  for (int i = 0; i < BLOCKS; i++) {
    if (blocks[i].address && (blocks[i].is_plain || is_leaving) && blocks[i].home >= PER_CTX)
      block_end(&blocks[i]);
  }
  CALL(cuCtxDestroy(ctxs[1].ctx));
  ctx_create(1);
}

static void trim(void)
{
  CUmemoryPool pool;
  size_t free_bytes, total;
  CALL(cuDeviceGetDefaultMemPool(&pool, 0));
  CALL(cuMemPoolTrimTo(pool, draw(2) ? 0 : 8 << 20));
  CALL(cuCtxSetCurrent(ctxs[draw(CTXS)].ctx));
  CALL(cuMemGetInfo(&free_bytes, &total));
}

static void step(void)
{
  block_t *block = &blocks[draw(BLOCKS)];
  int s = any_stream();
  switch (draw(64)) {
  case 0:
  case 1: synchronize(s); break;
  case 2: order(s, any_stream()); break;
  case 3: replace_stream((int)draw(CTXS) * PER_CTX + OTHER_FREE); break;
  case 4: replace_stream((int)draw(CTXS) * PER_CTX + OTHER_BLOCKING); break;
  case 5: trim(); break;
  case 6:
    if (captured < 0)
      begin_capture();
    else
      end_capture();
    break;
  case 7:
    if (draw(4) == 0)
      replace_helper();
    break;
  case 8:
    if (draw(4) == 0)
      replace_ctx();
    break;
  default:
    if (!block->address)
      block_begin(block);
    else if (draw(3) == 0)
      use_in(block, draw(2) ? block->at : s);
    else
      block_end(block);
  }
}

static void run_program(uint64_t seed)
{
  rng = seed * 0x9e3779b97f4a7c15u + 1;
  programmatic = with_programmatic && draw(4) == 0 ? draw(16) : 0;
  if (seed_driver)
    seed_driver(seed);
  for (unsigned i = 0; i < STEPS; i++) {
    if (at_step)
      at_step(seed * 1000 + i);
    step();
  }
  end_capture();
  end_blocks_of(0, STREAMS - 1);
  for (int c = 0; c < CTXS && draw(2); c++) {
    CALL(cuCtxSetCurrent(ctxs[c].ctx));
    CALL(cuCtxSynchronize());
  }
}

/* The first programmatic launches of the process, in two streams: right behind work on memory that may have
 * been the block's before. */
static void begin_to_overlap(void)
{
  static const int in[] = {FREE, OTHER_FREE};
  block_t list[2];
  for (int i = 0; i < 2; i++) {
    list[i] = (block_t){.bytes = 512, .at = in[i], .home = in[i]};
    take(&list[i]);
    on_block(&list[i], fill);
    give(&list[i]);
    take(&list[i]);
  }
  programmatic = 16;
  for (int i = 0; i < 2; i++) {
    on_block(&list[i], fill);
    give(&list[i]);
  }
}

static uint64_t number(const char *text)
{
  char *end;
  uint64_t value = strtoull(text, &end, 10);
  if (!*text || *end) {
    fputs("ordered_random: FIRST and COUNT are numbers\n", stderr);
    exit(2);
  }
  return value;
}

int main(int argc, char **argv)
{
  bool is_understood = argc >= 3;
  for (int i = 3; i < argc; i++) {
    with_programmatic |= strcmp(argv[i], "programmatic") == 0;
    is_leaving |= strcmp(argv[i], "leaving") == 0;
    is_understood &= strcmp(argv[i], "programmatic") == 0 || strcmp(argv[i], "leaving") == 0;
  }
  if (!is_understood) {
    fputs("usage: ordered_random FIRST COUNT [programmatic] [leaving]\n", stderr);
    return 2;
  }
  uint64_t first = number(argv[1]), count = number(argv[2]);
  *(void **)&own = dlsym(RTLD_DEFAULT, "simcuda_own");
  *(void **)&disown = dlsym(RTLD_DEFAULT, "simcuda_disown");
  *(void **)&at_step = dlsym(RTLD_DEFAULT, "simcuda_step");
  *(void **)&seed_driver = dlsym(RTLD_DEFAULT, "simcuda_seed");
  CALL(cuInit(0));
  helper_start();
  for (int c = 0; c < CTXS; c++)
    ctx_create(c);
  rng = first + 1;
  if (with_programmatic)
    begin_to_overlap();
  for (uint64_t i = 0; i < count; i++)
    run_program(first + i);
  helper_end();
  printf(
      "ordered_random: %llu programs, %llu blocks\n", (unsigned long long)count, (unsigned long long)owners);
  return 0;
}
