#include "interpose/routes/real_dlsym.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "interpose/routes/real.h"
#include "base/objects.h"
#include "base/loader_walk.h"
#include "base/log.h"

#pragma weak dlvsym /* musl has none */

typedef void *(*gp_dlsym_fn)(void *handle, const char *name);

/* The stub jumps to this address. Every thread that resolves it stores the same value. */
__attribute__((visibility("hidden"))) gp_dlsym_fn gp_dlsym_next;

static gp_dlsym_fn libc_dlsym; /* set before gp_dlsym_next */

/* Finds musl's dlsym: the first definition in another object. */
static int find_unversioned(struct dl_phdr_info *info, size_t size, void *arg)
{
  void **found = arg;
  gp_object_t object;

  (void)size;
  return gp_object_read(info, &object) && !gp_object_has(&object, &gp_dlsym_next) &&
         gp_object_defines(&object, "dlsym", found) && *found;
}

/*
 * Resolves the real dlsym. Tries the versions newest first: since 2.34 dlsym is in libc, before that in
 * libdl; aarch64 began with 2.17.
 *
 * dlvsym finds exactly the given version, and so skips another preloaded library's dlsym, which has no
 * version. The C library's own dlsym, called from here, then finds the next dlsym after this library in
 * symbol look-up order.
 */
GP_BEFORE_SANITIZERS static gp_dlsym_fn resolve_dlsym(void)
{
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  gp_dlsym_fn found = NULL;
  gp_dlsym_fn next = __atomic_load_n(&gp_dlsym_next, __ATOMIC_ACQUIRE);

  if (next)
    return next;
  if (!gp_real_is_glibc())
    (void)gp_loader_walk(find_unversioned, &found);
  for (size_t i = 0; gp_real_is_glibc() && !found && i < sizeof(versions) / sizeof(versions[0]); i++)
    found = (gp_dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  if (!found) {
    gp_log(GP_LOG_ERROR, "cannot find dlsym in the C library; this libc is not supported");
    __builtin_trap(); /* there is no dlsym to call */
  }
  __atomic_store_n(&libc_dlsym, found, __ATOMIC_RELAXED);
  next = (gp_dlsym_fn)found(RTLD_NEXT, "dlsym");
  if (!next)
    next = found;
  __atomic_store_n(&gp_dlsym_next, next, __ATOMIC_RELEASE);
  (void)dlerror(); /* the caller must not see an error about a version that this C library lacks */
  return next;
}

GP_BEFORE_SANITIZERS void gp_real_dlsym_init(void)
{
  (void)resolve_dlsym();
}

void *gp_real_dlsym(void *handle, const char *name)
{
  return resolve_dlsym()(handle, name);
}

void *gp_real_libc_dlsym(void *handle, const char *name)
{
  (void)resolve_dlsym();
  return __atomic_load_n(&libc_dlsym, __ATOMIC_RELAXED)(handle, name);
}

void *(*gp_real_dlsym_before(void))(void *handle, const char *name)
{
  gp_dlsym_fn first = (gp_dlsym_fn)gp_real_libc_dlsym(RTLD_DEFAULT, "dlsym");
  bool is_libc = first == __atomic_load_n(&libc_dlsym, __ATOMIC_RELAXED); /* this library was not preloaded */
  return first && !is_libc && !gp_real_is_own((const void *)first) ? first : NULL;
}

bool gp_real_is_glibc(void)
{
  return dlvsym != NULL;
}

void *gp_real_dlvsym(void *handle, const char *name, const char *version)
{
  return gp_real_is_glibc() ? dlvsym(handle, name, version) : gp_real_dlsym(handle, name);
}

const void *gp_real_dlsym_address(void)
{
  return (const void *)resolve_dlsym();
}
