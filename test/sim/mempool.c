/*
 * Memory pools.
 *
 * A pool allocates whole blocks. Without pieces each block of a pool in device memory is charged to the
 * device while the pool has it. With SIMCUDA_POOL_PIECE the pool takes whole pieces of the device, and a
 * block needs as many idle bytes of them, wherever they lie. A freed block may serve another allocation at
 * once in the same stream, elsewhere when its free has executed. Cached bytes above the release threshold go
 * back at the next synchronization.
 */
#include "mempool.h"

#include <stdlib.h>
#include <unistd.h>

#define TYPE_MANAGED 2 /* CU_MEM_ALLOCATION_TYPE_MANAGED of CUDA 13 */

sim_pool_t *sim_pools;

/* Of host memory: the location HOST, and the one NUMA node */
static struct {
  sim_pool_t *default_pool, *current_pool;
} host_pools[2];

sim_pool_t *sim_pool_new(CUmemLocation location)
{
  static uint64_t last_id;
  sim_pool_t *pool = calloc(1, sizeof *pool);
  if (!pool)
    abort();
  pool->id = ++last_id;
  pool->process = (uint64_t)getpid();
  pool->location = location;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
    pool->device = sim_device_get(location.id);
  pool->max = UINT64_MAX;
  pool->reuse[1] = pool->reuse[2] = pool->reuse[3] = 1;
  pool->next = sim_pools;
  sim_pools = pool;
  return pool;
}

bool sim_pool_is_usable(const sim_pool_t *pool)
{
  const sim_pool_t *other = sim_pools;
  while (other && other != pool)
    other = other->next;
  return other && !other->destroyed;
}

bool sim_pool_is_imported(const sim_pool_t *pool)
{
  return pool->process != (uint64_t)getpid();
}

void sim_pool_init_device(sim_device_t *device)
{
  CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal};
  device->default_pool = device->current_pool = sim_pool_new(location);
  device->default_pool->is_default = true;
}

bool sim_pool_has_pieces(const sim_pool_t *pool)
{
  return pool->device && sim_knobs.pool_piece > 0;
}

static uint64_t whole_pieces(uint64_t bytes)
{
  return (bytes + sim_knobs.pool_piece - 1) / sim_knobs.pool_piece * sim_knobs.pool_piece;
}

bool sim_pool_grow(sim_pool_t *pool, uint64_t bytes)
{
  uint64_t idle = pool->reserved - pool->held;
  uint64_t most = pool->max - pool->reserved;
  if (bytes <= idle)
    return true;
  uint64_t more = whole_pieces(bytes - idle);
  if (more > most)
    more = most;
  if (more < bytes - idle || !sim_device_charge(pool->device, more))
    return false;
  pool->reserved += more;
  return true;
}

/* Gives back the pieces that neither blocks nor `keep` bytes need. */
static void give_pieces(sim_pool_t *pool, uint64_t keep)
{
  uint64_t needed = pool->held > keep ? pool->held : keep;
  needed = needed < pool->reserved ? whole_pieces(needed) : needed;
  if (needed >= pool->reserved)
    return;
  sim_device_credit(pool->device, pool->reserved - needed);
  pool->reserved = needed;
}

void sim_pool_count(sim_pool_t *pool, const sim_block_t *block, bool is_new)
{
  if (is_new)
    pool->held += block->size;
  if (!sim_pool_has_pieces(pool))
    pool->reserved = pool->held;
  if (pool->reserved > pool->reserved_high)
    pool->reserved_high = pool->reserved;
  pool->used += block->size;
  if (pool->used > pool->used_high)
    pool->used_high = pool->used;
}

static void release(sim_pool_t *pool, sim_block_t *block)
{
  pool->held -= block->size;
  if (!sim_pool_has_pieces(pool))
    pool->reserved = pool->held;
  sim_block_delete(block);
}

/* "The pool will be guaranteed to have at least minBytesToKeep bytes reserved" (cuda.h, cuMemPoolTrimTo). */
void sim_pool_trim(sim_pool_t *pool, uint64_t keep)
{
  bool pieces = sim_pool_has_pieces(pool); /* these stay reserved when a block goes */
  for (sim_block_t **link = &pool->cached; *link;) {
    sim_block_t *block = *link;
    if (block->released && (pieces ? pool->reserved > keep : pool->held - block->size >= keep)) {
      *link = block->pool_next;
      release(pool, block);
    } else {
      link = &block->pool_next;
    }
  }
  if (pieces)
    give_pieces(pool, keep);
}

static void reap(sim_pool_t *pool)
{
  if (!pool->destroyed || pool->used || pool->cached)
    return;
  sim_pool_t **link = &sim_pools;
  while (*link != pool)
    link = &(*link)->next;
  *link = pool->next;
  free(pool);
}

/* "The resources associated with the pool will be released automatically once there are no more outstanding
 * allocations" (cuda.h, cuMemPoolDestroy). */
void sim_pool_end_destroyed(sim_pool_t *pool)
{
  if (!pool->destroyed)
    return;
  sim_pool_trim(pool, 0);
  reap(pool);
}

void sim_pool_trim_all(void)
{
  sim_graph_mem_reap();
  for (sim_pool_t *pool = sim_pools, *next; pool; pool = next) {
    next = pool->next;
    for (sim_block_t *block = pool->cached; block; block = block->pool_next)
      block->seen |= block->released;
    if (pool->reserved > pool->used && pool->reserved > pool->threshold)
      sim_pool_trim(pool, pool->threshold);
    sim_pool_end_destroyed(pool);
  }
}

CUresult sim_pool_check_location(CUmemLocation location)
{
  switch ((int)location.type) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return sim_device_get(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  case CU_MEM_LOCATION_TYPE_HOST: return CUDA_SUCCESS;
  case CU_MEM_LOCATION_TYPE_HOST_NUMA: return location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult check_type(CUmemAllocationType type)
{
  return type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS
         : (int)type == TYPE_MANAGED           ? CUDA_ERROR_NOT_SUPPORTED
                                               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult create(CUmemoryPool *ret, const CUmemPoolProps *props)
{
  if (!ret || !props)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_type(props->allocType);
  if (result == CUDA_SUCCESS)
    result = sim_pool_check_location(props->location);
  if (result != CUDA_SUCCESS)
    return result;
  if (props->location.type == CU_MEM_LOCATION_TYPE_HOST && props->handleTypes)
    return CUDA_ERROR_INVALID_VALUE; /* "not IPC capable" (cuda.h) */
  sim_pool_t *pool = sim_pool_new(props->location);
  if (props->maxSize)
    pool->max = props->maxSize;
  pool->handle_types = props->handleTypes;
  *ret = pool;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolCreate, (CUmemoryPool * ret, const CUmemPoolProps *props), create(ret, props), " ")

/* The current pool of a location, or its default one; made when first asked for. */
static sim_pool_t **slot_of(CUmemLocation location, bool current)
{
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    sim_device_t *device = sim_device_get(location.id);
    return current ? &device->current_pool : &device->default_pool;
  }
  unsigned i = location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if (!host_pools[i].default_pool) {
    host_pools[i].default_pool = host_pools[i].current_pool = sim_pool_new(location);
    host_pools[i].default_pool->is_default = true;
  }
  return current ? &host_pools[i].current_pool : &host_pools[i].default_pool;
}

static CUresult destroy(sim_pool_t *pool)
{
  if (!sim_pool_is_usable(pool) || pool->is_default)
    return CUDA_ERROR_INVALID_VALUE;
  pool->destroyed = true;
  pool->threshold = 0;
  sim_pool_t **current = slot_of(pool->location, true);
  if (*current == pool)
    *current = *slot_of(pool->location, false);
  sim_pool_end_destroyed(pool);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolDestroy, (CUmemoryPool pool), destroy(pool), " ")

static CUresult trim_to(sim_pool_t *pool, size_t keep)
{
  if (!sim_pool_is_usable(pool))
    return CUDA_ERROR_INVALID_VALUE;
  sim_pool_trim(pool, keep);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), trim_to(pool, keep), "%zu", keep)

static CUresult set_attribute(sim_pool_t *pool, CUmemPool_attribute attribute, const void *value)
{
  if (!sim_pool_is_usable(pool) || !value)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool->reuse[attribute] = *(const int *)value; break;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = *(const cuuint64_t *)value; break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    if (*(const cuuint64_t *)value)
      return CUDA_ERROR_INVALID_VALUE; /* "It is illegal to set this attribute to a non-zero value" (cuda.h)
                                        */
    pool->reserved_high = pool->reserved;
    break;
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    if (*(const cuuint64_t *)value)
      return CUDA_ERROR_INVALID_VALUE;
    pool->used_high = pool->used;
    break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static unsigned long long shown_value(CUmemPool_attribute attribute, const void *value)
{
  if (!value)
    return 0;
  return attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? *(const cuuint64_t *)value : 0;
}

SIM_FN(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
    set_attribute(pool, attribute, value), "%d %llu", (int)attribute, shown_value(attribute, value))

static CUresult get_attribute(const sim_pool_t *pool, CUmemPool_attribute attribute, void *ret)
{
  if (!sim_pool_is_usable(pool) || !ret)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)ret = pool->reuse[attribute]; break;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)ret = pool->threshold; break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)ret = pool->reserved; break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)ret = pool->reserved_high; break;
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)ret = pool->used; break;
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)ret = pool->used_high; break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *ret),
    get_attribute(pool, attribute, ret), "%d", (int)attribute)

static bool is_home(const sim_pool_t *pool, const CUmemLocation *location)
{
  return (location->type == CU_MEM_LOCATION_TYPE_DEVICE) == (pool->device != NULL) &&
         (!pool->device || location->id == pool->device->ordinal);
}

/* "Each descriptor instructs the access to enable for a single gpu" (cuda.h). That of the pool's own device
 * cannot be revoked (CUDA C++ Programming Guide, device accessibility for multi-GPU support). */
static CUresult check_access(const sim_pool_t *pool, const CUmemAccessDesc *access)
{
  bool none = access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
  if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_device_get(access->location.id) ||
      (!none && access->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
          access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
    return CUDA_ERROR_INVALID_VALUE;
  return none && is_home(pool, &access->location) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* All or none */
static CUresult set_access(sim_pool_t *pool, const CUmemAccessDesc *map, size_t count)
{
  if (!sim_pool_is_usable(pool) || !map)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    CUresult result = check_access(pool, &map[i]);
    if (result != CUDA_SUCCESS)
      return result;
  }
  for (size_t i = 0; i < count; i++)
    pool->access[map[i].location.id] = map[i].flags;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count),
    set_access(pool, map, count), "%zu", count)

static CUresult get_access(CUmemAccess_flags *ret, const sim_pool_t *pool, const CUmemLocation *location)
{
  if (!ret || !sim_pool_is_usable(pool) || !location)
    return CUDA_ERROR_INVALID_VALUE;
  if (is_home(pool, location))
    *ret = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  else if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && sim_device_get(location->id))
    *ret = pool->access[location->id];
  else
    *ret = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolGetAccess, (CUmemAccess_flags * ret, CUmemoryPool pool, CUmemLocation *location),
    get_access(ret, pool, location), " ")

/* ---- the pools of a location ---- */

static CUresult get_pool(
    CUmemoryPool *ret, const CUmemLocation *location, CUmemAllocationType type, bool current)
{
  if (!ret || !location)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_type(type);
  if (result == CUDA_SUCCESS)
    result = sim_pool_check_location(*location);
  if (result == CUDA_SUCCESS)
    *ret = *slot_of(*location, current);
  return result;
}

static CUresult set_pool(const CUmemLocation *location, CUmemAllocationType type, sim_pool_t *pool)
{
  if (!location)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_type(type);
  if (result == CUDA_SUCCESS)
    result = sim_pool_check_location(*location);
  if (result != CUDA_SUCCESS)
    return result;
  if (!sim_pool_is_usable(pool) || sim_pool_is_imported(pool) || pool->location.type != location->type ||
      (pool->device && pool->location.id != location->id))
    return CUDA_ERROR_INVALID_VALUE;
  *slot_of(*location, true) = pool;
  return CUDA_SUCCESS;
}

#define DEVICE_LOCATION(dev)                                                                                 \
  &(CUmemLocation)                                                                                           \
  {                                                                                                          \
    .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (dev)                                                         \
  }

SIM_FN(cuDeviceGetDefaultMemPool, (CUmemoryPool * ret, CUdevice dev),
    get_pool(ret, DEVICE_LOCATION(dev), CU_MEM_ALLOCATION_TYPE_PINNED, false), "%d", dev)
SIM_FN(cuDeviceGetMemPool, (CUmemoryPool * ret, CUdevice dev),
    get_pool(ret, DEVICE_LOCATION(dev), CU_MEM_ALLOCATION_TYPE_PINNED, true), "%d", dev)
SIM_FN(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool pool),
    set_pool(DEVICE_LOCATION(dev), CU_MEM_ALLOCATION_TYPE_PINNED, pool), "%d", dev)
SIM_FN(cuMemGetDefaultMemPool, (CUmemoryPool * ret, CUmemLocation *location, CUmemAllocationType type),
    get_pool(ret, location, type, false), "%d", (int)type)
SIM_FN(cuMemGetMemPool, (CUmemoryPool * ret, CUmemLocation *location, CUmemAllocationType type),
    get_pool(ret, location, type, true), "%d", (int)type)
SIM_FN(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
    set_pool(location, type, pool), "%d", (int)type)
