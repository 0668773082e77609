// Mistakes that NVIDIA's tools find in a program without the library (G25): `overrun within|past|past-page|freed|twice|unwritten|kept`.
#include "../common/gpu.h"

enum { SMALL = 1000, WHOLE_PAGES = 4 << 20 }; // bytes: the second fills pages of the device, so no size in between is rounded up

__global__ void touch(unsigned char *p, size_t at)
{
  p[at] = 1;
}

__global__ void copy(unsigned char *to, const unsigned char *from)
{
  to[0] = from[0];
}

int main(int argc, char **argv)
{
  std::string mistake = argc > 1 ? argv[1] : "within";
  start("overrun", 60);
  size_t size = mistake == "past-page" ? WHOLE_PAGES : SMALL;
  unsigned char *p, *other;
  CHECK(cudaMalloc(&p, size));
  CHECK(cudaMalloc(&other, size));
  if (mistake == "freed")
    CHECK(cudaFree(p));
  if (mistake == "unwritten")
    copy<<<1, 1>>>(other, p);
  else
    touch<<<1, 1>>>(p, mistake == "past" || mistake == "past-page" ? size : size - 1);
  cudaDeviceSynchronize(); // fails where a tool stops the kernel
  if (mistake != "freed" && mistake != "kept")
    cudaFree(p);
  if (mistake == "twice")
    cudaFree(p);
  cudaFree(other);
  report_text("mistake", mistake);
  return report_finish();
}
