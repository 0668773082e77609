#include "interpose/hooks/mempool_records.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/routes/real.h"
#include "pool/engine.h"
#include "base/assert.h"
#include "base/lock.h"

/* An entry in the list of known pools, from a pool's creation until just before the driver destroys it.
 * Readers take no lock, because they query the driver about each pool. While `visitors` is not 0, no listed
 * pool is destroyed and no entry is freed. */
typedef struct mempool {
  _Atomic(struct mempool *) next;
  CUmemoryPool pool;
  int device;
} mempool_t;

static gp_lock_t lock = GP_LOCK_INIT(GP_RANK_HOOKS); /* taken by writers of the list */
static _Atomic(mempool_t *) pools;
static atomic_int visitors;

void gp_mempool_created(CUmemoryPool pool, int device)
{
  mempool_t *entry = malloc(sizeof(*entry));
  if (!entry)
    return;
  entry->pool = pool;
  entry->device = device;
  gp_lock_take(&lock);
  gp_assert_internal(gp_lock_is_held(&lock));
  atomic_init(&entry->next, atomic_load(&pools));
  atomic_store(&pools, entry);
  gp_lock_release(&lock);
}

bool gp_mempool_forget(CUmemoryPool pool, int *ret_device)
{
  gp_lock_take(&lock);
  _Atomic(mempool_t *) *link = &pools;
  mempool_t *found = atomic_load(link);
  while (found && found->pool != pool) {
    link = &found->next;
    found = atomic_load(link);
  }
  gp_assert_internal(gp_lock_is_held(&lock));
  if (found)
    atomic_store(link, atomic_load(&found->next));
  gp_lock_release(&lock);
  if (!found)
    return false;
  while (atomic_load(&visitors) > 0)
    sched_yield(); /* a visitor is in a driver call, which does not wait for this thread */
  *ret_device = found->device;
  free(found);
  return true;
}

static mempool_t *visit(void)
{
  atomic_fetch_add(&visitors, 1); /* before this thread reads the list */
  return atomic_load(&pools);
}

static void leave(void)
{
  int before = atomic_fetch_sub(&visitors, 1);
  gp_assert(before > 0);
  (void)before;
}

CUmemoryPool gp_mempool_default(int device)
{
  CUmemoryPool pool = NULL;
  if (!GP_REAL(cuDeviceGetDefaultMemPool) ||
      GP_REAL(cuDeviceGetDefaultMemPool)(&pool, device) != CUDA_SUCCESS)
    return NULL;
  return pool;
}

/* A device's default pool never changes while the process lives. */
static _Atomic(CUmemoryPool) default_pools[GP_MAX_DEVICES];

bool gp_mempool_is_supported(int device)
{
  static _Atomic uint64_t supported; /* bit mask of devices known to have pools */
  uint64_t bit = UINT64_C(1) << device;
  int has_pools = 0;

  if (atomic_load_explicit(&supported, memory_order_relaxed) & bit)
    return true;
  if (GP_REAL_CALL(cuDeviceGetAttribute, &has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device) !=
          CUDA_SUCCESS ||
      !has_pools)
    return false;
  atomic_fetch_or(&supported, bit);
  return true;
}

bool gp_mempool_is_default(CUmemoryPool pool, int *ret_device)
{
  int devices = 0;

  for (int device = 0; device < GP_MAX_DEVICES; device++)
    if (pool && atomic_load_explicit(&default_pools[device], memory_order_relaxed) == pool) {
      *ret_device = device;
      return true;
    }
  if (!pool || GP_REAL_CALL(cuDeviceGetCount, &devices) != CUDA_SUCCESS)
    return false;
  for (int device = 0; device < devices && device < GP_MAX_DEVICES; device++) {
    CUmemoryPool own = gp_mempool_default(device);
    atomic_store_explicit(&default_pools[device], own, memory_order_relaxed);
    if (own == pool) {
      *ret_device = device;
      return true;
    }
  }
  return false;
}

bool gp_mempool_is_listed(CUmemoryPool pool, int *ret_device)
{
  const mempool_t *entry = visit();

  while (entry && entry->pool != pool)
    entry = atomic_load(&entry->next);
  if (entry)
    *ret_device = entry->device;
  leave();
  return entry != NULL;
}

bool gp_mempool_find(CUmemoryPool pool, int *ret_device)
{
  return gp_mempool_is_listed(pool, ret_device) || gp_mempool_is_default(pool, ret_device);
}

CUmemoryPool gp_mempool_current(int device)
{
  CUmemoryPool pool = NULL;

  if (!atomic_load(&pools) || GP_REAL_CALL(cuDeviceGetMemPool, &pool, device) != CUDA_SUCCESS ||
      pool == gp_mempool_default(device))
    return NULL;
  return pool;
}

static atomic_bool has_threshold[GP_MAX_DEVICES];

void gp_mempool_threshold_is_set(int device)
{
  atomic_store(&has_threshold[device], true);
}

void gp_mempool_keep_freed(int device)
{
  cuuint64_t threshold = 0;

  if (atomic_load_explicit(&has_threshold[device], memory_order_relaxed) ||
      atomic_exchange(&has_threshold[device], true))
    return;
  CUmemoryPool pool = gp_mempool_default(device);
  if (!pool ||
      GP_REAL_CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) !=
          CUDA_SUCCESS ||
      threshold != 0)
    return;
  threshold = UINT64_MAX;
  (void)GP_REAL_CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

static atomic_bool barred[GP_MAX_DEVICES];

void gp_mempool_bar(int device)
{
  atomic_store(&barred[device], true);
}

bool gp_mempool_is_barred(int device)
{
  return atomic_load_explicit(&barred[device], memory_order_relaxed);
}

static CUresult add_reserved(CUmemoryPool pool, uint64_t *bytes, uint64_t *used_bytes)
{
  cuuint64_t reserved = 0;
  cuuint64_t used = 0;
  CUresult result =
      GP_REAL_CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  if (result == CUDA_SUCCESS)
    result = GP_REAL_CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
  if (result != CUDA_SUCCESS)
    return result;
  *bytes += reserved;
  *used_bytes += used;
  return CUDA_SUCCESS;
}

CUresult gp_mempools_reserved(int device, uint64_t *ret_bytes, uint64_t *ret_used)
{
  CUmemoryPool first = gp_mempool_default(device);
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;

  *ret_bytes = *ret_used = 0;
  if (first)
    result = add_reserved(first, ret_bytes, ret_used);
  for (const mempool_t *entry = visit(); entry && result == CUDA_SUCCESS; entry = atomic_load(&entry->next))
    if (entry->device == device)
      result = add_reserved(entry->pool, ret_bytes, ret_used);
  leave();
  return result;
}

void gp_mempools_trim(int device)
{
  CUmemoryPool first = gp_mempool_default(device);

  if (first)
    (void)GP_REAL_CALL(cuMemPoolTrimTo, first, 0);
  for (const mempool_t *entry = visit(); entry; entry = atomic_load(&entry->next))
    if (entry->device == device)
      (void)GP_REAL_CALL(cuMemPoolTrimTo, entry->pool, 0);
  leave();
}
