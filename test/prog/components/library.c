/*
 * Stands for a library of NVIDIA's, built under its name: FUNCTION gets BYTES, and keeps them until the
 * process ends.
 */
#include <cuda_runtime_api.h>

#include "components.h"

int FUNCTION(void);

int FUNCTION(void)
{
  static void *kept;
  volatile cudaError_t error = cudaMalloc(&kept, BYTES); /* so that the call is no jump */
  return error == cudaSuccess ? 0 : 1;
}
