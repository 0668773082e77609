/*
 * Calls the driver of driver.c: program linked | opened | none. It is linked to the driver, and `opened`
 * looks the functions up. Prints what it got.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags);
int cuMemAlloc_v2(unsigned long long *ret_address, unsigned long bytes);
int cuMemFree_v2(unsigned long long address);

int main(int argc, char **argv)
{
  const char *way = argc > 1 ? argv[1] : "none";
  __typeof__(&cuInit) init = cuInit;
  __typeof__(&cuMemAlloc_v2) allocate = cuMemAlloc_v2;
  __typeof__(&cuMemFree_v2) release = cuMemFree_v2;
  unsigned long long address = 0;

  printf("%d\n", dlsym(RTLD_DEFAULT, "puts") == (void *)puts);
  if (strcmp(way, "none") == 0)
    return 0;
  if (strcmp(way, "opened") == 0) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
      return 2;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&release = dlsym(driver, "cuMemFree_v2");
  }
  printf("%d", init(0));
  printf(" %d", allocate(&address, 4096));
  printf(" %llx", address);
  printf(" %d\n", release(address));
  return 3;
}
