// An ordinary program: several threads and streams allocate, use and free memory of many sizes, the same ones
// again and again. Checks what its kernels left, and prints how often it called, so that it can be compared
// with a snapshot.
#include "../common/pattern.h"

#include <atomic>
#include <thread>

static std::atomic<uint64_t> allocations, frees;
static unsigned long long *mismatches;

static void work(int index, int rounds)
{
  static const size_t sizes[] = {512, 5000, 1u << 16, 3u << 20, 24u << 20};
  enum { SIZES = sizeof sizes / sizeof sizes[0] };
  cudaStream_t streams[3] = {0};
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamCreate(&streams[1]));
  CHECK(cudaStreamCreateWithFlags(&streams[2], cudaStreamNonBlocking));
  for (int round = 0; round < rounds; round++) {
    void *blocks[SIZES];
    uint64_t value = ((uint64_t)(index + 1) << 32) + (uint64_t)round;
    cudaStream_t stream = streams[round % 3];
    for (int i = 0; i < SIZES; i++) {
      CHECK(cudaMalloc(&blocks[i], sizes[i]));
      allocations++;
      fill(blocks[i], sizes[i], value + i, stream);
    }
    for (int i = 0; i < SIZES; i++)
      expect(blocks[i], sizes[i], value + i, mismatches, stream);
    if (round % 4 == 3)
      CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < SIZES; i++) {
      CHECK(cudaFree(blocks[i]));
      frees++;
    }
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamDestroy(streams[1]));
  CHECK(cudaStreamDestroy(streams[2]));
}

static void other_kinds()
{
  char out[64 * 3], in[64 * 3];
  void *p;
  size_t pitch;
  memset(in, 7, sizeof in);
  memset(out, 0, sizeof out);
  CHECK(cudaMallocPitch(&p, &pitch, 64, 3));
  CHECK(cudaMemcpy2D(p, pitch, in, 64, 64, 3, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2D(out, 64, p, pitch, 64, 3, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(p));
  report_bool("pitched memory holds what was copied", memcmp(in, out, sizeof in) == 0);

  uint64_t *managed;
  CHECK(cudaMallocManaged(&managed, 1u << 16));
  CHECK(cudaMemset(managed, 0x11, 1u << 16));
  CHECK(cudaDeviceSynchronize());
  bool right = true;
  for (size_t i = 0; i < (1u << 16) / sizeof *managed; i++)
    right = right && managed[i] == 0x1111111111111111ull;
  CHECK(cudaFree(managed));
  report_bool("managed memory holds what was set", right);

  CHECK(cudaMallocAsync(&p, 1u << 20, 0));
  fill(p, 1u << 20, 99, 0);
  expect(p, 1u << 20, 99, mismatches, 0);
  CHECK(cudaFreeAsync(p, 0));
}

int main(int argc, char **argv)
{
  int threads = argc > 1 ? std::atoi(argv[1]) : 4, rounds = argc > 2 ? std::atoi(argv[2]) : 60;
  start("pooled", 60);
  double begin = now_ns();
  mismatches = new_counter();
  std::vector<std::thread> running;
  for (int i = 0; i < threads; i++)
    running.emplace_back(work, i, rounds);
  for (std::thread &thread : running)
    thread.join();
  other_kinds();
  CHECK(cudaDeviceSynchronize());
  report_number("seconds", (now_ns() - begin) / 1e9, "s");
  report_number("mismatches", (double)take_counter(mismatches), "words");
  report_number("allocations", (double)allocations + 1, "");
  report_number("frees", (double)frees + 1, "");
  report_number("stream-ordered allocations", 1, "");
  report_number("stream-ordered frees", 1, "");
  return report_finish();
}
