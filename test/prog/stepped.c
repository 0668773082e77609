/*
 * stepped [ROUNDS [THREADS]]: a fixed script of operations, for a test that stops this process at every store
 * to its record. Raises USR1 at the beginning and at the end of each operation, and prints what it holds
 * then: a line "begin NAME" or "end NAME", and ADDRESS:BYTES of each allocation. It ends in the operation
 * "exit". ROUNDS allocations and frees come between two operations, and so do THREADS threads that allocate
 * and stay.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <gpupool.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>

#define MIB   ((size_t)1 << 20)
#define BYTES (3 * MIB)
#define ROOM  8
#define CROWD 128 /* threads */

typedef struct held {
  void *address; /* NULL: nothing */
  size_t bytes;
} held_t;

static held_t held[ROOM];
static cudaStream_t stream;

static void say(const char *when, const char *name)
{
  printf("%s %s", when, name);
  for (int i = 0; i < ROOM; i++) {
    if (held[i].address)
      printf("\t%#llx:%zu", (unsigned long long)(uintptr_t)held[i].address, held[i].bytes);
  }
  printf("\n");
}

static void begin(const char *name)
{
  say("begin", name);
  CALL(raise(SIGUSR1));
}

static void end(const char *name)
{
  CALL(raise(SIGUSR1));
  say("end", name);
}

#define STEP(name, statement)                                                                                \
  do {                                                                                                       \
    begin(name);                                                                                             \
    statement;                                                                                               \
    end(name);                                                                                               \
  } while (0)

static void take(int i, size_t bytes)
{
  CALL(cudaMalloc(&held[i].address, bytes));
  held[i].bytes = bytes;
}

static void take_async(int i, size_t bytes)
{
  CALL(cudaMallocAsync(&held[i].address, bytes, stream));
  held[i].bytes = bytes;
}

/* Forgets the block first: a free that fails ends the program. */
static void *forget(int i)
{
  void *address = held[i].address;
  held[i].address = NULL;
  return address;
}

static void give(int i)
{
  CALL(cudaFree(forget(i)));
}

static void give_async(int i)
{
  CALL(cudaFreeAsync(forget(i), stream));
}

/* Work on the block, which stays pending until the host waits. */
static void use(int i)
{
  CALL(cudaMemsetAsync(held[i].address, 1, 4096, stream));
}

static void pooled(void)
{
  STEP("first", take(0, MIB));
  STEP("miss", take(1, BYTES));
  STEP("free", give(1));
  STEP("synchronize", CALL(cudaDeviceSynchronize()));
  STEP("hit", take(1, BYTES));
  use(1);
  STEP("free in use", give(1));
  STEP("miss beside", take(2, BYTES));
  STEP("completion", CALL(cudaDeviceSynchronize()));
  STEP("hit again", take(1, BYTES));
  STEP("replace: new", take(3, 2 * BYTES));
  CALL(cudaMemcpyAsync(held[3].address, held[2].address, 4096, cudaMemcpyDeviceToDevice, stream));
  STEP("replace: old", give(2));
  STEP("free between", give(1));
  STEP("free beside", give(3));
  STEP("small", take(1, 4096));
  STEP("free small", give(1));
  STEP("idle", CALL(cudaDeviceSynchronize()));
  STEP("other size", take(1, BYTES / 2));
  STEP("free other size", give(1));
}

/* What the thread keeps of its own (pool/serve/heaps.h). */
static void in_heap(void)
{
  STEP("small hit", take(1, 4096));
  STEP("kept", give(1));
  STEP("kept and covered", CALL(cudaDeviceSynchronize()));
  STEP("handed on", take(1, 4096));
  STEP("kept again", give(1));
  STEP("given to a miss", take(2, 4 * BYTES));
  STEP("small beside", take(1, 4096));
  STEP("free large", give(2));
  STEP("free small in between", give(1));
}

static void in_stream(void)
{
  STEP("async", take_async(1, BYTES));
  use(1);
  STEP("async free", give_async(1));
  STEP("async again", take_async(1, BYTES));
  STEP("async free again", give_async(1));
  STEP("async idle", CALL(cudaStreamSynchronize(stream)));
  STEP("async hit", take_async(1, BYTES));
  STEP("free of async", give(1));
}

static void pinned(int i)
{
  CALL(cudaMallocHost(&held[i].address, 8192));
  held[i].bytes = 8192;
}

static void pitched(int i)
{
  size_t pitch;
  CALL(cudaMallocPitch(&held[i].address, &pitch, 1000, 40));
  held[i].bytes = 40 * pitch;
}

static void managed(int i)
{
  CALL(cudaMallocManaged(&held[i].address, 65536, cudaMemAttachGlobal));
  held[i].bytes = 65536;
}

/* Memory that the driver serves, and memory that has another holder. */
static void not_pooled(void)
{
  cudaIpcMemHandle_t handle;
  STEP("pitched", pitched(1));
  STEP("managed", managed(2));
  STEP("pinned", pinned(3));
  STEP("free pitched", give(1));
  STEP("free managed", give(2));
  STEP("free pinned", CALL(cudaFreeHost(forget(3))));
  STEP("to retain", take(1, BYTES));
  void *address = held[1].address;
  STEP("retain", (void)gpupool_retain(address));
  STEP("free retained", give(1));
  STEP("release", (void)gpupool_release(address));
  STEP("to export", take(1, BYTES));
  STEP("export", (void)cudaIpcGetMemHandle(&handle, held[1].address));
  STEP("free exported", give(1));
}

static void refused(void)
{
  void *address;
  if (cudaMalloc(&address, (size_t)1 << 50) != cudaErrorMemoryAllocation)
    exit(1);
  (void)cudaGetLastError();
}

static void scope(void)
{
  uint64_t number = 0;
  (void)gpupool_scope_begin(0, "scope", &number);
  (void)gpupool_scope_end(number, NULL);
}

/* Modes, and what users ask of the library. */
static void asked(void)
{
  cudaGraph_t graph;
  STEP("capture", CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)));
  STEP("take beside capture", take(1, BYTES));
  STEP("free beside capture", give(1));
  STEP("capture ends", CALL(cudaStreamEndCapture(stream, &graph)));
  CALL(cudaGraphDestroy(graph));
  STEP("refused", refused());
  STEP("mark", (void)gpupool_mark("mark"));
  STEP("scope", scope());
  STEP("snapshot", (void)gpupool_snapshot("asked.json", NULL, 0));
  STEP("empty cache", (void)gpupool_empty_cache(NULL));
}

/* A block that is larger than each idle one, but not than all of them. */
static void apart(void)
{
  for (int i = 1; i <= 3; i++)
    take(i, 16 * MIB);
  give(1);
  give(3);
  CALL(cudaDeviceSynchronize());
  STEP("larger", take(1, 32 * MIB));
  STEP("free larger", give(1));
  STEP("free between larger", give(2));
  STEP("free larger: synchronize", CALL(cudaDeviceSynchronize()));
}

#define OTHER_BYTES 12288 /* of no other block */

/* Leaves a block of that size to another thread, and one in this thread's heap. */
static void leave_small(void)
{
  for (int i = 1; i <= 3; i++)
    take(i, OTHER_BYTES);
  for (int i = 1; i <= 3; i++)
    give(i);
  CALL(cudaDeviceSynchronize());
  take(1, OTHER_BYTES);
  give(1);
}

static void *in_thread(void *ignored)
{
  STEP("thread: hit", take(2, OTHER_BYTES));
  STEP("thread: kept", give(2));
  STEP("thread: miss", take(1, BYTES));
  STEP("thread: free", give(1));
  begin("thread: end");
  return ignored;
}

static void thread(void)
{
  pthread_t other;
  leave_small();
  CALL(pthread_create(&other, NULL, in_thread, NULL));
  CALL(pthread_join(other, NULL));
  end("thread: end");
}

static sem_t has_allocated, may_end;

static void *stay(void *ignored)
{
  void *block;
  CALL(cudaMalloc(&block, BYTES));
  CALL(cudaFree(block));
  CALL(sem_post(&has_allocated));
  (void)sem_wait(&may_end);
  return ignored;
}

static void rounds(int count)
{
  for (int i = 0; i < count; i++) {
    take(1, BYTES);
    give(1);
    CALL(cudaDeviceSynchronize());
  }
}

/* A chunk of the record has 16 events at least. */
static void turns(const char *name)
{
  for (int i = 0; i < 6; i++) {
    STEP(name, take(1, BYTES));
    STEP(name, give(1));
    STEP(name, CALL(cudaDeviceSynchronize()));
  }
}

static void *turns_in_thread(void *ignored)
{
  turns("shared");
  return ignored;
}

/* Each of so many threads has a chunk to itself, so that none is left for another one. */
static void crowd(int count)
{
  static pthread_t threads[CROWD];
  pthread_t late;
  for (int i = 0; i < count; i++)
    CALL(pthread_create(&threads[i], NULL, stay, NULL));
  for (int i = 0; i < count; i++)
    (void)sem_wait(&has_allocated);
  CALL(pthread_create(&late, NULL, turns_in_thread, NULL));
  CALL(pthread_join(late, NULL));
  for (int i = 0; i < count; i++)
    (void)sem_post(&may_end);
  for (int i = 0; i < count; i++)
    CALL(pthread_join(threads[i], NULL));
}

int main(int argc, char **argv)
{
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  (void)signal(SIGUSR1, SIG_IGN);
  CALL(cudaSetDevice(0));
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  pooled();
  in_heap();
  in_stream();
  not_pooled();
  apart();
  asked();
  thread();
  turns("turn");
  rounds(argc > 1 ? atoi(argv[1]) : 1);
  turns("turn");
  CALL(sem_init(&has_allocated, 0, 0) || sem_init(&may_end, 0, 0));
  crowd(argc > 2 ? atoi(argv[2]) : 1);
  STEP("recording stops", (void)gpupool_set_recording(GPUPOOL_RECORD_STATE));
  STEP("take unrecorded", take(1, BYTES));
  STEP("recording goes on", (void)gpupool_set_recording(GPUPOOL_RECORD_ALL));
  STEP("take recorded", take(2, BYTES));
  begin("exit");
  return 0;
}
