/*
 * Shows what a program holds when it, or its context, ends.
 *
 *   last pinned           page-locked memory of the host, and no other
 *   last leave            leaves by _exit, with memory in use
 *   last context N M      frees N of N + M allocations, and destroys their context
 *   last library PLUGIN   a library that is loaded late frees in its destructor what it has allocated
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)1 << 20)

static void must(CUresult result)
{
  if (result == CUDA_SUCCESS)
    return;
  printf("failed: %d\n", (int)result);
  exit(1);
}

static void begin(void)
{
  CUcontext context;
  must(cuInit(0));
  must(cuDevicePrimaryCtxRetain(&context, 0));
  must(cuCtxSetCurrent(context));
}

static void pin(void)
{
  void *memory, *more;
  must(cuMemHostAlloc(&memory, BYTES, 0));
  must(cuMemHostAlloc(&more, BYTES, 0));
  must(cuMemFreeHost(more));
}

static void end_context(int freed, int kept)
{
  CUcontext context;
  CUdeviceptr pointers[64];

#if CUDA_VERSION >= 13000
  must(cuCtxCreate(&context, NULL, 0, 0));
#else
  must(cuCtxCreate(&context, 0, 0));
#endif
  for (int i = 0; i < freed + kept && i < 64; i++)
    must(cuMemAlloc(&pointers[i], BYTES));
  for (int i = 0; i < freed; i++)
    must(cuMemFree(pointers[i]));
  must(cuCtxDestroy(context));
}

static int load(const char *path)
{
  void *library = dlopen(path, RTLD_NOW);
  int (*allocate)(void) = NULL;
  if (library)
    *(void **)&allocate = dlsym(library, "last_allocate");
  return allocate ? allocate() : 1;
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "";
  CUdeviceptr pointer;

  begin();
  if (strcmp(what, "pinned") == 0) {
    pin();
  } else if (strcmp(what, "leave") == 0) {
    must(cuMemAlloc(&pointer, BYTES));
    _exit(5);
  } else if (strcmp(what, "context") == 0 && argc == 4) {
    end_context(atoi(argv[2]), atoi(argv[3]));
  } else if (strcmp(what, "library") == 0 && argc == 3) {
    return load(argv[2]);
  } else {
    return 2;
  }
  return 0;
}
