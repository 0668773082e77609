/*
 * cudaMalloc and cudaFree of a shared runtime, served without it. A program cannot tell: the call is served
 * if the runtime would have come to the driver's cuMemAlloc or cuMemFree in the same context, if the pool has
 * the answer without a call of the driver, and if that is success; doc/interception.md has the conditions and
 * why they suffice. Every other call goes on to the runtime, which then calls the driver, which is hooked.
 */
#ifndef GP_INTERPOSE_HOOKS_RUNTIME_H
#define GP_INTERPOSE_HOOKS_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/engine.h"

/*
 * For the stubs of routes/runtime_*.S, with the program's arguments and where it called: NULL, the call was
 * served with cudaSuccess; or what to jump to. Any thread, with no lock held.
 */
void *gp_runtime_cudaMalloc(void **ret, size_t bytes, void *unused, const void *caller);
void *gp_runtime_cudaFree(void *pointer, size_t unused, void *unused_too, const void *caller);

/*
 * The driver was called from that address, in that context, for memory: if the calling thread is in a
 * runtime, then that runtime uses this context now. For hooks that runtime.def's functions get to.
 */
void gp_runtime_reached_driver(gp_context_t *context, const void *caller);

/* True if calls are being served. stop: no more from now on. Any thread. */
bool gp_runtime_serves(void);
void gp_runtime_stop(void);

#endif
