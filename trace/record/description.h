/*
 * A snapshot's text about the process and its settings: pairs of a key and a value, each ended by a NUL.
 * The record has it from the beginning, so that it is there when the process is gone. Keys:
 *
 *   program, host
 *   run            see run_id.h; none outside of gpupool run
 *   rank           none if the environment has none, or no number
 *   environment    NAME=VALUE
 *   argument       one for each
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
  const char *text; /* ends with a NUL, unless length is 0 */
  size_t length;
} gp_description_t;

typedef struct gp_description_pair {
  const char *key;
  const char *value; /* any bytes but NUL */
} gp_description_pair_t;

/* Describes the calling process. The result borrows buffer. Leaves out what does not fit, starting
 * with the last arguments. */
gp_description_t gp_description_make(const gp_options_t *options, char *buffer, size_t capacity);

/* The next pair from *at on; *at must be 0 at first. False: no more. */
bool gp_description_next(const gp_description_t *description, size_t *at, gp_description_pair_t *ret_pair);

/* The value of the first pair of that key, or NULL. */
const char *gp_description_find(const gp_description_t *description, const char *key);

#endif
