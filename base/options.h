/*
 * The options of the library: one table (options.def), its parser and its printer.
 */
#ifndef GP_BASE_OPTIONS_H
#define GP_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/block_list.h"
#include "base/run_id.h"
#include "base/size.h"

typedef enum gp_option_id {
#define OPTION(id, name, type, default_text, minimum, maximum, syntax, help) GP_OPTION_##id,
#include "base/options.def"
  GP_OPTION_COUNT
} gp_option_id_t;

typedef enum gp_option_type {
  GP_OPTION_BOOL,
  GP_OPTION_INTEGER,
  GP_OPTION_SIZE,
  GP_OPTION_SHARE,
  GP_OPTION_DEVICE_SIZE,
  GP_OPTION_CHOICE,
  GP_OPTION_FLAGS,
  GP_OPTION_BLOCKS,
  GP_OPTION_TEXT,
} gp_option_type_t;

/* A row of the table. All strings are static. */
typedef struct gp_option {
  const char *name;     /* "LIMIT" */
  const char *variable; /* "GPUPOOL_LIMIT" */
  gp_option_type_t type;
  const char *default_text;
  uint64_t minimum;
  uint64_t maximum; /* SIZE: 0 means no bound */
  const char *syntax;
  const char *help;
} gp_option_t;

extern const gp_option_t gp_option_table[GP_OPTION_COUNT];

#define GP_OPTION_TEXT_BYTES 1024
#define GP_OPTION_DEVICES    64

/* GPUPOOL_SLACK as a share is at least this: a small program is no faster for giving a little back. */
#define GP_SLACK_LEAST (64 * GP_MIB)

/* An amount of memory: bytes, a share of something in percent, or none. */
typedef struct gp_amount {
  uint64_t number;
  bool is_share;
  bool is_none;
} gp_amount_t;

/* Where a value comes from. Of two places that set it, the later of these goes first. */
typedef enum gp_option_source {
  GP_OPTION_FROM_DEFAULT,
  GP_OPTION_FROM_MXNET,       /* a variable of MXNet, used if gpupool's is unset */
  GP_OPTION_FROM_PROFILE,     /* the file that GPUPOOL_PROFILE names (settings_files.h) */
  GP_OPTION_FROM_SYSTEM_FILE, /* /etc/gpupool.conf (settings_files.h) */
  GP_OPTION_FROM_USER_FILE,   /* gpupool.conf of the user */
  GP_OPTION_FROM_ENVIRONMENT,
} gp_option_source_t;

/*
 * number: BOOL 0 or 1, INTEGER and SIZE the value, CHOICE the index of the choice, FLAGS a mask of 1 <<
 * index. INTEGER, SIZE: UINT64_MAX for none. text is the value in force, as it was written (a CHOICE: as the
 * table has it).
 */
typedef struct gp_option_value {
  uint64_t number;
  gp_amount_t amount; /* SIZE, SHARE */
  gp_option_source_t source;
  char text[GP_OPTION_TEXT_BYTES];
} gp_option_value_t;

typedef struct gp_options {
  gp_option_value_t values[GP_OPTION_COUNT];
  gp_amount_t limits[GP_OPTION_DEVICES];   /* of GPUPOOL_LIMIT, by device ordinal */
  gp_amount_t ceilings[GP_OPTION_DEVICES]; /* that no limit may exceed, whoever sets it */
  gp_block_list_t prewarm;                 /* of GPUPOOL_PREWARM */
  uint64_t snapshot_signals;               /* of GPUPOOL_SNAPSHOT_AT: 1 << (number - 1) */
  bool limit_malformed;                    /* every allocation must then fail: a limit is a promise */
  bool host_limit_malformed;               /* the same for page-locked memory */
  char runs[GP_RUN_BYTES];                 /* of GPUPOOL_RUN (run_id.h), which is no option; "": none */
} gp_options_t;

/* Choices by their order in options.def, for code that asks. */
enum { GP_TYPE_ROUND, GP_TYPE_NAIVE, GP_TYPE_UNPOOLED, GP_TYPE_SEGMENT, GP_TYPE_VMM };
enum { GP_NVML_DRIVER, GP_NVML_LIMIT };
enum { GP_INTEGRATED_DRIVER, GP_INTEGRATED_AVAILABLE };
enum { GP_ASYNC_POOL, GP_ASYNC_PLAIN, GP_ASYNC_DRIVER };
enum { GP_REUSE_AUTO, GP_REUSE_CONTEXT, GP_REUSE_STRICT };
enum { GP_FILL_OFF, GP_FILL_ZERO, GP_FILL_POISON };
enum { GP_TRACE_OFF, GP_TRACE_STATE, GP_TRACE_ALL };
enum {
  GP_SNAPSHOT_AT_EXIT = 1 << 0,
  GP_SNAPSHOT_AT_OOM = 1 << 1,
  GP_SNAPSHOT_AT_PEAK = 1 << 2,
  GP_SNAPSHOT_AT_SIGNAL = 1 << 3
};
enum { GP_STACKS_OFF, GP_STACKS_AUTO, GP_STACKS_NATIVE, GP_STACKS_PYTHON, GP_STACKS_ALL, GP_STACKS_FP };

static inline uint64_t gp_option_number(const gp_options_t *options, gp_option_id_t id)
{
  return options->values[id].number;
}

/* The value in force as text; of a CHOICE the choice as the table spells it. Lives as long as options. */
static inline const char *gp_option_text(const gp_options_t *options, gp_option_id_t id)
{
  return options->values[id].text;
}

/* Bytes that an amount stands for, as a number or a share of `whole` bytes; UINT64_MAX: none. */
uint64_t gp_amount_resolve(const gp_amount_t *amount, uint64_t whole);

/* Looks a variable up; returns NULL if it is unset. */
typedef const char *(*gp_option_lookup_fn)(void *arg, const char *variable);

/*
 * Called once for each problem, with a complete sentence: the variable, its value, what is accepted.
 * malformed is false for a mere warning (an unknown name).
 */
typedef void (*gp_option_problem_fn)(void *arg, bool malformed, const char *message);

/* The two halves of gp_options_parse: gpupool's variables, and MXNet's where nothing else has set the option.
 * Other places of settings come between them. */
int gp_options_parse_own(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);
int gp_options_parse_mxnet(gp_options_t *options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);

/*
 * Fills *ret_options from the variables that lookup gives. A malformed value is reported and its default
 * used; for a limit, gp_options_note_malformed is called. Allocates nothing. Returns the number of problems.
 */
int gp_options_parse(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);

/*
 * Reports every "GPUPOOL_*" name of environment (a NULL-terminated array of NAME=VALUE) that is no option
 * and neither GPUPOOL_RUN nor GPUPOOL_NVTX_NEXT, with the nearest name that is; also one such as
 * gpupool_limit or GPU_POOL_LIMIT, which differs from an option by case and underscores only. Returns how
 * many there were.
 */
int gp_options_check_names(char *const *environment, gp_option_problem_fn problem, void *problem_arg);

/* A value of the option was malformed: if it is a limit, what it limits is refused from now on. */
void gp_options_note_malformed(gp_options_t *options, gp_option_id_t id);

/* Parses one value as the option's type; for tools that take options of the same names. Reports as above. */
bool gp_option_parse(gp_option_id_t id, const char *text, gp_options_t *options, gp_option_problem_fn problem,
    void *problem_arg);

/* The index of a choice of that option (CHOICE, FLAGS), case ignored; -1: no choice has that name. For code
 * that needs one option before the others are read. */
int gp_option_choice(gp_option_id_t id, const char *text);

/* The option whose name is `name` ("limit", "LIMIT", "max-cached", "MAX_CACHED"), or GP_OPTION_COUNT. */
gp_option_id_t gp_option_find(const char *name);

#endif
