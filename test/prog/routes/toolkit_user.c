/*
 * toolkit_user LIBRARY: loads one of the CUDA toolkit's libraries and makes it look for the driver. Prints
 * the result, which without a GPU is an error of the library's choice.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int call(void *library, const char *name, int *ret_result)
{
  static char room[4096]; /* handles, plans, communicators */
  void *function = dlsym(library, name);
  if (!function)
    return 0;
  if (strcmp(name, "cudaFree") == 0)
    *ret_result = ((int (*)(void *))function)(NULL);
  else if (strcmp(name, "cufftPlan1d") == 0)
    *ret_result = ((int (*)(void *, int, int, int))function)(room, 1024, 0x29 /* CUFFT_C2C */, 1);
  else if (strcmp(name, "ncclCommInitAll") == 0)
    *ret_result = ((int (*)(void *, int, const int *))function)(room, 1, NULL);
  else
    *ret_result = ((int (*)(void *))function)(room);
  return 1;
}

int main(int argc, char **argv)
{
  static const char *const names[] = {
      "cudaFree", "cublasCreate_v2", "cufftPlan1d", "ncclCommInitAll", "cusparseCreate", "cusolverDnCreate"};
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  int result;

  if (!library) {
    printf("toolkit_user: %s\n", dlerror());
    return 77;
  }
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (call(library, names[i], &result)) {
      printf("%s: %d\n", names[i], result);
      return 0;
    }
  return 1;
}
