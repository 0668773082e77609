/*
 * What each program of this folder does once it has found the driver or the runtime, by whatever way:
 * allocates, fills, reads back and frees, in both ways of allocating, so that what it printed can be compared
 * with what was recorded.
 */
#ifndef PROG_ROUTES_WORK_H
#define PROG_ROUTES_WORK_H

#define __CUDA_API_VERSION_INTERNAL /* the exported names, not those that cuda.h puts in their place */
#include <cuda.h>
#include <stddef.h>

#define ROUTE_ROUNDS 8
#define ROUTE_BLOCKS 6

/*
 * ROUTE_FUNCTION(member, base name, CUDA version of the variant, exported name, its per-thread twin,
 * parameters) A program built for the per-thread default stream (ROUTE_PER_THREAD) uses the twins, which
 * cuda.h would choose then.
 */
#define ROUTE_FUNCTIONS(FUNCTION)                                                                            \
  FUNCTION(init, "cuInit", 2000, "cuInit", "cuInit", (unsigned flags))                                       \
  FUNCTION(device, "cuDeviceGet", 2000, "cuDeviceGet", "cuDeviceGet", (CUdevice * device, int ordinal))      \
  FUNCTION(retain, "cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", \
      (CUcontext * context, CUdevice device))                                                                \
  FUNCTION(set, "cuCtxSetCurrent", 4000, "cuCtxSetCurrent", "cuCtxSetCurrent", (CUcontext context))          \
  FUNCTION(synchronize, "cuCtxSynchronize", 2000, "cuCtxSynchronize", "cuCtxSynchronize", (void))            \
  FUNCTION(                                                                                                  \
      info, "cuMemGetInfo", 3020, "cuMemGetInfo_v2", "cuMemGetInfo_v2", (size_t * free, size_t * total))     \
  FUNCTION(alloc, "cuMemAlloc", 3020, "cuMemAlloc_v2", "cuMemAlloc_v2", (CUdeviceptr * p, size_t bytes))     \
  FUNCTION(free, "cuMemFree", 3020, "cuMemFree_v2", "cuMemFree_v2", (CUdeviceptr p))                         \
  FUNCTION(alloc_async, "cuMemAllocAsync", 11020, "cuMemAllocAsync", "cuMemAllocAsync_ptsz",                 \
      (CUdeviceptr * p, size_t bytes, CUstream stream))                                                      \
  FUNCTION(free_async, "cuMemFreeAsync", 11020, "cuMemFreeAsync", "cuMemFreeAsync_ptsz",                     \
      (CUdeviceptr p, CUstream stream))                                                                      \
  FUNCTION(fill, "cuMemsetD32Async", ROUTE_STREAMS, "cuMemsetD32Async", "cuMemsetD32Async_ptsz",             \
      (CUdeviceptr p, unsigned value, size_t count, CUstream stream))                                        \
  FUNCTION(read, "cuMemcpyDtoH", ROUTE_STREAMS, "cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds",                   \
      (void *to, CUdeviceptr from, size_t bytes))

#ifdef ROUTE_PER_THREAD
#define ROUTE_STREAMS              7000
#define ROUTE_NAME(exported, twin) twin
#define ROUTE_FLAGS                2 /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
#else
#define ROUTE_STREAMS              3020
#define ROUTE_NAME(exported, twin) exported
#define ROUTE_FLAGS                0
#endif

typedef struct route {
#define ROUTE_MEMBER(member, base, version, exported, twin, parameters) CUresult(CUDAAPI *member) parameters;
  ROUTE_FUNCTIONS(ROUTE_MEMBER)
#undef ROUTE_MEMBER
} route_t;

/* The function with this index in the order of the table. */
static inline void route_store(route_t *route, size_t index, const void *function)
{
  ((const void **)route)[index] = function; /* POSIX has these alike */
}

/* Works, and prints "NAME: allocations=N wrong=N". Returns the exit status. */
int route_work(const route_t *route, const char *name);

#endif
