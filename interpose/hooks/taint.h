/*
 * Memory that others may get at.
 */
#ifndef GP_INTERPOSE_HOOKS_TAINT_H
#define GP_INTERPOSE_HOOKS_TAINT_H

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * If the pointer lies in a block of the pool that the program owns, that block goes to the driver when it is
 * freed, and is never another owner's. Other values are legal and have no effect. Any thread; asks the driver
 * where the allocation begins.
 */
void gp_taint_pointer(gp_engine_t *engine, CUdeviceptr pointer);

#endif
