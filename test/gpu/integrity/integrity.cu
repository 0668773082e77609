// Data integrity: many streams and threads allocate, write, verify on the device and free without waiting, so
// that a block that is handed out again too early is seen as mismatches. Kernels pause for random times in
// between.
//
//   integrity [--seconds N] [--rounds N] [--threads N] [--streams N] [--seed N] [--async]
//
// Ends after --seconds, or --rounds of each thread (for runs that shall be the same each time). --async: half
// of the blocks are stream-ordered. Prints the counts; a mismatch is no error of this program, the caller
// judges.
#include "../common/pattern.h"

#include <atomic>
#include <getopt.h>
#include <thread>

struct Options {
  double seconds = 3;
  long rounds = 0;
  int threads = 3, streams = 4;
  uint64_t seed = 1;
  bool async = false;
};

static Options options;
static std::atomic<uint64_t> allocations, frees, out_of_memory, bytes_written;
static unsigned long long *mismatches;
static double deadline;

static const size_t sizes[] = {4096, 16384, 65536, 262144, 1u << 20, 1u << 20, 2u << 20, 4u << 20, 8u << 20};

struct Block {
  void *p;
  size_t bytes;
  uint64_t value;
  bool ordered;
};

static bool allocate(Block *block, cudaStream_t stream)
{
  cudaError_t error =
      block->ordered ? cudaMallocAsync(&block->p, block->bytes, stream) : cudaMalloc(&block->p, block->bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    out_of_memory++;
    return false;
  }
  CHECK(error);
  allocations++;
  return true;
}

// One block's life: written, kept for a while, verified, freed while the verification is still to come.
static void live(Random &random, uint64_t value, cudaStream_t stream)
{
  Block block = {
      NULL, sizes[random.below(sizeof sizes / sizeof sizes[0])], value, options.async && random.below(2)};
  if (!allocate(&block, stream))
    return;
  fill(block.p, block.bytes, value, stream);
  if (random.below(4) > 0)
    wait_on_device(random.below(150000), stream);
  expect(block.p, block.bytes, value, mismatches, stream);
  bytes_written += block.bytes;
  switch (random.below(8)) {
  case 0: CHECK(cudaStreamSynchronize(stream)); break;
  case 1: CHECK(cudaDeviceSynchronize()); break;
  default: break;
  }
  CHECK(block.ordered ? cudaFreeAsync(block.p, stream) : cudaFree(block.p));
  frees++;
}

static void work(int index)
{
  CHECK(cudaSetDevice(0));
  Random random(options.seed * 1000 + index);
  std::vector<cudaStream_t> streams = {0}; // the default stream of this build
  for (int i = 1; i < options.streams; i++) {
    streams.push_back(NULL);
    CHECK(cudaStreamCreateWithFlags(&streams.back(), i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
  }
  for (long round = 0; options.rounds ? round < options.rounds : now_ns() < deadline; round++)
    live(random, ((uint64_t)(index + 1) << 48) + (uint64_t)round, streams[random.below(streams.size())]);
  CHECK(cudaDeviceSynchronize());
  for (size_t i = 1; i < streams.size(); i++)
    CHECK(cudaStreamDestroy(streams[i]));
}

static void parse(int argc, char **argv)
{
  static const struct option known[] = {{"seconds", 1, NULL, 's'}, {"rounds", 1, NULL, 'r'},
      {"threads", 1, NULL, 't'}, {"streams", 1, NULL, 'n'}, {"seed", 1, NULL, 'e'}, {"async", 0, NULL, 'a'},
      {}};
  for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    switch (c) {
    case 's': options.seconds = std::atof(optarg); break;
    case 'r': options.rounds = std::atol(optarg); break;
    case 't': options.threads = std::max(1, std::atoi(optarg)); break;
    case 'n': options.streams = std::max(1, std::atoi(optarg)); break;
    case 'e': options.seed = (uint64_t)std::atoll(optarg); break;
    case 'a': options.async = true; break;
    default: std::exit(2);
    }
  }
}

int main(int argc, char **argv)
{
  parse(argc, argv);
  start("integrity", 60 + (unsigned)options.seconds);
  mismatches = new_counter();
  double begin = now_ns();
  deadline = begin + options.seconds * 1e9;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; i++)
    threads.emplace_back(work, i);
  for (std::thread &thread : threads)
    thread.join();
  double seconds = (now_ns() - begin) / 1e9;
  report_number("mismatches", (double)take_counter(mismatches), "words");
  report_number("allocations", (double)allocations + 1, "");
  report_number("frees", (double)frees + 1, "");
  report_number("out of memory", (double)out_of_memory, "");
  report_number("written and verified", (double)bytes_written, "B");
  report_number("seconds", seconds, "s");
  return report_finish();
}
