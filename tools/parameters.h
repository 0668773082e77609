/*
 * Command line options defined by tables: --NAME VALUE, --NAME=VALUE and -L VALUE. "--" ends the options.
 */
#ifndef GP_TOOLS_PARAMETERS_H
#define GP_TOOLS_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gp_parameter_kind {
  GP_PARAMETER_FLAG,           /* bool */
  GP_PARAMETER_TEXT,           /* const char * */
  GP_PARAMETER_COUNT,          /* uint64_t from `least` to `most` */
  GP_PARAMETER_OPTIONAL_COUNT, /* uint64_t; a value must follow '='; without a value, `least` */
  GP_PARAMETER_DEVICE,         /* int */
  GP_PARAMETER_TIME,           /* uint64_t, nanoseconds: 1.5s, 20ms, 5us, 100ns, 2min */
  GP_PARAMETER_PATTERNS,       /* gp_patterns_t; may be given several times */
  GP_PARAMETER_CHOICE,         /* int, the index of a choice in a text such as "live|peak" */
  GP_PARAMETER_MOMENT,         /* gp_request_moment_t: oom, oom=2, peak, exit, 1.5s, 1234 */
} gp_parameter_kind_t;

/* The kinds of moments that --at accepts. model/moments.h finds the moment in a snapshot. */
typedef enum gp_moment_kind {
  GP_MOMENT_NONE, /* --at was not given */
  GP_MOMENT_EXIT, /* when the snapshot was written */
  GP_MOMENT_PEAK,
  GP_MOMENT_OOM,   /* `number`: the Nth out-of-memory, from 1; 0: the one that the summary describes */
  GP_MOMENT_TIME,  /* `number`: nanoseconds */
  GP_MOMENT_EVENT, /* `number`: index of the event, from 0 */
} gp_moment_kind_t;

typedef struct gp_request_moment {
  gp_moment_kind_t kind;
  uint64_t number;
  const char *text; /* as typed; NULL: not given */
} gp_request_moment_t;

/* An option. All strings are static. */
typedef struct gp_parameter {
  const char *name;     /* name without dashes: "output" for --output */
  char letter;          /* short name: 'o' for -o; 0: none */
  const char *argument; /* the value's name in the help; NULL for a flag or a choice */
  gp_parameter_kind_t kind;
  size_t offset; /* offset of the value in gp_request_t or in the command's own struct */
  const char *choices;
  uint64_t least;
  uint64_t most;
  const char *help;
} gp_parameter_t;

/* A table of options, and the struct that receives the values. */
typedef struct gp_parameters {
  const gp_parameter_t *items;
  size_t count;
  void *values;
} gp_parameters_t;

/*
 * Parses argv[1..argc), and moves the arguments that are not options to argv[1..*ret_words]. If several
 * tables have an option, uses the first. Stops after the option "help". Returns 0 or, after a message, the
 * exit status. Text values point into argv.
 */
int gp_parameters_parse(const char *command, const gp_parameters_t *tables, size_t table_count, int argc,
    char **argv, int *ret_words);

/* The form of a command that has its own words and options, and --help. */
typedef struct gp_words_form {
  const char *command;
  const gp_parameter_t *parameters;
  size_t parameter_count;
  int most_words;
  void (*print_help)(void);
} gp_words_form_t;

/* Like gp_parameters_parse with the form's table. Stores the values in *own. Returns false if it printed the
 * help or a message; the command must then end with *ret_status. */
bool gp_words_parse(
    const gp_words_form_t *form, int argc, char **argv, void *own, int *ret_words, int *ret_status);

/* Parses the value of --at; see GP_PARAMETER_MOMENT. Returns false if `text` is malformed. Borrows `text`. */
bool gp_parameter_parse_moment(const char *text, gp_request_moment_t *ret_moment);

#endif
