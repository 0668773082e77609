/* Memory that the program exports, or makes accessible in other ways. */
#ifndef GP_INTERPOSE_HOOKS_EXPORT_H
#define GP_INTERPOSE_HOOKS_EXPORT_H

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * Taints the block of the pool in which the pointer lies, if the program owns it: on free it goes to the
 * driver, and the pool never reuses it. Other values are legal and have no effect. Any thread; queries the
 * driver for the beginning of the allocation.
 */
void gp_taint_pointer(gp_engine_t *engine, CUdeviceptr pointer);

/* True for mapped memory of the pool, which cannot be exported because it moves, and may get another owner;
 * the library has then printed a message. */
bool gp_refuse_mapped(gp_engine_t *engine, CUdeviceptr pointer);

#endif
