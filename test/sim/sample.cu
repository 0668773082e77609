// An ordinary CUDA program with its own kernels. On the simulated GPU they do nothing, except the stand-in.
#include <cstdio>
#include <cstdlib>

__device__ int counter;
__constant__ float weights[4];

__global__ void simcuda_fill(unsigned long *p, unsigned long words, unsigned long value)
{
  for (unsigned long i = threadIdx.x; i < words; i += blockDim.x)
    p[i] = value;
}

__global__ void scale(float *p, int n)
{
  if (threadIdx.x < n)
    p[threadIdx.x] *= weights[counter];
}

static void check(cudaError_t error, int line)
{
  if (error == cudaSuccess)
    return;
  std::fprintf(stderr, "line %d: %s (%s)\n", line, cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, __LINE__)

int main()
{
  int count = 0, blocks = 0;
  CHECK(cudaGetDeviceCount(&count));
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("%d device(s), %s, %zu MiB\n", count, properties.name, properties.totalGlobalMem >> 20);

  const unsigned long words = 1000;
  unsigned long *memory, last = 0;
  CHECK(cudaMalloc(&memory, words * sizeof *memory));
  simcuda_fill<<<1, 128>>>(memory, words, 42);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&last, memory + words - 1, sizeof last, cudaMemcpyDeviceToHost));

  cudaStream_t stream;
  cudaEvent_t begin, end;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin, stream));
  scale<<<2, 64, 0, stream>>>(reinterpret_cast<float *>(memory), 64);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaEventSynchronize(end));

  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t kernel, copy;
  unsigned long length = words, value = 43, copied = 0;
  void *arguments[] = {&memory, &length, &value};
  cudaKernelNodeParams plan = {};
  plan.func = reinterpret_cast<void *>(simcuda_fill);
  plan.gridDim = dim3(1);
  plan.blockDim = dim3(128);
  plan.kernelParams = arguments;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddKernelNode(&kernel, graph, nullptr, 0, &plan));
  CHECK(cudaGraphAddMemcpyNode1D(
      &copy, graph, &kernel, 1, &copied, memory + words - 1, sizeof copied, cudaMemcpyDeviceToHost));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  int set = 3, got = 0;
  CHECK(cudaMemcpyToSymbol(counter, &set, sizeof set));
  CHECK(cudaMemcpyFromSymbol(&got, counter, sizeof got));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 64, 0));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, scale));

  CHECK(cudaFree(memory));
  CHECK(cudaDeviceSynchronize());
  return last == 42 && copied == 43 && got == 3 && blocks > 0 && attributes.maxThreadsPerBlock > 0 ? 0 : 1;
}
