/*
 * Two parts of a program use the same memory and do not know when the other is done: one of them holds a reference.
 *
 *   c++ $(pkg-config --cflags gpupool) shared.cc -lcudart -o shared
 */
#include <cuda_runtime_api.h>
#include <gpupool.h>

#include <cstdio>

namespace {

/* Reads what another part has made. Without a pool, or for memory that the pool does not serve, it takes a copy. */
class reader {
public:
  reader(const void *data, std::size_t bytes) : held_(data), data_(data), bytes_(bytes)
  {
    if (held_)
      return;
    if (cudaMalloc(&copy_, bytes) == cudaSuccess && cudaMemcpy(copy_, data, bytes, cudaMemcpyDeviceToDevice) == cudaSuccess)
      data_ = copy_;
    else
      data_ = nullptr;
  }
  ~reader() { (void)cudaFree(copy_); }
  reader(const reader &) = delete;
  reader &operator=(const reader &) = delete;

  bool has_copy() const { return copy_ != nullptr; }
  int last_byte() const
  {
    unsigned char byte = 0;
    const char *last = static_cast<const char *>(data_) + bytes_ - 1;
    return data_ && cudaMemcpy(&byte, last, 1, cudaMemcpyDeviceToHost) == cudaSuccess ? byte : -1;
  }

private:
  gpupool::holder held_;
  const void *data_;
  std::size_t bytes_;
  void *copy_ = nullptr;
};

} // namespace

int main()
{
  const std::size_t bytes = std::size_t{1} << 20;
  void *made = nullptr, *next = nullptr;
  if (cudaFree(nullptr) != cudaSuccess) /* loads the driver */
    return 1;
  gpupool::scope whole("whole");
  if (cudaMalloc(&made, bytes) != cudaSuccess || cudaMemset(made, 7, bytes) != cudaSuccess)
    return 1;
  {
    const reader shared(made, bytes);
    if (cudaFree(made) != cudaSuccess) /* this part is done with it */
      return 1;
    if (cudaMalloc(&next, bytes) != cudaSuccess || cudaMemset(next, 9, bytes) != cudaSuccess)
      return 1;
    std::printf("%s, and reads %d\n", shared.has_copy() ? "it took a copy" : "it holds the memory", shared.last_byte());
  }
  if (cudaFree(next) != cudaSuccess)
    return 1;
  const gpupool_report_t report = whole.end();
  if (gpupool_version())
    std::printf("%llu allocations, at most %llu bytes\n", static_cast<unsigned long long>(report.allocations),
        static_cast<unsigned long long>(report.peak_allocated));
  return 0;
}
