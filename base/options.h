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
  uint64_t maximum; /* for SIZE, 0 means no maximum */
  const char *syntax;
  const char *help;
} gp_option_t;

extern const gp_option_t gp_option_table[GP_OPTION_COUNT];

#define GP_OPTION_TEXT_BYTES 1024
#define GP_OPTION_DEVICES    64

/* The minimum of GPUPOOL_SLACK if it is a share. A small program gets no faster by releasing a little
 * memory. */
#define GP_SLACK_LEAST (64 * GP_MIB)

/* An amount of memory: a number of bytes, a percentage of another amount, or none. */
typedef struct gp_amount {
  uint64_t number;
  bool is_share;
  bool is_none;
} gp_amount_t;

/* The source of an option's value. If two sources set an option, the later one in this list has
 * precedence. */
typedef enum gp_option_source {
  GP_OPTION_FROM_DEFAULT,
  GP_OPTION_FROM_MXNET,       /* a variable of MXNet, used if no other source has set the option */
  GP_OPTION_FROM_PROFILE,     /* the file that GPUPOOL_PROFILE specifies (settings_files.h) */
  GP_OPTION_FROM_SYSTEM_FILE, /* /etc/gpupool.conf (settings_files.h) */
  GP_OPTION_FROM_USER_FILE,   /* the user's gpupool.conf */
  GP_OPTION_FROM_ENVIRONMENT,
} gp_option_source_t;

/*
 * The value of an option. `number` is 0 or 1 for BOOL, the value for INTEGER and SIZE (UINT64_MAX for none),
 * the index of the choice for CHOICE, and a mask of 1 << index for FLAGS. `text` is the effective value as
 * the user wrote it; for a CHOICE, it is spelled as in the table.
 */
typedef struct gp_option_value {
  uint64_t number;
  gp_amount_t amount; /* for SIZE and SHARE */
  gp_option_source_t source;
  char text[GP_OPTION_TEXT_BYTES];
} gp_option_value_t;

typedef struct gp_options {
  gp_option_value_t values[GP_OPTION_COUNT];
  gp_amount_t limits[GP_OPTION_DEVICES];   /* from GPUPOOL_LIMIT, by device ordinal */
  gp_amount_t ceilings[GP_OPTION_DEVICES]; /* upper bounds for the limits from all sources */
  gp_block_list_t prewarm;                 /* from GPUPOOL_PREWARM */
  uint64_t snapshot_signals;               /* from GPUPOOL_SNAPSHOT_AT: a mask of 1 << (number - 1) */
  bool limit_malformed;                    /* fail every allocation, because other users rely on the limit */
  bool host_limit_malformed;               /* fail every page-locked allocation */
  char runs[GP_RUN_BYTES];                 /* GPUPOOL_RUN (run_id.h), which is not an option; "": not set */
} gp_options_t;

/* The choices of options, in the order of options.def. */
enum { GP_TYPE_ROUND, GP_TYPE_NAIVE, GP_TYPE_UNPOOLED, GP_TYPE_SEGMENT, GP_TYPE_VMM };
enum { GP_NVML_DRIVER, GP_NVML_LIMIT };
enum { GP_INTEGRATED_DRIVER, GP_INTEGRATED_AVAILABLE };
enum { GP_ASYNC_POOL, GP_ASYNC_PLAIN, GP_ASYNC_DRIVER };
enum { GP_REUSE_AUTO, GP_REUSE_CONTEXT, GP_REUSE_STRICT };
enum { GP_FILL_OFF, GP_FILL_ZERO, GP_FILL_POISON };
enum { GP_CHECK_EDGES = 1 << 0, GP_CHECK_STALE = 1 << 1, GP_CHECK_FULL = 1 << 2, GP_CHECK_ABORT = 1 << 3 };
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

/* Returns the effective value as text; for a CHOICE, spelled as in the table. The text is valid as long as
 * `options`. */
static inline const char *gp_option_text(const gp_options_t *options, gp_option_id_t id)
{
  return options->values[id].text;
}

/* Returns the amount in bytes; a share is a share of `whole` bytes. Returns UINT64_MAX for none. */
uint64_t gp_amount_resolve(const gp_amount_t *amount, uint64_t whole);

/* Returns the value of an environment variable, or NULL if it is unset. */
typedef const char *(*gp_option_lookup_fn)(void *arg, const char *variable);

/*
 * Called once for each problem. `message` is a complete sentence with the variable, its value, and the
 * accepted values. `malformed` is false for a mere warning, such as one about an unknown name.
 */
typedef void (*gp_option_problem_fn)(void *arg, bool malformed, const char *message);

/* The two halves of gp_options_parse. The first reads gpupool's variables. The second reads MXNet's
 * variables, for options that no other source has set. Between the two calls, the caller can apply other
 * sources. */
int gp_options_parse_own(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);
int gp_options_parse_mxnet(gp_options_t *options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);

/*
 * Fills *ret_options from the variables that `lookup` returns. Returns the number of problems. Reports each
 * malformed value and uses the option's default instead. For a malformed limit, also calls
 * gp_options_note_malformed. Allocates nothing.
 */
int gp_options_parse(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);

/*
 * Reports every "GPUPOOL_*" name in `environment` (a NULL-terminated array of NAME=VALUE) that is not an
 * option, GPUPOOL_RUN or GPUPOOL_NVTX_NEXT, together with the nearest valid name. Also reports a name such as
 * gpupool_limit or GPU_POOL_LIMIT, which differs from an option only by case and underscores. Returns the
 * number of reported names.
 */
int gp_options_check_names(char *const *environment, gp_option_problem_fn problem, void *problem_arg);

/* Records that a value of the option was malformed. If the option is a limit, all allocations that it limits
 * fail from now on. */
void gp_options_note_malformed(gp_options_t *options, gp_option_id_t id);

/* Parses `text` as a value of the option, and reports problems as gp_options_parse does. Returns false if the
 * value is malformed. For tools that have options with the same names. */
bool gp_option_parse(gp_option_id_t id, const char *text, gp_options_t *options, gp_option_problem_fn problem,
    void *problem_arg);

/* Returns the index of the choice `text` of a CHOICE or FLAGS option, ignoring case, or -1 if there is no
 * such choice. For code that needs one option before the others are read. */
int gp_option_choice(gp_option_id_t id, const char *text);

/* Returns the option with this name ("limit", "LIMIT", "max-cached", "MAX_CACHED"), or GP_OPTION_COUNT. */
gp_option_id_t gp_option_find(const char *name);

#endif
