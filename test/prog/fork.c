/*
 * Shows a program that forks with CUDA in use: the child cannot use CUDA and gets errors, not memory of the
 * parent, and the parent goes on undisturbed. Exit status 0 if that is how it went.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 65536u

/* The child must not run the exit handlers of the parent's CUDA: it leaves by _exit. */
static void child(void *inherited)
{
  void *memory = NULL;
  cudaError_t allocated = cudaMalloc(&memory, BYTES), ordered = cudaMallocAsync(&memory, BYTES, 0);
  cudaError_t freed = cudaFree(inherited);
  printf("fork: child: cudaMalloc gives %s, cudaMallocAsync %s, cudaFree %s\n", cudaGetErrorName(allocated),
      cudaGetErrorName(ordered), cudaGetErrorName(freed));
  fflush(stdout);
  _exit(allocated == cudaSuccess || ordered == cudaSuccess || freed == cudaSuccess);
}

int main(void)
{
  void *kept, *cached, *again;
  static unsigned char host[BYTES];
  CALL(cudaMalloc(&kept, BYTES));
  CALL(cudaMemset(kept, 5, BYTES));
  CALL(cudaMalloc(&cached, BYTES));
  CALL(cudaFree(cached)); /* a pool, if there is one, has something to give to the child by mistake */
  fflush(stdout);
  pid_t pid = fork();
  if (pid < 0) {
    perror("fork: fork");
    return 1;
  }
  if (pid == 0)
    child(kept);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) {
    perror("fork: waitpid");
    return 1;
  }
  int child_ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  printf("fork: child %s\n", child_ok ? "was refused, as it should be" : "failed or got memory");

  CALL(cudaMalloc(&again, BYTES));
  CALL(cudaMemset(again, 6, BYTES));
  CALL(cudaMemcpy(host, kept, BYTES, cudaMemcpyDeviceToHost));
  unsigned wrong = 0;
  for (unsigned i = 0; i < BYTES; i++)
    wrong += host[i] != 5;
  CALL(cudaFree(again));
  CALL(cudaFree(kept));
  CALL(cudaDeviceSynchronize());
  printf("fork: parent: %u bytes wrong\n", wrong);
  return !child_ok || wrong > 0;
}
