#include "interpose/routes/lookup.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/routes/classes.h"
#include "interpose/routes/loaded.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/nvml.h"
#include "interpose/hooks/runtime_calls.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "interpose/routes/real_dlsym.h"
#include "interpose/routes/runtimes.h"
#include "interpose/routes/unknown.h"
#include "pool/reuse/mode.h"
#include "base/log.h"

typedef struct gp_hook {
  const char *symbol; /* name that the driver exports */
  const char *base;   /* name that a program passes to cuGetProcAddress */
  int since;
  int per_thread;
  void *hook;
} gp_hook_t;

/* All hooks, indexed by gp_function_t. */
static const gp_hook_t hooks[GP_HOOK_COUNT] = {
#define HOOK(symbol, base, since, per_thread, parameters)                                                    \
  [GP_FN_##symbol] = {#symbol, #base, since, per_thread, (void *)hook_##symbol},
#include "interpose/routes/functions.def"
};

/*
 * Returns true if GPUPOOL_DISABLE=1 was in the environment at the first call. Look-ups in the driver then
 * return the driver's own functions, so that calls cost nothing extra. (The most important one is the
 * runtime's look-up of cuGetProcAddress.) The hooks still forward the calls of a program that is linked to
 * the driver, and all calls if a settings file disables the library.
 */
static bool is_disabled(void)
{
  static _Atomic signed char is_known; /* 0: not known yet, 1: yes, -1: no */
  signed char known = atomic_load_explicit(&is_known, memory_order_relaxed);

  if (known == 0) {
    const char *text = secure_getenv("GPUPOOL_DISABLE");
    known = text && strcmp(text, "1") == 0 ? 1 : -1;
    atomic_store_explicit(&is_known, known, memory_order_relaxed);
  }
  return known > 0;
}

static const gp_hook_t *find_symbol(const char *name)
{
  int function = gp_real_find(name, GP_HOOK_COUNT);
  gp_assert(function < 0 || (hooks[function].hook && strcmp(hooks[function].symbol, name) == 0));
  return function >= 0 ? &hooks[function] : NULL;
}

/* Stops pooling because of a second copy of the driver (dlmopen, a copy at another path): no hook sees work
 * that goes through it. */
static void tell_of_second_driver(void)
{
  static atomic_flag has_reported = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&has_reported))
    return;
  gp_log(GP_LOG_ERROR, "the process uses more than one copy of the CUDA driver library; nothing is pooled");
  gp_library_stop_pooling();
}

/*
 * Returns GP_DLSYM_NONE if a look-up by scope would find this library's export, but would find nothing
 * without the library: no driver is loaded, or the driver lacks the function. Otherwise returns NULL. The
 * search behind this library sets dlerror.
 */
static void *unless_ours_alone(const gp_hook_t *hook)
{
  if (gp_real_bind() && gp_real_get((gp_function_t)(hook - hooks)))
    return NULL;
  return gp_real_dlsym(RTLD_NEXT, hook->symbol) ? NULL : GP_DLSYM_NONE;
}

/*
 * Decides a look-up of a name that looks like a driver function but is missing from the tables. The function
 * may belong to a newer driver, to OpenGL and the like, or to a library unrelated to CUDA. Returns a
 * trampoline, or NULL if the stub must jump to the real dlsym. The result of a search by scope depends on the
 * caller. If a search from here finds nothing, or the search must begin behind the caller, the stub jumps,
 * and the library will not see calls of the driver's function of that name.
 */
static void *decide_unknown(void *handle, const char *name, const void *return_address)
{
  gp_effect_t effect = gp_class_is_known(name) ? GP_EFFECT_NONE : gp_class_effect(name);

  if (effect == GP_EFFECT_NONE)
    return NULL;
  void *function = handle == RTLD_NEXT ? NULL : gp_real_dlsym(handle, name);
  if (!function && (handle == RTLD_NEXT || handle == RTLD_DEFAULT)) {
    if (gp_real_bind() && gp_real_driver_has(name) && !gp_real_is_driver_address(return_address))
      gp_unknown_missed(name, effect);
    else
      gp_mode_distrust(); /* a driver that is loaded later may have the function */
  }
  if (!function || gp_real_is_own(function) || !gp_real_is_driver_address(function) ||
      gp_real_is_driver_address(return_address))
    return NULL;
  gp_real_bind_object(function);
  void *handed_out = gp_unknown_wrap(function, name, effect);
  (void)dlerror(); /* see gp_dlsym_decide */
  return handed_out == function ? NULL : handed_out;
}

static bool begins_with(const char *text, const char *start)
{
  return strncmp(text, start, strlen(start)) == 0;
}

/* Returns true for functions on which the library's use of stream order depends: they decide what events
 * stand for, and which launches do not wait. */
static bool concerns_order(const gp_hook_t *hook)
{
  return begins_with(hook->symbol, "cuEventRecord") || begins_with(hook->symbol, "cuLaunchKernelEx");
}

/* Decides a look-up of a runtime function: finds the runtime's own function. A look-up by scope, or with the
 * program's own handle, would find this library's export, even in a process without a runtime. */
static void *decide_runtime(void *handle, const char *name, const void *return_address)
{
  if (gp_runtime_find(name) < 0)
    return NULL;
  if (handle == RTLD_NEXT) { /* the stub jumps to the real dlsym, so that the caller stays the same */
    if (!gp_runtime_is_before_us(return_address) || gp_real_dlsym(RTLD_NEXT, name))
      return NULL;
    return GP_DLSYM_NONE;
  }
  if (handle == RTLD_DEFAULT) {
    void *real = gp_runtime_look_up(name, return_address);
    return real ? real : GP_DLSYM_NONE;
  }
  void *found = gp_real_dlsym(handle, name);
  if (!found || !gp_real_is_own(found))
    return NULL; /* the stub's jump gives the same result */
  found = gp_real_dlsym(RTLD_NEXT, name);
  return found ? found : GP_DLSYM_NONE;
}

/* Decides a look-up of an NVML function, as gp_dlsym_decide does. A look-up by scope, or with the program's
 * own handle, finds this library's export, which represents NVML if the process has loaded it. */
static void *decide_nvml(void *handle, const char *name, const void *return_address)
{
  void *function = handle == RTLD_NEXT || handle == RTLD_DEFAULT ? NULL : gp_real_dlsym(handle, name);

  if (handle == RTLD_NEXT && !gp_runtime_is_before_us(return_address))
    return NULL; /* the caller comes after this library, and searches what comes after itself */
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || gp_real_is_own(function))
    return gp_nvml_bind() ? NULL : GP_DLSYM_NONE;
  if (!function)
    return NULL; /* the stub's jump gives the same result, and sets dlerror */
  void *hook = gp_nvml_hook(name, function);
  (void)dlerror(); /* see gp_dlsym_decide */
  return hook;
}

/* Returns the driver's function for the result of a look-up: the result itself, or the driver's function that
 * a preloaded library behind this one has replaced with its own. Returns NULL if the result has nothing to do
 * with the driver. */
static void *beneath(void *handle, const char *name, void *function)
{
  if (gp_real_is_driver_address(function))
    return function;
  void *found = gp_real_libc_dlsym(handle, name);
  return found && gp_real_is_driver_address(found) ? found : NULL;
}

/* Returns true if the caller is another preloaded library to which the hook forwards its calls: that library
 * looks up the function that it will call itself. */
static bool is_behind_hook(const gp_hook_t *hook, const void *function, const void *caller)
{
  const void *real = gp_real_get((gp_function_t)(hook - hooks));
  return real && real != function && gp_real_in_one_object(real, caller);
}

GP_BEFORE_SANITIZERS static bool is_nvml_name(const char *name)
{
  return name && name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l' &&
         gp_nvml_is_name(name);
}

GP_BEFORE_SANITIZERS static bool is_runtime_name(const char *name)
{
  return name && name[0] == 'c' && name[1] == 'u' && name[2] == 'd' && name[3] == 'a';
}

GP_BEFORE_SANITIZERS void *gp_dlsym_decide(void *handle, const char *name, const void *return_address)
{
  gp_real_dlsym_init(); /* the stub jumps through gp_dlsym_next */
  if (!gp_real_is_driver_name(name))
    return is_runtime_name(name) ? decide_runtime(handle, name, return_address)
           : is_nvml_name(name)  ? decide_nvml(handle, name, return_address)
                                 : NULL;
  if (gp_runtime_serves() && gp_loaded_is_cupti(return_address))
    gp_runtime_stop(); /* a tool has begun to use CUPTI */
  const gp_hook_t *hook = find_symbol(name);
  if (!hook)
    return decide_unknown(handle, name, return_address);
  /* The results of these look-ups depend on the caller: the stub jumps to the real dlsym, which then sees the
   * same caller. */
  if (handle == RTLD_NEXT && concerns_order(hook))
    gp_mode_distrust(); /* a library after this one then makes such calls without a hook seeing them */
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
    return unless_ours_alone(hook);
  void *function = gp_real_dlsym(handle, name);
  if (gp_real_is_own(function))
    return unless_ours_alone(hook); /* `handle` is the program's own */
  if (!function)
    return NULL; /* the stub's jump gives the same result, and sets dlerror */
  void *of_driver = is_disabled() ? NULL : beneath(handle, name, function);
  if (!of_driver || gp_real_is_driver_address(return_address))
    return NULL; /* another library's function of that name, or the driver looks up its own function */
  gp_real_bind_object(of_driver);
  if (is_behind_hook(hook, function, return_address))
    return NULL;
  if (gp_real_get((gp_function_t)(hook - hooks)) != function && !gp_real_is_of_driver(name, of_driver)) {
    tell_of_second_driver();
    return NULL; /* the hook would call the first driver */
  }
  (void)dlerror(); /* this library's look-ups may have failed; the caller's has not */
  return hook->hook;
}

/* Returns true if `name` stands for the hook's function. Callers pass cuGetProcAddress the name without
 * suffix or, since 13.0, with "_v2" (as NVIDIA's Python bindings do). */
static bool answers_to(const gp_hook_t *hook, const char *name)
{
  size_t length = strlen(name);

  if (strcmp(hook->base, name) == 0)
    return true;
  const char *rest = strncmp(hook->symbol, name, length) == 0 ? hook->symbol + length : NULL;
  return rest && (rest[0] == '\0' || strcmp(rest, "_ptsz") == 0 || strcmp(rest, "_ptds") == 0);
}

/* Returns the variant that the documentation of cuGetProcAddress promises for these arguments. */
static const gp_hook_t *find_variant(const char *name, int version, bool per_thread)
{
  const gp_hook_t *best = NULL;
  bool best_exact = false;

  for (int i = 0; i < GP_HOOK_COUNT; i++) {
    if (!answers_to(&hooks[i], name) || hooks[i].since > version || (hooks[i].per_thread && !per_thread))
      continue;
    bool exact = (hooks[i].per_thread != 0) == per_thread;
    if (!best || (exact && !best_exact) || (exact == best_exact && hooks[i].since > best->since)) {
      best = &hooks[i];
      best_exact = exact;
    }
  }
  return best;
}

/* Returns true if, from this version on, the name may stand for a function with other parameters, and no rule
 * says which of the two functions is meant. */
static bool is_renamed(const char *base, int version)
{
  return version >= 12000 && strcmp(base, "cuGraphInstantiate") == 0;
}

/* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM of cuda.h */
#define FLAG_PER_THREAD UINT64_C(2)

/* Returns true if the function is a variant newer than the tables: for the newest version of the tables, the
 * driver returns another function, or none. */
static bool is_newer(const char *symbol, int version, uint64_t flags, const void *function)
{
  void *known = NULL;
  CUresult result = CUDA_ERROR_NOT_FOUND;

  if (version <= GP_NEWEST_CUDA_VERSION)
    return false;
  if (GP_REAL(cuGetProcAddress_v2))
    result = GP_REAL(cuGetProcAddress_v2)(symbol, &known, GP_NEWEST_CUDA_VERSION, flags, NULL);
  else if (GP_REAL(cuGetProcAddress))
    result = GP_REAL(cuGetProcAddress)(symbol, &known, GP_NEWEST_CUDA_VERSION, flags);
  return result != CUDA_SUCCESS || known != function;
}

/* Returns the pointer that cuGetProcAddress gives to the program for `symbol`, for which the driver returned
 * `function`: the hook of exactly that ABI variant, or `function` itself. */
static void *substitute(const char *symbol, int version, uint64_t flags, void *function, const void *caller)
{
  gp_assert(function);
  if (!gp_real_is_driver_name(symbol) || gp_real_is_own(function))
    return function;
  /* The driver's pointer identifies the variant exactly, whatever the requested name: since 12.0
   * cuGraphInstantiate stands for cuGraphInstantiateWithFlags. */
  for (int i = 0; i < GP_HOOK_COUNT; i++)
    if (gp_real_get((gp_function_t)i) == function && answers_to(&hooks[i], symbol))
      return hooks[i].hook;
  for (int i = 0; i < GP_HOOK_COUNT; i++)
    if (gp_real_get((gp_function_t)i) == function)
      return hooks[i].hook;
  if (!gp_class_has_family(symbol) || gp_class_is_unsure(symbol, version) ||
      is_newer(symbol, version, flags, function))
    return gp_unknown_wrap(function, symbol, gp_class_effect(symbol));
  /* Either the driver's pointers differ from its exports, and the documented rule decides; or the library
   * deliberately does not hook this variant (CUDA 2's 32-bit ABI). */
  const gp_hook_t *variant = find_variant(symbol, version, (flags & FLAG_PER_THREAD) != 0);
  if (!variant || is_renamed(symbol, version) || is_behind_hook(variant, function, caller))
    return function;
  return variant->hook;
}

CUresult CUDAAPI hook_cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
  if (!gp_real_bind())
    return CUDA_ERROR_NOT_FOUND;
  CUresult result = GP_REAL_CALL(cuGetProcAddress, symbol, function, version, flags);
  if (result == CUDA_SUCCESS && symbol && function && *function)
    *function = substitute(symbol, version, flags, *function, __builtin_return_address(0));
  return result;
}

CUresult CUDAAPI hook_cuGetProcAddress_v2(
    const char *symbol, void **function, int version, cuuint64_t flags, void *status)
{
  if (!gp_real_bind())
    return CUDA_ERROR_NOT_FOUND;
  CUresult result = GP_REAL_CALL(cuGetProcAddress_v2, symbol, function, version, flags, status);
  if (result == CUDA_SUCCESS && symbol && function && *function)
    *function = substitute(symbol, version, flags, *function, __builtin_return_address(0));
  return result;
}
