#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>

driver_t by_name, by_version;
simcuda_own_fn *own;
simcuda_disown_fn *disown;
simcuda_late_fn *late;
simcuda_writes_fn *writes;
simcuda_step_fn *at_step;
simcuda_seed_fn *seed_driver;
simcuda_counts_fn *oracle_counts;
simcuda_fits_fn *device_fits;
simcuda_on_call_fn *on_call;

/* A pointer to an object becomes one to a function by way of its bytes. */
#define FIND(to, name) (*(void **)(&(to)) = dlsym(library, name))

bool driver_find(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "no driver: %s\n", dlerror());
    return false;
  }
#define FN(symbol, base, version, per_thread, parameters)                                                    \
  FIND(by_name.symbol, #symbol);                                                                             \
  by_version.symbol = by_name.symbol;
#include "driver.def"
#undef FN
  CUresult(CUDAAPI * get)(const char *, void **, int, cuuint64_t);
  FIND(get, "cuGetProcAddress");
#define FN(symbol, base, version, per_thread, parameters)                                                    \
  {                                                                                                          \
    void *found = NULL;                                                                                      \
    if (by_name.symbol && get && get(#base, &found, version, per_thread ? 2 : 1) == CUDA_SUCCESS && found)   \
      *(void **)(&by_version.symbol) = found;                                                                \
  }
#include "driver.def"
#undef FN
  FIND(own, "simcuda_own");
  FIND(disown, "simcuda_disown");
  FIND(late, "simcuda_late");
  FIND(writes, "simcuda_writes");
  FIND(at_step, "simcuda_step");
  FIND(seed_driver, "simcuda_seed");
  FIND(oracle_counts, "simcuda_counts");
  FIND(device_fits, "simcuda_fits");
  FIND(on_call, "simcuda_on_call");
  if (own && disown && late && writes && at_step && seed_driver && oracle_counts && device_fits && on_call)
    return true;
  fprintf(stderr, "the driver is not the simulated one\n");
  return false;
}
