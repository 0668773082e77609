/*
 * Asks for memory through three layers: a function that checks errors, a class that holds memory, and a template
 * that makes one. load_weights and grow_cache are who wants it; main has some of its own. Built with debug
 * information, without, and stripped: each has to lead to them.
 */
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace arena {

/* Visible in a stripped program, too, it would be named there. */
__attribute__((noinline, visibility("hidden"))) void *checked_malloc(size_t bytes)
{
  void *memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess)
    std::abort();
  return memory;
}

template <typename T>
class Buffer {
public:
  __attribute__((noinline)) explicit Buffer(size_t count) : memory(static_cast<T *>(checked_malloc(count * sizeof(T))))
  {
  }
  T *memory;
};

/* An object on the heap, which stays until the end of the program. */
template <typename T>
__attribute__((noinline)) Buffer<T> *hand_out(size_t count)
{
  Buffer<T> *buffer = new Buffer<T>(count);
  asm volatile("" ::: "memory"); /* else the call of the constructor could be the last thing here */
  return buffer;
}

} // namespace arena

static std::vector<arena::Buffer<float> *> kept;

__attribute__((noinline)) static void load_weights(int layers)
{
  for (int i = 0; i < layers; i++)
    kept.push_back(arena::hand_out<float>(4 << 20)); /* planted: 16 MiB each */
}

__attribute__((noinline)) static void grow_cache(int entries)
{
  for (int i = 0; i < entries; i++)
    kept.push_back(arena::hand_out<float>(1 << 20)); /* planted: 4 MiB each */
}

int main()
{
  load_weights(10);
  grow_cache(12);
  kept.push_back(arena::hand_out<float>(1 << 19)); /* planted: 2 MiB */
  return 0;
}
