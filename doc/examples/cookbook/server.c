/*
 * A server of doc/cookbook.md: each request needs memory for a moment, and the answer is kept for whoever
 * asks again.
 *
 *   cc -g server.c -lcudart -o server
 *   ./server REQUESTS         and ends
 *   ./server REQUESTS stay    and says "ready"; goes on with 100 requests at each SIGUSR2, ends at SIGTERM
 */
#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

static void *allocate(size_t bytes)
{
  void *memory;
  cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaSuccess)
    return memory;
  (void)fprintf(stderr, "server: %s\n", cudaGetErrorString(error));
  exit(1);
}

/* The mistake: nothing ever leaves this cache. */
static void remember_answer(int request)
{
  void *answer = allocate((1 + request % 3) * MIB);
  (void)cudaMemset(answer, 0, MIB);
}

static void handle_request(int request)
{
  void *scratch = allocate((8 + 5 * (request % 7)) * MIB);
  (void)cudaMemset(scratch, 0, MIB);
  remember_answer(request);
  (void)cudaFree(scratch);
}

int main(int argc, char **argv)
{
  int requests = argc > 1 ? atoi(argv[1]) : 100;
  int stays = argc > 2 && strcmp(argv[2], "stay") == 0;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR2);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, NULL);

  int signal = SIGTERM;
  do {
    for (int request = 0; request < requests; request++)
      handle_request(request);
    requests = 100;
    if (stays) {
      puts("ready");
      (void)fflush(stdout);
      sigwait(&signals, &signal);
    }
  } while (signal == SIGUSR2);
  return 0;
}
