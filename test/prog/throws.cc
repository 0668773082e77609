/*
 * A C++ program as they are: memory is owned by objects, allocated in functions that the compiler puts into others, and
 * exceptions go through frames that have just allocated.
 */
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <cuda_runtime_api.h>

namespace model {

class Buffer {
public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes)
  {
    if (cudaMalloc(&pointer_, bytes_) != cudaSuccess)
      throw std::runtime_error("no memory");
  }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { (void)cudaFree(pointer_); }

private:
  void *pointer_ = nullptr;
  std::size_t bytes_;
};

template <typename T> class Layer {
public:
  __attribute__((always_inline)) static inline void forward(int depth)
  {
    Buffer buffer(sizeof(T) * 1000);
    step(depth);
  }

  __attribute__((noinline)) static void step(int depth)
  {
    if (depth == 0)
      throw std::logic_error("deep enough");
    forward(depth - 1);
  }
};

} // namespace model

int main()
{
  int caught = 0;
  for (int i = 0; i < 40; i++) {
    try {
      model::Layer<double>::forward(i % 5);
    } catch (const std::logic_error &) {
      caught++;
    }
    (void)cudaDeviceSynchronize();
  }
  std::printf("%d exceptions were caught\n", caught);
  return caught == 40 ? 0 : 1;
}
