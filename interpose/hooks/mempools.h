/*
 * The driver's memory pools that the process has: each device's default one, which the driver names, those of
 * host and managed memory, which the program has asked for, and those that the program made, which it is
 * watched to make and end. All functions may be called by any thread.
 */
#ifndef GP_INTERPOSE_HOOKS_MEMPOOLS_H
#define GP_INTERPOSE_HOOKS_MEMPOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda_abi.h"

#define GP_MEMPOOL_HOST (-1) /* in place of a device */

/* A pool was made; device is where its memory is, or GP_MEMPOOL_HOST. Without host memory for it the pool is
 * unknown. */
void gp_mempool_created(CUmemoryPool pool, int device);

/* Before the driver is told to end a pool: returns when nobody is asking it anything. False: not known. */
bool gp_mempool_forget(CUmemoryPool pool, int *ret_device);

/* Where the memory of a pool is. False: not known; then it is most likely that of the current device. */
bool gp_mempool_find(CUmemoryPool pool, int *ret_device);

/* The pool that cuMemAllocAsync takes from on a device, if the program has put one of its own there; else
 * NULL. */
CUmemoryPool gp_mempool_current(int device);

/* Bytes that all known pools of a device hold from it, in use or idle. */
CUresult gp_mempools_reserved(int device, uint64_t *ret_bytes);

/* Makes all known pools of a device give back what they hold idle. */
void gp_mempools_trim(int device);

#endif
