/*
 * Which copies to the host return only when they are complete, and which are operations of a stream at all.
 * The function's name does not decide: the program may pass any addresses.
 *
 * CUDA Driver API, "API synchronization behavior", of the synchronous functions: "For transfers from device
 * to either pageable or pinned host memory, the function returns only once the copy has completed." From
 * device to device, and where managed memory takes part (since CUDA 12), there is no such promise; between
 * host and host there is none about the work in front of the copy.
 */
#ifndef GP_INTERPOSE_HOOKS_COPIES_H
#define GP_INTERPOSE_HOOKS_COPIES_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * True if a synchronous copy from `source` to `target` returns only when it is complete: source is memory of
 * a device, and target either memory that the driver does not know, or memory that the program has
 * page-locked. False when in doubt, and while a stream is captured. Asks the driver about both addresses
 * (cuPointerGetAttributes, which leaves no error behind for an address that CUDA does not know). Any thread.
 */
bool gp_copy_returns_when_done(gp_engine_t *engine, const void *target, CUdeviceptr source);

/*
 * True if an operation on `address` is one of a stream of the current context: it is that context's memory of
 * a device, not managed. False when in doubt. Asks the driver. Any thread.
 */
bool gp_copy_is_of_context(CUdeviceptr address);

/* The program is about to register memory of another device (CU_MEMHOSTREGISTER_IOMEMORY), which is not the
 * host's. Any thread. */
void gp_copies_note_io_memory(void);

#endif
