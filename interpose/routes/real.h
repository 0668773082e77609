/*
 * The driver's own functions: pointers to the functions that libcuda exports, never to this library's
 * functions of the same names. They are bound once, from the first libcuda seen. All functions here are safe
 * in any thread, before cuInit, and in constructors. Uses only real_dlsym.h and base/.
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

/* Binds the functions of the libcuda that contains `address`, and prevents its unloading. Does nothing if a
 * libcuda is already bound. */
void gp_real_bind_object(const void *address);

/* Binds the functions of the next libcuda in symbol look-up order, or of one that was loaded outside that
 * order. For calls that arrive through the exported names. Returns false if the process has no libcuda. */
bool gp_real_bind(void);

/* Returns true if the bound driver exports the name. Calls dlsym, so loader callbacks must not use it. */
bool gp_real_driver_has(const char *name);

/* Returns the driver's function, or NULL if this driver lacks it. */
static inline void *gp_real_get(gp_function_t function)
{
  gp_assert_internal((unsigned)function < GP_FUNCTION_COUNT);
  return __atomic_load_n(&gp_real_functions[function], __ATOMIC_RELAXED);
}

#define GP_REAL(symbol) ((gp_fn_##symbol)gp_real_get(GP_FN_##symbol))

/*
 * Calls the driver's function, or evaluates to CUDA_ERROR_NOT_FOUND, which cuGetProcAddress returns for a
 * function that the driver lacks. A program can call a function that the driver lacks only through this
 * library's exported name; without this library such a program would not have started.
 */
#define GP_REAL_CALL(symbol, ...) (GP_REAL(symbol) ? GP_REAL(symbol)(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)

/* Returns true if `function` is the function that the bound driver itself exports under that name. The table
 * may contain the function of another preloaded library that precedes the driver. */
bool gp_real_is_of_driver(const char *name, const void *function);

/* Returns the handle of the bound driver for look-ups, or RTLD_DEFAULT if it is not known. */
void *gp_real_driver_handle(void);

/* Returns true if both addresses lie in the same loaded object. */
bool gp_real_in_one_object(const void *one, const void *other);

/* Pops a context that the library has pushed in this thread on top of another one. The driver may return
 * errors of earlier work (cuda.h at cuCtxPopCurrent) whether or not it popped the context. This function
 * makes sure that the context is popped, because otherwise the program would continue in it. */
void gp_real_pop_context(CUcontext pushed);

/* Returns true if the name begins with "cu" and a capital letter, which excludes cublas, cudnn and curl
 * before any comparison. Returns false for NULL. */
bool gp_real_is_driver_name(const char *name);

/* Returns the index of the function `name` among the first `count` functions of gp_function_t, or -1. */
int gp_real_find(const char *name, int count);

/* Returns true if `address` is in this library: a hook, a stub, a trampoline, or an export of one of
 * these. */
bool gp_real_is_own(const void *address);

/* Returns true if the path names a driver library's file (libcuda.so...). Returns false for NULL. */
bool gp_real_is_driver_file(const char *path);

/* Returns true if `address` is in an object whose file name is that of a driver library (libcuda.so...). */
bool gp_real_is_driver_address(const void *address);

#endif
