/*
 * The driver table's functions (pool/driver.h) for mapped memory.
 */
#ifndef GP_INTERPOSE_MAPPED_CUDA_H
#define GP_INTERPOSE_MAPPED_CUDA_H

#include "pool/driver.h"

int gp_mapped_cuda_reserve(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);
int gp_mapped_cuda_unreserve(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes);
int gp_mapped_cuda_create(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_handle);
int gp_mapped_cuda_destroy(void *self, const gp_driver_context_t *context, uint64_t handle);
int gp_mapped_cuda_map(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, uint64_t handle);
int gp_mapped_cuda_unmap(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes);
int gp_mapped_cuda_allow(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, int device);

#endif
