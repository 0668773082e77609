#include "interpose/hooks/copies.h"

#include "interpose/routes/real.h"

bool gp_copy_is_of_context(CUdeviceptr address)
{
  static const CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  CUcontext current = NULL;
  CUcontext owner = NULL;
  unsigned type = 0;
  unsigned is_managed = 0;
  void *data[] = {&owner, &type, &is_managed};

  return GP_REAL_CALL(cuCtxGetCurrent, &current) == CUDA_SUCCESS && current &&
         GP_REAL_CALL(cuPointerGetAttributes, 3, (CUpointer_attribute *)(void *)(uintptr_t)attributes, data,
             address) == CUDA_SUCCESS &&
         owner == current && type == CU_MEMORYTYPE_DEVICE && !is_managed;
}
