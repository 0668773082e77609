/*
 * What the library waits for, and how often: kernels that take long, and misses beside one that waits.
 *
 *   misses COUNT      allocations of ever more bytes beside a kernel that waits, when 160 MiB were freed
 *   busy NS           60 GiB that a kernel of NS nanoseconds uses are freed, then 70 GiB are allocated
 *   busy_behind NS GIB
 *                     the same for so many GiB, with a kernel that waits for the host, launched after the
 * free free_beside       memory is freed beside a kernel that waits, and that does not use it: legal where
 *                     cuMemFree does not wait for all
 *   free_behind NS    memory is freed behind a kernel of NS nanoseconds that uses it; prints whether that has
 *                     ended then
 */
#include "waiting.h"

#define GIB ((size_t)1 << 30)

static void misses(char **arguments)
{
  CUdeviceptr block;
  int count = atoi(arguments[0]);
  waiting_leave_deferred(8 * MIB, 20);
  waiting_start();
  for (int i = 0; i < count; i++)
    ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 9 * MIB + (size_t)i * MIB / 16));
}

static CUdeviceptr use_long(const char *ns)
{
  CUdeviceptr block = waiting_take(60 * GIB);
  waiting_busy(waiting_work, strtoull(ns, NULL, 10));
  CALL(cuMemsetD8Async(block, 1, 4096, waiting_work));
  return block;
}

static void busy(char **arguments)
{
  CUdeviceptr block;
  waiting_give(use_long(arguments[0]));
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 70 * GIB));
}

static void busy_behind(char **arguments)
{
  CUdeviceptr block;
  waiting_give(use_long(arguments[0]));
  waiting_start();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, strtoull(arguments[1], NULL, 10) * GIB));
}

static void free_beside(char **arguments)
{
  (void)arguments;
  CUdeviceptr block = waiting_take(4 * MIB);
  waiting_start();
  waiting_step("cuMemFree");
  waiting_give(block);
}

static void free_behind(char **arguments)
{
  CUevent event;
  CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr block = use_long(arguments[0]);
  CALL(cuEventRecord(event, waiting_work));
  waiting_give(block);
  printf("cuEventQuery: %d\n", (int)cuEventQuery(event));
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {
      {"misses", misses, 1},
      {"busy", busy, 1},
      {"busy_behind", busy_behind, 2},
      {"free_beside", free_beside, 0},
      {"free_behind", free_behind, 1},
  };
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
