#include "interpose/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "interpose/lookup.h"

void *gp_real_functions[GP_FUNCTION_COUNT];

static const char *const function_names[GP_FUNCTION_COUNT] = {
#define HOOK(symbol, base, since, per_thread, parameters, arguments) [GP_FN_##symbol] = #symbol,
#define CALL(symbol, parameters)                                     [GP_FN_##symbol] = #symbol,
#include "interpose/functions.def"
};

static atomic_bool bound;

/*
 * Every thread that gets here stores the same pointers, so nobody has to wait for anybody: pthread_once would deadlock
 * when a library's constructor, run by dlopen under the loader's lock, comes here while another thread loads.
 */
static void bind_all(void *handle)
{
  for (int i = 0; i < GP_FUNCTION_COUNT; i++) {
    void *function = gp_real_dlsym(handle, function_names[i]);
    if (function && !gp_lookup_is_own(function))
      __atomic_store_n(&gp_real_functions[i], function, __ATOMIC_RELAXED);
  }
  atomic_store_explicit(&bound, true, memory_order_release);
}

static bool is_driver_file(const char *path)
{
  const char *slash = path ? strrchr(path, '/') : NULL;
  const char *name = slash ? slash + 1 : path;
  return name && strncmp(name, "libcuda.so", 10) == 0;
}

bool gp_real_is_driver_address(const void *address)
{
  Dl_info info;
  return dladdr(address, &info) != 0 && is_driver_file(info.dli_fname);
}

void gp_real_bind_object(const void *address)
{
  Dl_info info;

  if (atomic_load_explicit(&bound, memory_order_acquire) || dladdr(address, &info) == 0)
    return;
  /* Loaded already: this only finds it, and pins it, because we keep pointers into it. */
  void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (handle)
    bind_all(handle);
}

bool gp_real_bind(void)
{
  if (atomic_load_explicit(&bound, memory_order_acquire))
    return true;
  void *next = gp_real_dlsym(RTLD_NEXT, "cuInit");
  if (next) {
    gp_real_bind_object(next);
  } else {
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (handle)
      bind_all(handle);
  }
  return atomic_load_explicit(&bound, memory_order_acquire);
}
