/*
 * The description of the process and its settings for a snapshot: pairs of a key and a value, each ended by a
 * NUL. It is written when the record begins, so that it is available after a kill. Keys:
 *
 *   program, host
 *   run            ids of runs (run_id.h); only under `gpupool run`
 *   rank           only if the environment contains a rank that is a number
 *   environment    NAME=VALUE
 *   argument       one pair for each argument
 *   setting        NAME=TEXT
 *   source         NAME=WHERE
 */
#ifndef GP_TRACE_DESCRIPTION_H
#define GP_TRACE_DESCRIPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/options.h"
#include "format/record.h"

typedef struct gp_description {
  const char *text; /* ends with a NUL unless `length` is 0 */
  size_t length;
} gp_description_t;

typedef struct gp_description_pair {
  const char *key;
  const char *value; /* any bytes except NUL */
} gp_description_pair_t;

/* Writes a description of the calling process to `buffer` and returns it. Pairs that do not fit are left out,
 * starting with the last arguments. */
gp_description_t gp_description_make(const gp_options_t *options, char *buffer, size_t capacity);

/* Reads the pair at offset *at, which is 0 for the first pair, and advances *at. Returns false after the last
 * pair. */
bool gp_description_next(const gp_description_t *description, size_t *at, gp_description_pair_t *ret_pair);

/* Returns the value of the first pair with that key, or NULL. */
const char *gp_description_find(const gp_description_t *description, const char *key);

#endif
