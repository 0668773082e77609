/*
 * What wrapper libraries, linked or preloaded, do: define a function of the driver, count, and go on to the
 * next definition. Where the search for "next" begins depends on who asks, so this library has to stay the
 * one who asks: otherwise it is given itself.
 *
 * With WRAP_DLSYM it stands in for dlsym as well, as other preloads do; optimized, so that the last call is a
 * jump.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int depth, calls, lookups;

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
  CUresult (*next)(CUdeviceptr *, size_t) =
      (CUresult(*)(CUdeviceptr *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
  if (!next || depth > 0) {
    static const char text[] = "wrapper: the next cuMemAlloc_v2 is none, or this one\n";
    (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
    _exit(9);
  }
  depth++;
  CUresult result = next(pointer, bytes);
  depth--;
  calls++;
  return result;
}

/* Of the C library's, so that a wrong next shows in any program. */
pid_t getppid(void)
{
  pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "getppid");
  return next && next != getppid ? next() : -1;
}

#ifdef WRAP_DLSYM
/* A sanitizer's runtime looks its own functions up by this before it is ready for instrumented code. */
__attribute__((no_sanitize("address", "undefined", "thread"))) void *dlsym(
    void *restrict handle, const char *restrict name)
{
  static void *(*next)(void *, const char *);
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};

  for (size_t i = 0; !next && i < sizeof(versions) / sizeof(versions[0]); i++)
    next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  lookups++;
  return next(handle, name);
}
#endif

__attribute__((destructor)) static void tell(void)
{
  if (getenv("WRAPPER_TELLS"))
    fprintf(stderr, "wrapper: %d calls and %d look-ups went through\n", calls, lookups);
}
