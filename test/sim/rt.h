/*
 * The simulated CUDA runtime: what its files share. It is an ordinary client of libcuda.so.1 and finds it as
 * NVIDIA's runtime does: dlopen, dlsym of cuGetProcAddress_v2, everything else through that.
 */
#ifndef SIM_RT_H
#define SIM_RT_H

#define __CUDA_API_VERSION_INTERNAL /* the types of every ABI variant */
#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#if CUDA_VERSION < 12080
typedef CUresult(CUDAAPI *PFN_cuStreamGetDevice_v12080)(CUstream stream, CUdevice *ret);
typedef CUresult(CUDAAPI *PFN_cuStreamGetDevice_v12080_ptsz)(CUstream stream, CUdevice *ret);
#endif

/* Of the runtime that this is, which may not be that of the headers: the last of its major version */
#define RT_VERSION                                                                                           \
  (RT_MAJOR == CUDART_VERSION / 1000 ? CUDART_VERSION                                                        \
      : RT_MAJOR == 11               ? 11080                                                                 \
      : RT_MAJOR == 12               ? 12090                                                                 \
                                     : 13000)

/* ---- rt_driver.c ---- */

typedef struct {
#define RT_DRIVER(field, name, version, flags, type) type field;
#define RT_LOOKUP(name, version, flags)
#include "rt_driver.def"
#undef RT_DRIVER
#undef RT_LOOKUP
} rt_driver_t;

extern rt_driver_t rt_driver; /* never NULL: what the driver lacks answers CUDA_ERROR_NOT_SUPPORTED */
extern int rt_driver_version;
CUresult rt_driver_load(void);

/* ---- rt_context.c ---- */

CUresult rt_init(void);         /* the driver is loaded and initialised */
CUresult rt_bind(void);         /* ... and this thread has a current context */
CUresult rt_set(CUresult code); /* remembers a failure as this thread's last error */
static inline cudaError_t rt_result(CUresult code)
{
  return (cudaError_t)rt_set(code); /* the two enumerations agree wherever the driver's code exists */
}
unsigned rt_generation(int device); /* changes when the device is reset */
int rt_device(void);

/* ---- rt_register.c ---- */

CUresult rt_kernel_of(const void *symbol, CUfunction *ret_function);
CUresult rt_variable_of(const void *symbol, CUdeviceptr *ret_address, size_t *ret_bytes);

/* Defines one entry point: `body` is of type CUresult and runs with a context bound. */
#define RT_FN(name, params, body)                                                                            \
  cudaError_t CUDARTAPI name params                                                                          \
  {                                                                                                          \
    CUresult code = rt_bind();                                                                               \
    if (code == CUDA_SUCCESS)                                                                                \
      code = (body);                                                                                         \
    return rt_result(code);                                                                                  \
  }
/* The same for functions that need no context */
#define RT_FN_INIT(name, params, body)                                                                       \
  cudaError_t CUDARTAPI name params                                                                          \
  {                                                                                                          \
    CUresult code = rt_init();                                                                               \
    if (code == CUDA_SUCCESS)                                                                                \
      code = (body);                                                                                         \
    return rt_result(code);                                                                                  \
  }
/* The same for a function and its per-thread default stream twin: PICK chooses the driver function. */
#define RT_FN2(name, twin, params, body)                                                                     \
  cudaError_t CUDARTAPI name params;                                                                         \
  cudaError_t CUDARTAPI name params                                                                          \
  {                                                                                                          \
    const bool per_thread = false;                                                                           \
    CUresult code = rt_bind();                                                                               \
    if (code == CUDA_SUCCESS)                                                                                \
      code = (body);                                                                                         \
    return rt_result(code);                                                                                  \
  }                                                                                                          \
  cudaError_t CUDARTAPI twin params;                                                                         \
  cudaError_t CUDARTAPI twin params                                                                          \
  {                                                                                                          \
    const bool per_thread = true;                                                                            \
    CUresult code = rt_bind();                                                                               \
    if (code == CUDA_SUCCESS)                                                                                \
      code = (body);                                                                                         \
    return rt_result(code);                                                                                  \
  }
#define PICK(field) (per_thread ? rt_driver.field##_pt : rt_driver.field)

static inline CUdeviceptr rt_address(const void *p)
{
  return (CUdeviceptr)(uintptr_t)p;
}

#endif
