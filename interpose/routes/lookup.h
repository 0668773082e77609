/*
 * From a name, or from a pointer that the driver gave, to the hook that stands in for it.
 */
#ifndef GP_INTERPOSE_ROUTES_LOOKUP_H
#define GP_INTERPOSE_ROUTES_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda_abi.h"

/* True for "cu" and a capital, which keeps cublas, cudnn and curl out before anything is compared. NULL:
 * false. */
bool gp_lookup_is_driver_name(const char *name);

/* True if function is a hook, a stub, a trampoline, or the export of one. */
bool gp_lookup_is_own(const void *function);

/* What callers of `name` would get without us: the driver's function, the C library's dlsym; NULL for other
 * names. */
const void *gp_lookup_behind(const char *name);

/* Known to the stubs: dlsym returns NULL; dlerror says why. */
#define GP_DLSYM_NONE ((void *)-1)

/*
 * Asked by the dlsym stub: the hook to return instead of the driver's `name`; GP_DLSYM_NONE; or NULL: jump to
 * the real dlsym. Never changes what a failed lookup or a lookup of anything else returns.
 */
void *gp_dlsym_decide(void *handle, const char *name, const void *return_address);

/*
 * What cuGetProcAddress shall return for symbol, which the driver answered with function: the hook of exactly
 * that ABI variant, or function itself.
 */
void *gp_lookup_substitute(const char *symbol, int version, uint64_t flags, void *function);

#endif
