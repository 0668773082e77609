/*
 * The driver, and what only the simulated one has, found as programs and libraries find it.
 */
#ifndef ORACLE_DRIVER_H
#define ORACLE_DRIVER_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <stdbool.h>

#include "../sim/oracle.h"

typedef struct driver {
#define FN(symbol, base, version, per_thread, parameters) CUresult(CUDAAPI *symbol) parameters;
#include "driver.def"
#undef FN
} driver_t;

extern driver_t by_name, by_version; /* dlsym, as old libraries do; cuGetProcAddress, where there is one */

extern simcuda_own_fn *own;
extern simcuda_disown_fn *disown;
extern simcuda_late_fn *late;
extern simcuda_writes_fn *writes;
extern simcuda_step_fn *at_step;
extern simcuda_seed_fn *seed_driver;
extern simcuda_counts_fn *oracle_counts;
extern simcuda_fits_fn *device_fits;
extern simcuda_on_call_fn *on_call;

/* Finds them, once; false: this is not the simulated driver (said on stderr). */
bool driver_find(void);

#endif
