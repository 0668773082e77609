// cudaDeviceReset with live and freed blocks: the program starts afresh, and pointers from before are gone.
#include "../common/pattern.h"

static const size_t BYTES = 1u << 20;

static unsigned long long use(void **ret_live)
{
  unsigned long long *mismatches = new_counter();
  for (uint64_t i = 0; i < 30; i++) {
    void *p;
    CHECK(cudaMalloc(&p, BYTES));
    fill(p, BYTES, i, 0);
    expect(p, BYTES, i, mismatches, 0);
    if (i == 20)
      *ret_live = p;
    else
      CHECK(cudaFree(p));
  }
  return take_counter(mismatches);
}

int main()
{
  start("reset", 30);
  void *old, *live;
  unsigned long long wrong = use(&old);
  CHECK(cudaDeviceReset());
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(0));
  cudaError_t error = cudaFree(old);
  (void)cudaGetLastError();
  report_text("cudaFree of a block from before the reset", cudaGetErrorName(error));
  wrong += use(&live);
  report_bool("there is memory after the reset", true);
  CHECK(cudaDeviceReset());
  CHECK(cudaDeviceReset());
  wrong += use(&live);
  CHECK(cudaFree(live));
  report_number("mismatches", (double)wrong, "words");
  return report_finish();
}
