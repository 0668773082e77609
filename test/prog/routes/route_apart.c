/*
 * route_apart PLUGIN: everything that uses CUDA is in another namespace.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
  void *plugin = argc > 1 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : NULL;
  int (*run)(void) = plugin ? (int (*)(void))dlsym(plugin, "route_main") : NULL;

  if (run)
    return run();
  printf("route_apart: %s\n", dlerror());
  return 1;
}
