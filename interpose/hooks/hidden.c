/*
 * Calls that take memory of the device for the driver's own use: code, heaps. They cannot be counted, but
 * memory that lies idle here must not make them fail. Each leaves nothing behind when it fails, so that it
 * may be called again.
 */
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/forward.h"
#include "interpose/routes/real.h"

#define UNPACK(...) __VA_ARGS__

/*
 * Options of the just-in-time compiler. The driver writes some values back
 * (CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: the bytes it filled), so that a second call gets them as the program
 * gave them.
 */
#define MAX_OPTIONS 32 /* there are fewer kinds; more than that are handed on as the first call left them */

typedef struct jit {
  void **values;
  unsigned count;
  void *given[MAX_OPTIONS];
} jit_t;

static jit_t jit_of(void **values, unsigned count)
{
  jit_t jit = {.values = values, .count = values && count <= MAX_OPTIONS ? count : 0};
  for (unsigned i = 0; i < jit.count; i++)
    jit.given[i] = values[i];
  return jit;
}

static void **jit_values(const jit_t *jit)
{
  for (unsigned i = 0; i < jit->count; i++)
    if (jit->values[i] !=
        jit->given[i]) /* the program's array may be constant, as long as nobody writes to it */
      jit->values[i] = jit->given[i];
  return jit->values;
}

/* HIDDEN(symbol, fields of the arguments, parameters, arguments in order, the call from the fields) */
#define HIDDEN(symbol, fields, parameters, arguments, from_fields)                                           \
  typedef struct symbol##_call {                                                                             \
    fields                                                                                                   \
  } symbol##_call_t;                                                                                         \
  static CUresult call_##symbol(void *arg)                                                                   \
  {                                                                                                          \
    const symbol##_call_t *a = arg;                                                                          \
    return GP_REAL_CALL(symbol, UNPACK from_fields);                                                         \
  }                                                                                                          \
  CUresult CUDAAPI hook_##symbol parameters                                                                  \
  {                                                                                                          \
    symbol##_call_t call = {UNPACK arguments};                                                               \
    return gp_forward_hidden(call_##symbol, &call);                                                          \
  }

HIDDEN(cuModuleLoad, CUmodule *module; const char *path;
       , (CUmodule * module, const char *path), (module, path), (a->module, a->path))
HIDDEN(cuModuleLoadData, CUmodule *module; const void *image;
       , (CUmodule * module, const void *image), (module, image), (a->module, a->image))
HIDDEN(cuModuleLoadFatBinary, CUmodule *module; const void *image;
       , (CUmodule * module, const void *image), (module, image), (a->module, a->image))
HIDDEN(cuModuleLoadDataEx, CUmodule *module; const void *image; unsigned count; CUjit_option * options;
       jit_t jit;
       , (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values),
       (module, image, count, options, jit_of(values, count)),
       (a->module, a->image, a->count, a->options, jit_values(&a->jit)))
HIDDEN(
    cuLibraryLoadData, void **library; const void *code; CUjit_option * jit_options; jit_t jit;
    unsigned jit_count; void *options; void **values; unsigned count;,
    (void **library, const void *code, CUjit_option *jit_options, void **jit_option_values,
        unsigned jit_count, void *options, void **values, unsigned count),
    (library, code, jit_options, jit_of(jit_option_values, jit_count), jit_count, options, values, count),
    (a->library, a->code, a->jit_options, jit_values(&a->jit), a->jit_count, a->options, a->values, a->count))
HIDDEN(
    cuLibraryLoadFromFile, void **library; const char *path; CUjit_option * jit_options; jit_t jit;
    unsigned jit_count; void *options; void **values; unsigned count;,
    (void **library, const char *path, CUjit_option *jit_options, void **jit_option_values,
        unsigned jit_count, void *options, void **values, unsigned count),
    (library, path, jit_options, jit_of(jit_option_values, jit_count), jit_count, options, values, count),
    (a->library, a->path, a->jit_options, jit_values(&a->jit), a->jit_count, a->options, a->values, a->count))
HIDDEN(cuFuncLoad, CUfunction function;, (CUfunction function), (function), (a->function))
HIDDEN(cuCtxSetLimit, CUlimit limit; size_t value;
       , (CUlimit limit, size_t value), (limit, value), (a->limit, a->value))
