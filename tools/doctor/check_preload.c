#include "tools/doctor/checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "tools/run/preload.h"
#include "tools/run/program_probe.h"
#include "tools/shorten.h"

#define SECONDS_MOST 20

/* Runs the dynamic loader with `argv`, and stores its stdout and stderr in `text`, truncated to
 * `capacity`. */
static void list_loaded(char *const argv[], char *text, size_t capacity)
{
  int ends[2];
  size_t used = 0;
  ssize_t got;

  text[0] = '\0';
  if (pipe(ends))
    return;
  (void)fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    (void)alarm(SECONDS_MOST);                       /* the alarm survives execv */
    (void)setenv("LD_TRACE_LOADED_OBJECTS", "1", 1); /* as for ldd: lists libraries, starts nothing */
    (void)dup2(ends[1], STDOUT_FILENO);
    (void)dup2(ends[1], STDERR_FILENO);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)execv(argv[0], argv);
    _exit(127);
  }
  (void)close(ends[1]);
  while (pid > 0 && used + 1 < capacity && (got = read(ends[0], text + used, capacity - 1 - used)) > 0)
    used += (size_t)got;
  text[used] = '\0';
  (void)close(ends[0]);
  if (pid > 0)
    (void)waitpid(pid, NULL, 0); /* cannot fail: our own child */
}

/* Chooses the file whose loader to run: the program, a script's interpreter, or this tool if the program's
 * loader cannot load the library. */
static void choose_file(const char *program, const char *library, char *file, size_t capacity)
{
  char reason[2 * GP_PATH_BYTES];
  gp_probed_t probed =
      program ? gp_program_probe(program, library, reason, sizeof(reason)) : GP_PROBED_STATIC;

  if (probed == GP_PROBED_SCRIPT && gp_program_interpreter(program, file, capacity))
    return;
  if (probed == GP_PROBED_NOTHING && (size_t)snprintf(file, capacity, "%s", program) < capacity)
    return;
  ssize_t length = readlink("/proc/self/exe", file, capacity - 1);
  file[length > 0 ? length : 0] = '\0';
}

/* Copies the first line of `text` that contains `word` to `line`, or "" if there is none. Returns `line`. */
static const char *line_with(const char *text, const char *word, char *line, size_t capacity)
{
  const char *at = strstr(text, word);
  line[0] = '\0';
  if (!at)
    return line;
  while (at > text && at[-1] != '\n')
    at--;
  at += strspn(at, " \t");
  snprintf(line, capacity, "%.*s", (int)strcspn(at, "\n"), at);
  return line;
}

static void report_not_loaded(gp_checks_t *checks, const char *library, const char *file, const char *list)
{
  char line[GP_CHECK_TEXT_BYTES / 2];

  if (!line_with(list, library, line, sizeof(line))[0])
    snprintf(line, sizeof(line), "the loader does not report it");
  gp_checks_add(checks, "library", GP_CHECK_BAD, "%s is not loaded with %s: %s", library, file, line);
  if (strstr(line, "failed to map"))
    gp_checks_remedy(checks, "its file system is mounted noexec: install it elsewhere");
  else if (strstr(line, "version `"))
    gp_checks_remedy(checks, "this C library is older than glibc 2.17, the oldest that gpupool supports");
  else
    gp_checks_remedy(checks, "copy the library to a path that every user can read");
}

/* Reports entries in the user's LD_PRELOAD whose path to the library the loader cannot find. With such an
 * entry, programs run without the library. */
static void check_named(
    gp_checks_t *checks, const char *library, const char *loader, char *list, size_t capacity)
{
  char tool[] = "/proc/self/exe", said[GP_PATH_BYTES + 32];
  char *const argv[] = {(char *)(uintptr_t)loader, tool, NULL};
  const char *preload = getenv("LD_PRELOAD");
  char *copy = strdup(preload ? preload : ""), *save;

  list_loaded(argv, list, capacity);
  for (char *entry = copy ? strtok_r(copy, GP_PRELOAD_SEPARATORS, &save) : NULL; entry;
       entry = strtok_r(NULL, GP_PRELOAD_SEPARATORS, &save)) {
    snprintf(said, sizeof(said), "object '%s' from LD_PRELOAD", entry);
    if (strcmp(gp_base_name(entry), gp_base_name(library)) != 0 || !strstr(list, said))
      continue;
    gp_checks_add(
        checks, "preload", GP_CHECK_BAD, "the loader does not find %s; programs run without it", entry);
    gp_checks_remedy(checks, "LD_PRELOAD=%s", library);
  }
  free(copy);
}

void gp_check_preload(
    gp_checks_t *checks, const char *library, const char *program, char *list, size_t capacity)
{
  char file[GP_PATH_BYTES], wanted[GP_PATH_BYTES + 8];
  gp_elf_facts_t facts;

  list[0] = '\0';
  choose_file(program, library, file, sizeof(file));
  gp_elf_read_file(file, &facts);
  if (strpbrk(library, GP_PRELOAD_SEPARATORS)) {
    gp_checks_add(
        checks, "library", GP_CHECK_BAD, "%s: the loader accepts no path with a space or a colon", library);
    gp_checks_remedy(checks, "install it elsewhere");
    return;
  }
  check_named(checks, library, facts.interpreter, list, capacity);
  if (!gp_preload_set(library))
    return; /* memory ran out; a message was printed */
  char *argv[] = {facts.interpreter, file, NULL};
  list_loaded(argv, list, capacity);
  snprintf(wanted, sizeof(wanted), "%s (0x", library);
  if (strstr(list, wanted))
    gp_checks_add(checks, "library", GP_CHECK_GOOD, "%s is loaded by %s", library, facts.interpreter);
  else
    report_not_loaded(checks, library, file, list);
}
