/*
 * Shows programs that free at exit, or do not: from handlers registered before and after CUDA was first used,
 * from a destructor, and never. CUDA may be gone by then and say so; nothing may crash or hang.
 *
 * exits [normal|leak|_exit|quick_exit|thread|abort]
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES (1024u * 1024)

static void *early_block, *late_block, *destructor_block, *leaked_block;
static int frees_at_exit;

/* Which code a handler gets depends on the order in which libraries end, so it goes to stderr, out of
 * comparisons */
static void release(const char *who, void **block)
{
  if (!frees_at_exit || !*block)
    return;
  cudaError_t error = cudaFree(*block);
  *block = NULL;
  printf("exits: %s ran\n", who);
  fprintf(stderr, "exits: %s: cudaFree gives %d\n", who, (int)error);
}

static void early_handler(void)
{
  release("the handler registered before CUDA was used", &early_block);
}

static void late_handler(void)
{
  release("the handler registered after CUDA was used", &late_block);
}

__attribute__((destructor)) static void destructor(void)
{
  release("the destructor", &destructor_block);
}

static void allocate(void **ret_block)
{
  CALL(cudaMalloc(ret_block, BYTES));
  CALL(cudaMemsetAsync(*ret_block, 1, BYTES, 0)); /* pending while the program ends */
}

/* Allocates and frees until the process ends around it */
static void *churn(void *unused)
{
  for (;;) {
    void *block;
    if (cudaMalloc(&block, BYTES) == cudaSuccess)
      (void)cudaFree(block); /* fails once CUDA is gone, as the allocation then does */
  }
  return unused;
}

int main(int argc, char **argv)
{
  static const char *const ways[] = {"normal", "leak", "_exit", "quick_exit", "thread", "abort"};
  const char *how = argc > 1 ? argv[1] : ways[0];
  int is_known = 0;
  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
    is_known |= strcmp(how, ways[i]) == 0;
  if (argc > 2 || !is_known) {
    fprintf(stderr, "usage: exits [normal|leak|_exit|quick_exit|thread|abort]\n");
    return 2;
  }
  atexit(early_handler);
  allocate(&early_block);
  allocate(&late_block);
  allocate(&destructor_block);
  allocate(&leaked_block);
  atexit(late_handler);
  printf("exits: %s\n", how);
  fflush(stdout);
  if (strcmp(how, "normal") == 0)
    frees_at_exit = 1;
  if (strcmp(how, "_exit") == 0)
    _exit(0);
  if (strcmp(how, "quick_exit") == 0)
    quick_exit(0);
  if (strcmp(how, "abort") == 0)
    abort();
  if (strcmp(how, "thread") == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, churn, NULL) != 0)
      return 1;
    pthread_detach(thread);
    usleep(20000); /* long enough to be in the middle of it; nothing depends on it */
  }
  return 0;
}
