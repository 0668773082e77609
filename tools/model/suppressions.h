/*
 * Which leaks are known and not to be reported, in the syntax of LeakSanitizer: lines "leak:PATTERN", blank
 * ones and comments (#). A pattern (tools/pattern.h) matches if it does a function, file or module of any
 * frame of the stack.
 */
#ifndef GP_TOOLS_MODEL_SUPPRESSIONS_H
#define GP_TOOLS_MODEL_SUPPRESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/snapshot.h"

typedef struct gp_suppression {
  char *pattern;
  uint64_t bytes; /* of what it matched, summed by the caller */
  uint64_t count;
} gp_suppression_t;

typedef struct gp_suppressions {
  gp_suppression_t *items;
  size_t count;
} gp_suppressions_t;

/*
 * Reads text, which is changed on the way. Returns 0, or the number of the line that is wrong, with *ret_why
 * saying how (static); SIZE_MAX without memory. Fini it in any case.
 */
size_t gp_suppressions_parse(gp_suppressions_t *suppressions, char *text, const char **ret_why);

/* The same with a file. Returns 0 or, after a message, the exit status. */
int gp_suppressions_load(gp_suppressions_t *suppressions, const char *path);
void gp_suppressions_fini(gp_suppressions_t *suppressions);

/* The first that matches a frame of stack; NULL: none, or there is no stack. */
gp_suppression_t *gp_suppressions_find(
    const gp_suppressions_t *suppressions, const gp_snapshot_t *snapshot, int stack);

#endif
