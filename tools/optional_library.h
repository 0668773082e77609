/*
 * Opens libraries that the tool uses only if they are installed. The tool therefore starts on machines that
 * lack them, or whose C library is older than these libraries need.
 */
#ifndef GP_TOOLS_OPTIONAL_LIBRARY_H
#define GP_TOOLS_OPTIONAL_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gp_optional_function {
  const char *name;
  void **place; /* where the function's address is stored */
} gp_optional_function_t;

/* Opens a library permanently and looks up its functions. Returns false and stores nothing if the library
 * or one of the functions is missing. */
bool gp_optional_library_open(const char *file, const gp_optional_function_t *functions, size_t count);

/* GP_OPTIONAL_DEFINE defines a function that calls the library's function of the same name, so callers need
 * no special form. GP_OPTIONAL_PLACE makes the function's row of the table. */
#define GP_OPTIONAL_DEFINE(result, name, parameters, arguments)                                              \
  static __typeof__(&name) real_##name;                                                                      \
  result name parameters                                                                                     \
  {                                                                                                          \
    return real_##name arguments;                                                                            \
  }
#define GP_OPTIONAL_PLACE(result, name, parameters, arguments) {#name, (void **)&real_##name},

/*
 * zlib and zstd, which are opened when first needed (optional_library.h). Their functions have their usual
 * names, and may be called once the library is open.
 */

/* Open the library. Return false if it is not installed, or if the tool was built without its header. */
bool gp_zlib_open(void);
bool gp_zstd_open(void);

#endif
