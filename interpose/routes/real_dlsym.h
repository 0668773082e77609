/*
 * The C library's dlsym, from behind the one that this library exports. All functions may be called by any
 * thread, before main() and from constructors too.
 */
#ifndef GP_INTERPOSE_ROUTES_REAL_DLSYM_H
#define GP_INTERPOSE_ROUTES_REAL_DLSYM_H

/*
 * The way from dlsym to the real one runs before a sanitizer's runtime, which looks its own functions up, is
 * ready for instrumented code.
 */
#define GP_BEFORE_SANITIZERS __attribute__((no_sanitize("address", "undefined", "thread")))

/* The C library's dlsym, or that of the next library that stands in for it. Its caller is this library. */
void *gp_real_dlsym(void *handle, const char *name);

/* The C library's dlvsym. Its caller is this library. */
void *gp_real_dlvsym(void *handle, const char *name, const char *version);

/* Where dlsym is. */
const void *gp_real_dlsym_address(void);

/* Makes sure that the stub knows where to jump to. */
void gp_real_dlsym_init(void);

#endif
