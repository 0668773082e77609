/*
 * A preload that stands between programs and the driver, and counts what passes. It defines functions of the
 * driver and finds the driver's own in the driver's file, one by dlsym, the other by cuGetProcAddress.
 *
 * With NEIGHBOUR_DLSYM it also answers dlsym and cuGetProcAddress with its own functions, as HAMi-core and
 * cuinterpose do; then it finds the driver's by the C library's dlsym, which it finds by its version.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void *(*dlsym_fn)(void *, const char *);

static int allocs, frees;

static void *find(const char *name)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#ifdef NEIGHBOUR_DLSYM
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  dlsym_fn own = NULL;
  for (size_t i = 0; !own && i < sizeof(versions) / sizeof(versions[0]); i++)
    own = (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  return own(driver, name);
#else
  return dlsym(driver, name);
#endif
}

static void *ask_driver(const char *base)
{
  void *function = NULL;
  CUresult (*ask)(const char *, void **, int, cuuint64_t) =
      (CUresult(*)(const char *, void **, int, cuuint64_t))find("cuGetProcAddress");
  return ask && ask(base, &function, 12000, 0) == CUDA_SUCCESS ? function : NULL;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
  static CUresult (*next)(CUdeviceptr *, size_t);
  if (!next)
    next = (CUresult(*)(CUdeviceptr *, size_t))find("cuMemAlloc_v2");
  allocs++;
  return next(pointer, bytes);
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr pointer)
{
  static CUresult (*next)(CUdeviceptr);
  if (!next)
    next = (CUresult(*)(CUdeviceptr))ask_driver("cuMemFree");
  frees++;
  return next(pointer);
}

#ifdef NEIGHBOUR_DLSYM
static void *replaced(const char *name, void *function)
{
  if (function && strcmp(name, "cuMemAlloc") == 0)
    return (void *)(uintptr_t)cuMemAlloc_v2;
  if (function && strcmp(name, "cuMemFree") == 0)
    return (void *)(uintptr_t)cuMemFree_v2;
  if (function && strcmp(name, "cuGetProcAddress") == 0)
    return NULL;
  return function;
}

CUresult CUDAAPI cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
  CUresult (*next)(const char *, void **, int, cuuint64_t) =
      (CUresult(*)(const char *, void **, int, cuuint64_t))find("cuGetProcAddress");
  CUresult result = next(name, function, version, flags);
  if (result == CUDA_SUCCESS && *function) {
    void *own = replaced(name, *function);
    *function = own ? own : (void *)(uintptr_t)cuGetProcAddress;
  }
  return result;
}

CUresult CUDAAPI cuGetProcAddress_v2(
    const char *name, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
  CUresult (*next)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) = (CUresult(*)(
      const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))find("cuGetProcAddress_v2");
  CUresult result = next(name, function, version, flags, status);
  if (result == CUDA_SUCCESS && *function) {
    void *own = replaced(name, *function);
    if (own)
      *function = own;
    else if (version >= 12000)
      *function = (void *)(uintptr_t)cuGetProcAddress_v2;
    else
      *function = (void *)(uintptr_t)cuGetProcAddress;
  }
  return result;
}

/* A sanitizer's runtime looks its own functions up by this before it is ready for instrumented code. */
__attribute__((no_sanitize("address", "undefined", "thread"))) void *dlsym(
    void *restrict handle, const char *restrict name)
{
  static const struct {
    const char *name;
    void *function;
  } own[] = {{"cuMemAlloc_v2", (void *)cuMemAlloc_v2}, {"cuMemFree_v2", (void *)cuMemFree_v2},
      {"cuGetProcAddress", (void *)cuGetProcAddress}, {"cuGetProcAddress_v2", (void *)cuGetProcAddress_v2}};
  static dlsym_fn next;

  for (size_t i = 0; handle != RTLD_NEXT && i < sizeof(own) / sizeof(own[0]); i++)
    if (strcmp(name, own[i].name) == 0)
      return own[i].function;
  if (!next)
    next = (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (!next)
    next = (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
  return next(handle, name);
}
#endif

__attribute__((destructor)) static void tell(void)
{
  fprintf(stderr, "neighbour: %d allocations, %d frees\n", allocs, frees);
}
