/*
 * CUDA arrays and mipmapped arrays.
 */
#include "rt.h"

/* The kinds that name a whole format come in the order of the driver's. */
static const struct {
  int first, last, format;
} packed[] = {
    {cudaChannelFormatKindUnsignedNormalized8X1, cudaChannelFormatKindSignedNormalized16X4,
        CU_AD_FORMAT_UNORM_INT8X1},
    {cudaChannelFormatKindUnsignedBlockCompressed1, cudaChannelFormatKindUnsignedBlockCompressed7SRGB,
        CU_AD_FORMAT_BC1_UNORM},
};

#define PACKED_COUNT (sizeof packed / sizeof packed[0])

/* By kind, then by bits of a channel: 8, 16, 32 */
static const CUarray_format plain[3][3] = {
    {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32},
    {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32},
    {(CUarray_format)0, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT},
};

static CUresult to_driver(const struct cudaChannelFormatDesc *desc, CUDA_ARRAY3D_DESCRIPTOR *ret)
{
  const int bits[4] = {desc->x, desc->y, desc->z, desc->w};
  unsigned channels = 0;
  while (channels < 4 && bits[channels])
    channels++;
  ret->NumChannels = channels;
  for (size_t i = 0; i < PACKED_COUNT; i++) {
    if ((int)desc->f >= packed[i].first && (int)desc->f <= packed[i].last) {
      ret->Format = (CUarray_format)(packed[i].format + (int)desc->f - packed[i].first);
      return CUDA_SUCCESS;
    }
  }
  int width = bits[0] == 8 ? 0 : bits[0] == 16 ? 1 : bits[0] == 32 ? 2 : -1;
  if ((unsigned)desc->f > cudaChannelFormatKindFloat || width < 0 || plain[desc->f][width] == 0 ||
      (channels != 1 && channels != 2 && channels != 4))
    return (CUresult)cudaErrorInvalidChannelDescriptor;
  for (unsigned i = 0; i < 4; i++) {
    if (bits[i] != (i < channels ? bits[0] : 0))
      return (CUresult)cudaErrorInvalidChannelDescriptor;
  }
  ret->Format = plain[desc->f][width];
  return CUDA_SUCCESS;
}

static struct cudaChannelFormatDesc to_runtime(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
  struct cudaChannelFormatDesc ret = {.f = cudaChannelFormatKindNone};
  int bits = 8; /* of a channel of the packed formats of 8 bits; the others are set below */
  for (size_t i = 0; i < PACKED_COUNT; i++) {
    int kind = packed[i].first + (int)desc->Format - packed[i].format;
    if (kind < packed[i].first || kind > packed[i].last)
      continue;
    ret.f = (enum cudaChannelFormatKind)kind;
    if ((kind >= cudaChannelFormatKindUnsignedNormalized16X1 &&
            kind <= cudaChannelFormatKindUnsignedNormalized16X4) ||
        (kind >= cudaChannelFormatKindSignedNormalized16X1 &&
            kind <= cudaChannelFormatKindSignedNormalized16X4) ||
        kind == cudaChannelFormatKindUnsignedBlockCompressed6H ||
        kind == cudaChannelFormatKindSignedBlockCompressed6H)
      bits = 16;
  }
  for (int kind = 0; kind < 3; kind++) {
    for (int width = 0; width < 3; width++) {
      if (plain[kind][width] == desc->Format) {
        ret.f = (enum cudaChannelFormatKind)kind;
        bits = 8 << width;
      }
    }
  }
  ret.x = bits;
  ret.y = desc->NumChannels > 1 ? bits : 0;
  ret.z = desc->NumChannels > 2 ? bits : 0;
  ret.w = desc->NumChannels > 3 ? bits : 0;
  return ret;
}

/* Returns its structure, and can therefore not fail. */
struct cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(
    int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
  return (struct cudaChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = f};
}

static CUresult describe(CUDA_ARRAY3D_DESCRIPTOR *ret, const struct cudaChannelFormatDesc *desc,
    struct cudaExtent extent, unsigned flags)
{
  if (!desc)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = (CUDA_ARRAY3D_DESCRIPTOR){
      .Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
  return to_driver(desc, ret);
}

static CUresult malloc_3d(
    cudaArray_t *ret, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent, unsigned flags)
{
  CUDA_ARRAY3D_DESCRIPTOR full;
  CUresult code = describe(&full, desc, extent, flags);
  return code == CUDA_SUCCESS ? rt_driver.cuArray3DCreate((CUarray *)ret, &full) : code;
}

/* cuArrayCreate knows no flags. */
static CUresult malloc_2d(
    cudaArray_t *ret, const struct cudaChannelFormatDesc *desc, size_t width, size_t height, unsigned flags)
{
  CUDA_ARRAY3D_DESCRIPTOR full;
  struct cudaExtent extent = {.width = width, .height = height};
  if (flags)
    return malloc_3d(ret, desc, extent, flags);
  CUresult code = describe(&full, desc, extent, 0);
  CUDA_ARRAY_DESCRIPTOR flat = {
      .Width = width, .Height = height, .Format = full.Format, .NumChannels = full.NumChannels};
  return code == CUDA_SUCCESS ? rt_driver.cuArrayCreate((CUarray *)ret, &flat) : code;
}

RT_FN(cudaMallocArray,
    (cudaArray_t * ret, const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
        unsigned int flags),
    malloc_2d(ret, desc, width, height, flags))
RT_FN(cudaMalloc3DArray,
    (cudaArray_t * ret, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
        unsigned int flags),
    malloc_3d(ret, desc, extent, flags))
RT_FN(cudaFreeArray, (cudaArray_t array), array ? rt_driver.cuArrayDestroy((CUarray)array) : CUDA_SUCCESS)

static CUresult malloc_mipmapped(cudaMipmappedArray_t *ret, const struct cudaChannelFormatDesc *desc,
    struct cudaExtent extent, unsigned levels, unsigned flags)
{
  CUDA_ARRAY3D_DESCRIPTOR full;
  CUresult code = describe(&full, desc, extent, flags);
  return code == CUDA_SUCCESS ? rt_driver.cuMipmappedArrayCreate((CUmipmappedArray *)ret, &full, levels)
                              : code;
}

RT_FN(cudaMallocMipmappedArray,
    (cudaMipmappedArray_t * ret, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
        unsigned int levels, unsigned int flags),
    malloc_mipmapped(ret, desc, extent, levels, flags))
RT_FN(cudaFreeMipmappedArray, (cudaMipmappedArray_t array),
    array ? rt_driver.cuMipmappedArrayDestroy((CUmipmappedArray)array) : CUDA_SUCCESS)
RT_FN(cudaGetMipmappedArrayLevel, (cudaArray_t * ret, cudaMipmappedArray_const_t array, unsigned int level),
    rt_driver.cuMipmappedArrayGetLevel((CUarray *)ret, (CUmipmappedArray)(uintptr_t)array, level))

static CUresult info(struct cudaChannelFormatDesc *ret_desc, struct cudaExtent *ret_extent,
    unsigned *ret_flags, cudaArray_t array)
{
  CUDA_ARRAY3D_DESCRIPTOR full;
  CUresult code = rt_driver.cuArray3DGetDescriptor(&full, (CUarray)array);
  if (code != CUDA_SUCCESS)
    return code;
  if (ret_desc)
    *ret_desc = to_runtime(&full);
  if (ret_extent)
    *ret_extent = (struct cudaExtent){.width = full.Width, .height = full.Height, .depth = full.Depth};
  if (ret_flags)
    *ret_flags = full.Flags;
  return CUDA_SUCCESS;
}

RT_FN(cudaArrayGetInfo,
    (struct cudaChannelFormatDesc * desc, struct cudaExtent *extent, unsigned int *flags, cudaArray_t array),
    info(desc, extent, flags, array))
RT_FN(cudaArrayGetMemoryRequirements,
    (struct cudaArrayMemoryRequirements * ret, cudaArray_t array, int device),
    rt_driver.cuArrayGetMemoryRequirements((CUDA_ARRAY_MEMORY_REQUIREMENTS *)ret, (CUarray)array, device))
RT_FN(cudaMipmappedArrayGetMemoryRequirements,
    (struct cudaArrayMemoryRequirements * ret, cudaMipmappedArray_t array, int device),
    rt_driver.cuMipmappedArrayGetMemoryRequirements(
        (CUDA_ARRAY_MEMORY_REQUIREMENTS *)ret, (CUmipmappedArray)array, device))
