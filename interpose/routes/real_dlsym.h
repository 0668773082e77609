/* The C library's dlsym, behind the one that this library exports. All functions may be called by any
 * thread, before main() and from constructors too. */
#ifndef GP_INTERPOSE_ROUTES_REAL_DLSYM_H
#define GP_INTERPOSE_ROUTES_REAL_DLSYM_H

#include <stdbool.h>

/* For the code between dlsym and the real one: a sanitizer's runtime looks up its own functions through it,
 * before it is ready for instrumented code. */
#define GP_BEFORE_SANITIZERS __attribute__((no_sanitize("address", "undefined", "thread")))

/* Calls the C library's dlsym, or that of the next library that replaces it. To dlsym
 * this library is the caller. */
void *gp_real_dlsym(void *handle, const char *name);

/* Calls the C library's dlsym, past every library that replaces it. To dlsym this library is the caller. */
void *gp_real_libc_dlsym(void *handle, const char *name);

/* The library that comes before this one in the order of look-up and replaces dlsym, so that look-ups come to
 * it first: its dlsym. NULL: none. */
void *(*gp_real_dlsym_before(void))(void *handle, const char *name);

/* False with a C library whose symbols have no versions: musl. */
bool gp_real_is_glibc(void);

/* Calls the C library's dlvsym, or dlsym where there is none. To dlvsym this library is the caller. */
void *gp_real_dlvsym(void *handle, const char *name, const char *version);

/* The address of dlsym. */
const void *gp_real_dlsym_address(void);

/* Makes sure that the stub knows where to jump to. */
void gp_real_dlsym_init(void);

#endif
