/*
 * A preload library that tells which driver functions a program's libraries call. It stands where gpupool
 * stands, at dlsym and cuGetProcAddress, and hands out a counting stub for every function of the driver; the
 * driver's export tables (cuGetExportTable) are left alone, and calls through them are not seen. Calls of
 * functions that a program is linked to are not seen either. Built for the hardware check only.
 *
 * A program finds calltrace_take with dlsym(RTLD_DEFAULT).
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { STUBS = 1024, STUB_BYTES = 16, TEXT_BYTES = 16384 };

/* What calls are named: as the driver exports the function, or NAME@VERSION as it was asked for. */
typedef struct {
  char name[96];
  void *real;
  uint64_t calls, taken;
} stub_t;

extern const char calltrace_stubs[];
void *(*gp_dlsym_next)(
    void *, const char *)__attribute__((visibility("hidden"))); /* dlsym_x86_64.S jumps there */
void *gp_dlsym_decide(void *handle, const char *name, const void *caller);
void *calltrace_note(unsigned number);

static stub_t stubs[STUBS];
static unsigned stub_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned order[STUBS]; /* stubs called since the last take, in the order of their first calls */
static unsigned order_count;

__attribute__((visibility("hidden"))) void *calltrace_note(unsigned number)
{
  stub_t *stub = &stubs[number];
  pthread_mutex_lock(&mutex);
  if (stub->calls++ == stub->taken)
    order[order_count++] = number;
  pthread_mutex_unlock(&mutex);
  return stub->real;
}

static bool is_driver_address(const void *address)
{
  Dl_info info;
  if (dladdr(address, &info) == 0 || !info.dli_fname)
    return false;
  const char *slash = strrchr(info.dli_fname, '/');
  return strncmp(slash ? slash + 1 : info.dli_fname, "libcuda.so", 10) == 0;
}

/* The stub of a function; the function itself when there are no more. */
static void *wrap(const char *name, int version, void *real)
{
  Dl_info info;
  void *result = real;
  pthread_mutex_lock(&mutex);
  unsigned i = 0;
  while (i < stub_count && stubs[i].real != real)
    i++;
  if (i < STUBS) {
    if (i == stub_count) {
      stub_count++;
      stubs[i].real = real;
      if (dladdr(real, &info) != 0 && info.dli_sname && info.dli_saddr == real)
        snprintf(stubs[i].name, sizeof stubs[i].name, "%s", info.dli_sname);
      else if (version)
        snprintf(stubs[i].name, sizeof stubs[i].name, "%s@%d", name, version);
      else
        snprintf(stubs[i].name, sizeof stubs[i].name, "%s", name);
    }
    result = (void *)(uintptr_t)(calltrace_stubs + (size_t)i * STUB_BYTES);
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

/*
 * The driver's two look-ups
 */
typedef CUresult (*lookup4_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult (*lookup5_fn)(const char *, void **, int, cuuint64_t, void *);
static lookup4_fn real_lookup4;
static lookup5_fn real_lookup5;

static CUresult lookup4(const char *name, void **function, int version, cuuint64_t flags);
static CUresult lookup5(const char *name, void **function, int version, cuuint64_t flags, void *status);

static void substitute(const char *name, void **function, int version)
{
  if (!name || !function || !*function || strncmp(name, "cu", 2) != 0 ||
      strcmp(name, "cuGetExportTable") == 0)
    return;
  if (strcmp(name, "cuGetProcAddress") != 0) {
    *function = wrap(name, version, *function);
  } else if (version >= 12000) {
    real_lookup5 = (lookup5_fn)*function;
    *function = (void *)lookup5;
  } else {
    real_lookup4 = (lookup4_fn)*function;
    *function = (void *)lookup4;
  }
}

static CUresult lookup4(const char *name, void **function, int version, cuuint64_t flags)
{
  CUresult result = real_lookup4(name, function, version, flags);
  if (result == CUDA_SUCCESS)
    substitute(name, function, version);
  return result;
}

static CUresult lookup5(const char *name, void **function, int version, cuuint64_t flags, void *status)
{
  CUresult result = real_lookup5(name, function, version, flags, status);
  if (result == CUDA_SUCCESS)
    substitute(name, function, version);
  return result;
}

__attribute__((visibility("hidden"))) void *gp_dlsym_decide(
    void *handle, const char *name, const void *caller)
{
  if (!gp_dlsym_next) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (unsigned i = 0; i < 3 && !gp_dlsym_next; i++)
      gp_dlsym_next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    (void)dlerror();
  }
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !name || strncmp(name, "cu", 2) != 0 ||
      name[2] < 'A' || name[2] > 'Z' || strcmp(name, "cuGetExportTable") == 0)
    return NULL;
  void *real = gp_dlsym_next(handle, name);
  if (!real || !is_driver_address(real) || is_driver_address(caller))
    return NULL;
  if (strcmp(name, "cuGetProcAddress") == 0) {
    real_lookup4 = (lookup4_fn)real;
    return (void *)lookup4;
  }
  if (strcmp(name, "cuGetProcAddress_v2") == 0) {
    real_lookup5 = (lookup5_fn)real;
    return (void *)lookup5;
  }
  return wrap(name, 0, real);
}

/*
 * The calls since the last take, "cuMemAlloc_v2, cuCtxGetCurrent x3" in the order of their first calls, "" if
 * none. The text is good until the next take. For one thread.
 */
__attribute__((visibility("default"))) const char *calltrace_take(void)
{
  static char text[TEXT_BYTES];
  size_t used = 0;
  text[0] = '\0';
  pthread_mutex_lock(&mutex);
  for (unsigned i = 0; i < order_count; i++) {
    stub_t *stub = &stubs[order[i]];
    unsigned long long count = stub->calls - stub->taken;
    stub->taken = stub->calls;
    if (used + 2 * sizeof stub->name > TEXT_BYTES)
      continue;
    used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s", used ? ", " : "", stub->name);
    if (count > 1)
      used += (size_t)snprintf(text + used, TEXT_BYTES - used, " x%llu", count);
  }
  order_count = 0;
  pthread_mutex_unlock(&mutex);
  return text;
}
