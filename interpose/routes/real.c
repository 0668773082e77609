#include "interpose/routes/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "interpose/routes/real_dlsym.h"
#include "base/cancel.h"

void *gp_real_functions[GP_FUNCTION_COUNT];

static const char *const function_names[GP_FUNCTION_COUNT] = {
#define HOOK(symbol, base, since, per_thread, parameters) [GP_FN_##symbol] = #symbol,
#define CALL(symbol, parameters)                          [GP_FN_##symbol] = #symbol,
#include "interpose/routes/functions.def"
};

/* Symbols of the linker: this library's first byte, and the byte after its last. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool gp_real_is_own(const void *address)
{
  const char *place = address;
  return place >= __ehdr_start && place < _end;
}

static atomic_bool bound;
static _Atomic(void *) driver_handle; /* NULL: unknown; other libraries may precede it in look-up order */

/* Returns the function that this library's calls are forwarded to. With RTLD_NEXT that is another preloaded
 * library's definition, if there is one, which that library's own dlsym would skip. */
static void *find_behind(void *object, const char *name)
{
  if (object == RTLD_NEXT)
    return gp_real_libc_dlsym(RTLD_NEXT, name);
  void *function = gp_real_dlsym(object, name);
  if (!gp_real_is_own(function))
    return function;
  /* A preloaded library may return its own function of that name in place of the first definition, which is
   * this library's. */
  function = gp_real_libc_dlsym(RTLD_NEXT, name);
  return function ? function : gp_real_libc_dlsym(object, name);
}

/*
 * Binds the functions from the first handle, and missing ones from the second (NULL: none). All threads that
 * get here store the same pointers, so none has to wait for another. pthread_once would deadlock if a
 * library's constructor, run by dlopen under the loader's lock, gets here while another thread loads.
 */
static void bind_all(void *first, void *second)
{
  for (int i = 0; i < GP_FUNCTION_COUNT; i++) {
    void *function = find_behind(first, function_names[i]);
    if ((!function || gp_real_is_own(function)) && second)
      function = gp_real_dlsym(second, function_names[i]);
    if (function && !gp_real_is_own(function))
      __atomic_store_n(&gp_real_functions[i], function, __ATOMIC_RELAXED);
  }
  atomic_store_explicit(&bound, true, memory_order_release);
}

GP_BEFORE_SANITIZERS bool gp_real_is_driver_name(const char *name)
{
  return name && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

int gp_real_find(const char *name, int count)
{
  gp_assert(count <= GP_FUNCTION_COUNT);
  for (int i = 0; i < count; i++)
    if (strcmp(function_names[i], name) == 0)
      return i;
  return -1;
}

bool gp_real_is_driver_file(const char *path)
{
  const char *slash = path ? strrchr(path, '/') : NULL;
  const char *name = slash ? slash + 1 : path;
  return name && strncmp(name, "libcuda.so", 10) == 0;
}

bool gp_real_is_driver_address(const void *address)
{
  Dl_info info;
  return dladdr(address, &info) != 0 && gp_real_is_driver_file(info.dli_fname);
}

void gp_real_bind_object(const void *address)
{
  Dl_info info;

  gp_assert(!gp_real_is_own(address));
  if (atomic_load_explicit(&bound, memory_order_acquire) || dladdr(address, &info) == 0)
    return;
  /* The driver is already loaded: dlopen only finds and pins it, because the table points into it. */
  int cancel_state = gp_cancel_hold(); /* dlopen may be a cancellation point */
  void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  gp_cancel_restore(cancel_state);
  if (handle) {
    atomic_store(&driver_handle, handle);
    bind_all(handle, NULL);
  }
}

bool gp_real_bind(void)
{
  if (atomic_load_explicit(&bound, memory_order_acquire))
    return true;
  /* Binds the functions that the loader would have given the program: the next definitions in symbol look-up
   * order. They may belong to another preloaded library, which may have only some of the names; the rest come
   * from the driver itself. */
  int cancel_state = gp_cancel_hold(); /* dlopen may be a cancellation point */
  void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  gp_cancel_restore(cancel_state);
  void *next = gp_real_dlsym(RTLD_NEXT, "cuInit");
  atomic_store(&driver_handle, handle);
  if (handle || (next && !gp_real_is_own(next)))
    bind_all(RTLD_NEXT, handle);
  (void)dlerror(); /* the program must not see errors about names that this driver lacks */
  return atomic_load_explicit(&bound, memory_order_acquire);
}

bool gp_real_driver_has(const char *name)
{
  void *handle = atomic_load(&driver_handle);
  void *function = gp_real_libc_dlsym(handle ? handle : RTLD_NEXT, name);
  (void)dlerror();
  return function && gp_real_is_driver_address(function);
}

bool gp_real_is_of_driver(const char *name, const void *function)
{
  void *handle = atomic_load(&driver_handle);
  return handle && gp_real_libc_dlsym(handle, name) == function;
}

void *gp_real_driver_handle(void)
{
  void *handle = atomic_load(&driver_handle);
  return handle ? handle : RTLD_DEFAULT;
}

bool gp_real_in_one_object(const void *one, const void *other)
{
  Dl_info first, second;
  return one && other && dladdr(one, &first) != 0 && dladdr(other, &second) != 0 &&
         first.dli_fbase == second.dli_fbase;
}

void gp_real_pop_context(CUcontext pushed)
{
  CUcontext current = NULL;

  if (GP_REAL_CALL(cuCtxPopCurrent_v2, &current) != CUDA_SUCCESS &&
      GP_REAL_CALL(cuCtxGetCurrent, &current) == CUDA_SUCCESS && current == pushed)
    (void)GP_REAL_CALL(cuCtxPopCurrent_v2, &current);
}
