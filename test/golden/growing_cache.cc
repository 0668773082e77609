/*
 * Answers requests one after the other: a model that is loaded once and stays, temporaries that come and go, and
 * a cache to which each request adds what is never given back. Both go through one function that checks errors.
 */
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr int kLayers = 16;
constexpr int kRequests = 1000;

__attribute__((noinline)) void *allocate(size_t bytes)
{
  void *memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    std::fprintf(stderr, "growing_cache: out of memory\n");
    std::exit(1);
  }
  return memory;
}

namespace model {

std::vector<void *> weights;

__attribute__((noinline)) void load(int layers)
{
  for (int i = 0; i < layers; i++) {
    void *staging = allocate(4 * kMiB);
    weights.push_back(allocate(64 * kMiB));
    cudaFree(staging);
  }
}

__attribute__((noinline)) void forward(int request)
{
  void *hidden = allocate(2 * kMiB);
  for (int i = 0; i < 2; i++)
    cudaFree(allocate(static_cast<size_t>(request % 7 + 1) * 100000));
  cudaFree(hidden);
}

} // namespace model

namespace cache {

std::vector<void *> entries;

/* Nothing evicts what older requests left here. */
__attribute__((noinline)) void append()
{
  entries.push_back(allocate(kMiB)); /* keys */
  entries.push_back(allocate(kMiB)); /* values */
}

} // namespace cache

} // namespace

int main()
{
  model::load(kLayers);
  for (int request = 0; request < kRequests; request++) {
    model::forward(request);
    cache::append();
  }
  return 0;
}
