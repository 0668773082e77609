/*
 * The CUDA driver's types, and its functions under the names that libcuda exports. cuda.h renames functions
 * by macros (cuMemAlloc becomes cuMemAlloc_v2) unless __CUDA_API_VERSION_INTERNAL asks for the ABI names.
 * This file uses no types that the headers of CUDA 11.4 lack: such parameters are void * in functions.def.
 */
#ifndef GP_INTERPOSE_CUDA_ABI_H
#define GP_INTERPOSE_CUDA_ABI_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "interpose/cuda_versions.h"

#if CUDA_VERSION < 11040
#error "CUDA headers 11.4 or newer are needed"
#endif

#endif
