/*
 * Physical memory of cuMemCreate, the handles that stand for it, and how it is exported. A handle value is
 * used again as soon as it is released, also while memory that it stood for is still mapped.
 */
#include "vmm.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_MAGIC 0x6d656d6f72792121u

typedef struct {
  sim_physical_t *physical; /* NULL: the value is free */
  unsigned refs;
} slot_t;

static slot_t *slots; /* handle value - 1 */
static unsigned slot_count;
static sim_physical_t *physicals;
static unsigned unreferenced; /* of them, by handles and mappings */

static slot_t *slot_of(CUmemGenericAllocationHandle handle)
{
  return handle > 0 && handle <= slot_count ? &slots[handle - 1] : NULL;
}

static void take_ref(sim_physical_t *physical)
{
  unreferenced -= physical->refs++ == 0;
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
  take_ref(physical);
  return i + 1;
}

sim_physical_t *sim_vmm_physical(CUmemGenericAllocationHandle handle)
{
  const slot_t *slot = slot_of(handle);
  return slot ? slot->physical : NULL;
}

static void end(sim_physical_t *physical)
{
  unreferenced--;
  if (physical->prev)
    physical->prev->next = physical->next;
  else
    physicals = physical->next;
  if (physical->next)
    physical->next->prev = physical->prev;
  if (physical->device && !physical->imported)
    sim_device_credit(physical->device, physical->size);
  sim_file_close(&physical->file);
  free(physical);
}

/* It lives on while anyone has a descriptor to which it was exported. */
static bool is_over(const sim_physical_t *physical)
{
  return physical->refs == 0 && (physical->imported || !sim_file_is_shared(&physical->file));
}

void sim_vmm_unref(sim_physical_t *physical)
{
  if (--physical->refs > 0)
    return;
  unreferenced++;
  if (is_over(physical))
    end(physical);
}

void sim_vmm_reap(void)
{
  if (unreferenced == 0)
    return;
  for (sim_physical_t *physical = physicals, *next; physical; physical = next) {
    next = physical->next;
    if (is_over(physical))
      end(physical);
  }
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

/* NULL: it is in host memory. */
static sim_device_t *device_of(const CUmemAllocationProp *prop)
{
  return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? sim_device_get(prop->location.id) : NULL;
}

static sim_physical_t *new_physical(sim_device_t *device, uint64_t size, const CUmemAllocationProp *prop)
{
  sim_physical_t *physical = calloc(1, sizeof *physical);
  if (!physical)
    abort();
  physical->device = device;
  physical->size = size;
  physical->prop = *prop;
  physical->next = physicals;
  if (physicals)
    physicals->prev = physical;
  physicals = physical;
  unreferenced++;
  return physical;
}

static CUresult create(CUmemGenericAllocationHandle *ret, size_t size, const CUmemAllocationProp *prop)
{
  if (!ret || !prop || size == 0 || size % SIM_PAGE)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check(prop);
  if (result != CUDA_SUCCESS)
    return result;
  sim_device_t *device = device_of(prop);
  if (device && !sim_device_charge(device, size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  *ret = new_handle(new_physical(device, size, prop));
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

/* ---- sharing: a descriptor of the memory, behind which the file says what it is ---- */

typedef struct {
  uint64_t magic, size;
  CUmemAllocationProp prop;
} token_t;

static bool make_file(sim_physical_t *physical)
{
  token_t token = {TOKEN_MAGIC, physical->size, physical->prop};
  sim_file_t file;
  if (!sim_file_new(&file, "simulated-memory", physical->size + sizeof token))
    return false;
  if (pwrite(file.descriptor, &token, sizeof token, (off_t)physical->size) == (ssize_t)sizeof token &&
      sim_vmm_move(physical, &file)) {
    physical->file = file;
    return true;
  }
  sim_file_close(&file);
  return false;
}

static CUresult export(void *ret, sim_physical_t *physical, CUmemAllocationHandleType type)
{
  if (!ret || !physical || type == CU_MEM_HANDLE_TYPE_NONE ||
      !((unsigned)physical->prop.requestedHandleTypes & (unsigned)type))
    return CUDA_ERROR_INVALID_VALUE;
  if (!physical->file.inode && !make_file(physical))
    return CUDA_ERROR_OPERATING_SYSTEM;
  int descriptor = sim_file_share(&physical->file);
  if (descriptor < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)ret = descriptor;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemExportToShareableHandle,
    (void *ret, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
        unsigned long long flags),
    flags ? CUDA_ERROR_INVALID_VALUE : export(ret, sim_vmm_physical(handle), type), "%llu %d", handle,
    (int)type)

static bool read_token(token_t *ret, sim_file_t *ret_file, int descriptor)
{
  struct stat stat;
  if (!sim_file_look_at(ret_file, descriptor) || fstat(descriptor, &stat) != 0)
    return false;
  off_t size = stat.st_size - (off_t)sizeof *ret;
  return pread(descriptor, ret, sizeof *ret, size) == (ssize_t)sizeof *ret && ret->magic == TOKEN_MAGIC &&
         ret->size == (uint64_t)size;
}

static CUresult import(CUmemGenericAllocationHandle *ret, int descriptor, CUmemAllocationHandleType type)
{
  token_t token;
  sim_file_t file;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!ret || !read_token(&token, &file, descriptor))
    return CUDA_ERROR_INVALID_VALUE;
  sim_physical_t *physical = physicals;
  while (physical && !sim_file_is_same(&physical->file, &file))
    physical = physical->next;
  if (!physical) {
    sim_device_t *device = device_of(&token.prop);
    if (!device && token.prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_NOT_SUPPORTED;      /* "if the current process cannot support the memory" (cuda.h) */
    file.descriptor = sim_file_copy(&file); /* the program may close its own */
    if (file.descriptor < 0)
      return CUDA_ERROR_OPERATING_SYSTEM;
    physical = new_physical(device, token.size, &token.prop);
    physical->file = file;
    physical->imported = true;
  }
  *ret = new_handle(physical);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemImportFromShareableHandle,
    (CUmemGenericAllocationHandle * ret, void *os_handle, CUmemAllocationHandleType type),
    import(ret, (int)(intptr_t)os_handle, type), "%d -> %llu", (int)type,
    ret &&call.result == CUDA_SUCCESS ? *ret : 0)
