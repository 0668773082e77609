/* Memory that the program exports, or makes accessible to others in another way. */
#ifndef GP_INTERPOSE_HOOKS_EXPORT_H
#define GP_INTERPOSE_HOOKS_EXPORT_H

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * Taints the pool block that contains the pointer, if the program owns the block: when the block is freed, it
 * is released to the driver, and the pool never reuses it. Any other pointer is legal and has no effect. Any
 * thread. Queries the driver for the beginning of the allocation.
 */
void gp_taint_pointer(gp_engine_t *engine, CUdeviceptr pointer);

/* Returns true if the pointer is in mapped memory of the pool, and prints a message. Such memory cannot be
 * exported, because the pool moves it and may give it to another owner. */
bool gp_refuse_mapped(gp_engine_t *engine, CUdeviceptr pointer);

#endif
