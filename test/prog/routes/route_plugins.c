/*
 * A program that knows nothing of CUDA and loads plug-ins that do, each out of sight of the others.
 *
 * route_plugins [deep] PLUGIN...    calls route_main of each, one after the other, twice; deep: with RTLD_DEEPBIND
 * route_plugins apart PLUGIN...     likewise, but the first time in a namespace of its own (dlmopen)
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
  int status = 0;
  int first = 1;
  int flags = RTLD_NOW | RTLD_LOCAL;
  int apart = argc > 1 && strcmp(argv[1], "apart") == 0;

  if (argc > 1 && strcmp(argv[1], "deep") == 0)
    flags |= RTLD_DEEPBIND;
  if (apart || flags & RTLD_DEEPBIND)
    first = 2;
  printf("route_plugins: %d\n", getppid() > 0); /* a look-up of next that has nothing to do with CUDA, see wrapper.c */
  for (int round = 0; round < 2; round++)
    for (int i = first; i < argc; i++) {
      void *plugin = apart && round == 0 ? dlmopen(LM_ID_NEWLM, argv[i], RTLD_NOW) : dlopen(argv[i], flags);
      int (*run)(void) = plugin ? (int (*)(void))dlsym(plugin, "route_main") : NULL;
      if (!run) {
        printf("route_plugins: %s\n", dlerror());
        return 1;
      }
      status |= run();
      fflush(stdout); /* another namespace has a buffer of its own, which nobody writes out at exit */
    }
  return status;
}
