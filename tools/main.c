/*
 * gpupool: the command line tool. One table names the sub-commands.
 */
#include <cjson/cJSON.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output_file.h"
#include "tools/tool.h"

static const gp_command_t commands[] = {
    {"run", gp_command_run, gp_command_run_help, "run a program with its GPU memory pooled and recorded"},
    {"summary", gp_command_summary, gp_command_summary_help,
        "explain what happened, from a program's snapshot"},
    {"symbolize", gp_command_symbolize, gp_command_symbolize_help,
        "write a snapshot again with the names of its stack frames"},
    {"ps", gp_command_ps, gp_command_ps_help, "list the running programs and what they hold"},
    {"metrics", gp_command_metrics, gp_command_metrics_help, "print the same for Prometheus"},
    {"live", gp_command_live, gp_command_live_help, "watch a running program"},
    {"ctl", gp_command_ctl, gp_command_ctl_help, "send a request to a running program"},
    {"export", gp_command_export, gp_command_export_help, "write a snapshot in the format of another tool"},
    {"leaks", gp_command_leaks, gp_command_leaks_help,
        "list what was not freed, or grew between two snapshots"},
    {"sites", gp_command_sites, gp_command_sites_help, "list the code that asked for the memory"},
    {"frag", gp_command_frag, gp_command_frag_help, "map the pool's memory, and what is lost in it"},
    {"timeline", gp_command_timeline, gp_command_timeline_help, "draw the use of memory over time"},
    {"diff", gp_command_diff, gp_command_diff_help, "compare two snapshots"},
    {"html", gp_command_html, gp_command_html_help, "make a page for a browser of snapshots"},
    {"replay", gp_command_replay, gp_command_replay_help,
        "serve a recording's requests again, with other settings"},
    {"tune", gp_command_tune, gp_command_tune_help, "find the settings that serve recordings best"},
    {"recover", gp_command_recover, gp_command_recover_help, "make a snapshot of a program that was killed"},
    {"doctor", gp_command_doctor, gp_command_doctor_help, "say what keeps the library from its work here"},
    {"config", gp_command_config, gp_command_config_help, "print the options in effect"},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static int print_help(void)
{
  printf("gpupool pools the GPU memory of unmodified CUDA programs and reports what they\n"
         "did with it.\n"
         "\n"
         "usage: gpupool COMMAND [arguments]\n"
         "\n");
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    printf("  %-10s %s\n", commands[i].name, commands[i].summary);
  printf("  %-10s %s\n", "help", "print this, or the help of a command");
  printf("\n"
         "gpupool COMMAND --help explains a command; gpupool --version prints the version.\n"
         "Begin with:  gpupool run -- PROGRAM ARGS\n"
         "\n"
         "Exit status: 0 done; 1 findings, if asked for; 2 usage; 3 input that cannot be\n"
         "read; 4 partial input with --strict. gpupool run returns that of the program,\n"
         "or 125 (it failed itself), 126 or 127 (the program cannot be run, or found).\n");
  return GP_EXIT_DONE;
}

static const gp_command_t *find_command(const char *name)
{
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(commands[i].name, name) == 0)
      return &commands[i];
  }
  return NULL;
}

static int unknown_command(const char *name)
{
  const char *names[COMMAND_COUNT + 1];
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    names[i] = commands[i].name;
  names[COMMAND_COUNT] = "help";
  const char *nearest = gp_suggest_nearest(name, names, COMMAND_COUNT + 1);
  if (nearest)
    return gp_message_usage(NULL, "unknown command %s (did you mean %s?)", name, nearest);
  return gp_message_usage(NULL, "unknown command %s", name);
}

static int help(int argc, char **argv)
{
  if (argc < 2)
    return print_help();
  const gp_command_t *command = find_command(argv[1]);
  if (!command)
    return strcmp(argv[1], "help") == 0 ? print_help() : unknown_command(argv[1]);
  command->help();
  return GP_EXIT_DONE;
}

/* Output may be lost when stdout is flushed: a full disk must not look like success. */
static int finish(int status)
{
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  gp_message("the output could not be written");
  return status ? status : GP_EXIT_INPUT;
}

/* For cJSON. The commands build documents in hundreds of cJSON calls; a call that failed unnoticed would
 * leave a report without a member. */
static void *allocate_or_exit(size_t bytes)
{
  void *taken = malloc(bytes);
  if (taken)
    return taken;
  gp_message("JSON: there is no memory left");
  gp_part_file_remove();
  exit(GP_EXIT_INPUT); /* the exit handler of `gpupool live` restores the terminal */
}

int main(int argc, char **argv)
{
  (void)setlocale(LC_CTYPE, ""); /* selects the terminal's character set; without this call it is ASCII */
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = allocate_or_exit, .free_fn = free});
  if (argc < 2)
    return gp_message_usage(NULL, "a command is missing");
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return finish(print_help());
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    printf("gpupool %s\n", GP_VERSION);
    return finish(GP_EXIT_DONE);
  }
  if (strcmp(name, "help") == 0)
    return finish(help(argc - 1, argv + 1));
  const gp_command_t *command = find_command(name);
  if (!command)
    return name[0] == '-' ? gp_message_usage(NULL, "unknown option %s", name) : unknown_command(name);
  return finish(command->run(argc - 1, argv + 1));
}
