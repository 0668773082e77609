/*
 * A program that knows nothing of CUDA and loads plug-ins that are linked to runtimes, out of sight of each
 * other, and unloads them.
 *
 * runtime_plugins [weak] [call] [keep] PLUGIN...
 *
 * keep: the plug-ins that follow stay loaded. weak: first asks for the runtime in the ways in which a program
 * can that has none. call: calls cudaMalloc and cudaFree, which it refers to weakly, if they are there.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

__attribute__((weak)) int cudaMalloc(void **ret_address, size_t bytes);
__attribute__((weak)) int cudaFree(void *address);

static void call(void)
{
  void *address = (void *)8;

  if (!cudaMalloc || !cudaFree) {
    puts("no runtime");
    return;
  }
  int allocated = cudaMalloc(&address, 64);
  printf("cudaMalloc: %d, %p; cudaFree: %d\n", allocated, address, cudaFree(NULL));
}

static void look_up(void)
{
  static const char *const names[] = {"cudaMalloc", "cudaFree"};
  void *program = dlopen(NULL, RTLD_NOW);

  for (int i = 0; i < 2; i++) {
    int found[3], errors[3];
    void *const handles[3] = {RTLD_DEFAULT, RTLD_NEXT, program};
    for (int k = 0; k < 3; k++) {
      found[k] = dlsym(handles[k], names[i]) != NULL;
      errors[k] = dlerror() != NULL;
    }
    printf("%s: %d %d %d, errors %d %d %d\n", names[i], found[0], found[1], found[2], errors[0], errors[1],
        errors[2]);
  }
}

int main(int argc, char **argv)
{
  int keeps = 0;

  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "weak") == 0)
      look_up();
    else if (strcmp(argv[i], "call") == 0)
      call();
    else if (strcmp(argv[i], "keep") == 0)
      keeps = 1;
    if (argv[i][0] != '/')
      continue;
    void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    int (*run)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_main") : NULL;
    if (!run) {
      printf("%s\n", dlerror());
      return 1;
    }
    (void)run();
    (void)run();
    if (!keeps)
      dlclose(plugin);
  }
  return 0;
}
