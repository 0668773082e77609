/*
 * CUB's CachingDeviceAllocator with bins of powers of two from 512 bytes to 64 MiB, and no bound on what it
 * keeps. The runtime below it is null_runtime.c, which does nothing, or the simulated one.
 */
#include <cstdlib>
#include <cub/util_allocator.cuh>

#include "subject.h"

const uint32_t subject_largest = 8u << 20;

static cub::CachingDeviceAllocator *allocator;

void subject_start(bool)
{
  allocator = new cub::CachingDeviceAllocator(2, 9, 26, static_cast<size_t>(-1), true);
}

uint64_t subject_take(uint64_t bytes)
{
  void *block = nullptr;
  if (allocator->DeviceAllocate(&block, bytes, nullptr) != cudaSuccess)
    std::abort();
  return reinterpret_cast<uint64_t>(block);
}

void subject_give(uint64_t address)
{
  if (allocator->DeviceFree(reinterpret_cast<void *>(address)) != cudaSuccess)
    std::abort();
}

void subject_synchronize(void)
{
  if (cudaDeviceSynchronize() != cudaSuccess)
    std::abort();
}
