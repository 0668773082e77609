/*
 * The driver's own functions: pointers to what libcuda exports, never to what this library exports under the
 * same names. Bound once, from the first libcuda that is seen. All functions here are safe from any thread,
 * before cuInit, and from constructors. Uses real_dlsym.h and pool/util only.
 */
#ifndef GP_INTERPOSE_ROUTES_REAL_H
#define GP_INTERPOSE_ROUTES_REAL_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/util/assert.h"

#define HOOK(symbol, base, since, per_thread, parameters)                                                    \
  typedef CUresult(CUDAAPI *gp_fn_##symbol) parameters;
#define CALL(symbol, parameters) typedef CUresult(CUDAAPI *gp_fn_##symbol) parameters;
#include "interpose/routes/functions.def"

typedef enum gp_function {
#define HOOK(symbol, base, since, per_thread, parameters) GP_FN_##symbol,
#include "interpose/routes/functions.def"
  GP_HOOK_COUNT,
  GP_BEFORE_WORK = GP_HOOK_COUNT - 1,
#define WORK(symbol, base, since, per_thread, where) GP_FN_##symbol,
#include "interpose/sight/work.def"
  GP_REPLACED_COUNT, /* hooks and stubs */
  GP_BEFORE_CALLS = GP_REPLACED_COUNT - 1,
#define CALL(symbol, parameters) GP_FN_##symbol,
#include "interpose/routes/functions.def"
  GP_FUNCTION_COUNT
} gp_function_t;

extern void *gp_real_functions[GP_FUNCTION_COUNT];

/*
 * Binds from the object that address lies in, which is a libcuda; keeps that object from being unloaded. A
 * second libcuda changes nothing.
 */
void gp_real_bind_object(const void *address);

/*
 * Binds from the next libcuda in the order of symbol lookup, or from one that is loaded out of that order;
 * for calls that came in by the exported names. False if the process has none.
 */
bool gp_real_bind(void);

/* True if the driver that is bound exports the name. Looks it up: not from within a loader's callback. */
bool gp_real_driver_has(const char *name);

/* The driver's function, or NULL if this driver has none of that name. */
static inline void *gp_real_get(gp_function_t function)
{
  gp_assert_internal((unsigned)function < GP_FUNCTION_COUNT);
  return __atomic_load_n(&gp_real_functions[function], __ATOMIC_RELAXED);
}

#define GP_REAL(symbol) ((gp_fn_##symbol)gp_real_get(GP_FN_##symbol))

/*
 * Calls the driver's function. One that the driver lacks can be reached only by our exported name, where
 * without this library the program would not have started; CUDA_ERROR_NOT_FOUND is what cuGetProcAddress
 * answers for it.
 */
#define GP_REAL_CALL(symbol, ...) (GP_REAL(symbol) ? GP_REAL(symbol)(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)

/* True for "cu" and a capital, which keeps cublas, cudnn and curl out before anything is compared. NULL:
 * false. */
bool gp_real_is_driver_name(const char *name);

/* The function of that name among the first `count` of gp_function_t, or -1. */
int gp_real_find(const char *name, int count);

/* True if address lies in this library: it is a hook, a stub, a trampoline, or the export of one. */
bool gp_real_is_own(const void *address);

/* True if the file name of that path is that of a driver library (libcuda.so...). NULL: false. */
bool gp_real_is_driver_file(const char *path);

/* True if address lies in an object whose file name is that of a driver library (libcuda.so...). */
bool gp_real_is_driver_address(const void *address);

#endif
