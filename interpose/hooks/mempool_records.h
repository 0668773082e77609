/*
 * The driver's memory pools in the process: each device's default pool, which the driver names; pools of
 * host and managed memory, once the program has asked for them; and pools that the program creates and
 * destroys. All functions may be called by any thread, with no lock held.
 */
#ifndef GP_INTERPOSE_HOOKS_MEMPOOL_RECORDS_H
#define GP_INTERPOSE_HOOKS_MEMPOOL_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda_abi.h"

#define GP_MEMPOOL_HOST (-1) /* in place of a device */

/* A pool was created; device is where its memory is, or GP_MEMPOOL_HOST. If the host has no memory for a
 * record, the pool stays unknown. */
void gp_mempool_created(CUmemoryPool pool, int device);

/* Before the driver's call that destroys a pool: returns when no thread is asking the driver about it. False:
 * the pool is unknown. */
bool gp_mempool_forget(CUmemoryPool pool, int *ret_device);

/* Tells where the memory of a pool is. False: the pool is unknown; most likely its memory is on the current
 * device. */
bool gp_mempool_find(CUmemoryPool pool, int *ret_device);

/* The same for pools that the program made, or asked for: no device's default one. */
bool gp_mempool_is_listed(CUmemoryPool pool, int *ret_device);

/* The pool is a device's default one, which the driver made. */
bool gp_mempool_is_default(CUmemoryPool pool, int *ret_device);

/* The device's default pool; NULL: it has none, or the driver has no pools. */
CUmemoryPool gp_mempool_default(int device);

/* The device has such pools. */
bool gp_mempool_is_supported(int device);

/* The device's pool for cuMemAllocAsync, if that is one of the program's; else NULL. */
CUmemoryPool gp_mempool_current(int device);

/* GPUPOOL_ASYNC=driver: from now on the device's default pool keeps freed memory, if its release threshold
 * is 0, the driver's default, and the program has not set it. Looks at a device only once. */
void gp_mempool_keep_freed(int device);

/* The program sets the threshold of that device's default pool itself. */
void gp_mempool_threshold_is_set(int device);

/* The program has forbidden the device's default pool some kind of reuse: from then on the driver serves. */
void gp_mempool_bar(int device);
bool gp_mempool_is_barred(int device);

/* Bytes that all known pools of a device hold from it, and how many of them are in use. */
CUresult gp_mempools_reserved(int device, uint64_t *ret_bytes, uint64_t *ret_used);

/* Makes all known pools of a device give their idle memory back. Errors have no effect. */
void gp_mempools_trim(int device);

#endif
