/*
 * namesake_user LIBRARY: calls the library's function that only happens to be called as one of the driver's.
 * Then loads the driver, and prints whose function it gets from that.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*add)(int) = library ? (int (*)(int))dlsym(library, "cuMemAlloc_v2") : NULL;

  printf("%d\n", add ? add(41) : -1);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *alloc = driver ? dlsym(driver, "cuMemAlloc_v2") : NULL;
  Dl_info info;
  if (!alloc || !dladdr(alloc, &info))
    return 1;
  printf("%s\n", strrchr(info.dli_fname, '/') + 1);
  return 0;
}
