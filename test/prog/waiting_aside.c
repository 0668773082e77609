/*
 * A library that pools memory finds out that it must not any more, beside a kernel that waits for this
 * thread: the program uses green contexts of a driver that has no fence of a context, or finds a function
 * that no header declares. What is cached, or was freed behind work (the first argument: idle, deferred), has
 * to stay then, and goes back when the program synchronizes.
 */
#include <dlfcn.h>

#include "waiting.h"

static void green(char **arguments)
{
#if CUDA_VERSION >= 12050
  CUdevResource resource;
  CUdevResourceDesc description;
  CUgreenCtx share;
  CUdeviceptr block;

  waiting_leave(arguments[0], 4 * MIB, 4);
  waiting_start();
  CALL(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CALL(cuDevResourceGenerateDesc(&description, &resource, 1));
  waiting_step("cuGreenCtxCreate");
  CALL(cuGreenCtxCreate(&share, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 4 * MIB));
#else
  (void)arguments;
#endif
}

static void look_up(void)
{
  waiting_step("dlsym");
  printf("found: %d\n", dlsym(RTLD_NEXT, "cuMemFree_v3") != NULL);
}

static void unknown(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], 4 * MIB, 4);
  waiting_start();
  look_up();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 4 * MIB));
}

/* The device has 1 GiB: what was kept is needed. */
static void unknown_short(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], 600 * MIB, 1);
  waiting_start();
  look_up();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 700 * MIB));
}

/* The look-up comes before the kernel, the need beside it. */
static void unknown_before(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], 600 * MIB, 1);
  look_up();
  waiting_start();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 700 * MIB));
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {
      {"green", green, 1},
      {"unknown", unknown, 1},
      {"unknown_short", unknown_short, 1},
      {"unknown_before", unknown_before, 1},
  };
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
