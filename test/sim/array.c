/*
 * CUDA arrays and mipmapped arrays: what they are and how much memory they hold. Their contents are not
 * modelled, so they have no address range: the bytes of their elements are charged to the device.
 */
#include "sim.h"

#include <stdlib.h>

#define MAX_LEVELS     32
#define FLAGS_UNBACKED (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING) /* mapped later, if at all */

/* An array of the program, a mipmapped array, or a level of one. charged == the device's bytes it holds: 0
 * for levels, whose memory is the mipmapped array's. */
typedef struct array {
  sim_node_t node; /* key: the handle */
  enum { ARRAY, MIPMAPPED, LEVEL } kind;
  CUDA_ARRAY3D_DESCRIPTOR desc;
  uint64_t bytes, charged;
  sim_ctx_t *ctx;
  struct array *prev, *next; /* of all but levels */
  struct array *levels[MAX_LEVELS];
  unsigned level_count;
} array_t;

static sim_tree_t handles;
static array_t *arrays;

/* ---- objects ---- */

static array_t *find(const void *handle, bool mipmapped)
{
  sim_node_t *node = sim_tree_find(&handles, (uintptr_t)handle, 0);
  if (!node)
    return NULL;
  array_t *array = SIM_CONTAINER(node, array_t, node);
  return (array->kind == MIPMAPPED) == mipmapped ? array : NULL;
}

static array_t *add(sim_ctx_t *ctx, int kind, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
  array_t *array = calloc(1, sizeof *array);
  if (!array)
    abort();
  array->kind = kind;
  array->desc = *desc;
  array->bytes = sim_array_bytes(desc);
  array->ctx = ctx;
  array->node.key = (uintptr_t)array;
  sim_tree_insert(&handles, &array->node);
  return array;
}

static void drop(array_t *array)
{
  for (unsigned i = 0; i < array->level_count; i++)
    drop(array->levels[i]);
  if (array->kind != LEVEL) {
    if (array->prev)
      array->prev->next = array->next;
    else
      arrays = array->next;
    if (array->next)
      array->next->prev = array->prev;
    sim_device_credit(array->ctx->device, array->charged);
  }
  sim_tree_remove(&handles, &array->node);
  free(array);
}

void sim_array_drop_context(const sim_ctx_t *ctx)
{
  for (array_t *array = arrays, *next; array; array = next) {
    next = array->next;
    if (array->ctx == ctx)
      drop(array);
  }
}

/* Takes the memory of a finished array. */
static CUresult charge(array_t *array)
{
  uint64_t bytes = array->desc.Flags & FLAGS_UNBACKED ? 0 : array->bytes;
  uint64_t charged = sim_device_bytes_taken(bytes);
  bool room = sim_device_charge(array->ctx->device, charged);
  array->charged = room ? charged : 0;
  array->next = arrays;
  if (arrays)
    arrays->prev = array;
  arrays = array;
  if (room)
    return CUDA_SUCCESS;
  drop(array);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create_3d(sim_call_t *call, CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
  CUresult result = ret && desc ? sim_array_check(desc, false) : CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS)
    return result;
  array_t *array = add(call->ctx, ARRAY, desc);
  result = charge(array);
  if (result == CUDA_SUCCESS)
    *ret = (CUarray)array;
  return result;
}

static CUresult create(sim_call_t *call, CUarray *ret, const CUDA_ARRAY_DESCRIPTOR *desc)
{
  if (!desc)
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full = {
      .Width = desc->Width, .Height = desc->Height, .Format = desc->Format, .NumChannels = desc->NumChannels};
  return create_3d(call, ret, &full);
}

#define LOG_ARRAY "%zu %zu", desc ? desc->Width : 0, desc ? desc->Height : 0
#define LOG_3D                                                                                               \
  "%zu %zu %zu %u", desc ? desc->Width : 0, desc ? desc->Height : 0, desc ? desc->Depth : 0,                 \
      desc ? desc->Flags : 0

SIM_FN(
    cuArrayCreate_v2, (CUarray * ret, const CUDA_ARRAY_DESCRIPTOR *desc), create(&call, ret, desc), LOG_ARRAY)
SIM_FN(cuArray3DCreate_v2, (CUarray * ret, const CUDA_ARRAY3D_DESCRIPTOR *desc), create_3d(&call, ret, desc),
    LOG_3D)

static CUresult destroy(const void *handle, bool mipmapped)
{
  array_t *array = find(handle, mipmapped);
  if (!array || array->kind == LEVEL)
    return CUDA_ERROR_INVALID_HANDLE;
  drop(array);
  return CUDA_SUCCESS;
}

SIM_FN(cuArrayDestroy, (CUarray array), destroy(array, false), " ")

static CUresult get_3d(CUDA_ARRAY3D_DESCRIPTOR *ret, CUarray handle)
{
  const array_t *array = find(handle, false);
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  if (!array)
    return CUDA_ERROR_INVALID_HANDLE;
  *ret = array->desc;
  return CUDA_SUCCESS;
}

static CUresult get(CUDA_ARRAY_DESCRIPTOR *ret, CUarray handle)
{
  CUDA_ARRAY3D_DESCRIPTOR full;
  CUresult result = ret ? get_3d(&full, handle) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    *ret = (CUDA_ARRAY_DESCRIPTOR){
        .Width = full.Width, .Height = full.Height, .Format = full.Format, .NumChannels = full.NumChannels};
  return result;
}

SIM_FN(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR * ret, CUarray array), get(ret, array), " ")
SIM_FN(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR * ret, CUarray array), get_3d(ret, array), " ")

/* Of an array "not allocated with flag CUDA_ARRAY3D_DEFERRED_MAPPING" there are none (cuda.h). */
static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret, const array_t *array, CUdevice dev)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!ret || !array || !(array->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
    return CUDA_ERROR_INVALID_VALUE;
  *ret = (CUDA_ARRAY_MEMORY_REQUIREMENTS){
      .size = (array->bytes + SIM_PAGE - 1) & ~(uint64_t)(SIM_PAGE - 1), .alignment = SIM_PAGE};
  return CUDA_SUCCESS;
}

SIM_FN(cuArrayGetMemoryRequirements, (CUDA_ARRAY_MEMORY_REQUIREMENTS * ret, CUarray array, CUdevice dev),
    requirements(ret, find(array, false), dev), "%d", dev)
SIM_FN(cuMipmappedArrayGetMemoryRequirements,
    (CUDA_ARRAY_MEMORY_REQUIREMENTS * ret, CUmipmappedArray array, CUdevice dev),
    requirements(ret, find(array, true), dev), "%d", dev)

/* ---- mipmapped ---- */

static CUresult create_mipmapped(
    sim_call_t *call, CUmipmappedArray *ret, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
  CUresult result = ret && desc ? sim_array_check(desc, true) : CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS)
    return result;
  array_t *mipmapped = add(call->ctx, MIPMAPPED, desc);
  CUDA_ARRAY3D_DESCRIPTOR level = *desc;
  mipmapped->bytes = 0;
  mipmapped->level_count = sim_array_clamp_levels(desc, levels);
  for (unsigned i = 0; i < mipmapped->level_count; i++) {
    mipmapped->levels[i] = add(call->ctx, LEVEL, &level);
    mipmapped->bytes += mipmapped->levels[i]->bytes;
    level = sim_array_next_level(&level);
  }
  result = charge(mipmapped);
  if (result == CUDA_SUCCESS)
    *ret = (CUmipmappedArray)mipmapped;
  return result;
}

SIM_FN(cuMipmappedArrayCreate,
    (CUmipmappedArray * ret, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels),
    create_mipmapped(&call, ret, desc, levels), "%zu %zu %zu %u", desc ? desc->Width : 0,
    desc ? desc->Height : 0, desc ? desc->Depth : 0, levels)
SIM_FN(cuMipmappedArrayDestroy, (CUmipmappedArray array), destroy(array, true), " ")

static CUresult get_level(CUarray *ret, CUmipmappedArray handle, unsigned level)
{
  const array_t *array = find(handle, true);
  if (!array)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!ret || level >= array->level_count)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = (CUarray)array->levels[level];
  return CUDA_SUCCESS;
}

SIM_FN(cuMipmappedArrayGetLevel, (CUarray * ret, CUmipmappedArray array, unsigned int level),
    get_level(ret, array, level), "%u", level)
