/*
 * cudaGetDeviceProperties. The structure differs between the major versions of the runtime, so it is written
 * member by member into the layout that the program was built with, whatever headers this file is built with.
 */
#include "rt.h"

#include <string.h>

#undef cudaGetDeviceProperties /* headers of 12.x: cudaGetDeviceProperties_v2 */

enum { PROP_ZERO = 0, PROP_NAME = -1, PROP_UUID = -2, PROP_MEMORY = -3 }; /* device attributes begin at 1 */

static const struct member {
  unsigned char bytes; /* of an element, and its alignment */
  unsigned short count;
  unsigned char first, last;
  short value;
} members[] = {
#define RT_PROP(member, type, count, first, last, value) {sizeof(type), count, first, last, value},
#include "rt_device_prop.def"
#undef RT_PROP
};

static void write_attributes(unsigned char *to, const struct member *member, int device)
{
  for (int i = 0; i < member->count; i++, to += member->bytes) {
    int value = 0;
    (void)rt_driver.cuDeviceGetAttribute(
        &value, (CUdevice_attribute)(member->value + i), device); /* 0 when the driver has no answer */
    const size_t wide = (size_t)value;
    if (member->bytes == sizeof wide)
      memcpy(to, &wide, sizeof wide);
    else
      memcpy(to, &value, sizeof value);
  }
}

static CUresult write_member(unsigned char *to, const struct member *member, int device)
{
  memset(to, 0, (size_t)member->bytes * member->count);
  switch (member->value) {
  case PROP_ZERO: return CUDA_SUCCESS;
  case PROP_NAME: return rt_driver.cuDeviceGetName((char *)to, member->count, device);
  /* The name was there, and so is the device: what an old driver does not tell stays 0. */
  case PROP_UUID: (void)rt_driver.cuDeviceGetUuid((CUuuid *)(void *)to, device); break;
  case PROP_MEMORY: (void)rt_driver.cuDeviceTotalMem((size_t *)(void *)to, device); break;
  default: write_attributes(to, member, device); break;
  }
  return CUDA_SUCCESS;
}

static CUresult properties(struct cudaDeviceProp *p, int device, int layout)
{
  CUresult code = CUDA_SUCCESS;
  size_t at = 0;
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < sizeof members / sizeof members[0] && code == CUDA_SUCCESS; i++) {
    const struct member *member = &members[i];
    if (layout < member->first || layout > member->last)
      continue;
    at = (at + member->bytes - 1) / member->bytes * member->bytes;
    code = write_member((unsigned char *)p + at, member, device);
    at += (size_t)member->bytes * member->count;
  }
  return code;
}

/* A runtime of 12.x has both: the plain name is that of programs built with 11.x. */
cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
RT_FN_INIT(cudaGetDeviceProperties, (struct cudaDeviceProp * p, int device),
    properties(p, device, RT_MAJOR >= 13 ? 13 : 11))
#if RT_MAJOR == 12
cudaError_t CUDARTAPI cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int device);
RT_FN_INIT(cudaGetDeviceProperties_v2, (struct cudaDeviceProp * p, int device), properties(p, device, 12))
#endif

static CUresult choose(int *ret)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = 0;
  return CUDA_SUCCESS;
}

/* Wishes are not looked at. */
RT_FN_INIT(cudaChooseDevice, (int *ret, const struct cudaDeviceProp *wanted), choose(ret))
