// G10: programmatic dependent launch lets a kernel begin before the one before it in its stream has ended.
// Does memory that changes hands between the two, in stream order, get written while the first kernel still
// reads it?
//
// The first kernel lets the next one go at once, waits, and then looks whether its memory changed. The second
// writes its own memory without waiting for the first to complete.
#include "../common/gpu.h"

#if CUDA_VERSION >= 11080
static const unsigned WORDS = 4096;

__device__ static unsigned long long device_ns()
{
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void read_slowly(
    volatile unsigned *p, unsigned expected, unsigned long long hold_ns, unsigned *changed)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  unsigned long long begin = device_ns();
  while (device_ns() - begin < hold_ns)
    __nanosleep(1000);
  for (unsigned i = threadIdx.x; i < WORDS; i += blockDim.x) {
    if (p[i] != expected)
      atomicAdd(changed, 1);
  }
}

__global__ void write_early(volatile unsigned *p, unsigned value)
{
  for (unsigned i = threadIdx.x; i < WORDS; i += blockDim.x)
    p[i] = value;
}

static cudaStream_t stream;
static unsigned *changed;

static cudaError_t launch_early(unsigned *p, unsigned value)
{
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(128);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, write_early, (volatile unsigned *)p, value);
}

enum Between { NOTHING, ASYNC_POOL };

static int overlaps; // rounds of the control in which the second kernel ran before the first had ended

static void ask(Between between, const char *name)
{
  const int rounds = 20;
  int overwritten = 0, same = 0;
  for (int i = 0; i < rounds; i++) {
    unsigned *first, *second, *mine, count = 0;
    CHECK(cudaMallocAsync(&first, WORDS * sizeof *first, stream));
    write_early<<<1, 128, 0, stream>>>(first, 1);
    CHECK(cudaMemsetAsync(changed, 0, sizeof *changed, stream));
    CHECK(cudaStreamSynchronize(stream));
    read_slowly<<<1, 128, 0, stream>>>(first, 1, 300000, changed);
    CHECK(cudaGetLastError());
    mine = first;
    if (between == ASYNC_POOL) {
      CHECK(cudaFreeAsync(first, stream));
      CHECK(cudaMallocAsync(&second, WORDS * sizeof *second, stream));
      mine = second;
    }
    same += mine == first;
    CHECK(launch_early(mine, 2));
    CHECK(cudaMemcpyAsync(&count, changed, sizeof count, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    overwritten += count > 0;
    CHECK(cudaFreeAsync(mine, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  report_number(std::string(name) + ": rounds", rounds, "");
  report_number(std::string(name) + ": rounds with the same address", same, "");
  if (between == NOTHING) {
    overlaps = overwritten;
    report_number(
        "control, the same block kept: rounds in which the second kernel wrote early", overwritten, "");
  } else if (overlaps == 0) {
    report_text("memory is overwritten behind a programmatic launch: " + std::string(name),
        "cannot be told: the control saw no overlap");
  } else {
    report_assumed("memory is overwritten behind a programmatic launch: " + std::string(name),
        overwritten > 0, false, "reuse in stream order alone is then not safe on such a stream");
  }
}

int main()
{
  start("pdl", 30);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major < 9)
    report_skip("programmatic dependent launch came with compute capability 9.0; this device has " +
                std::to_string(properties.major) + "." + std::to_string(properties.minor));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&changed, sizeof *changed));
  ask(NOTHING, "no reuse");
  ask(ASYNC_POOL, "cudaFreeAsync and cudaMallocAsync between");
  CHECK(cudaFree(changed));
  return report_finish();
}
#else
int main()
{
  report_program = "pdl";
  report_skip("the headers are older than 11.8");
}
#endif
