/*
 * A program that is linked to nothing of CUDA and finds the driver at run time.
 *
 * route_driver names [DRIVER]    dlsym of the exported names one by one, as libcufft does
 * route_driver proc1 [DRIVER]    cuGetProcAddress of CUDA 11.3
 * route_driver proc2 [DRIVER]    cuGetProcAddress of CUDA 12.0, asked for everything before cuInit
 * route_driver self [DRIVER]     likewise, but the one that does the work is what cuGetProcAddress gave for
 * itself
 *
 * DRIVER is what dlopen gets, an absolute path for instance; libcuda.so.1 if it is left out.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "work.h"

typedef CUresult (*proc1_t)(const char *name, void **function, int version, cuuint64_t flags);
typedef CUresult (*proc2_t)(const char *name, void **function, int version, cuuint64_t flags, int *status);

static void *driver;
static proc1_t proc1;
static proc2_t proc2;

static const void *find(const char *base, int version, const char *exported, unsigned flags)
{
  void *function = NULL;
  int status = -1;

  if (proc2)
    return proc2(base, &function, version, flags, &status) == CUDA_SUCCESS && status == 0 ? function : NULL;
  if (proc1)
    return proc1(base, &function, version, flags) == CUDA_SUCCESS ? function : NULL;
  return dlsym(driver, exported);
}

static int find_resolver(const char *how)
{
  void *self = NULL;

  if (strcmp(how, "names") == 0)
    return 1;
  if (strcmp(how, "proc1") == 0)
    return (proc1 = (proc1_t)dlsym(driver, "cuGetProcAddress")) != NULL;
  proc2 = (proc2_t)dlsym(driver, "cuGetProcAddress_v2");
  if (!proc2 || strcmp(how, "self") != 0)
    return proc2 != NULL;
  if (proc2("cuGetProcAddress", &self, 12000, 0, NULL) != CUDA_SUCCESS || !self)
    return 0;
  proc2 = (proc2_t)self;
  return 1;
}

int main(int argc, char **argv)
{
  const char *how = argc > 1 ? argv[1] : "names";
  route_t route;
  size_t index = 0;
  unsigned missing = 0;

  driver = dlopen(argc > 2 ? argv[2] : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver || !find_resolver(how)) {
    printf("route_driver: the driver has no way %s\n", how);
    return 3;
  }
#define FIND(member, base, version, exported, twin, parameters)                                              \
  {                                                                                                          \
    const void *function = find(base, version, ROUTE_NAME(exported, twin), ROUTE_FLAGS);                     \
    missing += function == NULL;                                                                             \
    route_store(&route, index++, function);                                                                  \
  }
  ROUTE_FUNCTIONS(FIND)
  if (missing > 0) {
    printf("route_driver: %u functions are missing\n", missing);
    return 3;
  }
  return route_work(&route, "route_driver");
}
