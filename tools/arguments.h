/*
 * The library's options as arguments of a command: --max-cached sets what GPUPOOL_MAX_CACHED sets. The names
 * are derived from the option table, so there is no second list. An argument overrides the environment.
 */
#ifndef GP_TOOLS_ARGUMENTS_H
#define GP_TOOLS_ARGUMENTS_H

#include <stdbool.h>

#include "base/options.h"

#define GP_ARGUMENT_NAME_BYTES 32

typedef struct gp_arguments {
  const char *texts[GP_OPTION_COUNT]; /* points into argv; NULL: the option was not given */
  int next;                           /* index of the first argument that is not gpupool's */
  bool help;
  bool flag; /* whether the command's own flag was given */
} gp_arguments_t;

/* Reads the options in argv[1..argc). Stops after "--" or before the first word that is not an option. `flag`
 * is an option that only this command has, such as "--json". Does not check values. Returns 0 or, after a
 * message, the exit status. */
int gp_arguments_parse(
    const char *command, const char *flag, int argc, char **argv, gp_arguments_t *ret_arguments);

/* Returns the argument's value for the option that `variable` sets, or else the variable's value; a
 * gp_option_lookup_fn. `arg` is a gp_arguments_t. */
const char *gp_arguments_lookup(void *arg, const char *variable);

/* Computes the effective options from arguments and environment. Reports problems as the library does. */
void gp_arguments_read(
    gp_arguments_t *arguments, gp_options_t *ret_options, gp_option_problem_fn problem, void *problem_arg);

/*
 * Like gp_arguments_read, for a command: prints one line on stderr for each problem, including unknown
 * GPUPOOL_* variables. With is_final the line omits what the library would do instead, because nothing will
 * run. Returns the number of malformed values.
 */
int gp_arguments_check(gp_arguments_t *arguments, bool is_final, gp_options_t *ret_options);

/* Writes an option's argument name ("max-cached") to `buffer` (GP_ARGUMENT_NAME_BYTES). Returns `buffer`. */
char *gp_argument_name(gp_option_id_t id, char *buffer);

/* Prints the name, syntax, default and meaning of every option to stdout. */
void gp_arguments_print_help(void);

#endif
