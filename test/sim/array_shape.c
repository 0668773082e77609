/*
 * The shape of CUDA arrays: which extents, formats and flags are valid, and how many bytes the elements take.
 */
#include "sim.h"

#define FLAGS_KNOWN                                                                                          \
  (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |   \
      CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT | CUDA_ARRAY3D_SPARSE |                     \
      CUDA_ARRAY3D_DEFERRED_MAPPING)

/* ---- limits: those of compute capability 9.0 ---- */

int sim_array_limit(int attribute)
{
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH: return 131072;
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT: return 65536;
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT: return 65000;
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH: return 2097120;
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH: return 16384;
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE: return 8192;
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH: return 32768;
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS: return 2048;
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS:
  case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS: return 2046;
  default: return 0;
  }
}

static bool is_within(const CUDA_ARRAY3D_DESCRIPTOR *desc, int width, int height, int depth)
{
  return desc->Width <= (size_t)sim_array_limit(width) &&
         (desc->Height == 0 || desc->Height <= (size_t)sim_array_limit(height)) &&
         (desc->Depth == 0 || desc->Depth <= (size_t)sim_array_limit(depth));
}

#define WITHIN(w, h, d)                                                                                      \
  is_within(desc, CU_DEVICE_ATTRIBUTE_MAXIMUM_##w, CU_DEVICE_ATTRIBUTE_MAXIMUM_##h,                          \
      CU_DEVICE_ATTRIBUTE_MAXIMUM_##d)

/* The table of valid extents of cuArray3DCreate and cuMipmappedArrayCreate (cuda.h) */
static bool is_extent_valid(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped)
{
  bool layered = desc->Flags & CUDA_ARRAY3D_LAYERED, cubemap = desc->Flags & CUDA_ARRAY3D_CUBEMAP;
  bool surface = desc->Flags & CUDA_ARRAY3D_SURFACE_LDST, gather = desc->Flags & CUDA_ARRAY3D_TEXTURE_GATHER;
  bool deep = desc->Depth > 0, flat = desc->Height > 0 && !deep;
  if (desc->Width == 0 || (gather && (!flat || layered || cubemap)))
    return false;
  if (cubemap) {
    if (desc->Width != desc->Height || !deep || (layered ? desc->Depth % 6 : desc->Depth != 6))
      return false;
    if (layered)
      return WITHIN(
                 TEXTURECUBEMAP_LAYERED_WIDTH, TEXTURECUBEMAP_LAYERED_WIDTH, TEXTURECUBEMAP_LAYERED_LAYERS) &&
             (!surface || WITHIN(SURFACECUBEMAP_LAYERED_WIDTH, SURFACECUBEMAP_LAYERED_WIDTH,
                              SURFACECUBEMAP_LAYERED_LAYERS));
    return WITHIN(TEXTURECUBEMAP_WIDTH, TEXTURECUBEMAP_WIDTH, TEXTURECUBEMAP_WIDTH) &&
           (!surface || WITHIN(SURFACECUBEMAP_WIDTH, SURFACECUBEMAP_WIDTH, SURFACECUBEMAP_WIDTH));
  }
  if (layered && desc->Height == 0)
    return deep && WITHIN(TEXTURE1D_LAYERED_WIDTH, TEXTURE1D_LAYERED_WIDTH, TEXTURE1D_LAYERED_LAYERS) &&
           (!surface || WITHIN(SURFACE1D_LAYERED_WIDTH, SURFACE1D_LAYERED_WIDTH, SURFACE1D_LAYERED_LAYERS));
  if (layered)
    return deep && WITHIN(TEXTURE2D_LAYERED_WIDTH, TEXTURE2D_LAYERED_HEIGHT, TEXTURE2D_LAYERED_LAYERS) &&
           (!surface || WITHIN(SURFACE2D_LAYERED_WIDTH, SURFACE2D_LAYERED_HEIGHT, SURFACE2D_LAYERED_LAYERS));
  if (deep)
    return desc->Height > 0 &&
           (WITHIN(TEXTURE3D_WIDTH, TEXTURE3D_HEIGHT, TEXTURE3D_DEPTH) ||
               WITHIN(TEXTURE3D_WIDTH_ALTERNATE, TEXTURE3D_HEIGHT_ALTERNATE, TEXTURE3D_DEPTH_ALTERNATE)) &&
           (!surface || WITHIN(SURFACE3D_WIDTH, SURFACE3D_HEIGHT, SURFACE3D_DEPTH));
  if (gather && !WITHIN(TEXTURE2D_GATHER_WIDTH, TEXTURE2D_GATHER_HEIGHT, TEXTURE2D_GATHER_HEIGHT))
    return false;
  if (flat)
    return (mipmapped ? WITHIN(TEXTURE2D_MIPMAPPED_WIDTH, TEXTURE2D_MIPMAPPED_HEIGHT, TEXTURE2D_HEIGHT)
                      : WITHIN(TEXTURE2D_WIDTH, TEXTURE2D_HEIGHT, TEXTURE2D_HEIGHT)) &&
           (!surface || WITHIN(SURFACE2D_WIDTH, SURFACE2D_HEIGHT, SURFACE2D_HEIGHT));
  return (mipmapped ? WITHIN(TEXTURE1D_MIPMAPPED_WIDTH, TEXTURE1D_WIDTH, TEXTURE1D_WIDTH)
                    : WITHIN(TEXTURE1D_WIDTH, TEXTURE1D_WIDTH, TEXTURE1D_WIDTH)) &&
         (!surface || WITHIN(SURFACE1D_WIDTH, SURFACE1D_WIDTH, SURFACE1D_WIDTH));
}

/* ---- sizes ---- */

/*
 * Formats that older headers lack, by the names and comments of CUDA 13.0's cuda.h. In a block of 2x2
 * elements 4:2:0 has 4 of luma and 2 of chroma, 4:2:2 has 4 and 4; both round 10 and 12 bits up to 16.
 */
static unsigned other_bytes(int format, unsigned *ret_block)
{
  switch (format) {
  case 0xb0: *ret_block = 2; return 4 + 2;       /* NV12, 4:2:0 of 8 bits */
  case 0x9f:                                     /* P010, 4:2:0 of 10 bits */
  case 0xa1: *ret_block = 2; return 2 * (4 + 2); /* P016, 4:2:0 of 16 bits */
  case 0xa2:                                     /* NV16, 4:2:2 of 8 bits */
  case 0xa5: *ret_block = 2; return 4 + 4;       /* YUY2, the same packed */
  case 0xa3:                                     /* P210, 4:2:2 of 10 bits */
  case 0xa4:                                     /* P216, 4:2:2 of 16 bits */
  case 0xa6:                                     /* Y210, 4:2:2 of 10 bits, packed */
  case 0xa7: *ret_block = 2; return 2 * (4 + 4); /* Y216 */
  case 0xa8: return 4;                           /* AYUV, 4 channels of 8 bits */
  case 0xa9:                                     /* Y410, 10 bits and 2 of alpha */
  case 0x50: return 4;                           /* UNORM_INT_101010_2 */
  case 0xb1: return 8;                           /* Y416, 4 channels of 12 bits */
  case 0xb2:                                     /* Y444_PLANAR8, 3 channels of 8 bits */
  case 0xb4: return 3;                           /* YUV444_8bit_SemiPlanar */
  case 0xb3:                                     /* Y444_PLANAR10, 3 channels of 10 bits */
  case 0xb5: return 6;                           /* YUV444_16bit_SemiPlanar */
  default: return 0;
  }
}

/* Of one element, or of a square block of elements, *ret_block to a side; 0 for formats
 * that are not modelled */
static unsigned element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned *ret_block)
{
  *ret_block = 1;
  switch ((int)desc->Format) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
  case CU_AD_FORMAT_SIGNED_INT8: return desc->NumChannels;
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_SIGNED_INT16:
  case CU_AD_FORMAT_HALF: return 2 * desc->NumChannels;
  case CU_AD_FORMAT_UNSIGNED_INT32:
  case CU_AD_FORMAT_SIGNED_INT32:
  case CU_AD_FORMAT_FLOAT: return 4 * desc->NumChannels;
  case CU_AD_FORMAT_UNORM_INT8X1:
  case CU_AD_FORMAT_SNORM_INT8X1: return 1;
  case CU_AD_FORMAT_UNORM_INT8X2:
  case CU_AD_FORMAT_SNORM_INT8X2:
  case CU_AD_FORMAT_UNORM_INT16X1:
  case CU_AD_FORMAT_SNORM_INT16X1: return 2;
  case CU_AD_FORMAT_UNORM_INT8X4:
  case CU_AD_FORMAT_SNORM_INT8X4:
  case CU_AD_FORMAT_UNORM_INT16X2:
  case CU_AD_FORMAT_SNORM_INT16X2: return 4;
  case CU_AD_FORMAT_UNORM_INT16X4:
  case CU_AD_FORMAT_SNORM_INT16X4: return 8;
  case CU_AD_FORMAT_BC1_UNORM:
  case CU_AD_FORMAT_BC1_UNORM_SRGB:
  case CU_AD_FORMAT_BC4_UNORM:
  case CU_AD_FORMAT_BC4_SNORM: *ret_block = 4; return 8;
  case CU_AD_FORMAT_BC2_UNORM:
  case CU_AD_FORMAT_BC2_UNORM_SRGB:
  case CU_AD_FORMAT_BC3_UNORM:
  case CU_AD_FORMAT_BC3_UNORM_SRGB:
  case CU_AD_FORMAT_BC5_UNORM:
  case CU_AD_FORMAT_BC5_SNORM:
  case CU_AD_FORMAT_BC6H_UF16:
  case CU_AD_FORMAT_BC6H_SF16:
  case CU_AD_FORMAT_BC7_UNORM:
  case CU_AD_FORMAT_BC7_UNORM_SRGB: *ret_block = 4; return 16;
  default: return other_bytes((int)desc->Format, ret_block);
  }
}

uint64_t sim_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
  unsigned block;
  uint64_t bytes = element_bytes(desc, &block);
  uint64_t width = (desc->Width + block - 1) / block, height = (desc->Height + block - 1) / block;
  return bytes * width * (height ? height : 1) * (desc->Depth ? desc->Depth : 1); /* limits: below 2^64 */
}

static size_t halve(size_t extent)
{
  return extent > 1 ? extent / 2 : extent;
}

/* Layers are not halved from level to level. */
CUDA_ARRAY3D_DESCRIPTOR sim_array_next_level(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
  CUDA_ARRAY3D_DESCRIPTOR next = *desc;
  next.Width = halve(desc->Width);
  next.Height = halve(desc->Height);
  if (!(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
    next.Depth = halve(desc->Depth);
  return next;
}

/* "clamped to the range [1, 1 + floor(log2(max(width, height, depth)))]" (cuda.h, cuMipmappedArrayCreate) */
unsigned sim_array_clamp_levels(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned wanted)
{
  size_t longest = desc->Width > desc->Height ? desc->Width : desc->Height;
  if (!(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) && desc->Depth > longest)
    longest = desc->Depth;
  unsigned most = 1;
  while (longest >>= 1)
    most++;
  return wanted == 0 ? 1 : wanted < most ? wanted : most;
}

CUresult sim_array_check(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped)
{
  unsigned block;
  bool three = desc->Format == CU_AD_FORMAT_BC6H_UF16 || desc->Format == CU_AD_FORMAT_BC6H_SF16 ||
               other_bytes((int)desc->Format, &block) > 0;
  if ((desc->Flags & ~(unsigned)FLAGS_KNOWN) || !is_extent_valid(desc, mipmapped))
    return CUDA_ERROR_INVALID_VALUE;
  if (desc->NumChannels != 1 && desc->NumChannels != 2 && desc->NumChannels != 4 &&
      !(three && desc->NumChannels == 3))
    return CUDA_ERROR_INVALID_VALUE;
  return element_bytes(desc, &block) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
