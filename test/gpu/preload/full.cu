// Running out of memory: the device (or the limit) is filled, half is freed, and a block is asked for that
// fits only if freed memory went back to the driver. What is still allocated keeps its contents. Host memory
// is not used.
//
//   full [PERCENT]   of what was freed has to be told to be free: 90; less where memory comes in large chunks
#include "../common/pattern.h"

static const size_t EDGE = 65536; // written and verified at both ends of each block
static unsigned long long *mismatches;

static void stamp(char *p, size_t bytes, uint64_t value)
{
  fill(p, EDGE, value, 0);
  fill(p + bytes - EDGE, EDGE, value + 1, 0);
}

static void verify(char *p, size_t bytes, uint64_t value)
{
  expect(p, EDGE, value, mismatches, 0);
  expect(p + bytes - EDGE, EDGE, value + 1, mismatches, 0);
}

int main(int argc, char **argv)
{
  const size_t percent = argc > 1 ? (size_t)std::atoi(argv[1]) : 90;
  start("full", 60);
  mismatches = new_counter();
  size_t available, total;
  CHECK(cudaMemGetInfo(&available, &total));
  report_number("free at first", (double)available, "B");
  report_number("total", (double)total, "B");
  size_t piece = available / 40 / (2u << 20) * (2u << 20);
  if (piece < EDGE * 2)
    fail("free memory", "too little to begin", __FILE__, __LINE__);

  std::vector<char *> blocks;
  cudaError_t error;
  for (;;) {
    void *p;
    error = cudaMalloc(&p, piece);
    if (error != cudaSuccess || blocks.size() > 1000)
      break;
    blocks.push_back((char *)p);
    stamp((char *)p, piece, blocks.size() * 16);
  }
  report_text("a full device answers", cudaGetErrorName(error));
  report_bool("and cudaGetLastError says the same", cudaGetLastError() == error);
  report_number("blocks that fitted", (double)blocks.size(), "");
  report_number("bytes that fitted", (double)blocks.size() * (double)piece, "B");

  size_t freed = 0;
  for (size_t i = 0; i < blocks.size(); i += 2) {
    verify(blocks[i], piece, (i + 1) * 16);
    CHECK(cudaFree(blocks[i])); // its verification is pending
    blocks[i] = NULL;
    freed += piece;
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemGetInfo(&available, &total));
  report_number("freed", (double)freed, "B");
  report_number("free then", (double)available, "B");
  report_bool("free memory counts what was freed", available >= freed / 100 * percent);
  size_t large = freed / 4 * 3 / (2u << 20) * (2u << 20);
  void *p = NULL;
  error = cudaMalloc(&p, large);
  report_text("three quarters of it in one piece", cudaGetErrorName(error));
  if (error == cudaSuccess)
    stamp((char *)p, large, 7);
  (void)cudaGetLastError();

  void *impossible = NULL;
  error = cudaMalloc(&impossible, total * 2);
  report_text("twice the device answers", cudaGetErrorName(error));
  (void)cudaGetLastError();
  for (size_t i = 1; i < blocks.size(); i += 2) {
    verify(blocks[i], piece, (i + 1) * 16);
    CHECK(cudaFree(blocks[i]));
  }
  if (p) {
    verify((char *)p, large, 7);
    CHECK(cudaFree(p));
  }
  report_number("mismatches", (double)take_counter(mismatches), "words");
  return report_finish();
}
