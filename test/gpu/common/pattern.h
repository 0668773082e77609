// Memory that is written and verified on the device: kernels that the simulated GPU knows by their names,
// too, where it counts the differences itself (corrupt_stamps).
#ifndef GPU_PATTERN_H
#define GPU_PATTERN_H

#include "gpu.h"

__global__ void simcuda_fill(uint64_t *p, size_t words, uint64_t value)
{
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
       i += (size_t)gridDim.x * blockDim.x)
    p[i] = value;
}

__global__ void simcuda_expect(
    const volatile uint64_t *p, size_t words, uint64_t value, unsigned long long *mismatches)
{
  unsigned long long wrong = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
       i += (size_t)gridDim.x * blockDim.x)
    wrong += p[i] != value;
  if (wrong)
    atomicAdd(mismatches, wrong);
}

// Keeps what is behind it in its stream waiting.
__global__ void delay(unsigned long long ns)
{
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    __nanosleep(500);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

inline unsigned grid_for(size_t words)
{
  return (unsigned)std::min<size_t>(64, (words + 255) / 256);
}

inline void fill(void *p, size_t bytes, uint64_t value, cudaStream_t stream)
{
  simcuda_fill<<<grid_for(bytes / 8), 256, 0, stream>>>((uint64_t *)p, bytes / 8, value);
  CHECK(cudaGetLastError());
}

inline void expect(
    const void *p, size_t bytes, uint64_t value, unsigned long long *mismatches, cudaStream_t stream)
{
  simcuda_expect<<<grid_for(bytes / 8), 256, 0, stream>>>((const uint64_t *)p, bytes / 8, value, mismatches);
  CHECK(cudaGetLastError());
}

inline void wait_on_device(unsigned long long ns, cudaStream_t stream)
{
  delay<<<1, 1, 0, stream>>>(ns);
  CHECK(cudaGetLastError());
}

// The counter of mismatches: device memory, 0 at first.
inline unsigned long long *new_counter()
{
  unsigned long long *counter;
  CHECK(cudaMalloc(&counter, sizeof *counter));
  CHECK(cudaMemset(counter, 0, sizeof *counter));
  CHECK(cudaDeviceSynchronize());
  return counter;
}

// After all work: what was counted. Frees the counter.
inline unsigned long long take_counter(unsigned long long *counter)
{
  unsigned long long value;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(counter));
  return value;
}

// A small generator with a seed: the same numbers on every machine.
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull)
  {
  }
  uint64_t next()
  {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
  }
  uint64_t below(uint64_t n)
  {
    return (next() >> 11) % n;
  }
};

#endif
