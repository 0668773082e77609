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

/* The minimum of GPUPOOL_SLACK as a share: a small program gets no faster by releasing a little memory. */
#define GP_SLACK_LEAST (64 * GP_MIB)

/* An amount of memory: bytes, a share in percent of some other amount, or none. */
typedef struct gp_amount {
  uint64_t number;
  bool is_share;
  bool is_none;
} gp_amount_t;

/* Where a value comes from. If two sources set an option, the one that is later in this list has
 * precedence. */
typedef enum gp_option_source {
  GP_OPTION_FROM_DEFAULT,
  GP_OPTION_FROM_MXNET,       /* a variable of MXNet, used if gpupool's own is unset */
  GP_OPTION_FROM_PROFILE,     /* the file that GPUPOOL_PROFILE names (settings_files.h) */
  GP_OPTION_FROM_SYSTEM_FILE, /* /etc/gpupool.conf (settings_files.h) */
  GP_OPTION_FROM_USER_FILE,   /* the user's gpupool.conf */
  GP_OPTION_FROM_ENVIRONMENT,
} gp_option_source_t;

/*
 * The value of an option. number is 0 or 1 for BOOL, the value for INTEGER and SIZE (UINT64_MAX for none),
 * the index of the choice for CHOICE, and a mask of 1 << index for FLAGS. text is the effective value, as it
 * was written (for a CHOICE, as the table spells it).
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
  gp_amount_t ceilings[GP_OPTION_DEVICES]; /* upper bounds for limits, whoever sets these */
  gp_block_list_t prewarm;                 /* from GPUPOOL_PREWARM */
  uint64_t snapshot_signals;               /* from GPUPOOL_SNAPSHOT_AT: 1 << (number - 1) */
  bool limit_malformed;                    /* every allocation must then fail: others rely on the limit */
  bool host_limit_malformed;               /* every page-locked allocation must then fail */
  char runs[GP_RUN_BYTES];                 /* from GPUPOOL_RUN (run_id.h), which is not an option; "": none */
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

/* Returns the effective value as text; for a CHOICE, as the table spells it. It lives as long as options. */
static inline const char *gp_option_text(const gp_options_t *options, gp_option_id_t id)
{
  return options->values[id].text;
}

/* Returns the bytes that an amount means, which may be a share of `whole` bytes; UINT64_MAX: none. */
uint64_t gp_amount_resolve(const gp_amount_t *amount, uint64_t whole);

/* Returns the value of a variable, or NULL if it is unset. */
typedef const char *(*gp_option_lookup_fn)(void *arg, const char *variable);

/*
 * Called once for each problem, with a complete sentence: the variable, its value, and which values are
 * accepted. malformed is false for a mere warning (an unknown name).
 */
typedef void (*gp_option_problem_fn)(void *arg, bool malformed, const char *message);

/* The two halves of gp_options_parse: gpupool's variables, and MXNet's if no other source has set the
 * option. Other sources of settings come between them. */
int gp_options_parse_own(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);
int gp_options_parse_mxnet(gp_options_t *options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);

/*
 * Fills *ret_options from the variables that lookup returns. A malformed value is reported, and the option's
 * default is used; for a limit, gp_options_note_malformed is called. Allocates nothing. Returns the number of
 * problems.
 */
int gp_options_parse(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg);

/*
 * Reports every "GPUPOOL_*" name of environment (a NULL-terminated array of NAME=VALUE) that is neither an
 * option nor GPUPOOL_RUN nor GPUPOOL_NVTX_NEXT, together with the nearest valid name. Also reports a name
 * such as gpupool_limit or GPU_POOL_LIMIT, which differs from an option by case and underscores only. Returns
 * the number of reported names.
 */
int gp_options_check_names(char *const *environment, gp_option_problem_fn problem, void *problem_arg);

/* Notes that a value of the option was malformed. If the option is a limit, all allocations that it limits
 * fail from now on. */
void gp_options_note_malformed(gp_options_t *options, gp_option_id_t id);

/* Parses one value as the option's type; for tools that take options with the same names. Reports problems
 * as gp_options_parse does. */
bool gp_option_parse(gp_option_id_t id, const char *text, gp_options_t *options, gp_option_problem_fn problem,
    void *problem_arg);

/* Returns the index of a choice of the option (CHOICE, FLAGS), ignoring case, or -1 if no choice has that
 * name. For code that needs one option before the others are read. */
int gp_option_choice(gp_option_id_t id, const char *text);

/* Returns the option with this name ("limit", "LIMIT", "max-cached", "MAX_CACHED"), or GP_OPTION_COUNT. */
gp_option_id_t gp_option_find(const char *name);

#endif
