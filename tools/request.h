/*
 * The command line of the commands that read snapshots. The options common to all stand here, once; a
 * command adds a table of its own. The help is generated from the tables.
 */
#ifndef GP_TOOLS_REQUEST_H
#define GP_TOOLS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/parameters.h"
#include "tools/pattern.h"

#define GP_REQUEST_ALL_DEVICES (-1)

typedef struct gp_request {
  const char *command;
  bool json;
  bool force;
  bool strict;
  bool no_color;
  bool no_symbols; /* gp_symbols_resolve is not called */
  bool wide;
  bool ascii;
  bool help;
  bool all_frames;
  gp_patterns_t skip;
  const char *skip_file; /* its lines are in skip, too; NULL: none */
  const char *output;    /* NULL: stdout */
  int device;
  const char *stream; /* as typed; NULL: all. The meaning depends on the snapshot (filter.h) */
  const char *thread;
  uint64_t since_ns;
  uint64_t until_ns; /* UINT64_MAX: no end */
  gp_request_moment_t at;
  char **files; /* moved to the front of argv, or found */
  int file_count;
  char **found; /* with those of folders; NULL: no folder was given */
  size_t found_count;
} gp_request_t;

/* Describes one command. */
typedef struct gp_request_form {
  const char *command;
  const char *files; /* "FILE...", of the usage line */
  int least_files;
  int most_files;       /* 0: any number */
  bool takes_moment;    /* --at */
  bool hides_selection; /* the help shows only --device; check refuses the others with the reason */
  bool is_of_requests;  /* about requests to the pool, not who made them: of the common options it has
                           only --device and those of the output */
  bool writes_file;     /* its file is not text: of the common options it lacks those about text, and
                           --stream, --thread, --since and --until */
  const char *about;
  const gp_parameter_t *parameters; /* the command's own; their offsets are in *own */
  size_t parameter_count;
  int (*check)(const gp_request_t *request, void *own); /* checks beyond the tables; returns 0 or, after
                                                           a message, the exit status. NULL: none */
  const char *statuses; /* appended to the exit statuses in the help; NULL: nothing */
} gp_request_form_t;

/*
 * Reads the command line into *request and *own; *own already has its defaults. If request->help is set,
 * the rest was not checked. Returns 0 or, after a message, the exit status; call fini in any case. Borrows
 * argv.
 */
int gp_request_parse(const gp_request_form_t *form, int argc, char **argv, gp_request_t *request, void *own);

void gp_request_fini(gp_request_t *request);

/* Prints the help to stdout. */
void gp_request_help(const gp_request_form_t *form);

#endif
