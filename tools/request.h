/*
 * The command line of the commands that read snapshots. The common options are defined once, in request.c;
 * each command adds its own table. The help is generated from the tables.
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
  bool no_symbols; /* true if gp_symbols_resolve must not be called */
  bool wide;
  bool ascii;
  bool help;
  bool all_frames;
  gp_patterns_t skip;
  const char *skip_file; /* file with more patterns to skip, which `skip` also contains; NULL: none */
  const char *output;    /* NULL: stdout */
  int device;
  const char *stream; /* as typed; NULL: all. The meaning depends on the snapshot (filter.h) */
  const char *thread;
  uint64_t since_ns;
  uint64_t until_ns; /* UINT64_MAX: no end */
  gp_request_moment_t at;
  char **files; /* points to the front of argv, or to `found` */
  int file_count;
  char **found; /* the files after expanding folders; NULL: no folder was given */
  size_t found_count;
} gp_request_t;

/* Describes the command line of one command. */
typedef struct gp_request_form {
  const char *command;
  const char *files; /* for the usage line: "FILE..." */
  int least_files;
  int most_files;       /* largest number of files; 0: any number */
  bool takes_moment;    /* the command accepts --at */
  bool hides_selection; /* the help omits all selections but --device; `check` refuses them with a reason */
  /* The command is about requests to the pool, not about their origin. Of the common options it has only
   * --device and those for output. */
  bool is_of_requests;
  /* The output is not text. The command has no options about text, nor --stream, --thread, --since,
   * --until. */
  bool writes_file;
  const char *about;
  const gp_parameter_t *parameters; /* the command's own options; their offsets are in *own */
  size_t parameter_count;
  int (*check)(const gp_request_t *request, void *own); /* further checks; returns 0 or, after a
                                                           message, the exit status. NULL: none */
  const char *statuses; /* lines to add to the exit statuses in the help; NULL: none */
} gp_request_form_t;

/*
 * Reads the command line into *request and *own. *own must contain the defaults. If request->help is set, the
 * other options were not checked. Returns 0 or, after a message, the exit status. Call gp_request_fini in any
 * case. *request points into argv.
 */
int gp_request_parse(const gp_request_form_t *form, int argc, char **argv, gp_request_t *request, void *own);

void gp_request_fini(gp_request_t *request);

/* Prints the help to stdout. */
void gp_request_help(const gp_request_form_t *form);

#endif
