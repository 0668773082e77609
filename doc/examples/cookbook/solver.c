/*
 * A solver of doc/cookbook.md: each iteration allocates its temporary vectors anew.
 *
 *   cc -g solver.c -lcudart -o solver
 *   ./solver ITERATIONS
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { VECTOR = 16 << 20, TEMPORARIES = 4 };

static cudaError_t iterate(void *solution)
{
  void *temporary[TEMPORARIES] = {0};
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < TEMPORARIES && error == cudaSuccess; i++)
    error = cudaMalloc(&temporary[i], VECTOR >> i);
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(temporary[0], solution, VECTOR, cudaMemcpyDeviceToDevice, NULL);
  for (int i = 0; i < TEMPORARIES; i++)
    (void)cudaFree(temporary[i]);
  return error;
}

int main(int argc, char **argv)
{
  int iterations = argc > 1 ? atoi(argv[1]) : 100;
  void *solution;
  cudaError_t error = cudaMalloc(&solution, VECTOR);
  for (int i = 0; i < iterations && error == cudaSuccess; i++)
    error = iterate(solution);
  if (error == cudaSuccess)
    error = cudaDeviceSynchronize();
  if (error == cudaSuccess)
    return 0;
  (void)fprintf(stderr, "solver: %s\n", cudaGetErrorString(error));
  return 1;
}
