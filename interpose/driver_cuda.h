/*
 * Implements the pool's driver table (pool/driver.h) with the CUDA driver.
 */
#ifndef GP_INTERPOSE_DRIVER_CUDA_H
#define GP_INTERPOSE_DRIVER_CUDA_H

#include "pool/driver.h"
#include "pool/engine.h"

/* Returns the table for the bound driver. The table has fences if the driver can record an event for a whole
 * context (12.5 and later). *ret_version receives the driver's CUDA version, or 0 if the driver does not
 * report it. The table is static. */
gp_driver_t gp_driver_cuda(int *ret_version);

/* Makes the table look for libraries whose CUDA calls no hook sees (look_for_escapes), each time before the
 * pool allocates driver memory for the program. The table reports such libraries to the engine. The library
 * calls this function once, when it starts. */
void gp_driver_cuda_watch_escapes(gp_engine_t *engine);

#endif
