/*
 * The description of the process and its settings in a snapshot: pairs of a key and a value, each ended by a
 * NUL. It is written when the record begins, so that it is available after a kill. Keys:
 *
 *   program, host
 *   run            see run_id.h; only under gpupool run
 *   rank           only if the environment has one that is a number
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
  const char *text; /* ends with a NUL, unless length is 0 */
  size_t length;
} gp_description_t;

typedef struct gp_description_pair {
  const char *key;
  const char *value; /* any bytes but NUL */
} gp_description_pair_t;

/* Returns a description of the calling process, stored in buffer. Pairs that do not fit are left out, the
 * last arguments first. */
gp_description_t gp_description_make(const gp_options_t *options, char *buffer, size_t capacity);

/* Returns the pair at offset *at and advances *at, which must start at 0. Returns false after the last
 * pair. */
bool gp_description_next(const gp_description_t *description, size_t *at, gp_description_pair_t *ret_pair);

/* Returns the value of the first pair with that key, or NULL. */
const char *gp_description_find(const gp_description_t *description, const char *key);

#endif
