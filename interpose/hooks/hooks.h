/*
 * The hooks, under hidden names. exports.c gives them the driver's names.
 */
#ifndef GP_INTERPOSE_HOOKS_HOOKS_H
#define GP_INTERPOSE_HOOKS_HOOKS_H

#include "interpose/cuda_abi.h"

#define HOOK(symbol, base, since, per_thread, parameters) CUresult CUDAAPI hook_##symbol parameters;
#include "interpose/routes/functions.def"

#endif
