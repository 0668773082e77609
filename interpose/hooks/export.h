/* Memory that something other than the program's own work may reach. */
#ifndef GP_INTERPOSE_HOOKS_EXPORT_H
#define GP_INTERPOSE_HOOKS_EXPORT_H

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * If the pointer lies in a block of the pool that the program owns, the block goes to the driver on free,
 * and the pool never hands it out again. Other values are legal and have no effect. Any thread; asks the
 * driver where the allocation begins.
 */
void gp_taint_pointer(gp_engine_t *engine, CUdeviceptr pointer);

/* For mapped memory of the pool, which moves and may get another owner: true, and the library has said that
 * it cannot be exported. */
bool gp_refuse_mapped(gp_engine_t *engine, CUdeviceptr pointer);

#endif
