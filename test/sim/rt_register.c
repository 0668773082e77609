/*
 * What nvcc's generated code registers before main: images, kernels and variables. Nothing is loaded before
 * first use.
 */
#include "rt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct image {
  void *handle; /* the handle that generated code holds is the address of this member */
  const void *fatbin;
  CUlibrary library; /* drivers and runtimes with libraries (12.0) */
  CUmodule module;   /* older ones; belongs to the context of one generation of a device */
  unsigned generation;
} image_t;

/* Kernels and variables by the address that stands for them in host code: an open hash with chains */
typedef struct entry {
  const void *host;
  const char *name;
  size_t bytes; /* 0 for kernels */
  image_t *image;
  CUfunction function; /* NULL until first use */
  struct entry *next;
} entry_t;

#define BUCKETS 1024

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static entry_t *buckets[BUCKETS];

void **CUDARTAPI __cudaRegisterFatBinary(void *fatbin);
void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle);
void CUDARTAPI __cudaUnregisterFatBinary(void **handle);
void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
    int limit, void *tid, void *bid, void *block, void *grid, int *warp);
void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
    size_t bytes, int constant, int global);
void CUDARTAPI __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
    size_t bytes, int constant, int global);
void CUDARTAPI __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t bytes);
char CUDARTAPI __cudaInitModule(void **handle);

static entry_t **bucket(const void *host)
{
  return &buckets[((uintptr_t)host >> 4) % BUCKETS];
}

static entry_t *find(const void *host)
{
  entry_t *entry = *bucket(host);
  while (entry && entry->host != host)
    entry = entry->next;
  return entry;
}

static void add(image_t *image, const void *host, const char *name, size_t bytes)
{
  entry_t *entry = calloc(1, sizeof *entry);
  if (!entry)
    abort();
  entry->host = host;
  entry->name = name;
  entry->bytes = bytes;
  entry->image = image;
  pthread_mutex_lock(&mutex);
  entry_t **link = bucket(host);
  entry->next = *link;
  *link = entry;
  pthread_mutex_unlock(&mutex);
}

void **CUDARTAPI __cudaRegisterFatBinary(void *fatbin)
{
  image_t *image = calloc(1, sizeof *image);
  if (!image)
    abort();
  image->fatbin = fatbin;
  return &image->handle;
}

void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle)
{
  (void)handle;
}

/* At exit the driver may be gone already, so the library is left to it. */
void CUDARTAPI __cudaUnregisterFatBinary(void **handle)
{
  image_t *image = (image_t *)handle;
  pthread_mutex_lock(&mutex);
  for (unsigned i = 0; i < BUCKETS; i++) {
    for (entry_t **link = &buckets[i]; *link;) {
      entry_t *entry = *link;
      if (entry->image != image) {
        link = &entry->next;
        continue;
      }
      *link = entry->next;
      free(entry);
    }
  }
  pthread_mutex_unlock(&mutex);
  free(image);
}

void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
    int limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
  add((image_t *)handle, host, name, 0);
}

void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
    size_t bytes, int constant, int global)
{
  add((image_t *)handle, host, name, bytes ? bytes : 1);
}

/* Managed variables live in host memory here: device code does not run. */
void CUDARTAPI __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
    size_t bytes, int constant, int global)
{
  *host = calloc(1, bytes ? bytes : 1);
  if (!*host)
    abort();
}

void CUDARTAPI __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t bytes)
{
  (void)handle;
}

char CUDARTAPI __cudaInitModule(void **handle)
{
  return 0;
}

/* Runtimes of 11.x do not know them, whatever the driver. */
static bool has_libraries(void)
{
  return RT_MAJOR >= 12 && rt_driver_version >= 12000;
}

static CUresult load(image_t *image)
{
  if (has_libraries()) {
    if (image->library)
      return CUDA_SUCCESS;
    return rt_driver.cuLibraryLoadData(&image->library, image->fatbin, NULL, NULL, 0, NULL, NULL, 0);
  }
  unsigned generation = rt_generation(rt_device()) + 1;
  if (image->module && image->generation == generation)
    return CUDA_SUCCESS;
  image->generation = generation;
  return rt_driver.cuModuleLoadFatBinary(&image->module, image->fatbin);
}

CUresult rt_kernel_of(const void *symbol, CUfunction *ret_function)
{
  pthread_mutex_lock(&mutex);
  entry_t *entry = find(symbol);
  CUresult code = entry && entry->bytes == 0 ? load(entry->image) : (CUresult)cudaErrorInvalidDeviceFunction;
  if (code == CUDA_SUCCESS) {
    if (!has_libraries()) /* modules die with their context, so nothing is remembered */
      code = rt_driver.cuModuleGetFunction(&entry->function, entry->image->module, entry->name);
    else if (!entry->function)
      code = rt_driver.cuLibraryGetKernel((CUkernel *)&entry->function, entry->image->library, entry->name);
    *ret_function = entry->function;
  }
  pthread_mutex_unlock(&mutex);
  return code;
}

CUresult rt_variable_of(const void *symbol, CUdeviceptr *ret_address, size_t *ret_bytes)
{
  size_t room;
  pthread_mutex_lock(&mutex);
  const entry_t *entry = find(symbol);
  CUresult code = entry && entry->bytes ? load(entry->image) : (CUresult)cudaErrorInvalidSymbol;
  if (code == CUDA_SUCCESS) {
    code = has_libraries()
               ? rt_driver.cuLibraryGetGlobal(ret_address, &room, entry->image->library, entry->name)
               : rt_driver.cuModuleGetGlobal(ret_address, &room, entry->image->module, entry->name);
    *ret_bytes = entry->bytes; /* what the program knows; the driver model does not read images */
    if (code == CUDA_SUCCESS && room < entry->bytes)
      code = CUDA_ERROR_NOT_SUPPORTED;
  }
  pthread_mutex_unlock(&mutex);
  return code;
}
