/*
 * The command line of the commands that read snapshots. The options common to all stand here, once; a
 * command adds a table of its own. The help is generated from the tables.
 */
#ifndef GP_TOOLS_REQUEST_H
#define GP_TOOLS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/pattern.h"

#define GP_REQUEST_ALL_DEVICES (-1)

typedef enum gp_parameter_kind {
  GP_PARAMETER_FLAG,           /* bool */
  GP_PARAMETER_TEXT,           /* const char * */
  GP_PARAMETER_COUNT,          /* uint64_t from least to most */
  GP_PARAMETER_OPTIONAL_COUNT, /* the same; a value can only follow '=', without one it is least */
  GP_PARAMETER_DEVICE,         /* int */
  GP_PARAMETER_TIME,           /* uint64_t, nanoseconds: 1.5s, 20ms, 5us, 100ns, 2min */
  GP_PARAMETER_PATTERNS,       /* gp_patterns_t; may be given several times */
  GP_PARAMETER_CHOICE,         /* int, the index of one of the choices, "live|peak" */
  GP_PARAMETER_MOMENT,         /* gp_request_moment_t: oom, oom=2, peak, exit, 1.5s, 1234 */
} gp_parameter_kind_t;

/* What --at can name. model/moments.h says which moment of a snapshot that is. */
typedef enum gp_moment_kind {
  GP_MOMENT_NONE, /* --at was not given */
  GP_MOMENT_EXIT, /* when the snapshot was written */
  GP_MOMENT_PEAK,
  GP_MOMENT_OOM,   /* number: which out-of-memory, from 1; 0: the one that the summary describes */
  GP_MOMENT_TIME,  /* number: nanoseconds */
  GP_MOMENT_EVENT, /* number: the event's, from 0 */
} gp_moment_kind_t;

typedef struct gp_request_moment {
  gp_moment_kind_t kind;
  uint64_t number;
  const char *text; /* as typed; NULL: not given */
} gp_request_moment_t;

/* An option. All strings are static. */
typedef struct gp_parameter {
  const char *name;     /* "output" of --output */
  char letter;          /* 'o' of -o; 0: none */
  const char *argument; /* the value's name in the help; NULL for a flag or a choice */
  gp_parameter_kind_t kind;
  size_t offset; /* of the value, in gp_request_t or in the command's own structure */
  const char *choices;
  uint64_t least;
  uint64_t most;
  const char *help;
} gp_parameter_t;

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
  char **found; /* with those of folders (folders.h); NULL: no folder was given */
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

/* Parses the value of --at, see GP_PARAMETER_MOMENT. Returns false if text
 * has another form. Borrows text. */
bool gp_request_parse_moment(const char *text, gp_request_moment_t *ret_moment);

#endif
