/*
 * Devices: what they say of themselves, and how much memory is in use.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

sim_device_t sim_devices[SIM_MAX_DEVICES];

/* The same addresses in every run. A program under ThreadSanitizer may use few ranges, so the kernel chooses
 * there. */
#define ARENA_HINT 0x300000000000u
#define HOST_HINT  0x200000000000u

extern void __tsan_init(void) __attribute__((weak));

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Address space is free of charge, except under an emulator, where tests choose a small capacity: hence the
 * bounds, and under TSan, which leaves a program little of it. A program may reserve more than the device
 * has, for each of its contexts. */
void sim_device_init_all(void)
{
  bool fixed = !__tsan_init;
  uint64_t hint = ARENA_HINT;
  for (int i = 0; i < sim_knobs.devices; i++) {
    sim_device_t *device = &sim_devices[i];
    device->ordinal = i;
    uint64_t room =
        (fixed ? 12 : 2) * sim_knobs.capacity[i] + least((uint64_t)8 << 30, 8 * sim_knobs.capacity[i]);
    sim_arena_init(&device->arena, fixed ? hint : 0, room, true);
    hint += 2 * room + ((uint64_t)1 << 32);
    sim_pool_init_device(device);
  }
  sim_arena_init(
      &sim_host_arena, fixed ? HOST_HINT : 0, least((uint64_t)256 << 30, 64 * sim_knobs.capacity[0]), false);
}

sim_device_t *sim_device_get(CUdevice dev)
{
  return dev >= 0 && dev < sim_knobs.devices ? &sim_devices[dev] : NULL;
}

/* Of more than 1 MiB whole pages, as on an H100 (doc/gpu-results.md, G8). */
uint64_t sim_device_bytes_taken(uint64_t size)
{
  uint64_t unit = size > SIM_SHARED_MAX ? SIM_PAGE : SIM_GRANULE;
  return (size + unit - 1) & ~(unit - 1);
}

bool sim_device_charge(sim_device_t *device, uint64_t bytes)
{
  uint64_t capacity = sim_knobs.capacity[device->ordinal];
  sim_vmm_reap();
  if (bytes > capacity - device->used_bytes ||
      !sim_shared_set(device->ordinal, device->used_bytes + bytes, capacity))
    return false;
  device->used_bytes += bytes;
  if (device->used_bytes > device->peak_bytes)
    device->peak_bytes = device->used_bytes;
  return true;
}

void sim_device_credit(sim_device_t *device, uint64_t bytes)
{
  device->used_bytes -= bytes;
  (void)sim_shared_set(device->ordinal, device->used_bytes, UINT64_MAX);
}

static CUresult init(unsigned flags)
{
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_knobs.devices == 0)
    return CUDA_ERROR_NO_DEVICE;
  if (!sim_initialized) {
    sim_device_init_all();
    sim_shared_init();
    sim_initialized = true;
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuInit, (unsigned int flags), init(flags), "%u", flags)

static CUresult store(int *ret, int value)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = value;
  return CUDA_SUCCESS;
}

SIM_FN(cuDriverGetVersion, (int *version), store(version, sim_knobs.driver), "%d", sim_knobs.driver)
SIM_FN(cuDeviceGetCount, (int *count), store(count, sim_knobs.devices), "%d", sim_knobs.devices)
SIM_FN(cuDeviceGet, (CUdevice * device, int ordinal),
    sim_device_get(ordinal) ? store(device, ordinal) : CUDA_ERROR_INVALID_DEVICE, "%d", ordinal)

static CUresult name(char *text, int room, CUdevice dev)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!text || room <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  snprintf(text, (size_t)room, "Simulated GPU %d", dev);
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceGetName, (char *text, int room, CUdevice dev), name(text, room, dev), "%d", dev)

static CUresult uuid(CUuuid *ret, CUdevice dev)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  memset(ret, 0, sizeof *ret);
  memcpy(ret->bytes, "simulated-gpu", 13);
  ret->bytes[15] = (char)(dev + 1);
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceGetUuid, (CUuuid * ret, CUdevice dev), uuid(ret, dev), "%d", dev)
SIM_FN(cuDeviceGetUuid_v2, (CUuuid * ret, CUdevice dev), uuid(ret, dev), "%d", dev)

static CUresult total_mem(size_t *bytes, CUdevice dev)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!bytes)
    return CUDA_ERROR_INVALID_VALUE;
  *bytes = sim_knobs.capacity[dev];
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev), total_mem(bytes, dev), "%d", dev)

static CUresult bus_id(char *text, int room, CUdevice dev)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!text || room <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  snprintf(text, (size_t)room, "0000:%02x:00.0", dev + 1);
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceGetPCIBusId, (char *text, int room, CUdevice dev), bus_id(text, room, dev), "%d", dev)

static CUresult by_bus_id(CUdevice *ret_dev, const char *text)
{
  unsigned domain, bus, slot;
  if (!ret_dev || !text)
    return CUDA_ERROR_INVALID_VALUE;
  if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 && sscanf(text, "%x:%x", &bus, &slot) != 2)
    return CUDA_ERROR_INVALID_VALUE;
  if (bus == 0 || !sim_device_get((int)bus - 1))
    return CUDA_ERROR_INVALID_DEVICE;
  *ret_dev = (int)bus - 1;
  return CUDA_SUCCESS;
}

SIM_FN(
    cuDeviceGetByPCIBusId, (CUdevice * dev, const char *text), by_bus_id(dev, text), "%s", text ? text : "")

/* Those of a large data centre GPU; attributes not named here are 0. */
static int attribute_value(CUdevice_attribute attribute, CUdevice dev)
{
  switch ((int)attribute) {
  case CU_DEVICE_ATTRIBUTE_INTEGRATED: return sim_knobs.page_cache != UINT64_MAX;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 49152;
  case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
  case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 2147483647;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return 65536;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1980000;
  case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return 512;
  case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
  case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
  case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_TCC_DRIVER: return 1;
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return sim_knobs.pools;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 132;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: return CU_COMPUTEMODE_DEFAULT;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return dev + 1;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 2619000;
  case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 5120;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 52428800;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return 0;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 233472;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 232448;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return 32;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return 1024;
  case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID: return dev;
  case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  default: return sim_array_limit((int)attribute);
  }
}

static CUresult attribute(int *ret, CUdevice_attribute attrib, CUdevice dev)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if ((int)attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  return store(ret, attribute_value(attrib, dev));
}

SIM_FN(cuDeviceGetAttribute, (int *ret, CUdevice_attribute attrib, CUdevice dev), attribute(ret, attrib, dev),
    "%d %d", (int)attrib, dev)

static CUresult capability(int *major, int *minor, CUdevice dev)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  CUresult result = store(major, 9);
  return result == CUDA_SUCCESS ? store(minor, 0) : result;
}

SIM_FN(cuDeviceComputeCapability, (int *major, int *minor, CUdevice dev), capability(major, minor, dev), "%d",
    dev)

static CUresult can_access_peer(int *ret, CUdevice dev, CUdevice peer)
{
  if (!sim_device_get(dev) || !sim_device_get(peer))
    return CUDA_ERROR_INVALID_DEVICE;
  return store(ret, dev != peer);
}

SIM_FN(cuDeviceCanAccessPeer, (int *ret, CUdevice dev, CUdevice peer), can_access_peer(ret, dev, peer),
    "%d %d", dev, peer)

static CUresult p2p_attribute(int *ret, CUdevice_P2PAttribute attrib, CUdevice src, CUdevice dst)
{
  if (!sim_device_get(src) || !sim_device_get(dst) || src == dst)
    return CUDA_ERROR_INVALID_DEVICE;
  return store(ret, attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
}

SIM_FN(cuDeviceGetP2PAttribute, (int *ret, CUdevice_P2PAttribute attrib, CUdevice src, CUdevice dst),
    p2p_attribute(ret, attrib, src, dst), "%d %d %d", (int)attrib, src, dst)
