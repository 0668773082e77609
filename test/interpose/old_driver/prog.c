/*
 * Resolves functions of the driver named on the command line the way careful programs do, with dlerror() as
 * judge, and calls an allocation that cannot be pooled because the driver cannot even name a context.
 */
#include <dlfcn.h>
#include <stdio.h>

typedef int (*alloc_fn)(unsigned long long *pointer, unsigned long bytes);

static void *look_up(void *handle, const char *name)
{
  (void)dlerror();
  void *function = dlsym(handle, name);
  const char *error = dlerror();
  printf("%s: %s, %s\n", name, function ? "found" : "not found", error ? "error" : "no error");
  return function;
}

int main(int argc, char **argv)
{
  unsigned long long pointer = 0;
  void *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

  if (!handle) {
    printf("cannot load the driver: %s\n", dlerror());
    return 1;
  }
  alloc_fn alloc = (alloc_fn)look_up(handle, "cuMemAlloc_v2");
  (void)look_up(handle, "cuMemFree_v2");
  (void)look_up(handle, "cuInit");
  (void)look_up(handle, "no_such_function");
  (void)look_up(RTLD_DEFAULT, "no_such_function");
  (void)look_up(handle, "cuMemAlloc_v2");
  if (alloc) {
    int code = alloc(&pointer, 64);
    printf("alloc: %d, %#llx\n", code, pointer);
  }
  return 0;
}
