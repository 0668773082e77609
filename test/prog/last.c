/*
 * Shows what a program holds when it, or its context, ends.
 *
 *   last pinned           page-locked memory of the host, and no other
 *   last leave            leaves by _exit, with memory in use
 *   last context N M      frees N of N + M allocations, and destroys their context
 *   last library PLUGIN   a library that is loaded late frees in its destructor what it has allocated
 *   last threads PLUGIN   the same, and from then on other threads call exit(), too
 */
#include "calls.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)1 << 20)

static void begin(void)
{
  CUcontext context;
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
}

static void pin(void)
{
  void *memory, *more;
  CALL(cuMemHostAlloc(&memory, BYTES, 0));
  CALL(cuMemHostAlloc(&more, BYTES, 0));
  CALL(cuMemFreeHost(more));
}

static void end_context(int freed, int kept)
{
  CUcontext context;
  CUdeviceptr pointers[64];

#if CUDA_VERSION >= 13000
  CALL(cuCtxCreate(&context, NULL, 0, 0));
#else
  CALL(cuCtxCreate(&context, 0, 0));
#endif
  for (int i = 0; i < freed + kept && i < 64; i++)
    CALL(cuMemAlloc(&pointers[i], BYTES));
  for (int i = 0; i < freed; i++)
    CALL(cuMemFree(pointers[i]));
  CALL(cuCtxDestroy(context));
}

static int load(const char *path, void (*at_end)(void))
{
  void *library = dlopen(path, RTLD_NOW);
  int (*allocate)(void) = NULL;
  if (!library)
    return 1;
  *(void **)&allocate = dlsym(library, "last_allocate");
  *(void (**)(void))dlsym(library, "last_at_end") = at_end;
  return allocate();
}

#define THREADS 16
static pthread_barrier_t barrier;

static void meet(void)
{
  (void)pthread_barrier_wait(&barrier);
}

static void *leave_too(void *unused)
{
  meet();
  exit(0);
  return unused;
}

/* Threads that call exit() while another thread does. What is recorded first takes some time to write. */
static int start_threads(void)
{
  CUdeviceptr pointers[500];
  pthread_t thread;

  for (int i = 0; i < 500; i++)
    CALL(cuMemAlloc(&pointers[i], 4096));
  if (pthread_barrier_init(&barrier, NULL, THREADS + 1))
    return 1;
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&thread, NULL, leave_too, NULL))
      return 1;
  return 0;
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "";
  CUdeviceptr pointer;

  begin();
  if (strcmp(what, "pinned") == 0) {
    pin();
  } else if (strcmp(what, "leave") == 0) {
    CALL(cuMemAlloc(&pointer, BYTES));
    _exit(5);
  } else if (strcmp(what, "context") == 0 && argc == 4) {
    end_context(atoi(argv[2]), atoi(argv[3]));
  } else if (strcmp(what, "library") == 0 && argc == 3) {
    return load(argv[2], NULL);
  } else if (strcmp(what, "threads") == 0 && argc == 3) {
    return start_threads() || load(argv[2], meet);
  } else {
    return 2;
  }
  return 0;
}
