/* Calls the C library's dlsym, which this library's own dlsym hides. Any thread may call these functions,
 * also before main() and in constructors. */
#ifndef GP_INTERPOSE_ROUTES_REAL_DLSYM_H
#define GP_INTERPOSE_ROUTES_REAL_DLSYM_H

#include <stdbool.h>

/* Disables sanitizers in code that runs between this library's dlsym and the real one: a sanitizer's runtime
 * looks up its own functions through it, before the runtime is ready for instrumented code. */
#define GP_BEFORE_SANITIZERS __attribute__((no_sanitize("address", "undefined", "thread")))

/* Calls the C library's dlsym, or that of the next library that replaces it. dlsym sees this library as the
 * caller. */
void *gp_real_dlsym(void *handle, const char *name);

/* Calls the C library's dlsym, bypassing every library that replaces it. dlsym sees this library as the
 * caller. */
void *gp_real_libc_dlsym(void *handle, const char *name);

/* Returns the dlsym of a library that precedes this one in symbol look-up order and replaces dlsym, so that
 * look-ups reach that library first. Returns NULL if there is none. */
void *(*gp_real_dlsym_before(void))(void *handle, const char *name);

/* Returns false if the C library's symbols have no versions (musl). */
bool gp_real_is_glibc(void);

/* Calls the C library's dlvsym, or dlsym if there is none. dlvsym sees this library as the caller. */
void *gp_real_dlvsym(void *handle, const char *name, const char *version);

/* Returns the address of the real dlsym. */
const void *gp_real_dlsym_address(void);

/* Makes sure that the dlsym stub knows its jump target. */
void gp_real_dlsym_init(void);

#endif
