/*
 * Hooks of the driver's memory pools: creation, destruction and attributes. The library serves a device's
 * default pool from its own memory, so it also includes that memory in queries of the default pool's
 * attributes.
 */
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/mempool_records.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "pool/forwarded/forwarded.h"

/* Returns the device of a pool's memory. A managed pool (13.0) may have no location: it then counts for the
 * current device, like managed memory. */
static int device_of(const CUmemLocation *location)
{
  CUdevice current = 0;

  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
    return location->id;
  if (location->type != CU_MEM_LOCATION_TYPE_INVALID)
    return GP_MEMPOOL_HOST;
  (void)GP_REAL_CALL(cuCtxGetDevice, &current);
  return current;
}

CUresult CUDAAPI hook_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
  gp_engine_t *engine = gp_library_engine();
  CUresult result = GP_REAL_CALL(cuMemPoolCreate, pool, properties);

  if (engine && result == CUDA_SUCCESS)
    gp_mempool_created(*pool, device_of(&properties->location));
  return result;
}

/* Records the driver's own pools of host memory and of managed memory, which the library discovers when the
 * program queries them. */
static CUresult named(CUresult result, const CUmemoryPool *pool, const CUmemLocation *location)
{
  gp_engine_t *engine = gp_library_engine();
  int device;

  if (engine && result == CUDA_SUCCESS && !gp_mempool_find(*pool, &device))
    gp_mempool_created(*pool, device_of(location));
  return result;
}

CUresult CUDAAPI hook_cuMemGetDefaultMemPool(
    CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
  (void)gp_library_engine(); /* binds the driver */
  return named(GP_REAL_CALL(cuMemGetDefaultMemPool, pool, location, type), pool, location);
}

CUresult CUDAAPI hook_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
  (void)gp_library_engine();
  return named(GP_REAL_CALL(cuMemGetMemPool, pool, location, type), pool, location);
}

/* Returns the bytes that the pool has reserved, or 0 if the device has no limit: only a limit needs them. */
static uint64_t reserved_in(gp_engine_t *engine, CUmemoryPool pool, int device)
{
  cuuint64_t reserved = 0;

  if (gp_engine_limit(engine, device) != 0)
    (void)GP_REAL_CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  return reserved;
}

CUresult CUDAAPI hook_cuMemPoolDestroy(CUmemoryPool pool)
{
  gp_engine_t *engine = gp_library_engine();
  int device;
  bool known = engine && gp_mempool_is_listed(pool, &device);
  bool is_counted = known && device != GP_MEMPOOL_HOST;
  gp_ending_pool_t ending;

  /* The memory is counted before the driver's call, because the driver may give the handle to another thread
   * afterwards. If the driver refuses, this memory is counted twice. While the pool is listed, the driver's
   * values include the pool's memory. */
  if (is_counted)
    ending =
        gp_engine_mempool_ends(engine, (uint64_t)(uintptr_t)pool, device, reserved_in(engine, pool, device));
  known = known && gp_mempool_forget(pool, &device);
  CUresult result = GP_REAL_CALL(cuMemPoolDestroy, pool);
  if (known && result != CUDA_SUCCESS)
    gp_mempool_created(pool, device);
  if (is_counted)
    gp_engine_mempool_ended(engine, &ending);
  return result;
}

/* Returns the engine if the pool is a device's default pool, else NULL. */
static gp_engine_t *keeper_of(CUmemoryPool pool, int *ret_device)
{
  gp_engine_t *engine = gp_library_engine();
  return engine && gp_mempool_is_default(pool, ret_device) ? engine : NULL;
}

/*
 * Adds memory that the library serves instead of the driver's pool to the driver's `*value`. `live` bytes
 * are in use, and `kept` more are reserved. The driver's peak and the library's peak may be from different
 * times, so their sum may exceed the real peak.
 */
static void add_own(
    CUmemoryPool pool, CUmemPool_attribute attribute, const gp_async_use_t *use, cuuint64_t *value)
{
  bool of_reserved = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
  CUmemPool_attribute now =
      of_reserved ? CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT : CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
  cuuint64_t current = 0;

  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) {
    *value += use->live;
  } else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) {
    *value += use->live + use->kept;
  } else if ((attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH || of_reserved) &&
             GP_REAL_CALL(cuMemPoolGetAttribute, pool, now, &current) == CUDA_SUCCESS) {
    current += of_reserved ? use->reserved_peak : use->peak;
    if (*value < current)
      *value = current;
  }
}

CUresult CUDAAPI hook_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
  int device;
  gp_engine_t *engine = keeper_of(pool, &device);
  CUresult result = GP_REAL_CALL(cuMemPoolGetAttribute, pool, attribute, value);

  if (!engine || result != CUDA_SUCCESS)
    return result;
  gp_async_use_t use = gp_engine_async_use(engine, device);
  add_own(pool, attribute, &use, value);
  return result;
}

static bool is_reuse_attribute(CUmemPool_attribute attribute)
{
  return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/* Sets an attribute. A program that forbids a kind of reuse wants to control what is reused, and when. From
 * then on the library forwards the calls for that device, and the driver's pool obeys the attribute. */
CUresult CUDAAPI hook_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
  int device;
  gp_engine_t *engine = keeper_of(pool, &device);

  if (engine && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    gp_mempool_threshold_is_set(device);
  CUresult result = GP_REAL_CALL(cuMemPoolSetAttribute, pool, attribute, value);

  if (!engine || result != CUDA_SUCCESS)
    return result;
  if (is_reuse_attribute(attribute) && *(const int *)value == 0) {
    gp_mempool_bar(device);
    gp_engine_async_trim(engine, gp_engine_device_context(engine, device));
  } else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
    gp_engine_async_reset_peak(engine, device, attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
  }
  return result;
}

/* Sets the access for the driver's pool, and for the memory that the library serves in its place; all of that
 * memory is mapped memory. */
CUresult CUDAAPI hook_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
  int device;
  gp_engine_t *engine = keeper_of(pool, &device);
  CUresult result = GP_REAL_CALL(cuMemPoolSetAccess, pool, map, count);

  for (size_t i = 0; engine && result == CUDA_SUCCESS && i < count; i++)
    if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      result = (CUresult)gp_engine_async_access(engine, device, map[i].location.id);
  return result;
}

CUresult CUDAAPI hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep)
{
  int device;
  gp_engine_t *engine = keeper_of(pool, &device);
  cuuint64_t reserved = 0;

  if (engine && GP_REAL_CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ==
                    CUDA_SUCCESS) {
    gp_async_use_t use = gp_engine_async_use(engine, device);
    reserved += use.live + use.kept;
  }
  if (engine && reserved > bytes_to_keep)
    gp_engine_async_trim(engine, gp_engine_device_context(engine, device));
  return GP_REAL_CALL(cuMemPoolTrimTo, pool, bytes_to_keep);
}
