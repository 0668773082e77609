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

/* Defines a function of such a library, which is called under its own name; and its row of the table. */
#define GP_OPTIONAL_DEFINE(result, name, parameters, arguments)                                              \
  static __typeof__(&name) real_##name;                                                                      \
  result name parameters                                                                                     \
  {                                                                                                          \
    return real_##name arguments;                                                                            \
  }
#define GP_OPTIONAL_PLACE(result, name, parameters, arguments) {#name, (void **)&real_##name},

/*
 * zlib and zstd, opened when they are first needed (optional_library.h). Their functions have their own
 * names, and may be called once the library is open.
 */

/* False: not installed, or the tool was built without its header. */
bool gp_zlib_open(void);
bool gp_zstd_open(void);

#endif
