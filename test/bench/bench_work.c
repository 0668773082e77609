/*
 * What a stub costs that looks at a stream: calls of a function that does nothing, at once and through the
 * stub of a function that has its stream in a register, and of one that has it on the stack (cuLaunchKernel).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "interpose/routes/real.h"

#define CALLS  20000000L
#define ROUNDS 7
#define STREAM UINT64_C(1) /* the legacy default stream */

typedef int launch_fn(void *function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f,
    unsigned bytes, uint64_t stream, void *parameters, void *extra);

extern launch_fn gp_work_cuLaunchKernel;
extern int gp_work_cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, uint64_t stream);

void *gp_real_functions[GP_FUNCTION_COUNT];
unsigned char gp_work_is_watched = 1;

void *gp_work_slow(uint64_t stream, unsigned function, const void *first);

void *gp_work_slow(uint64_t stream, unsigned function, const void *first)
{
  fprintf(stderr, "bench_work: the slow way was taken\n");
  exit(1);
}

__attribute__((noinline)) static int launch(void *function, unsigned a, unsigned b, unsigned c, unsigned d,
    unsigned e, unsigned f, unsigned bytes, uint64_t stream, void *parameters, void *extra)
{
  __asm__ volatile("");
  return 0;
}

__attribute__((noinline)) static int copy(uint64_t to, uint64_t from, size_t bytes, uint64_t stream)
{
  __asm__ volatile("");
  return 0;
}

static double now_ns(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

/* The best of some rounds, in ns a call: others use the machine, too. */
static double measure_launch(launch_fn *function)
{
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    double begin = now_ns();
    for (long i = 0; i < CALLS; i++)
      (void)function(NULL, 1, 1, 1, 1, 1, 1, 0, STREAM, NULL, NULL);
    double each = (now_ns() - begin) / (double)CALLS;
    best = each < best ? each : best;
  }
  return best;
}

static double measure_copy(int (*function)(uint64_t, uint64_t, size_t, uint64_t))
{
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    double begin = now_ns();
    for (long i = 0; i < CALLS; i++)
      (void)function(1, 2, 3, STREAM);
    double each = (now_ns() - begin) / (double)CALLS;
    best = each < best ? each : best;
  }
  return best;
}

int main(void)
{
  for (int i = 0; i < GP_FUNCTION_COUNT; i++)
    gp_real_functions[i] = (void *)(uintptr_t)copy;
  gp_real_functions[GP_FN_cuLaunchKernel] = (void *)(uintptr_t)launch;
  double direct = measure_launch(launch);
  double stub = measure_launch(gp_work_cuLaunchKernel);
  printf(
      "cuLaunchKernel: %.2f ns at once, %.2f ns through the stub: %.2f more\n", direct, stub, stub - direct);
  direct = measure_copy(copy);
  stub = measure_copy(gp_work_cuMemcpyAsync);
  printf(
      "cuMemcpyAsync:  %.2f ns at once, %.2f ns through the stub: %.2f more\n", direct, stub, stub - direct);
  return 0;
}
