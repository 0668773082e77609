/*
 * Physical memory of cuMemCreate, the handles that stand for it, and how it is exported. A handle value is
 * used again as soon as it is released, also while memory that it stood for is still mapped.
 */
#include "vmm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define TOKEN_MAGIC 0x6d656d6f72792121u

typedef struct {
  sim_physical_t *physical; /* NULL: the value is free */
  unsigned refs;
} slot_t;

static slot_t *slots; /* handle value - 1 */
static unsigned slot_count;
static sim_physical_t *physicals;
static uint64_t last_id;

static slot_t *slot_of(CUmemGenericAllocationHandle handle)
{
  return handle > 0 && handle <= slot_count ? &slots[handle - 1] : NULL;
}

/* The lowest free value */
static CUmemGenericAllocationHandle new_handle(sim_physical_t *physical)
{
  unsigned i = 0;
  while (i < slot_count && slots[i].physical)
    i++;
  if (i == slot_count) {
    slots = realloc(slots, ++slot_count * sizeof *slots);
    if (!slots)
      abort();
  }
  slots[i] = (slot_t){physical, 1};
  physical->refs++;
  return i + 1;
}

sim_physical_t *sim_vmm_physical(CUmemGenericAllocationHandle handle)
{
  const slot_t *slot = slot_of(handle);
  return slot ? slot->physical : NULL;
}

void sim_vmm_unref(sim_physical_t *physical)
{
  if (--physical->refs)
    return;
  if (physical->prev)
    physical->prev->next = physical->next;
  else
    physicals = physical->next;
  if (physical->next)
    physical->next->prev = physical->prev;
  if (physical->device)
    sim_device_credit(physical->device, physical->size);
  free(physical);
}

CUmemGenericAllocationHandle sim_vmm_retain(CUmemGenericAllocationHandle handle, sim_physical_t *physical)
{
  slot_t *slot = slot_of(handle);
  if (slot->physical && slot->physical != physical)
    return new_handle(physical);
  if (!slot->physical) {
    slot->physical = physical;
    physical->refs++;
  }
  slot->refs++;
  return handle;
}

/* "requestedHandleTypes must be 0" for HOST, "HOST_NUMA_CURRENT will result in CUDA_ERROR_INVALID_VALUE"
 * (cuda.h, cuMemCreate). There is one NUMA node. */
static CUresult check(const CUmemAllocationProp *prop)
{
  if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  switch ((int)prop->location.type) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    if (!sim_device_get(prop->location.id))
      return CUDA_ERROR_INVALID_DEVICE;
    break;
  case CU_MEM_LOCATION_TYPE_HOST: return prop->requestedHandleTypes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    if (prop->location.id != 0)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_ERROR_NOT_SUPPORTED
                                                                                : CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *ret, size_t size, const CUmemAllocationProp *prop)
{
  if (!ret || !prop || size == 0 || size % SIM_PAGE)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check(prop);
  if (result != CUDA_SUCCESS)
    return result;
  sim_device_t *device =
      prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? sim_device_get(prop->location.id) : NULL;
  if (device && !sim_device_charge(device, size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  sim_physical_t *physical = calloc(1, sizeof *physical);
  if (!physical)
    abort();
  physical->device = device;
  physical->size = size;
  physical->id = ++last_id;
  physical->prop = *prop;
  physical->next = physicals;
  if (physicals)
    physicals->prev = physical;
  physicals = physical;
  *ret = new_handle(physical);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemCreate,
    (CUmemGenericAllocationHandle * ret, size_t size, const CUmemAllocationProp *prop,
        unsigned long long flags),
    flags ? CUDA_ERROR_INVALID_VALUE : create(ret, size, prop), "%zu -> %llu", size,
    ret &&call.result == CUDA_SUCCESS ? *ret : 0)

static CUresult release(CUmemGenericAllocationHandle handle)
{
  slot_t *slot = slot_of(handle);
  if (!slot || !slot->physical)
    return CUDA_ERROR_INVALID_VALUE;
  if (--slot->refs == 0) {
    sim_vmm_unref(slot->physical);
    slot->physical = NULL;
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuMemRelease, (CUmemGenericAllocationHandle handle), release(handle), "%llu", handle)

static CUresult granularity(size_t *ret)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = SIM_PAGE;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemGetAllocationGranularity,
    (size_t * ret, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option),
    granularity(ret), "%d", (int)option)

static CUresult properties(CUmemAllocationProp *ret, const sim_physical_t *physical)
{
  if (!ret || !physical)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = physical->prop;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemGetAllocationPropertiesFromHandle,
    (CUmemAllocationProp * ret, CUmemGenericAllocationHandle handle),
    properties(ret, sim_vmm_physical(handle)), "%llu", handle)

/* ---- sharing: a descriptor of a file that names the memory. It does not keep the memory. ---- */

typedef struct {
  uint64_t magic, id, pid;
} token_t;

static CUresult export(void *ret, const sim_physical_t *physical, CUmemAllocationHandleType type)
{
  if (!ret || !physical || type == CU_MEM_HANDLE_TYPE_NONE ||
      !((unsigned)physical->prop.requestedHandleTypes & (unsigned)type))
    return CUDA_ERROR_INVALID_VALUE;
  token_t token = {TOKEN_MAGIC, physical->id, (uint64_t)getpid()};
  int fd = memfd_create("simulated-memory", MFD_CLOEXEC);
  if (fd < 0)
    return CUDA_ERROR_UNKNOWN;
  if (pwrite(fd, &token, sizeof token, 0) != (ssize_t)sizeof token) {
    close(fd);
    return CUDA_ERROR_UNKNOWN;
  }
  *(int *)ret = fd;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemExportToShareableHandle,
    (void *ret, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
        unsigned long long flags),
    flags ? CUDA_ERROR_INVALID_VALUE : export(ret, sim_vmm_physical(handle), type), "%llu %d", handle,
    (int)type)

static CUresult import(CUmemGenericAllocationHandle *ret, int fd, CUmemAllocationHandleType type)
{
  token_t token;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!ret || pread(fd, &token, sizeof token, 0) != (ssize_t)sizeof token || token.magic != TOKEN_MAGIC)
    return CUDA_ERROR_INVALID_VALUE;
  if (token.pid != (uint64_t)getpid())
    return CUDA_ERROR_NOT_SUPPORTED;
  sim_physical_t *physical = physicals;
  while (physical && physical->id != token.id)
    physical = physical->next;
  if (!physical)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = new_handle(physical);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemImportFromShareableHandle,
    (CUmemGenericAllocationHandle * ret, void *os_handle, CUmemAllocationHandleType type),
    import(ret, (int)(intptr_t)os_handle, type), "%d -> %llu", (int)type,
    ret &&call.result == CUDA_SUCCESS ? *ret : 0)
