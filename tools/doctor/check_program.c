#include "tools/doctor/checks.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "tools/run/launch.h"
#include "tools/run/preload.h"
#include "tools/run/program_probe.h"
#include "tools/shorten.h"

static const struct {
  const char *name;
  const char *modules;
  const char *library;
  const char *settings;
  const char *remedy;
} frameworks[] = {
#define FRAMEWORK(name, modules, library, settings, remedy) {name, modules, library, settings, remedy},
#include "tools/model/framework.def"
};
#define FRAMEWORK_COUNT (sizeof(frameworks) / sizeof(frameworks[0]))

/* For each framework, where it was found; "" if it was not found. */
typedef struct found {
  char where[FRAMEWORK_COUNT][GP_PATH_BYTES];
} found_t;

static bool is_word_character(char c)
{
  return isalnum((unsigned char)c) || c == '_';
}

/* Returns true if text[0..length) contains one of `words`, separated by blanks, as a whole word. */
static bool has_word(const char *text, size_t length, const char *words)
{
  for (size_t size; *words; words += size, words += strspn(words, " ")) {
    size = strcspn(words, " ");
    for (size_t i = 0; i + size <= length; i++) {
      if (strncmp(text + i, words, size) == 0 &&
          (i == 0 || !(is_word_character(text[i - 1]) || text[i - 1] == '.')) &&
          (i + size == length || !is_word_character(text[i + size])))
        return true;
    }
  }
  return false;
}

static void note(found_t *found, const char *text, size_t length, const char *where)
{
  for (size_t i = 0; i < FRAMEWORK_COUNT; i++)
    if (!found->where[i][0] && has_word(text, length, frameworks[i].modules))
      snprintf(found->where[i], sizeof(found->where[i]), "%s", where);
}

/* Records the frameworks that a statement "import ..." or "from ..." imports. */
static void read_statement(found_t *found, const char *text, size_t length, const char *where)
{
  while (length > 0 && isspace((unsigned char)text[0])) {
    text++;
    length--;
  }
  if (length > 7 && (strncmp(text, "import ", 7) == 0 || strncmp(text, "from ", 5) == 0))
    note(found, text + 5, length - 5, where);
}

static void read_code(found_t *found, const char *code, const char *where)
{
  for (size_t length; *code; code += length, code += *code != '\0') {
    length = strcspn(code, "\n;");
    read_statement(found, code, length, where);
  }
}

static void read_source(found_t *found, const char *path)
{
  char line[4096];
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof(line), file))
    read_code(found, line, path);
  if (file)
    (void)fclose(file); /* read-only, so no data is lost */
}

static bool ends_in(const char *text, const char *end)
{
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Records the frameworks in the Python sources on the command line: the program's script, .py arguments, -m
 * MODULE and -c CODE. */
static void read_sources(found_t *found, const char *path, char *const argv[])
{
  char interpreter[GP_PATH_BYTES];

  if (gp_program_interpreter(path, interpreter, sizeof(interpreter)) &&
      strstr(gp_base_name(interpreter), "python"))
    read_source(found, path);
  for (int i = 1; argv[i]; i++) {
    if (ends_in(argv[i], ".py"))
      read_source(found, argv[i]);
    else if (strcmp(argv[i], "-m") == 0 && argv[i + 1])
      note(found, argv[i + 1], strlen(argv[i + 1]), "-m");
    else if (strcmp(argv[i], "-c") == 0 && argv[i + 1])
      read_code(found, argv[i + 1], "-c");
  }
}

/* Returns true if an environment variable contains the part that `settings` ("NAME=PART ...") has for it. */
static bool is_set(const char *settings)
{
  char name[64], part[64];
  int used;

  for (; sscanf(settings, " %63[^= ]=%n", name, &used) == 1; settings += used) {
    settings += used;
    used = (int)strcspn(settings, " ");
    snprintf(part, sizeof(part), "%.*s", used, settings);
    const char *value = getenv(name);
    if (value && strstr(value, part))
      return true;
  }
  return false;
}

static void check_frameworks(gp_checks_t *checks, const char *path, char *const argv[], const char *list)
{
  static found_t found;

  memset(&found, 0, sizeof(found));
  read_sources(&found, path, argv);
  for (size_t i = 0; i < FRAMEWORK_COUNT; i++) {
    if (!found.where[i][0] && strstr(list, frameworks[i].library))
      snprintf(found.where[i], sizeof(found.where[i]), "%s", frameworks[i].library);
    if (!found.where[i][0])
      continue;
    bool reaches = is_set(frameworks[i].settings);
    gp_checks_add(checks, "framework", reaches ? GP_CHECK_GOOD : GP_CHECK_NOTE, "%s (%s) %s",
        frameworks[i].name, found.where[i],
        reaches
            ? "requests each tensor from CUDA, as set"
            : "caches GPU memory itself: limit and record apply, but the pool sees its segments, not tensors");
    if (!reaches)
      gp_checks_remedy(checks, "%s", frameworks[i].remedy);
  }
}

/* Reports the first program in a shell script that starts others without passing on the environment. */
static void check_script(gp_checks_t *checks, const char *path, const char *library)
{
  static const char separators[] = " \t\n;&|()`\"'";
  char line[4096], loses[GP_LAUNCHER_BYTES], interpreter[GP_PATH_BYTES];
  bool has_any = false;

  if (!gp_program_interpreter(path, interpreter, sizeof(interpreter)) || !ends_in(interpreter, "sh"))
    return;
  FILE *file = fopen(path, "re");
  while (file && !has_any && fgets(line, sizeof(line), file)) {
    char *save;
    if (line[strspn(line, " \t")] == '#')
      continue;
    for (char *word = strtok_r(line, separators, &save); word && !has_any;
         word = strtok_r(NULL, separators, &save)) {
      char *const words[] = {word, NULL};
      has_any = gp_launcher_loses(words, library, loses);
    }
  }
  if (file)
    (void)fclose(file); /* read-only, so no data is lost */
  if (has_any)
    gp_checks_add(checks, "children", GP_CHECK_NOTE, "in %s: %s", path, loses);
}

/* Checks the libraries that the loader would load for the program. */
static void check_libraries(gp_checks_t *checks, const char *list)
{
  char name[GP_PATH_BYTES], where[GP_PATH_BYTES];

  for (const char *line = list; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    if (sscanf(line, " %1023s => %1023[^\n]", name, where) != 2)
      continue;
    if (strcmp(where, "not found") == 0) {
      gp_checks_add(checks, "libraries", GP_CHECK_BAD, "%s is not found: the program will not start", name);
      gp_checks_remedy(checks, "add its folder to LD_LIBRARY_PATH, or install it");
    } else if (strstr(where, "/stubs/libcuda.so")) {
      gp_checks_add(
          checks, "libraries", GP_CHECK_BAD, "%s is the toolkit's stub for linking, not the driver", where);
      gp_checks_remedy(checks, "take its folder out of LD_LIBRARY_PATH and of the program's rpath");
    } else if (gp_conflict_comes_first(name) && !strstr(getenv("LD_PRELOAD"), name)) {
      where[strcspn(where, " ")] = '\0';
      gp_checks_add(checks, "libraries", GP_CHECK_BAD,
          "AddressSanitizer (%s) ends the program, because it is not the first library", name);
      gp_checks_remedy(
          checks, "LD_PRELOAD=%s gpupool run -- PROGRAM, or ASAN_OPTIONS=verify_asan_link_order=0", where);
    }
  }
}

static const char *remedy_of(gp_probed_t probed)
{
  switch (probed) {
  case GP_PROBED_FOREIGN: return "build the program and gpupool for the same processor";
  case GP_PROBED_PRIVILEGED:
    return "run a copy of the program without the set-id bit and capabilities, as a user who may do what it does";
  case GP_PROBED_STATIC: return "link it dynamically (with Go, CGO_ENABLED=1)";
  case GP_PROBED_OWN_LOADER: return "use a build for glibc: NVIDIA makes no driver for another C library";
  case GP_PROBED_NOTHING:
  case GP_PROBED_SCRIPT: break;
  }
  return NULL;
}

void gp_check_program(
    gp_checks_t *checks, const char *library, const char *path, char *const argv[], const char *list)
{
  char reason[2 * GP_PATH_BYTES], loses[GP_LAUNCHER_BYTES];
  const char *remedy = remedy_of(gp_program_probe(path, library, reason, sizeof(reason)));

  if (remedy) {
    gp_checks_add(checks, "program", GP_CHECK_BAD, "%s: %s", path, reason);
    gp_checks_remedy(checks, "%s", remedy);
    return;
  }
  if (gp_launcher_loses(argv, library, loses))
    gp_checks_add(checks, "program", GP_CHECK_BAD, "%s", loses);
  else
    gp_checks_add(checks, "program", GP_CHECK_GOOD, "%s can be preloaded", path);
  check_libraries(checks, list);
  check_script(checks, path, library);
  check_frameworks(checks, path, argv, list);
}
