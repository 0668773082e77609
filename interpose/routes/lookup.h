/*
 * routes/: the ways on which calls of the driver get here (dlsym, cuGetProcAddress, exported names, functions
 * that the tables do not know), the driver's own functions behind them, and the ways that bypass this
 * library. Only look-up, exports and unknown functions may include hooks.
 *
 * From a name, or from a pointer that the driver gave, to the hook that replaces the function. The table of
 * hooks is here, and above all of them.
 */
#ifndef GP_INTERPOSE_ROUTES_LOOKUP_H
#define GP_INTERPOSE_ROUTES_LOOKUP_H

/* The dlsym stub then returns NULL; dlerror has the reason. The stubs have the same number. */
#define GP_DLSYM_NONE ((void *)-1)

/*
 * For the dlsym stub: the hook to return in place of the driver's `name`; GP_DLSYM_NONE; or NULL: jump to the
 * real dlsym. A failed look-up, and one of any other name, get what the real dlsym returns. Any thread; takes
 * no lock of this library.
 */
void *gp_dlsym_decide(void *handle, const char *name, const void *return_address);

#endif
