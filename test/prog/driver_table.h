/*
 * The driver API as a program gets it that loads libcuda.so.1 itself: one dlsym per exported name. The names
 * are the exported ones (cuMemAlloc_v2), which cuda.h hides behind macros of the same spelling without the
 * suffix.
 */
#ifndef PROG_DRIVER_TABLE_H
#define PROG_DRIVER_TABLE_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdbool.h>

/* XX(exported name, type): every one exists since CUDA 11.4 */
#define DRIVER_TABLE(XX)                                                                                     \
  XX(cuInit, PFN_cuInit_v2000)                                                                               \
  XX(cuGetErrorName, PFN_cuGetErrorName_v6000)                                                               \
  XX(cuDeviceGet, PFN_cuDeviceGet_v2000)                                                                     \
  XX(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000)                                           \
  XX(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000)                                     \
  XX(cuCtxCreate_v2, PFN_cuCtxCreate_v3020)                                                                  \
  XX(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)                                                                \
  XX(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)                                                             \
  XX(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000)                                                           \
  XX(cuMemAlloc_v2, PFN_cuMemAlloc_v3020)                                                                    \
  XX(cuMemFree_v2, PFN_cuMemFree_v3020)                                                                      \
  XX(cuMemAllocAsync, PFN_cuMemAllocAsync_v11020)                                                            \
  XX(cuMemFreeAsync, PFN_cuMemFreeAsync_v11020)                                                              \
  XX(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020)                                                                \
  XX(cuMemHostAlloc, PFN_cuMemHostAlloc_v2020)                                                               \
  XX(cuMemFreeHost, PFN_cuMemFreeHost_v2000)                                                                 \
  XX(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020)                                                                \
  XX(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020)                                                                \
  XX(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020)                                                      \
  XX(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020)                                                      \
  XX(cuMemcpy2DAsync_v2, PFN_cuMemcpy2DAsync_v3020)                                                          \
  XX(cuMemsetD32_v2, PFN_cuMemsetD32_v3020)                                                                  \
  XX(cuStreamCreate, PFN_cuStreamCreate_v2000)                                                               \
  XX(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000)                                                          \
  XX(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000)                                                     \
  XX(cuStreamWaitEvent, PFN_cuStreamWaitEvent_v3020)                                                         \
  XX(cuEventCreate, PFN_cuEventCreate_v2000)                                                                 \
  XX(cuEventRecord, PFN_cuEventRecord_v2000)                                                                 \
  XX(cuEventDestroy_v2, PFN_cuEventDestroy_v4000)

/* Members are called p_NAME, as some names are macros of cuda.h */
typedef struct driver_table {
#define DRIVER_MEMBER(name, type) type p_##name;
  DRIVER_TABLE(DRIVER_MEMBER)
#undef DRIVER_MEMBER
} driver_table_t;

/* False after one line on stderr, which begins with `program`. The library stays loaded. */
bool driver_table_load(driver_table_t *ret_table, const char *program);

/* The documented name of a result, "unknown" if the driver has none. */
const char *driver_table_error(const driver_table_t *table, CUresult result);

#endif
