/*
 * Calls that take memory of the device for the driver's own use: code, heaps. They cannot be counted, but memory that
 * lies idle here must not make them fail. Each leaves nothing behind when it fails, so that it may be called again.
 */
#include "interpose/hooks.h"
#include "interpose/passthrough.h"
#include "interpose/real.h"

#define UNPACK(...) __VA_ARGS__

/* HIDDEN(symbol, fields of the arguments, parameters, arguments in order, the call from the fields) */
#define HIDDEN(symbol, fields, parameters, arguments, from_fields)                                                     \
  typedef struct symbol##_call {                                                                                       \
    fields                                                                                                             \
  } symbol##_call_t;                                                                                                   \
  static CUresult call_##symbol(void *arg)                                                                             \
  {                                                                                                                    \
    const symbol##_call_t *a = arg;                                                                                    \
    return GP_REAL_CALL(symbol, UNPACK from_fields);                                                                   \
  }                                                                                                                    \
  CUresult CUDAAPI hook_##symbol parameters                                                                            \
  {                                                                                                                    \
    symbol##_call_t call = {UNPACK arguments};                                                                         \
    return gp_passthrough_hidden(call_##symbol, &call);                                                                \
  }

HIDDEN(cuModuleLoad, CUmodule *module; const char *path;, (CUmodule * module, const char *path), (module, path),
    (a->module, a->path))
HIDDEN(cuModuleLoadData, CUmodule *module; const void *image;, (CUmodule * module, const void *image),
    (module, image), (a->module, a->image))
HIDDEN(cuModuleLoadFatBinary, CUmodule *module; const void *image;, (CUmodule * module, const void *image),
    (module, image), (a->module, a->image))
HIDDEN(cuModuleLoadDataEx, CUmodule *module; const void *image; unsigned count; CUjit_option * options; void **values;
       , (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values),
    (module, image, count, options, values), (a->module, a->image, a->count, a->options, a->values))
HIDDEN(cuLibraryLoadData, void **library; const void *code; CUjit_option * jit_options; void **jit_values;
       unsigned jit_count; void *options; void **values; unsigned count;
       , (void **library, const void *code, CUjit_option *jit_options, void **jit_values, unsigned jit_count,
             void *options, void **values, unsigned count),
    (library, code, jit_options, jit_values, jit_count, options, values, count),
    (a->library, a->code, a->jit_options, a->jit_values, a->jit_count, a->options, a->values, a->count))
HIDDEN(cuLibraryLoadFromFile, void **library; const char *path; CUjit_option * jit_options; void **jit_values;
       unsigned jit_count; void *options; void **values; unsigned count;
       , (void **library, const char *path, CUjit_option *jit_options, void **jit_values, unsigned jit_count,
             void *options, void **values, unsigned count),
    (library, path, jit_options, jit_values, jit_count, options, values, count),
    (a->library, a->path, a->jit_options, a->jit_values, a->jit_count, a->options, a->values, a->count))
HIDDEN(cuFuncLoad, CUfunction function;, (CUfunction function), (function), (a->function))
HIDDEN(cuCtxSetLimit, CUlimit limit; size_t value;, (CUlimit limit, size_t value), (limit, value),
    (a->limit, a->value))
