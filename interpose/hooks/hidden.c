/*
 * Hooks that load code with options of the just-in-time compiler. The driver allocates device memory for its
 * own use. The pool cannot count that memory, but idle memory of the pool must not make the load fail: the
 * hook makes room and calls the driver again (FORWARD_HIDDEN of functions.def, here with a copy of the
 * options). A failed call leaves nothing behind.
 */
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/forward.h"
#include "interpose/routes/real.h"

/*
 * A copy of the values of JIT options. The driver overwrites some values (CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
 * the bytes it filled). A second call must get the program's own values.
 */
#define MAX_OPTIONS 32 /* more options than CUDA has; the values of a longer array are not restored */

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
    if (jit->values[i] != jit->given[i]) /* writes only if necessary: the array may be in constant memory */
      jit->values[i] = jit->given[i];
  return jit->values;
}

CUresult CUDAAPI hook_cuModuleLoadDataEx(
    CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
  jit_t jit = jit_of(values, count);
  CUresult result;
  GP_FORWARD_HIDDEN(
      result, GP_REAL_CALL(cuModuleLoadDataEx, module, image, count, options, jit_values(&jit)));
  return result;
}

CUresult CUDAAPI hook_cuLibraryLoadData(void **library, const void *code, CUjit_option *jit_options,
    void **jit_option_values, unsigned jit_count, void *options, void **values, unsigned count)
{
  jit_t jit = jit_of(jit_option_values, jit_count);
  CUresult result;
  GP_FORWARD_HIDDEN(result, GP_REAL_CALL(cuLibraryLoadData, library, code, jit_options, jit_values(&jit),
                                jit_count, options, values, count));
  return result;
}

CUresult CUDAAPI hook_cuLibraryLoadFromFile(void **library, const char *path, CUjit_option *jit_options,
    void **jit_option_values, unsigned jit_count, void *options, void **values, unsigned count)
{
  jit_t jit = jit_of(jit_option_values, jit_count);
  CUresult result;
  GP_FORWARD_HIDDEN(result, GP_REAL_CALL(cuLibraryLoadFromFile, library, path, jit_options, jit_values(&jit),
                                jit_count, options, values, count));
  return result;
}
