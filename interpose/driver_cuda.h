/*
 * The pool's driver table (pool/driver.h) over the CUDA driver.
 */
#ifndef GP_INTERPOSE_DRIVER_CUDA_H
#define GP_INTERPOSE_DRIVER_CUDA_H

#include "pool/driver.h"
#include "pool/engine.h"

/* The table for the bound driver, with fences if that can record an event over a whole context (12.5 and
 * later). *ret_version is the driver's CUDA version, 0 if the driver does not tell. The table is static. */
gp_driver_t gp_driver_cuda(int *ret_version);

/* From now on the table looks for libraries whose calls no hook sees, before the program gets memory of the
 * driver (look_for_escapes), and reports them to the engine. The library calls this once, at its start. */
void gp_driver_cuda_watch_escapes(gp_engine_t *engine);

#endif
