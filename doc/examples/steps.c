/*
 * What each step of a program costs in GPU memory, told by the pool if there is one:
 *
 *   cc $(pkg-config --cflags gpupool) steps.c -lcudart -o steps
 *   ./steps                                  runs without a pool
 *   LD_PRELOAD=libgpupool.so ./steps         tells what each step did
 */
#include <cuda_runtime_api.h>
#include <gpupool.h>
#include <stdio.h>

static int step(size_t bytes)
{
  void *input, *output;
  if (cudaMalloc(&input, bytes) != cudaSuccess)
    return 1;
  if (cudaMalloc(&output, 2 * bytes) != cudaSuccess) {
    (void)cudaFree(input);
    return 1;
  }
  cudaError_t error = cudaMemset(output, 0, 2 * bytes);
  if (error == cudaSuccess)
    error = cudaDeviceSynchronize();
  if (cudaFree(input) != cudaSuccess || cudaFree(output) != cudaSuccess)
    return 1;
  return error != cudaSuccess;
}

int main(void)
{
  if (cudaFree(0) != cudaSuccess) /* loads the driver */
    return 1;
  printf("gpupool %s\n", gpupool_version() ? gpupool_version() : "is not there");
  for (int i = 1; i <= 3; i++) {
    uint64_t scope = 0;
    gpupool_report_t report;

    (void)gpupool_scope_begin(
        GPUPOOL_CURRENT, "step", &scope); /* without a pool the end has no report either */
    if (step((size_t)i << 20))
      return 1;
    if (gpupool_scope_end(scope, &report) == GPUPOOL_OK)
      printf("step %d: at most %llu MiB, %llu of %llu allocations without the driver\n", i,
          (unsigned long long)(report.peak_allocated >> 20), (unsigned long long)report.cache_hits,
          (unsigned long long)report.allocations);
    else
      printf("step %d\n", i);
  }

  char summary[8192];
  if (gpupool_memory_summary(GPUPOOL_CURRENT, summary, sizeof(summary)))
    printf("%s", summary);
  return 0;
}
