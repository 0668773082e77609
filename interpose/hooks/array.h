/* Sizes of CUDA arrays. */
#ifndef GP_INTERPOSE_HOOKS_ARRAY_H
#define GP_INTERPOSE_HOOKS_ARRAY_H

#include <stdint.h>

#include "interpose/cuda_abi.h"

/* Returns the bytes of an array with this number of mip levels. Returns 0 if the array has no memory of its
 * own (programs map memory of cuMemCreate into sparse arrays), or the driver will reject the arguments. */
uint64_t gp_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned levels);

/* Returns the bytes of an array of at most two dimensions, as gp_array_bytes does. */
uint64_t gp_plane_bytes(const CUDA_ARRAY_DESCRIPTOR *array);

#endif
