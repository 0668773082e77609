/*
 * Libraries that the tool uses where they are installed, and does without where they are not. So it starts on
 * machines that lack them, or have a C library older than theirs.
 */
#ifndef GP_TOOLS_OPTIONAL_LIBRARY_H
#define GP_TOOLS_OPTIONAL_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gp_optional_function {
  const char *name;
  void **place; /* gets the function */
} gp_optional_function_t;

/* Opens a library, for good, and finds its functions. False: it is missing, or lacks one of them; then no
 * place is written. */
bool gp_optional_library_open(const char *file, const gp_optional_function_t *functions, size_t count);

#endif
