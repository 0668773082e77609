#include "interpose/hooks/taint.h"

#include "interpose/routes/real.h"

void gp_taint_pointer(gp_engine_t *engine, CUdeviceptr pointer)
{
  CUdeviceptr base = pointer;

  if (GP_REAL_CALL(cuMemGetAddressRange_v2, &base, NULL, pointer) != CUDA_SUCCESS)
    base = pointer;
  gp_engine_taint(engine, (uint64_t)base);
}
