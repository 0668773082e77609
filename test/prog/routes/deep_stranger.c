/*
 * A plug-in that is often loaded with RTLD_DEEPBIND, uses dlsym, and has nothing to do with CUDA.
 */
#include <dlfcn.h>
#include <stdio.h>

int route_main(void);
int route_main(void)
{
  printf("deep_stranger: %s\n", dlsym(RTLD_DEFAULT, "printf") ? "found" : "none");
  return 0;
}
