/*
 * From a name, or from a pointer that the driver gave, to the hook that stands in for it.
 */
#ifndef GP_INTERPOSE_ROUTES_LOOKUP_H
#define GP_INTERPOSE_ROUTES_LOOKUP_H

/* Known to the stubs: dlsym returns NULL; dlerror says why. */
#define GP_DLSYM_NONE ((void *)-1)

/*
 * Asked by the dlsym stub: the hook to return instead of the driver's `name`; GP_DLSYM_NONE; or NULL: jump to
 * the real dlsym. Never changes what a failed lookup or a lookup of anything else returns.
 */
void *gp_dlsym_decide(void *handle, const char *name, const void *return_address);

#endif
