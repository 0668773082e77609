#include "driver_table.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool find(void *library, const char *name, void *slot, const char *program)
{
  void *symbol = dlsym(library, name);
  if (!symbol) {
    fprintf(stderr, "%s: libcuda.so.1 has no %s\n", program, name);
    return false;
  }
  memcpy(slot, &symbol, sizeof(symbol)); /* C has no cast from an object pointer to a function pointer */
  return true;
}

bool driver_table_load(driver_table_t *ret_table, const char *program)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s: %s\n", program, dlerror());
    return false;
  }
  driver_table_t table;
#define DRIVER_FIND(name, type)                                                                              \
  if (!find(library, #name, &table.p_##name, program))                                                       \
    return false;
  DRIVER_TABLE(DRIVER_FIND)
#undef DRIVER_FIND
  *ret_table = table;
  return true;
}

const char *driver_table_error(const driver_table_t *table, CUresult result)
{
  const char *name = NULL;
  if (table->p_cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    return "unknown";
  return name;
}
