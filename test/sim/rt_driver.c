/*
 * Finding the driver.
 */
#include "rt.h"

#include <dlfcn.h>
#include <pthread.h>

rt_driver_t rt_driver;
int rt_driver_version;

typedef CUresult (*get_proc_t)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUresult load_result;

static CUresult not_supported(void)
{
  return CUDA_ERROR_NOT_SUPPORTED;
}

static void *look_up(get_proc_t get, const char *name, int version, cuuint64_t flags)
{
  void *p = NULL;
  if (get(name, &p, version, flags, NULL) != CUDA_SUCCESS || !p)
    p = (void *)not_supported;
  return p;
}

/* The order, versions and flags of the queries are those of NVIDIA's runtime 13.0; its first query has an
 * empty name. */
static void load(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  void *symbol = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
  if (!symbol) {
    load_result = (CUresult)cudaErrorInsufficientDriver;
    return;
  }
  get_proc_t get = (get_proc_t)symbol;
  (void)look_up(get, "", 0, 0);
#define RT_DRIVER(field, name, version, flags, type)                                                         \
  rt_driver.field = (type)look_up(get, name, version, flags);
#define RT_LOOKUP(name, version, flags) (void)look_up(get, name, version, flags);
#include "rt_driver.def"
#undef RT_DRIVER
#undef RT_LOOKUP
  load_result = rt_driver.cuDriverGetVersion(&rt_driver_version);
}

CUresult rt_driver_load(void)
{
  pthread_once(&once, load);
  return load_result;
}
