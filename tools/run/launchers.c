#include "tools/run/launchers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/run/program_probe.h"
#include "tools/shorten.h"

typedef struct launcher {
  const char *name;
  const char *loses;
  const char *remedy; /* LIBRARY stands for the path of the library */
} launcher_t;

#define CONTAINER   "starts programs in a container, which has neither this environment nor this library"
#define ENVIRONMENT "starts programs without this LD_PRELOAD"

static const launcher_t launchers[] = {
    {"docker", CONTAINER, "docker run -v LIBRARY:LIBRARY:ro -e LD_PRELOAD=LIBRARY ..."},
    {"podman", CONTAINER, "podman run -v LIBRARY:LIBRARY:ro -e LD_PRELOAD=LIBRARY ..."},
    {"nerdctl", CONTAINER, "nerdctl run -v LIBRARY:LIBRARY:ro -e LD_PRELOAD=LIBRARY ..."},
    {"kubectl", CONTAINER, "doc/roll-out.md has a pod that brings LIBRARY"},
    {"apptainer", CONTAINER, "apptainer exec --bind LIBRARY --env LD_PRELOAD=LIBRARY ..."},
    {"singularity", CONTAINER, "singularity exec --bind LIBRARY --env LD_PRELOAD=LIBRARY ..."},
    {"sudo", ENVIRONMENT, "sudo gpupool run -- PROGRAM"},
    {"su", ENVIRONMENT, "su USER -c 'gpupool run -- PROGRAM'"},
    {"doas", ENVIRONMENT, "doas gpupool run -- PROGRAM"},
    {"ssh", ENVIRONMENT, "ssh HOST gpupool run -- PROGRAM"},
    {"systemd-run", ENVIRONMENT, "systemd-run gpupool run -- PROGRAM"},
};

/* The folder that chroot changes to: its first argument that is no option. */
static const char *new_root(char *const argv[])
{
  for (argv++; *argv; argv++) {
    if (strcmp(*argv, "--") == 0)
      return argv[1];
    if ((*argv)[0] != '-')
      return *argv;
  }
  return NULL;
}

static void expand(const char *remedy, const char *library, char *buffer, size_t capacity)
{
  static const char word[] = "LIBRARY";
  const char *at;

  buffer[0] = '\0';
  for (; (at = strstr(remedy, word)) != NULL; remedy = at + sizeof(word) - 1) {
    int used = snprintf(buffer, capacity, "%.*s%s", (int)(at - remedy), remedy, library);
    if (used < 0 || (size_t)used >= capacity)
      return;
    buffer += used;
    capacity -= (size_t)used;
  }
  snprintf(buffer, capacity, "%s", remedy);
}

bool gp_launcher_loses(char *const argv[], const char *library, char buffer[static GP_LAUNCHER_BYTES])
{
  char inside[2 * GP_PATH_BYTES];
  const char *name = gp_base_name(argv[0]);

  if (strcmp(name, "chroot") == 0) {
    const char *root = new_root(argv);
    if (!root)
      return false;
    snprintf(inside, sizeof(inside), "%s%s", root, library);
    if (access(inside, R_OK) == 0)
      return false;
    snprintf(buffer, GP_LAUNCHER_BYTES,
        "%s does not exist, so what starts in %s runs without the library; copy %s there", inside, root,
        library);
    return true;
  }
  for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
    if (strcmp(name, launchers[i].name) != 0)
      continue;
    int used = snprintf(buffer, GP_LAUNCHER_BYTES, "%s %s; type instead: ", name, launchers[i].loses);
    expand(launchers[i].remedy, library, buffer + used, GP_LAUNCHER_BYTES - (size_t)used);
    return true;
  }
  return false;
}
