/*
 * Serves cudaMalloc and cudaFree of a shared CUDA runtime without calling the runtime; a program cannot
 * observe the difference. The library serves a call only if the runtime would have called the driver's
 * cuMemAlloc or cuMemFree in the same context, the pool needs no driver call, and the result is success.
 * doc/interception.md explains these conditions. The library forwards every other call to the runtime, which
 * then calls the hooked driver.
 */
#ifndef GP_INTERPOSE_HOOKS_RUNTIME_CALLS_H
#define GP_INTERPOSE_HOOKS_RUNTIME_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/engine.h"

/* Serve calls of the stubs of routes/runtime_*.S, with the program's arguments and return address. Return
 * NULL if the call was served with cudaSuccess, else the function to which the stub jumps. Any thread, with
 * no lock held. */
void *gp_runtime_cudaMalloc(void **ret, size_t bytes, void *unused, const void *caller);
void *gp_runtime_cudaFree(void *pointer, size_t unused, void *unused_too, const void *caller);

/* Notes that the code at `caller` has called the driver for memory in `context`. If that code is a runtime,
 * it now uses this context in the calling thread. Called by hooks of driver functions that the functions of
 * runtime.def call. */
void gp_runtime_reached_driver(gp_context_t *context, const void *caller);

/* gp_runtime_serves returns true if the library serves runtime calls; after gp_runtime_stop it serves no
 * call. Any thread. */
bool gp_runtime_serves(void);
void gp_runtime_stop(void);

#endif
