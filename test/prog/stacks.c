/*
 * Shows who asks for memory: functions whose names tell what they do allocate sizes that tell which of them
 * it was.
 *
 * stacks policy: a small and a large block, each from the driver and again from the pool; managed memory; a
 * small and a large stream-ordered allocation.
 *
 * stacks deep DEPTH: one allocation below DEPTH calls.
 *
 * stacks threads COUNT KIB: allocations in many threads with stacks of KIB each.
 *
 * stacks handler: allocations in a signal handler, on an alternate stack and on the thread's own.
 *
 * stacks depths N: as many stacks, each of another depth.
 * stacks unload A B: libraries that allocate, loaded and unloaded in turns.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cuda_runtime_api.h>

#include "calls.h"
#include "stacks_plugin.h"

#define NOINLINE __attribute__((noinline))
#define KEEP     __asm__ volatile("" ::: "memory") /* so that the call before is not the last thing, a jump */

static NOINLINE void *allocate(size_t bytes)
{
  void *pointer = NULL;
  CALL(cudaMalloc(&pointer, bytes));
  KEEP;
  return pointer;
}

/* After it the block can be had again: everything before is known to be complete. */
static NOINLINE void release(void *pointer)
{
  CALL(cudaFree(pointer));
  CALL(cudaDeviceSynchronize());
}

static NOINLINE void *small_from_driver(void)
{
  void *pointer = allocate(1000);
  KEEP;
  return pointer;
}

static NOINLINE void *small_from_pool(void)
{
  void *pointer = allocate(1001);
  KEEP;
  return pointer;
}

static NOINLINE void *large_from_driver(void)
{
  void *pointer = allocate(4000000);
  KEEP;
  return pointer;
}

static NOINLINE void *large_from_pool(void)
{
  void *pointer = allocate(4000001);
  KEEP;
  return pointer;
}

static NOINLINE void *managed(void)
{
  void *pointer = NULL;
  CALL(cudaMallocManaged(&pointer, 70000, cudaMemAttachGlobal));
  KEEP;
  return pointer;
}

static NOINLINE void *ordered(size_t bytes)
{
  void *pointer = NULL;
  CALL(cudaMallocAsync(&pointer, bytes, NULL));
  KEEP;
  return pointer;
}

static void policy(void)
{
  release(small_from_driver());
  release(small_from_pool());
  release(large_from_driver());
  (void)large_from_pool(); /* left to the snapshot */
  release(managed());
  release(ordered(70001));
  release(ordered(5000000));
}

static NOINLINE void deep(int depth)
{
  if (depth > 0)
    deep(depth - 1);
  else
    release(allocate(1000));
  KEEP;
}

#define ROUNDS 48 /* beyond the number of captures after which the unwinder changes */

static void *in_thread(void *unused)
{
  for (int i = 0; i < ROUNDS; i++)
    release(allocate(1000));
  return unused;
}

static void threads(int count, size_t kib)
{
  pthread_t *ids = calloc((size_t)count, sizeof(*ids));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (!ids || pthread_attr_setstacksize(&attributes, kib << 10)) {
    fprintf(stderr, "no such threads\n");
    exit(1);
  }
  release(allocate(1000)); /* the runtime's start takes more stack than a thread may have */
  for (int i = 0; i < count; i++) {
    if (pthread_create(&ids[i], &attributes, in_thread, NULL)) {
      fprintf(stderr, "no more threads\n");
      exit(1);
    }
  }
  for (int i = 0; i < count; i++)
    pthread_join(ids[i], NULL);
  free(ids);
}

static size_t handler_bytes;

static void handle(int number)
{
  (void)number;
  release(allocate(handler_bytes));
}

static void raise_with(int flags, size_t bytes)
{
  struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
  sigaction(SIGUSR1, &action, NULL);
  handler_bytes = bytes;
  raise(SIGUSR1);
}

static void handler(void)
{
  /* In the middle of memory that can be read, where running out of a stack would go unnoticed. */
  char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t stack = {.ss_sp = memory + (512 << 10), .ss_size = 128 << 10};
  release(allocate(1000));
  if (memory == MAP_FAILED || sigaltstack(&stack, NULL))
    exit(1);
  raise_with(SA_ONSTACK, 5000);
  raise_with(0, 9000);
  release(allocate(1000));
}

static void unload(const char *const *paths)
{
  for (int i = 0; i < ROUNDS; i++) {
    void *library = dlopen(paths[i % 2], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      fprintf(stderr, "%s\n", dlerror());
      exit(1);
    }
    plugin_run_fn *run;
    *(void **)&run = dlsym(library, "plugin_run");
    must_succeed(paths[i % 2], run() ? cudaErrorUnknown : cudaSuccess);
    dlclose(library);
  }
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "policy") == 0 && argc == 2)
    policy();
  else if (strcmp(what, "deep") == 0 && argc == 3)
    deep(atoi(argv[2]));
  else if (strcmp(what, "depths") == 0 && argc == 3)
    for (int depth = atoi(argv[2]); depth > 0; depth--)
      deep(depth);
  else if (strcmp(what, "threads") == 0 && argc == 4)
    threads(atoi(argv[2]), (size_t)atoi(argv[3]));
  else if (strcmp(what, "handler") == 0 && argc == 2)
    handler();
  else if (strcmp(what, "unload") == 0 && argc == 4)
    unload((const char *const *)argv + 2);
  else
    return 2;
  printf("done\n");
  return 0;
}
