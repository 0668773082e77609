#include "tools/run/program_probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/path.h"
#include "tools/run/elf_facts.h"
#include "tools/run/launch.h"
#include "tools/shorten.h"

#define HEAD_BYTES 512

/* Finds the program that a "#!" line names; for "#!/usr/bin/env NAME", the program that env would find. */
static bool script_interpreter(int fd, char *buffer, size_t capacity)
{
  char head[HEAD_BYTES];
  ssize_t length = pread(fd, head, sizeof(head) - 1, 0);
  if (length < 3 || head[0] != '#' || head[1] != '!')
    return false;
  head[length] = '\0';
  head[strcspn(head, "\n")] = '\0';
  char *save;
  char *program = strtok_r(head + 2, " \t", &save);
  if (!program)
    return false;
  if (strcmp(gp_base_name(program), "env") == 0) {
    char *word = strtok_r(NULL, " \t", &save);
    while (word && (word[0] == '-' || strchr(word, '=')))
      word = strtok_r(NULL, " \t", &save);
    if (word && gp_launch_find(word, buffer, capacity) == 0)
      return true;
  }
  return (size_t)snprintf(buffer, capacity, "%s", program) < capacity;
}

bool gp_program_interpreter(const char *path, char *buffer, size_t capacity)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool is_script = fd >= 0 && script_interpreter(fd, buffer, capacity);
  if (fd >= 0)
    (void)close(fd); /* only read */
  return is_script;
}

static gp_probed_t probe_elf(
    const char *what, const gp_elf_facts_t *facts, const char *library, char *buffer, size_t capacity)
{
  gp_elf_facts_t ours, own;
  gp_elf_read_file(library, &ours);
  gp_elf_read_file("/proc/self/exe", &own);
  if (!facts->is_64) {
    snprintf(buffer, capacity, "%s is a 32-bit program; the library is 64-bit", what);
    return GP_PROBED_FOREIGN;
  }
  if (ours.is_elf && !gp_elf_is_alike(facts, &ours)) {
    snprintf(buffer, capacity, "%s is built for another kind of processor than the library", what);
    return GP_PROBED_FOREIGN;
  }
  if (!facts->has_interpreter) {
    snprintf(buffer, capacity, "%s is statically linked, so that no library can be preloaded", what);
    return GP_PROBED_STATIC;
  }
  if (own.has_interpreter && strcmp(gp_base_name(facts->interpreter), gp_base_name(own.interpreter)) != 0) {
    snprintf(buffer, capacity, "%s brings its own loader (%s), which does not take this library", what,
        facts->interpreter);
    return GP_PROBED_OWN_LOADER;
  }
  return GP_PROBED_NOTHING;
}

static gp_probed_t probe_script(const char *interpreter, const char *library, char *buffer, size_t capacity)
{
  char what[GP_PATH_BYTES + 32];
  gp_probed_t probed = GP_PROBED_NOTHING;
  gp_elf_facts_t facts;

  gp_elf_read_file(interpreter, &facts);
  snprintf(what, sizeof(what), "its interpreter %s", interpreter);
  if (facts.is_elf)
    probed = probe_elf(what, &facts, library, buffer, capacity);
  if (probed != GP_PROBED_NOTHING)
    return probed;
  snprintf(buffer, capacity,
      "it is a script for %s, and perhaps nothing that it started uses CUDA, or it clears LD_PRELOAD (gpupool run goes before the program in it then)",
      interpreter);
  return GP_PROBED_SCRIPT;
}

gp_probed_t gp_program_probe(const char *path, const char *library, char *buffer, size_t capacity)
{
  char interpreter[GP_PATH_BYTES];
  gp_probed_t probed = GP_PROBED_NOTHING;
  gp_elf_facts_t facts;
  struct stat status;

  buffer[0] = '\0';
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return GP_PROBED_NOTHING;
  gp_elf_read(fd, &facts);
  if (facts.is_elf && fstat(fd, &status) == 0 && status.st_mode & (S_ISUID | S_ISGID)) {
    snprintf(buffer, capacity, "it is a set%cid program, and the loader preloads nothing into those",
        status.st_mode & S_ISUID ? 'u' : 'g');
    probed = GP_PROBED_PRIVILEGED;
  } else if (facts.is_elf && fgetxattr(fd, "security.capability", NULL, 0) > 0) {
    snprintf(
        buffer, capacity, "its file has capabilities, and the loader preloads nothing into such programs");
    probed = GP_PROBED_PRIVILEGED;
  } else if (facts.is_elf) {
    probed = probe_elf("it", &facts, library, buffer, capacity);
  } else if (script_interpreter(fd, interpreter, sizeof(interpreter))) {
    probed = probe_script(interpreter, library, buffer, capacity);
  }
  (void)close(fd); /* only read */
  return probed;
}
