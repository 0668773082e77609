/*
 * Finds names for the addresses of a module, with libdw (symbols_dwfl.c). Without libdw finds none
 * (symbols_none.c).
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_MODULE_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/snapshot.h"

/* Options of the search for symbols. Strings are borrowed. A zeroed struct searches this machine's files. */
typedef struct gp_symbols_options {
  const char *sysroot;         /* folder in which the modules' paths are looked up; NULL: none */
  const char *debug_directory; /* more debug files, in .build-id/ or by name; NULL: only the usual folders */
  /* Called once for each module that has frames without names; may be NULL. */
  void (*problem)(void *arg, const gp_snapshot_module_t *module, const char *why);
  void *arg;
} gp_symbols_options_t;

/* Returns true if the tool can find names. Otherwise gp_symbols_resolve changes nothing. Call this before any
 * other function of symbols. */
bool gp_symbols_are_available(void);

/* Returns a text for messages that says what is missing if gp_symbols_are_available() is false, and which
 * packages contain it. The text is static. */
const char *gp_symbols_need(void);

/* A function at an address. Unknown texts are NULL. The caller frees the texts with free(). */
typedef struct gp_symbol {
  char *function;
  char *file;
  int line; /* 0: unknown */
} gp_symbol_t;

/* An address in the process, and the functions at it, innermost first. All but the last are inlined. */
typedef struct gp_symbol_query {
  uint64_t address;
  size_t frame; /* for the caller's use */
  gp_symbol_t *symbols;
  size_t count;
} gp_symbol_query_t;

/*
 * Answers the queries, which must be sorted by address. `start_time_us` is when the process began, since
 * 1970. Returns false if there is no suitable file, with the reason in `ret_why`. *ret_is_rebuilt is true if
 * only files of another build exist.
 */
bool gp_symbols_of_module(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, gp_symbol_query_t *queries, size_t count, char *ret_why,
    size_t capacity, bool *ret_is_rebuilt);

#endif
