/*
 * gpupool: the command line tool. A table lists the subcommands.
 */
#include <cjson/cJSON.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output_file.h"
#include "tools/tool.h"

typedef struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} command_t;

static const command_t commands[] = {
    {"run", gp_command_run, "run a program with its GPU memory pooled and recorded"},
    {"summary", gp_command_summary, "explain what happened, from a program's snapshot"},
    {"symbolize", gp_command_symbolize, "write a snapshot again with the names of its stack frames"},
    {"ps", gp_command_ps, "list the running programs and their GPU memory"},
    {"metrics", gp_command_metrics, "print the same for Prometheus"},
    {"live", gp_command_live, "watch running programs"},
    {"ctl", gp_command_ctl, "send a request to a running program"},
    {"export", gp_command_export, "write a snapshot in the format of another tool"},
    {"leaks", gp_command_leaks, "list what was not freed, or grew between two snapshots"},
    {"sites", gp_command_sites, "list the code that allocated the memory"},
    {"frag", gp_command_frag, "map the pool's memory and its fragmentation"},
    {"timeline", gp_command_timeline, "draw memory use over time"},
    {"diff", gp_command_diff, "compare two snapshots"},
    {"html", gp_command_html, "make a page for a browser from snapshots"},
    {"replay", gp_command_replay, "replay a recording with other settings"},
    {"tune", gp_command_tune, "find the pool type that serves a recording best"},
    {"recover", gp_command_recover, "make the snapshot of a program that was killed"},
    {"doctor", gp_command_doctor, "check whether the library can work here"},
    {"config", gp_command_config, "print the options in effect"},
    {"path", gp_command_path, "print the path of the library, for LD_PRELOAD"},
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
         "Exit status: 0 done; 1 findings, if requested; 2 usage; 3 input that cannot be\n"
         "read; 4 partial input with --strict. gpupool run returns that of the program,\n"
         "or 125 (it failed itself), 126 or 127 (the program cannot be run, or found).\n");
  return GP_EXIT_DONE;
}

static const command_t *find_command(const char *name)
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
  const command_t *command = find_command(argv[1]);
  if (!command)
    return strcmp(argv[1], "help") == 0 ? print_help() : unknown_command(argv[1]);
  return command->run(2, (char *[]){argv[1], (char[]){"--help"}, NULL});
}

/* Flushes stdout and returns the exit status, which is not success if that fails, as on a full disk. */
static int finish(int status)
{
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  gp_message("the output could not be written");
  return status ? status : GP_EXIT_INPUT;
}

/* Allocates memory for cJSON, and exits if memory runs out. The commands make hundreds of cJSON calls without
 * checking the result. An unnoticed failure would leave a member out of a report. */
static void *allocate_or_exit(size_t bytes)
{
  void *taken = malloc(bytes);
  if (taken)
    return taken;
  gp_message("JSON: out of memory");
  gp_part_file_remove();
  exit(GP_EXIT_INPUT); /* the exit handler of `gpupool live` restores the terminal */
}

int main(int argc, char **argv)
{
  (void)setlocale(LC_CTYPE, ""); /* the terminal's character set; the default is ASCII */
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
  const command_t *command = find_command(name);
  if (!command)
    return name[0] == '-' ? gp_message_usage(NULL, "unknown option %s", name) : unknown_command(name);
  return finish(command->run(argc - 1, argv + 1));
}
