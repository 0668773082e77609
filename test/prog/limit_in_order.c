/*
 * Frees memory in the order of streams, and compares what the simulated device has given with a limit.
 *
 *   limit_in_order while-busy KIND LIMIT
 *     frees memory of that kind behind a kernel that runs until the host writes a flag, asks for as much
 *     again, lets the kernel end, and asks again
 *   limit_in_order awaited KIND LIMIT
 *     the same behind a kernel that ends by itself
 *   limit_in_order shared LIMIT
 *     gives another device access to the default pool between two requests
 *   limit_in_order second LIMIT
 *     asks in a stream of a second context, which then ends: memory of the default pool outlives it
 *   limit_in_order random SEED STEPS THREADS LIMIT
 *     threads that allocate, free, submit work and synchronize at random
 *
 * Ends with 1 once the device has given more than LIMIT bytes, or when what cuMemGetInfo calls free in the
 * end is refused.
 */
#include "waiting.h"

#include <dlfcn.h>

#define SIZE    (64 * MIB) /* of which two do not fit into 96 MiB */
#define THREADS 8
#define ITEMS   48

static uint64_t limit;

/* What the simulated device has given to this process. */
static void check(const char *after)
{
  static uint64_t (*ask)(int device);
  if (!ask)
    *(void **)&ask = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "simcuda_used");
  uint64_t used = ask ? ask(0) : UINT64_MAX;
  if (used <= limit)
    return;
  printf("%llu bytes of %llu after %s\n", (unsigned long long)used, (unsigned long long)limit, after);
  exit(1);
}

/* What a thread works with. */
typedef struct thread {
  unsigned random;
  CUstream streams[2];
  CUmemoryPool pool; /* NULL: not made */
  struct item {
    CUdeviceptr pointer;
    bool is_of_pool;
  } items[ITEMS];
  int count, refused;
} thread_t;

static unsigned draw(thread_t *thread, unsigned most)
{
  return (unsigned)rand_r(&thread->random) % most;
}

typedef CUresult alloc_fn(thread_t *thread, CUdeviceptr *ret, size_t bytes);

static CUresult alloc_plain(thread_t *thread, CUdeviceptr *ret, size_t bytes)
{
  (void)thread;
  return cuMemAlloc_v2(ret, bytes);
}

static CUresult alloc_exported(thread_t *thread, CUdeviceptr *ret, size_t bytes)
{
  CUipcMemHandle handle;
  CUresult result = alloc_plain(thread, ret, bytes);
  if (result == CUDA_SUCCESS)
    (void)cuIpcGetMemHandle(&handle, *ret); /* some memory cannot be exported */
  return result;
}

/* Each width is new, so that no earlier answer gives the pitch. */
static CUresult alloc_pitch(thread_t *thread, CUdeviceptr *ret, size_t bytes)
{
  static _Atomic size_t next;
  size_t pitch;
  (void)thread;
  return cuMemAllocPitch_v2(ret, &pitch, 4096 - atomic_fetch_add(&next, 1) % 512, (bytes + 4095) / 4096, 4);
}

/* A synchronization of the context would end a capture. */
static pthread_mutex_t capturing = PTHREAD_MUTEX_INITIALIZER;

static CUresult alloc_captured(thread_t *thread, CUdeviceptr *ret, size_t bytes)
{
  CUgraph graph;
  (void)thread;
  CUstream stream;
  pthread_mutex_lock(&capturing);
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUresult result = cuMemAlloc_v2(ret, bytes);
  CALL(cuStreamEndCapture(stream, &graph));
  pthread_mutex_unlock(&capturing);
  CALL(cuGraphDestroy(graph));
  CALL(cuStreamDestroy_v2(stream));
  return result;
}

static CUresult alloc_async(thread_t *thread, CUdeviceptr *ret, size_t bytes)
{
  return cuMemAllocAsync(ret, bytes, thread->streams[draw(thread, 2)]);
}

static CUresult alloc_pool(thread_t *thread, CUdeviceptr *ret, size_t bytes)
{
  CUmemPoolProps properties = {
      .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  if (!thread->pool)
    CALL(cuMemPoolCreate(&thread->pool, &properties));
  return cuMemAllocFromPoolAsync(ret, bytes, thread->pool, thread->streams[draw(thread, 2)]);
}

static CUresult alloc_orphan(thread_t *thread, CUdeviceptr *ret, size_t bytes)
{
  CUresult result = alloc_pool(thread, ret, bytes);
  CALL(cuMemPoolDestroy(thread->pool));
  thread->pool = NULL;
  return result;
}

static const struct kind {
  const char *name;
  alloc_fn *alloc;
  bool is_of_pool; /* the program has to know that nothing uses it before cuMemFree */
} kinds[] = {{"plain", alloc_plain, false}, {"exported", alloc_exported, false},
    {"pitch", alloc_pitch, false}, {"captured", alloc_captured, false}, {"async", alloc_async, true},
    {"pool", alloc_pool, true}, {"orphan", alloc_orphan, true}};
#define KINDS (sizeof kinds / sizeof kinds[0])

static void make_streams(thread_t *thread)
{
  CALL(cuStreamCreate(&thread->streams[0], CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&thread->streams[1], CU_STREAM_DEFAULT));
}

static CUresult ask_again(const char *when, size_t bytes)
{
  CUdeviceptr again;
  CUresult result = cuMemAlloc_v2(&again, bytes);
  printf("%s: %d\n", when, (int)result);
  check(when);
  if (result == CUDA_SUCCESS)
    CALL(cuMemFree_v2(again));
  return result;
}

static void run_kind(const char *name, bool is_awaited)
{
  thread_t thread = {.random = 1};
  CUdeviceptr block;

  waiting_setup();
  make_streams(&thread);
  const struct kind *kind = &kinds[CASE_OF(name, kinds)];
  must_succeed(kind->name, (int)kind->alloc(&thread, &block, SIZE));
  CALL(cuStreamSynchronize(thread.streams[0]));
  CALL(cuStreamSynchronize(thread.streams[1]));
  if (is_awaited)
    waiting_busy(thread.streams[0], 50000000);
  else
    waiting_start_in(waiting_module, thread.streams[0]);
  CALL(cuMemFreeAsync(block, thread.streams[0]));
  check("the free");
  if (!is_awaited) {
    (void)ask_again("while the kernel runs", SIZE);
    waiting_stop();
    CALL(cuStreamSynchronize(thread.streams[0]));
  }
  (void)ask_again("in the end", SIZE);
}

static void allocate(thread_t *thread)
{
  const struct kind *kind = &kinds[draw(thread, KINDS)];
  struct item *item = &thread->items[thread->count];
  size_t bytes = draw(thread, 3) ? MIB / 2 << draw(thread, 6) : 1 + draw(thread, (unsigned)MIB);

  *item = (struct item){.is_of_pool = kind->is_of_pool};
  CUresult result = kind->alloc(thread, &item->pointer, bytes + 256 * draw(thread, 3));
  if (result != CUDA_ERROR_OUT_OF_MEMORY)
    must_succeed(kind->name, (int)result);
  thread->count += result == CUDA_SUCCESS;
  thread->refused += result != CUDA_SUCCESS;
  check(kind->name);
}

static void release(thread_t *thread)
{
  int i = (int)draw(thread, (unsigned)thread->count);
  struct item item = thread->items[i];

  thread->items[i] = thread->items[--thread->count];
  if (draw(thread, 4) == 0 && !item.is_of_pool) {
    CALL(cuMemFree_v2(item.pointer));
    check("cuMemFree");
    return;
  }
  CUstream stream = thread->streams[draw(thread, 2)];
  if (draw(thread, 2))
    waiting_busy(stream, 1000 << draw(thread, 8));
  CALL(cuMemFreeAsync(item.pointer, stream));
  check("cuMemFreeAsync");
}

/* A stream that ends may have work: the device has the memory until then all the same. */
static void replace_stream(thread_t *thread)
{
  unsigned i = draw(thread, 2);
  CALL(cuStreamDestroy_v2(thread->streams[i]));
  CALL(cuStreamCreate(&thread->streams[i], i == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
  check("cuStreamDestroy");
}

static void synchronize(void)
{
  pthread_mutex_lock(&capturing);
  CALL(cuCtxSynchronize());
  pthread_mutex_unlock(&capturing);
}

static unsigned steps;

static void *run_thread(void *arg)
{
  thread_t *thread = arg;
  size_t available, total;

  CALL(cuCtxSetCurrent(waiting_context));
  make_streams(thread);
  for (unsigned step = 0; step < steps; step++) {
    unsigned what = draw(thread, 40);
    if (what == 0)
      replace_stream(thread);
    else if (what == 1)
      CALL(cuStreamSynchronize(thread->streams[draw(thread, 2)]));
    else if (what == 2)
      CALL(cuMemGetInfo_v2(&available, &total));
    else if (what == 3)
      synchronize();
    else if (thread->count == ITEMS || (thread->count > 0 && draw(thread, 9) < 4))
      release(thread);
    else
      allocate(thread);
  }
  while (thread->count > 0)
    release(thread);
  return NULL;
}

/* What is free can be had: by cuMemAlloc, and by cuMemAllocAsync. */
static void take_all(void)
{
  size_t available, total;
  CUdeviceptr block;

  CALL(cuMemGetInfo_v2(&available, &total));
  printf("free in the end: %zu of %zu\n", available, total);
  must_succeed("cuMemAlloc of what is free", cuMemAlloc_v2(&block, available));
  check("all");
  CALL(cuMemFree_v2(block));
  CALL(cuCtxSynchronize());
  must_succeed("cuMemAllocAsync of what is free", cuMemAllocAsync(&block, available, NULL));
  check("all");
  CALL(cuMemFreeAsync(block, NULL));
  CALL(cuCtxSynchronize());
}

static void run_random(unsigned seed, int count)
{
  static thread_t threads[THREADS];
  pthread_t ids[THREADS];
  int refused = 0;

  waiting_setup();
  for (int i = 0; i < count; i++) {
    threads[i].random = seed * THREADS + (unsigned)i;
    if (pthread_create(&ids[i], NULL, run_thread, &threads[i]) != 0)
      abort();
  }
  for (int i = 0; i < count; i++) {
    (void)pthread_join(ids[i], NULL);
    refused += threads[i].refused;
  }
  CALL(cuCtxSynchronize());
  for (int i = 0; i < count; i++)
    if (threads[i].pool)
      CALL(cuMemPoolDestroy(threads[i].pool));
  printf("refused: %d\n", refused);
  take_all();
}

/* Other devices may reach memory of the pool. */
static void run_shared(void)
{
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemoryPool pool;
  CUdeviceptr block;

  waiting_setup();
  SAY(cuMemAllocAsync(&block, 4 * MIB, NULL));
  CALL(cuDeviceGetDefaultMemPool(&pool, 0));
  CALL(cuMemPoolSetAccess(pool, &access, 1));
  SAY(cuMemAllocAsync(&block, 4 * MIB, NULL));
}

static void run_second(void)
{
  CUcontext second;
  CUdeviceptr block;
  CUstream stream;

  waiting_setup();
  CALL(cuCtxCreate_v2(&second, 0, 0));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (SAY(cuMemAllocAsync(&block, 4 * MIB, stream)) != CUDA_SUCCESS)
    return;
  CALL(cuStreamSynchronize(stream));
  CALL(cuCtxDestroy_v2(second));
  CALL(cuCtxSetCurrent(waiting_context));
  SAY(cuMemFree_v2(block));
}

int main(int argc, char **argv)
{
  limit = strtoull(argv[argc - 1], NULL, 10);
  if (argc == 4 && strcmp(argv[1], "while-busy") == 0) {
    run_kind(argv[2], false);
  } else if (argc == 4 && strcmp(argv[1], "awaited") == 0) {
    run_kind(argv[2], true);
  } else if (argc == 3 && strcmp(argv[1], "shared") == 0) {
    run_shared();
  } else if (argc == 3 && strcmp(argv[1], "second") == 0) {
    run_second();
  } else if (argc == 6 && strcmp(argv[1], "random") == 0) {
    steps = (unsigned)atoi(argv[3]);
    run_random((unsigned)atoi(argv[2]), atoi(argv[4]) < THREADS ? atoi(argv[4]) : THREADS);
  } else {
    fprintf(stderr, "limit_in_order: what is to be done?\n");
    return 2;
  }
  return 0;
}
