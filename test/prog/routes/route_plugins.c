/*
 * A program that knows nothing of CUDA and loads plug-ins that do, each out of sight of the others.
 *
 * route_plugins [plain|deep|apart|...] PLUGIN...
 *
 * Calls route_main of each plug-in, one after the other, twice. The words say how those that follow are
 * loaded: plain; deep, with RTLD_DEEPBIND; apart, the first time in a namespace of its own (dlmopen).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *load(const char *plugin, const char *how, int round)
{
  if (strcmp(how, "apart") == 0 && round == 0)
    return dlmopen(LM_ID_NEWLM, plugin, RTLD_NOW);
  return dlopen(plugin, RTLD_NOW | RTLD_LOCAL | (strcmp(how, "deep") == 0 ? RTLD_DEEPBIND : 0));
}

int main(int argc, char **argv)
{
  int status = 0;

  printf("route_plugins: %d\n",
      getppid() > 0); /* a look-up of next that has nothing to do with CUDA, see wrapper.c */
  for (int round = 0; round < 2; round++) {
    const char *how = "plain";
    for (int i = 1; i < argc; i++) {
      if (argv[i][0] != '/') {
        how = argv[i];
        continue;
      }
      void *plugin = load(argv[i], how, round);
      int (*run)(void) = plugin ? (int (*)(void))dlsym(plugin, "route_main") : NULL;
      if (!run) {
        printf("route_plugins: %s\n", dlerror());
        return 1;
      }
      status |= run();
      fflush(stdout); /* another namespace has a buffer of its own, which is not written out at exit */
    }
  }
  return status;
}
