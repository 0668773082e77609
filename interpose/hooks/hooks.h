/*
 * The hooks: functions that the program calls instead of the driver's functions. Each file has the hooks of
 * one subject. lookup.c and exports.c make them available under the driver's names. A hook calls
 * gp_library_engine first, holds no lock during a driver call, and returns the driver's result or another
 * CUDA error code.
 *
 * Hooks may include interpose/library.h and clock.h, routes/real.h and routes/loaded.h, and pool/, but
 * neither lookup.h nor trace/.
 */
#ifndef GP_INTERPOSE_HOOKS_HOOKS_H
#define GP_INTERPOSE_HOOKS_HOOKS_H

#include "interpose/cuda_abi.h"

#define HOOK(symbol, base, since, per_thread, parameters) CUresult CUDAAPI hook_##symbol parameters;
#include "interpose/routes/functions.def"

#endif
