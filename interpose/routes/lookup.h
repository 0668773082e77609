/*
 * routes/ contains the routes by which driver calls reach this library (dlsym, cuGetProcAddress, exported
 * names, functions that the tables lack), the driver's own functions, and the detection of calls that bypass
 * this library. Only lookup, exports and unknown may include hooks.
 *
 * This module finds the hook for a name or for a driver's function pointer. It uses the table of hooks, so it
 * is above all hooks.
 */
#ifndef GP_INTERPOSE_ROUTES_LOOKUP_H
#define GP_INTERPOSE_ROUTES_LOOKUP_H

/* Tells the dlsym stub to return NULL; dlerror has the reason. The assembly of the stubs repeats the
 * number. */
#define GP_DLSYM_NONE ((void *)-1)

/*
 * Decides for the dlsym stub what to do with a look-up of `name`. Returns the hook that replaces the driver's
 * function; GP_DLSYM_NONE; or NULL if the stub must jump to the real dlsym, as for names that are not hooked
 * and for failed look-ups. Any thread; takes no lock of this library.
 */
void *gp_dlsym_decide(void *handle, const char *name, const void *return_address);

#endif
