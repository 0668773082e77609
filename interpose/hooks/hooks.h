/*
 * The hooks, which the program calls in the driver's place, one file per subject, and their common records.
 * lookup.c and exports.c give them the driver's names. A hook calls gp_library_engine first, holds no lock
 * during a call of the driver, and returns the driver's result or a code that the driver has.
 *
 * May include interpose/library.h and clock.h, routes/real.h and routes/loaded.h, and pool/;
 * not look-up, and no trace/.
 */
#ifndef GP_INTERPOSE_HOOKS_HOOKS_H
#define GP_INTERPOSE_HOOKS_HOOKS_H

#include "interpose/cuda_abi.h"

#define HOOK(symbol, base, since, per_thread, parameters) CUresult CUDAAPI hook_##symbol parameters;
#include "interpose/routes/functions.def"

#endif
