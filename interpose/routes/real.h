/*
 * The driver's own functions: pointers to what libcuda exports, never to what this library exports under
 * the same names. Bound once, from the first libcuda seen. All functions here are safe in any thread,
 * before cuInit, and in constructors. Uses real_dlsym.h and base only.
 */
#ifndef GP_INTERPOSE_ROUTES_REAL_H
#define GP_INTERPOSE_ROUTES_REAL_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "base/assert.h"

#define HOOK(symbol, base, since, per_thread, parameters)                                                    \
  typedef CUresult(CUDAAPI *gp_fn_##symbol) parameters;
#define CALL(symbol, parameters) typedef CUresult(CUDAAPI *gp_fn_##symbol) parameters;
#include "interpose/routes/functions.def"

typedef enum gp_function {
#define HOOK(symbol, base, since, per_thread, parameters) GP_FN_##symbol,
#include "interpose/routes/functions.def"
  GP_HOOK_COUNT,
  GP_BEFORE_CALLS = GP_HOOK_COUNT - 1,
#define CALL(symbol, parameters) GP_FN_##symbol,
#include "interpose/routes/functions.def"
  GP_FUNCTION_COUNT
} gp_function_t;

extern void *gp_real_functions[GP_FUNCTION_COUNT];

/* Binds from the object that contains address, which is a libcuda, and prevents its unloading. A second
 * libcuda changes nothing. */
void gp_real_bind_object(const void *address);

/* Binds from the next libcuda in the order of symbol look-up, or from one loaded outside that order; for
 * calls that arrive through the exported names. False if the process has none. */
bool gp_real_bind(void);

/* True if the bound driver exports the name. Looks it up, so not for use within a loader's callback. */
bool gp_real_driver_has(const char *name);

/* The driver's function, or NULL if this driver lacks it. */
static inline void *gp_real_get(gp_function_t function)
{
  gp_assert_internal((unsigned)function < GP_FUNCTION_COUNT);
  return __atomic_load_n(&gp_real_functions[function], __ATOMIC_RELAXED);
}

#define GP_REAL(symbol) ((gp_fn_##symbol)gp_real_get(GP_FN_##symbol))

/*
 * Calls the driver's function. The program can call a function that the driver lacks only by this library's
 * exported name; without this library it would not have started. CUDA_ERROR_NOT_FOUND is what
 * cuGetProcAddress returns for such a function.
 */
#define GP_REAL_CALL(symbol, ...) (GP_REAL(symbol) ? GP_REAL(symbol)(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)

/* True if function is what the bound driver itself exports under that name: the table may have another
 * preload's function, which stands before the driver. */
bool gp_real_is_of_driver(const char *name, const void *function);

/* The handle of the bound driver, for look-ups; RTLD_DEFAULT if it is not known. */
void *gp_real_driver_handle(void);

/* True if both addresses lie in one object. */
bool gp_real_in_one_object(const void *one, const void *other);

/* Pops a context that the library has pushed in this thread, where another one was current. The driver's call
 * may return errors of earlier work (cuda.h at cuCtxPopCurrent), popped or not: if the context stayed, the
 * program would go on in it. */
void gp_real_pop_context(CUcontext pushed);

/* True for "cu" and a capital letter, which excludes cublas, cudnn and curl before any
 * comparison. NULL: false. */
bool gp_real_is_driver_name(const char *name);

/* The function of that name among the first `count` of gp_function_t, or -1. */
int gp_real_find(const char *name, int count);

/* True if address lies in this library: it is a hook, a stub, a trampoline, or the export of one. */
bool gp_real_is_own(const void *address);

/* True if the path's file name is that of a driver library (libcuda.so...). NULL: false. */
bool gp_real_is_driver_file(const char *path);

/* True if address lies in an object whose file name is that of a driver library (libcuda.so...). */
bool gp_real_is_driver_address(const void *address);

#endif
