/*
 * Finding the driver.
 */
#include "rt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

rt_driver_t rt_driver;
int rt_driver_version;

typedef CUresult (*get_proc_t)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUresult load_result;
static void *library;

static CUresult not_supported(void)
{
  return CUDA_ERROR_NOT_SUPPORTED;
}

/*
 * Before cuGetProcAddress there was one way: dlsym of the exported name of the wanted variant.
 */
static const struct {
  const char *name, *base;
  int since;
} names[] = {
#define SIM_API(name, base, since, flags) {#name, #base, since},
#include "api.def"
#undef SIM_API
};

static CUresult look_up_name(
    const char *base, void **ret, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
  (void)status;
  *ret = NULL;
  for (int newest = 0, i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
    const char *suffix = strrchr(names[i].name, '_');
    bool twin = suffix && (strcmp(suffix, "_ptsz") == 0 || strcmp(suffix, "_ptds") == 0);
    if (strcmp(names[i].base, base) != 0 || names[i].since > version || names[i].since < newest ||
        twin != (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
      continue;
    void *p = dlsym(library, names[i].name);
    if (p) {
      *ret = p;
      newest = names[i].since;
    }
  }
  if (!*ret && flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    return look_up_name(base, ret, version, 0, NULL); /* a function that has no stream */
  return CUDA_SUCCESS;
}

/* The cuGetProcAddress of 11.3, which a runtime of that time asks for under this name */
typedef CUresult (*get_proc_v1_t)(const char *, void **, int, cuuint64_t);
static get_proc_v1_t get_proc_v1;

static CUresult look_up_v1(
    const char *base, void **ret, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
  (void)status;
  return get_proc_v1(base, ret, version, flags);
}

static get_proc_t find_driver(void)
{
  if (!library)
    return NULL;
  if (RT_MAJOR >= 12)
    return (get_proc_t)dlsym(library, "cuGetProcAddress_v2"); /* and nothing else: such a driver is too old */
  get_proc_v1 = (get_proc_v1_t)dlsym(library, "cuGetProcAddress");
  return get_proc_v1 ? look_up_v1 : look_up_name;
}

static void *look_up(get_proc_t get, const char *name, int version, cuuint64_t flags)
{
  void *p = NULL;
  if (version >= (RT_MAJOR + 1) * 1000 || get(name, &p, version, flags, NULL) != CUDA_SUCCESS || !p)
    p = (void *)not_supported;
  return p;
}

/* The order, versions and flags of the queries are those of NVIDIA's runtime 13.0; its first query has an
 * empty name. An older one does not know the later versions. */
static void load(void)
{
  library = dlopen("libcuda.so.1", RTLD_NOW);
  get_proc_t get = find_driver();
  if (!get) {
    load_result = (CUresult)cudaErrorInsufficientDriver;
    return;
  }
  (void)look_up(get, "", 0, 0);
#define RT_DRIVER(field, name, version, flags, type)                                                         \
  rt_driver.field = (type)look_up(get, name, version, flags);
#define RT_LOOKUP(name, version, flags) (void)look_up(get, name, version, flags);
#include "rt_driver.def"
#undef RT_DRIVER
#undef RT_LOOKUP
  if (RT_MAJOR < 12)
    rt_driver.cuGetProcAddress_v2 = (PFN_cuGetProcAddress_v12000)get; /* behind cudaGetDriverEntryPoint */
  load_result = rt_driver.cuDriverGetVersion(&rt_driver_version);
}

CUresult rt_driver_load(void)
{
  pthread_once(&once, load);
  return load_result;
}
