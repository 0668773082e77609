/*
 * gpupool doctor: checks whether the library works here and with a given program, and says what to change.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "tools/arguments.h"
#include "tools/doctor/checks.h"
#include "tools/run/launch.h"
#include "tools/run/preload.h"
#include "tools/tool.h"

#define LIST_BYTES 65536

static void print_help(void)
{
  printf("usage: gpupool doctor [--json] [[--] PROGRAM [ARGS]]\n"
         "\n"
         "Checks whether the library can work here, one line per check, and says what to\n"
         "change where it cannot: the library and what else is preloaded, the settings,\n"
         "the driver and its devices, room for the record, limits of the container. With\n"
         "PROGRAM also whether the library reaches it, and which variable brings its\n"
         "framework's memory to the pool. PROGRAM is not started.\n"
         "\n"
         "Exit status: 0 nothing needs to be changed; 1 something does; 2 usage, or\n"
         "PROGRAM was not found.\n"
         "\n"
         "  --json\n"
         "      one JSON document: {\"checks\": [{\"name\", \"state\", \"text\", \"remedy\"}]};\n"
         "      state is ok, note (works, may be better otherwise) or change\n");
}

typedef struct settings {
  gp_checks_t *checks;
  bool has_problem;
} settings_t;

static void report_setting(void *arg, bool malformed, const char *message)
{
  settings_t *settings = arg;
  settings->has_problem = true;
  gp_checks_add(settings->checks, "settings", malformed ? GP_CHECK_BAD : GP_CHECK_NOTE, "%s", message);
}

static void check_settings(gp_checks_t *checks, gp_options_t *options)
{
  settings_t settings = {checks, false};
  gp_arguments_t none = {0};
  char text[GP_CHECK_TEXT_BYTES] = "";
  size_t used = 0;

  gp_arguments_read(&none, options, report_setting, &settings);
  for (int id = 0; id < GP_OPTION_COUNT && used < sizeof(text); id++) {
    if (options->values[id].source != GP_OPTION_FROM_DEFAULT)
      used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s", used ? ", " : "",
          gp_option_table[id].variable, options->values[id].text);
  }
  if (gp_option_number(options, GP_OPTION_disable)) {
    gp_checks_add(checks, "settings", GP_CHECK_BAD, "GPUPOOL_DISABLE=1 switches the library off");
    gp_checks_remedy(checks, "unset GPUPOOL_DISABLE");
  } else if (!settings.has_problem) {
    gp_checks_add(checks, "settings", GP_CHECK_GOOD, "%s", used ? text : "all at their defaults");
  }
}

static void report_conflict(void *arg, const char *what, const char *remedy)
{
  gp_checks_t *checks = arg;
  gp_checks_add(checks, "preloads", GP_CHECK_BAD, "%s", what);
  gp_checks_remedy(checks, "%s", remedy);
}

static void check_conflicts(gp_checks_t *checks)
{
  size_t before = checks->count;
  gp_conflicts_find(getenv("LD_PRELOAD"), GP_LD_SO_PRELOAD, report_conflict, checks);
  if (checks->count == before)
    gp_checks_add(checks, "preloads", GP_CHECK_GOOD, "nothing else hooks or watches CUDA calls");
}

/* Parses argv up to the program. Returns the program's index, or argc if there is no program. Returns -1 on
 * an error, and sets *ret_status to the exit status. */
static int parse(int argc, char **argv, bool *ret_json, int *ret_status)
{
  static const char *const names[] = {"json", "help"};

  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--") == 0)
      return i + 1;
    if (argv[i][0] != '-')
      return i;
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      print_help();
      *ret_status = GP_EXIT_DONE;
      return -1;
    }
    if (strcmp(argv[i], "--json") != 0) {
      *ret_status = gp_message_unknown_option("doctor", argv[i], names, sizeof(names) / sizeof(names[0]));
      return -1;
    }
    *ret_json = true;
  }
  return argc;
}

int gp_command_doctor(int argc, char **argv)
{
  static gp_checks_t checks;
  static gp_options_t options;
  static char list[LIST_BYTES];
  char library[GP_PATH_BYTES], path[GP_PATH_BYTES];
  bool has_json = false;
  int status = GP_EXIT_DONE;

  int next = parse(argc, argv, &has_json, &status);
  if (next < 0)
    return status;
  char *const *program = next < argc ? argv + next : NULL;
  if (program && gp_launch_find(program[0], path, sizeof(path)))
    return gp_message_usage("doctor", "%s: no such program, or it is not executable", program[0]);
  checks.count = 0;
  check_conflicts(&checks);
  if (gp_preload_find(library, sizeof(library))) {
    gp_check_preload(&checks, library, program ? path : NULL, list, sizeof(list));
  } else {
    gp_checks_add(&checks, "library", GP_CHECK_BAD, "libgpupool.so was not found next to this tool");
    gp_checks_remedy(&checks, "reinstall gpupool, including the library");
    library[0] = '\0';
  }
  check_settings(&checks, &options);
  gp_check_driver(&checks);
  gp_check_place(&checks, &options);
  if (program)
    gp_check_program(&checks, library, path, program, list);
  status = GP_EXIT_DONE;
  if (has_json)
    status = gp_checks_print_json(&checks);
  else
    gp_checks_print(&checks);
  for (size_t i = 0; i < checks.count && status == GP_EXIT_DONE; i++)
    if (checks.items[i].state == GP_CHECK_BAD)
      status = GP_EXIT_FINDINGS;
  return status;
}
