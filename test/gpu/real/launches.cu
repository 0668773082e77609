// Launches an empty kernel again and again, and allocates nothing meanwhile: what a program pays for the library beside its
// allocations. `launches COUNT`; a synchronization each hundred, so that the queue of launches is never full.
#include "../common/gpu.h"

__global__ void nothing(int *) {}

int main(int argc, char **argv)
{
  int count = argc > 1 ? std::atoi(argv[1]) : 400000;
  start("launches", 60);
  int *p;
  CHECK(cudaMalloc(&p, 1 << 20));
  nothing<<<1, 1>>>(p);
  CHECK(cudaDeviceSynchronize());
  double begin = now_ns();
  for (int i = 0; i < count; i++) {
    nothing<<<1, 1>>>(p);
    if (i % 100 == 99)
      CHECK(cudaStreamSynchronize(0));
  }
  CHECK(cudaDeviceSynchronize());
  report_number("seconds", (now_ns() - begin) / 1e9, "s");
  report_number("result: launches", count, "");
  CHECK(cudaFree(p));
  return report_finish();
}
