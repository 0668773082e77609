/*
 * How one module's addresses become names: implemented with libdw (symbols_dwfl.c), or by nothing
 * (symbols_none.c).
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_MODULE_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/snapshot.h"

/* Everything is borrowed. All zero: this machine's own files. */
typedef struct gp_symbols_options {
  const char *sysroot; /* the modules' paths begin here; NULL: at the root */
  const char
      *debug_directory; /* more debug files, in .build-id/ or by their names; NULL: only the usual places */
  /* Called once for each module with frames that got no name; may be NULL. */
  void (*problem)(void *arg, const gp_snapshot_module_t *module, const char *why);
  void *arg;
} gp_symbols_options_t;

/* False: this build of the tool cannot look names up, and gp_symbols_resolve leaves a snapshot as it is. */
bool gp_symbols_are_available(void);

/* One function at an address. The text is NULL where it is not known; give it back with free(). */
typedef struct gp_symbol {
  char *function;
  char *file;
  int line; /* 0: not known */
} gp_symbol_t;

/* An address of the process, and the answer: the functions there, the innermost first; all but the last are
 * inlined. */
typedef struct gp_symbol_query {
  uint64_t address;
  size_t frame; /* the caller's */
  gp_symbol_t *symbols;
  size_t count;
} gp_symbol_query_t;

/*
 * Answers the queries, whose addresses grow. start_time_us: when the process began, since 1970. Returns
 * false, with the reason in ret_why, if there is no file to ask; *ret_is_rebuilt then says whether the only
 * files there are of another build.
 */
bool gp_symbols_of_module(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, gp_symbol_query_t *queries, size_t count, char *ret_why,
    size_t capacity, bool *ret_is_rebuilt);

#endif
