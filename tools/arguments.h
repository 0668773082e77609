/*
 * The library's options as arguments of a command: GPUPOOL_MAX_CACHED is --max-cached. They come from the
 * option table, so that there is no second list. What is given as an argument goes before the environment.
 */
#ifndef GP_TOOLS_ARGUMENTS_H
#define GP_TOOLS_ARGUMENTS_H

#include <stdbool.h>

#include "pool/util/options.h"

#define GP_ARGUMENT_NAME_BYTES 32

typedef struct gp_arguments {
  const char *texts[GP_OPTION_COUNT]; /* of argv, borrowed; NULL: not given */
  int next;                           /* index of the first argument that is not gpupool's */
  bool help;
  bool flag; /* the one that only the command has was given */
} gp_arguments_t;

/*
 * Reads argv[1..argc) up to "--" or the first word that is no option. flag: one that only
 * the command has, "--json". Values are not checked here. Returns 0 or, after a message, the exit status.
 */
int gp_arguments_parse(
    const char *command, const char *flag, int argc, char **argv, gp_arguments_t *ret_arguments);

/* A gp_option_lookup_fn: arg is a gp_arguments_t. */
const char *gp_arguments_lookup(void *arg, const char *variable);

/*
 * Makes the options in force of arguments and environment. Each problem is one line on stderr, unknown
 * GPUPOOL_* variables included; with is_final the line leaves out what the library would do instead, because
 * nothing will run. Returns the number of malformed values.
 */
int gp_arguments_check(gp_arguments_t *arguments, bool is_final, gp_options_t *ret_options);

/* "max-cached" of an option; returns buffer, which holds GP_ARGUMENT_NAME_BYTES. */
char *gp_argument_name(gp_option_id_t id, char *buffer);

/* Prints name, syntax, default and meaning of every option to stdout. */
void gp_arguments_print_help(void);

#endif
