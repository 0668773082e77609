/*
 * routes/: the ways on which driver calls reach this library (dlsym, cuGetProcAddress, exported names,
 * functions that the tables do not know), the driver's own functions, and the ways that bypass this
 * library. Only look-up, exports and unknown functions may include hooks.
 *
 * Look-up: from a name, or from a driver's pointer, to the hook that replaces the function. It has the
 * table of hooks, and so stands above all of them.
 */
#ifndef GP_INTERPOSE_ROUTES_LOOKUP_H
#define GP_INTERPOSE_ROUTES_LOOKUP_H

/* The dlsym stub then returns NULL; dlerror has the reason. The assembly of the
 * stubs repeats the number. */
#define GP_DLSYM_NONE ((void *)-1)

/*
 * For the dlsym stub: the hook to return in place of the driver's `name`; GP_DLSYM_NONE; or NULL: jump to
 * the real dlsym. A failed look-up, and one of any other name, gets the result of the real dlsym. Any
 * thread; takes no lock of this library.
 */
void *gp_dlsym_decide(void *handle, const char *name, const void *return_address);

#endif
