/*
 * Records of the driver's memory pools: each device's default pool, pools of host and managed memory once the
 * program has queried them, and pools that the program creates. Any thread may call these functions, with no
 * lock held.
 */
#ifndef GP_INTERPOSE_HOOKS_MEMPOOL_RECORDS_H
#define GP_INTERPOSE_HOOKS_MEMPOOL_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda_abi.h"

#define GP_MEMPOOL_HOST (-1) /* in place of a device */

/* Adds a pool that the program has created; its memory is on `device`, or GP_MEMPOOL_HOST. If the host is out
 * of memory, the pool stays unknown. */
void gp_mempool_created(CUmemoryPool pool, int device);

/* Removes a pool before the driver's call that destroys it: returns once no thread queries the driver about
 * it. False: the pool is unknown. */
bool gp_mempool_forget(CUmemoryPool pool, int *ret_device);

/* Finds the device of a pool's memory. False: the pool is unknown; most likely its memory is on the current
 * device. */
bool gp_mempool_find(CUmemoryPool pool, int *ret_device);

/* Finds the same only for pools that the program created or queried, not for a device's default pool. */
bool gp_mempool_is_listed(CUmemoryPool pool, int *ret_device);

/* True if the pool is a device's default pool. */
bool gp_mempool_is_default(CUmemoryPool pool, int *ret_device);

/* Returns the device's default pool; NULL: it has none, or the driver has no pools. */
CUmemoryPool gp_mempool_default(int device);

/* True if the device supports memory pools. */
bool gp_mempool_is_supported(int device);

/* Returns the device's current pool (for cuMemAllocAsync) if the program created it, else NULL. */
CUmemoryPool gp_mempool_current(int device);

/* GPUPOOL_ASYNC=driver: raises the release threshold of the device's default pool, so that it keeps freed
 * memory, if the threshold is 0, the driver's default, and the program has not set it. Once for each device.
 */
void gp_mempool_keep_freed(int device);

/* Called when the program sets the release threshold of that device's default pool itself. */
void gp_mempool_threshold_is_set(int device);

/* Called when the program has disabled a kind of reuse in the device's default pool: from then on the driver
 * serves its requests. */
void gp_mempool_bar(int device);
bool gp_mempool_is_barred(int device);

/* Queries the bytes that all known pools of a device have reserved, and how many of them are in use. */
CUresult gp_mempools_reserved(int device, uint64_t *ret_bytes, uint64_t *ret_used);

/* Makes all known pools of a device release their idle memory. Ignores errors. */
void gp_mempools_trim(int device);

#endif
