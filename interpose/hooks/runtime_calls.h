/*
 * cudaMalloc and cudaFree of a shared runtime, served without it. A program cannot notice. The
 * library serves a call only if the runtime would have called the driver's cuMemAlloc or cuMemFree in
 * the same context, if the pool needs no driver call, and if the result is success.
 * doc/interception.md has the conditions and why they suffice. Every other call goes on to the
 * runtime, which then calls the driver, which is hooked.
 */
#ifndef GP_INTERPOSE_HOOKS_RUNTIME_CALLS_H
#define GP_INTERPOSE_HOOKS_RUNTIME_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/engine.h"

/* For the stubs of routes/runtime_*.S, with the program's arguments and its call's address. Returns NULL if
 * the call was served with cudaSuccess, else the function to jump to. Any thread, with no lock held. */
void *gp_runtime_cudaMalloc(void **ret, size_t bytes, void *unused, const void *caller);
void *gp_runtime_cudaFree(void *pointer, size_t unused, void *unused_too, const void *caller);

/* The driver was called for memory from that address, in that context: if the calling thread is in a
 * runtime, that runtime now uses this context. For hooks that the functions of runtime.def reach. */
void gp_runtime_reached_driver(gp_context_t *context, const void *caller);

/* True if the library serves such calls. stop: it serves none from now on. Any thread. */
bool gp_runtime_serves(void);
void gp_runtime_stop(void);

#endif
