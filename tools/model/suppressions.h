/*
 * Known leaks that reports omit, in the syntax of LeakSanitizer: lines "leak:PATTERN", blank lines and
 * comments (#). A pattern (tools/pattern.h) matches a stack if it matches the function, file or module of any
 * of its frames.
 */
#ifndef GP_TOOLS_MODEL_SUPPRESSIONS_H
#define GP_TOOLS_MODEL_SUPPRESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/snapshot.h"

typedef struct gp_suppression {
  char *pattern;
  uint64_t bytes; /* matched bytes, which the caller of gp_suppressions_find adds */
  uint64_t count;
} gp_suppression_t;

typedef struct gp_suppressions {
  gp_suppression_t *items;
  size_t count;
} gp_suppressions_t;

/* Parses `text`, which it modifies. Returns 0, the number of the invalid line with the reason in *ret_why
 * (static), or SIZE_MAX if memory runs out. Call gp_suppressions_fini in any case. */
size_t gp_suppressions_parse(gp_suppressions_t *suppressions, char *text, const char **ret_why);

/* Like gp_suppressions_parse, for a file. Returns 0, or the exit status after printing a message. */
int gp_suppressions_load(gp_suppressions_t *suppressions, const char *path);
void gp_suppressions_fini(gp_suppressions_t *suppressions);

/* Returns the first suppression that matches a frame of the stack, or NULL. The stack may be -1. */
gp_suppression_t *gp_suppressions_find(
    const gp_suppressions_t *suppressions, const gp_snapshot_t *snapshot, int stack);

#endif
