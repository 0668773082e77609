#include "interpose/hooks/array.h"

#include <stdbool.h>
#include <stddef.h>

/* Flags from cuda.h of CUDA 11.6 and later; older headers lack some. */
#define ARRAY_SPARSE           0x40u
#define ARRAY_DEFERRED_MAPPING 0x80u
#define ARRAY_LAYERED          0x01u
#define ARRAY_CUBEMAP          0x04u

/* Returns the bits of one element, all channels together. Compressed and planar formats store less than their
 * channels suggest. A format newer than this table counts 32 bits for each channel, the widest known. */
static uint64_t element_bits(unsigned format, unsigned channels)
{
  switch (format) {
  case 0x01: /* UNSIGNED_INT8 */
  case 0x08: /* SIGNED_INT8 */ return (uint64_t)8 * channels;
  case 0x02: /* UNSIGNED_INT16 */
  case 0x09: /* SIGNED_INT16 */
  case 0x10: /* HALF */ return (uint64_t)16 * channels;
  case 0x91: /* BC1: 8 bytes for 16 elements */
  case 0x92:
  case 0x97: /* BC4 */
  case 0x98: return 4;
  case 0x93: /* BC2, BC3: 16 bytes for 16 elements */
  case 0x94:
  case 0x95:
  case 0x96:
  case 0x99: /* BC5, BC6H, BC7 */
  case 0x9a:
  case 0x9b:
  case 0x9c:
  case 0x9d:
  case 0x9e: return 8;
  case 0xb0: return 12; /* NV12: 8 bit, colour for each 4 elements */
  case 0x9f:            /* P010, P016 */
  case 0xa1: return 24;
  case 0xa2: return 16; /* NV16 */
  case 0xa3:            /* P210, P216 */
  case 0xa4: return 32;
  case 0xa5: return 16; /* YUY2 */
  case 0xa6:            /* Y210, Y216 */
  case 0xa7:
  case 0xa8:            /* AYUV */
  case 0xa9:            /* Y410 */
  case 0x50: return 32; /* UNORM_INT_101010_2 */
  case 0xb1: return 64; /* Y416 */
  case 0xb2:            /* 8 bit, 4:4:4 */
  case 0xb4: return 24;
  case 0xb3: /* 10 and 16 bit, 4:4:4 */
  case 0xb5: return 48;
  case 0xc0: /* UNORM, SNORM: the number of channels is in the format's name */
  case 0xc6: return 8;
  case 0xc1:
  case 0xc7:
  case 0xc3:
  case 0xc9: return 16;
  case 0xc2:
  case 0xc8:
  case 0xc4:
  case 0xca: return 32;
  case 0xc5:
  case 0xcb: return 64;
  default: return (uint64_t)32 * channels; /* UNSIGNED_INT32, SIGNED_INT32, FLOAT */
  }
}

/* Returns the bytes of the elements of one level, without the padding that only the driver knows. Returns 0
 * on overflow. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned level)
{
  bool has_layers = array->Flags & (ARRAY_LAYERED | ARRAY_CUBEMAP);
  size_t width = array->Width >> level ? array->Width >> level : 1;
  size_t height = array->Height >> level ? array->Height >> level : 1; /* 0 in arrays with fewer dimensions */
  size_t depth = has_layers ? array->Depth : array->Depth >> level;
  uint64_t bits;

  if (depth == 0)
    depth = 1;
  if (__builtin_mul_overflow(
          (uint64_t)width, element_bits((unsigned)array->Format, array->NumChannels), &bits) ||
      __builtin_mul_overflow(bits, (uint64_t)height, &bits) ||
      __builtin_mul_overflow(bits, (uint64_t)depth, &bits))
    return 0;
  return bits / 8 + (bits % 8 != 0);
}

/* Returns the number of mip levels: "clamped to the range [1, 1 + floor(log2(max(width, height, depth)))]"
 * (cuda.h, cuMipmappedArrayCreate). */
static unsigned clamp_levels(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned levels)
{
  bool has_layers = array->Flags & (ARRAY_LAYERED | ARRAY_CUBEMAP);
  size_t extents =
      array->Width | array->Height | (has_layers ? 0 : array->Depth); /* has as many bits as the largest */
  unsigned most = 0;

  for (; extents > 0; extents >>= 1)
    most++;
  return levels == 0 ? 1 : levels < most ? levels : most;
}

uint64_t gp_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned levels)
{
  uint64_t bytes = 0;

  if (!array || array->Width == 0 || array->Flags & (ARRAY_SPARSE | ARRAY_DEFERRED_MAPPING))
    return 0;
  levels = clamp_levels(array, levels);
  for (unsigned level = 0; level < levels; level++) {
    uint64_t more = level_bytes(array, level);
    if (more == 0 || __builtin_add_overflow(bytes, more, &bytes))
      return 0;
  }
  return bytes;
}

uint64_t gp_plane_bytes(const CUDA_ARRAY_DESCRIPTOR *array)
{
  if (!array)
    return 0;
  CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = array->Width,
      .Height = array->Height,
      .Format = array->Format,
      .NumChannels = array->NumChannels};
  return gp_array_bytes(&deep, 1);
}
