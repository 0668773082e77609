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

#define GP_MEMPOOL_HOST (-1) /* the host, in place of a device */

/* Adds a pool that the program has created. Its memory is on `device`, or on the host (GP_MEMPOOL_HOST). If
 * the library is out of host memory, the pool stays unknown. */
void gp_mempool_created(CUmemoryPool pool, int device);

/* Removes a pool's record before the driver destroys the pool. Returns once no thread queries the driver
 * about the pool. Returns false if the pool is unknown. */
bool gp_mempool_forget(CUmemoryPool pool, int *ret_device);

/* Finds the device of a pool's memory. Returns false if the pool is unknown; its memory is then most likely
 * on the current device. */
bool gp_mempool_find(CUmemoryPool pool, int *ret_device);

/* Finds the device like gp_mempool_find, but only for pools that the program created or queried, not for a
 * device's default pool. */
bool gp_mempool_is_listed(CUmemoryPool pool, int *ret_device);

/* Returns true if the pool is a device's default pool. */
bool gp_mempool_is_default(CUmemoryPool pool, int *ret_device);

/* Returns the device's default pool, or NULL if the device has none or the driver does not support pools. */
CUmemoryPool gp_mempool_default(int device);

/* Returns true if the device supports memory pools. */
bool gp_mempool_is_supported(int device);

/* Returns the device's current pool (for cuMemAllocAsync) if the program created it, else NULL. */
CUmemoryPool gp_mempool_current(int device);

/* With GPUPOOL_ASYNC=driver, raises the release threshold of the device's default pool, so that the pool
 * keeps freed memory. Does so once for each device, and only if the threshold is 0, the driver's default, and
 * the program has not set it. */
void gp_mempool_keep_freed(int device);

/* Notes that the program has set the release threshold of the device's default pool itself. */
void gp_mempool_threshold_is_set(int device);

/* gp_mempool_bar notes that the program has disabled a kind of reuse in the device's default pool: from then
 * on the driver serves requests to that pool. gp_mempool_is_barred returns whether this has happened. */
void gp_mempool_bar(int device);
bool gp_mempool_is_barred(int device);

/* Queries how many bytes all known pools of a device have reserved, and how many of those bytes are in
 * use. */
CUresult gp_mempools_reserved(int device, uint64_t *ret_bytes, uint64_t *ret_used);

/* Makes all known pools of a device release their idle memory. Ignores errors. */
void gp_mempools_trim(int device);

#endif
