/*
 * Calls dlsym by each of its versions: programs linked on glibc 2.34 or newer refer to the newer one, and
 * libraries that were built before, such as NVIDIA's, to the older. Prints which of the two find a driver's
 * function, and where.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef __x86_64__
__asm__(".symver old_dlsym, dlsym@GLIBC_2.2.5");
#else
__asm__(".symver old_dlsym, dlsym@GLIBC_2.17");
#endif
void *old_dlsym(void *handle, const char *name);

static void print(const char *which, void *function)
{
  Dl_info info;
  const char *slash = function && dladdr(function, &info) ? strrchr(info.dli_fname, '/') : NULL;
  printf("%s: %s\n", which, slash ? slash + 1 : "none");
}

int main(void)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver)
    return 1;
  print("old", old_dlsym(driver, "cuMemAlloc_v2"));
  print("new", dlsym(driver, "cuMemAlloc_v2"));
  return 0;
}
