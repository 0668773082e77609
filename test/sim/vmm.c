/*
 * Virtual memory management. Physical memory is accounted at cuMemCreate; its contents belong to the address
 * range it is mapped to, so memory mapped at two addresses, or moved to another, does not carry its bytes
 * along. Memory that was exported does: it is a file, which is mapped at its addresses.
 */
#include "sim.h"
#include "vmm.h"
#include "oracle_clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct mapping {
  sim_block_t *block;
  sim_physical_t *physical;
  CUmemGenericAllocationHandle handle; /* used for it; the value may stand for other memory by now */
  struct mapping *next;
} mapping_t;

typedef struct reservation {
  uint64_t address, size;
  sim_device_t *device;
  struct reservation *next;
} reservation_t;

static mapping_t *mappings;
static reservation_t *reservations;

static CUresult reserve(sim_call_t *call, CUdeviceptr *ret, size_t size, size_t alignment)
{
  if (!ret || size == 0 || size % SIM_PAGE || (alignment & (alignment - 1)))
    return CUDA_ERROR_INVALID_VALUE;
  sim_ctx_t *ctx = sim_ctx_current();
  sim_device_t *device = ctx ? ctx->device : &sim_devices[0];
  reservation_t *reservation = calloc(1, sizeof *reservation);
  if (!reservation)
    return CUDA_ERROR_OUT_OF_MEMORY;
  reservation->address = sim_arena_take(&device->arena, size);
  if (!reservation->address) {
    free(reservation);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  reservation->size = size;
  reservation->device = device;
  reservation->next = reservations;
  reservations = reservation;
  *ret = reservation->address;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemAddressReserve,
    (CUdeviceptr * ret, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags),
    flags ? CUDA_ERROR_INVALID_VALUE : reserve(&call, ret, size, alignment), "%zu %zu -> %llx", size,
    alignment, sim_str_out(ret, call.result))

static reservation_t **find_reservation(uint64_t address, uint64_t size)
{
  for (reservation_t **link = &reservations; *link; link = &(*link)->next) {
    if (address >= (*link)->address && address + size <= (*link)->address + (*link)->size)
      return link;
  }
  return NULL;
}

static bool is_mapped(uint64_t address, uint64_t size)
{
  for (const mapping_t *mapping = mappings; mapping; mapping = mapping->next) {
    if (mapping->block->node.key < address + size &&
        address < mapping->block->node.key + mapping->block->size)
      return true;
  }
  return false;
}

static bool is_owned(const sim_physical_t *physical)
{
  for (const mapping_t *mapping = mappings; mapping; mapping = mapping->next) {
    if (mapping->physical == physical && sim_owner_has(mapping->block->node.key, mapping->block->size))
      return true;
  }
  return false;
}

static bool is_first_of_its_memory(const mapping_t *mapping)
{
  const mapping_t *first = mappings;
  while (first->physical != mapping->physical)
    first = first->next;
  return first == mapping;
}

uint64_t sim_vmm_unowned(const sim_device_t *device)
{
  uint64_t bytes = 0;
  for (const mapping_t *mapping = mappings; mapping; mapping = mapping->next) {
    if (mapping->physical->device == device && is_first_of_its_memory(mapping) &&
        !is_owned(mapping->physical))
      bytes += mapping->physical->size;
  }
  return bytes;
}

static CUresult address_free(CUdeviceptr address, size_t size)
{
  reservation_t **link = find_reservation(address, size);
  if (!link || (*link)->address != address || (*link)->size != size || is_mapped(address, size))
    return CUDA_ERROR_INVALID_VALUE;
  reservation_t *reservation = *link;
  *link = reservation->next;
  sim_arena_give(
      &reservation->device->arena, address, size, &(sim_dirty_t){.grids = {{0, size, size, 1}}, .count = 1});
  free(reservation);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemAddressFree, (CUdeviceptr address, size_t size), address_free(address, size), "%s %zu",
    sim_str_ptr(address), size)

static CUresult map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle)
{
  reservation_t **link = find_reservation(address, size);
  sim_physical_t *physical = sim_vmm_physical(handle);
  if (!link || !physical || size == 0 || offset || size != physical->size || address % SIM_PAGE ||
      is_mapped(address, size))
    return CUDA_ERROR_INVALID_VALUE;
  if (physical->file.inode && !sim_arena_map_file(address, size, &physical->file, 0))
    return CUDA_ERROR_OPERATING_SYSTEM;
  mapping_t *mapping = calloc(1, sizeof *mapping);
  sim_block_t *block = calloc(1, sizeof *block);
  if (!mapping || !block)
    abort();
  block->node.key = address;
  block->size = block->requested = size;
  block->id = block->valid_from = sim_block_next_id();
  block->kind = SIM_MEM_VMM;
  block->device = physical->device ? physical->device : (*link)->device;
  block->on_host = !physical->device;
  block->shared = physical->file.inode != 0;
  block->arena = &(*link)->device->arena;
  sim_tree_insert(&block->arena->blocks, &block->node);
  mapping->block = block;
  mapping->physical = physical;
  mapping->handle = handle;
  mapping->next = mappings;
  mappings = mapping;
  physical->refs++;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemMap,
    (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags),
    flags ? CUDA_ERROR_INVALID_VALUE : map(address, size, offset, handle), "%s %zu %zu %llu",
    sim_str_ptr(address), size, offset, handle)

/* The bytes are those at the newest address. */
static bool copy_to_file(const sim_block_t *block, const sim_file_t *file)
{
  void *copy = mmap(NULL, block->size, PROT_WRITE, MAP_SHARED, file->descriptor, 0);
  if (copy == MAP_FAILED)
    return false;
  memcpy(copy, (const void *)(uintptr_t)block->node.key, block->size);
  (void)munmap(copy, block->size);
  return true;
}

bool sim_vmm_move(const sim_physical_t *physical, const sim_file_t *file)
{
  bool is_copied = false;
  for (mapping_t *mapping = mappings; mapping; mapping = mapping->next) {
    sim_block_t *block = mapping->block;
    if (mapping->physical != physical)
      continue;
    if (!is_copied && !copy_to_file(block, file))
      return false;
    is_copied = true;
    if (!sim_arena_map_file(block->node.key, block->size, file, 0))
      abort();
    block->shared = true;
  }
  return true;
}

/* The range must consist of whole mappings. */
static CUresult unmap(CUdeviceptr address, size_t size)
{
  uint64_t covered = 0;
  for (const mapping_t *mapping = mappings; mapping; mapping = mapping->next) {
    if (mapping->block->node.key >= address &&
        mapping->block->node.key + mapping->block->size <= address + size)
      covered += mapping->block->size;
  }
  if (size == 0 || covered != size)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_oracle_on)
    sim_oracle_unmap(address, size);
  for (mapping_t **link = &mappings; *link;) {
    mapping_t *mapping = *link;
    sim_block_t *block = mapping->block;
    if (block->node.key < address || block->node.key + block->size > address + size) {
      link = &mapping->next;
      continue;
    }
    *link = mapping->next;
    sim_arena_remove(block->arena, block);
    if (block->shared)
      sim_arena_unmap_file(block->node.key, block->size);
    sim_vmm_unref(mapping->physical);
    free(block);
    free(mapping);
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuMemUnmap, (CUdeviceptr address, size_t size), unmap(address, size), "%s %zu", sim_str_ptr(address),
    size)

/* "The range must be a fully mapped address range" (cuda.h). */
static CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count)
{
  if (!desc || count == 0 || size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (uint64_t at = address; at < address + size;) {
    const sim_block_t *block = sim_arena_find(at);
    if (!block || block->kind != SIM_MEM_VMM || (at == address && block->node.key != at) ||
        block->node.key + block->size > address + size)
      return CUDA_ERROR_INVALID_VALUE;
    at = block->node.key + block->size;
  }
  for (uint64_t at = address; at < address + size;) {
    sim_block_t *block = sim_arena_find(at);
    for (size_t i = 0; i < count; i++) {
      bool is_device = desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE;
      uint64_t bit = (uint64_t)1 << (is_device ? desc[i].location.id & 31 : 32);
      block->access =
          desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? block->access & ~bit : block->access | bit;
    }
    at = block->node.key + block->size;
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuMemSetAccess, (CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count),
    set_access(address, size, desc, count), "%s %zu %zu", sim_str_ptr(address), size, count)

/* "The handle is guaranteed to be the same handle value used to map the memory" (cuda.h): it comes back even
 * if it was released meanwhile, unless the value has gone to another allocation. */
static CUresult retain(CUmemGenericAllocationHandle *ret, void *address)
{
  for (mapping_t *mapping = mappings; ret && mapping; mapping = mapping->next) {
    if ((uintptr_t)address - mapping->block->node.key < mapping->block->size) {
      mapping->handle = sim_vmm_retain(mapping->handle, mapping->physical);
      *ret = mapping->handle;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

SIM_FN(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * ret, void *address), retain(ret, address),
    "%s -> %llu", sim_str_ptr((uintptr_t)address), ret &&call.result == CUDA_SUCCESS ? *ret : 0)
