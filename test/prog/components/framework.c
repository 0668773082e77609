/*
 * Stands for PyTorch, built as libtorch_cuda.so: memory for the caller, memory that a thread of its own gets,
 * a workspace for cuBLAS, and a call of another library.
 */
#include <pthread.h>
#include <stddef.h>

#include <cuda_runtime_api.h>

#include "components.h"

void *tensor(size_t bytes)
{
  void *pointer = NULL;
  volatile cudaError_t error = cudaMalloc(&pointer, bytes);
  return error == cudaSuccess ? pointer : NULL;
}

static void *thread_main(void *arg)
{
  (void)arg;
  void *volatile gradient = tensor(GRADIENT_BYTES);
  return gradient;
}

void *backward(void)
{
  pthread_t thread;
  void *gradient = NULL;
  if (pthread_create(&thread, NULL, thread_main, NULL) || pthread_join(thread, &gradient))
    return NULL;
  return gradient;
}

/* Its C++ name is that of PyTorch's function. */
void *workspace(void) __asm__("_ZN2at4cuda15getNewWorkspaceEv");

void *workspace(void)
{
  void *volatile pointer = tensor(WORKSPACE_BYTES);
  return pointer;
}

void *multiply(void)
{
  void *volatile pointer = workspace();
  return pointer;
}

int all_reduce(int (*function)(void))
{
  volatile int failed = function();
  return failed;
}
