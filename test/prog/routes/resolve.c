/*
 * Asks for functions of the driver in unusual ways and prints what it finds, in a form that does not depend
 * on who answers.
 *
 * resolve none                      a program without a driver: dlsym finds no function of one
 * resolve global NAME...            the driver is loaded for all to see: does it have these?
 * resolve owners NAME...             whose functions the driver's handle gives
 * resolve two DRIVER                another driver, too: whose is the function that each of the two gives?
 * resolve corners                   cuGetProcAddress with arguments that are missing, empty, too new, wrong;
 * before cuInit resolve call NAME VERSION FLAGS   resolves one and calls it with zeroes: the driver's log
 * says which variant it was
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*proc1_t)(const char *name, void **function, int version, unsigned long long flags);
typedef int (*proc2_t)(const char *name, void **function, int version, unsigned long long flags, int *status);
typedef int (*any_t)(long, long, long, long, long, long);

static void print_found(const char *how, void *handle, const char *name)
{
  (void)dlerror();
  void *function = dlsym(handle, name);
  printf("%s %s: %s, %s\n", how, name, function ? "found" : "none", dlerror() ? "error" : "no error");
}

static void print_owner(const void *function)
{
  Dl_info info;
  printf("%s\n", function && dladdr(function, &info) ? strrchr(info.dli_fname, '/') + 1 : "nobody");
}

static void look_everywhere(const char *name)
{
  void *program = dlopen(NULL, RTLD_NOW);
  print_found("RTLD_DEFAULT", RTLD_DEFAULT, name);
  print_found("RTLD_NEXT", RTLD_NEXT, name);
  print_found("the program", program, name);
}

static void print_answer(int result, void *const *function, int status)
{
  const char *what = !function ? "-" : !*function ? "none" : *function == (void *)1 ? "untouched" : "found";
  printf("%d %s %d\n", result, what, status);
}

static void ask(proc2_t proc2, const char *name, int version, unsigned long long flags)
{
  void *function = (void *)1;
  int status = 77;
  int result = proc2(name, &function, version, flags, &status);
  print_answer(result, &function, status);
  function = (void *)1;
  result = proc2(name, &function, version, flags, NULL);
  print_answer(result, &function, 77);
  print_answer(proc2(name, NULL, version, flags, NULL), NULL, 77);
}

static void corners(void *driver)
{
  static const char *const names[] = {NULL, "", "cu", "cuMemAlloc", "cuMemAlloc_v2", "cuMemAllocX",
      "cuGetProcAddress", "cuCtxSynchronize", "cublasCreate", "malloc"};
  static const int versions[] = {0, 1, 2000, 3020, 11030, 12000, 13000, 13010, 99990, -1};
  static const unsigned long long flags[] = {0, 1, 2, 3, 1ULL << 40};
  proc1_t proc1 = (proc1_t)dlsym(driver, "cuGetProcAddress");
  proc2_t proc2 = (proc2_t)dlsym(driver, "cuGetProcAddress_v2");

  for (size_t i = 0; proc2 && i < sizeof(names) / sizeof(names[0]); i++)
    for (size_t k = 0; k < sizeof(versions) / sizeof(versions[0]); k++)
      for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
        void *function = (void *)1;
        printf("%s %d %llu: ", names[i] ? names[i] : "NULL", versions[k], flags[f]);
        ask(proc2, names[i], versions[k], flags[f]);
        int result = proc1(names[i], &function, versions[k], flags[f]);
        print_answer(result, &function, 77);
      }
}

int main(int argc, char **argv)
{
  const char *how = argc > 1 ? argv[1] : "";

  if (strcmp(how, "none") == 0) {
    look_everywhere("cuMemAlloc_v2");
    look_everywhere("cuInit");
    look_everywhere("cublasCreate_v2");
    return 0;
  }
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!driver) {
    printf("resolve: no driver\n");
    return 1;
  }
  for (int i = 2; strcmp(how, "global") == 0 && i < argc; i++)
    look_everywhere(argv[i]);
  for (int i = 2; strcmp(how, "owners") == 0 && i < argc; i++) {
    printf("%s: ", argv[i]);
    print_owner(dlsym(driver, argv[i]));
  }
  if (strcmp(how, "two") == 0 && argc == 3) {
    print_owner(dlsym(driver, "cuMemAlloc_v2"));
    print_owner(dlsym(dlopen(argv[2], RTLD_NOW | RTLD_LOCAL), "cuMemAlloc_v2"));
  }
  if (strcmp(how, "corners") == 0)
    corners(driver);
  if (strcmp(how, "call") == 0 && argc == 5) {
    proc2_t proc2 = (proc2_t)dlsym(driver, "cuGetProcAddress_v2");
    void *function = NULL;
    int result = proc2(argv[2], &function, atoi(argv[3]), strtoull(argv[4], NULL, 0), NULL);
    printf("%d %s\n", result, function ? "found" : "none");
    if (function)
      printf("%d\n", ((any_t)function)(0, 0, 0, 0, 0, 0));
  }
  return 0;
}
