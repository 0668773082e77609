/*
 * The functions of libdw, under their own names. They may be called once gp_symbols_are_available has said
 * yes.
 */
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

#include "tools/optional_library.h"
#include "tools/symbols/symbols_module.h"

#define FUNCTION GP_OPTIONAL_DEFINE
#include "tools/symbols/libdw.def"
#undef FUNCTION

bool gp_symbols_are_available(void)
{
#define FUNCTION GP_OPTIONAL_PLACE
  static const gp_optional_function_t functions[] = {
#include "tools/symbols/libdw.def"
  };
#undef FUNCTION
  static enum { UNKNOWN, MISSING, THERE } state;

  if (state == UNKNOWN)
    state = gp_optional_library_open("libdw.so.1", functions, sizeof(functions) / sizeof(functions[0]))
                ? THERE
                : MISSING;
  return state == THERE;
}

const char *gp_symbols_need(void)
{
  return "libdw.so.1, which is not installed (the package libdw1, or elfutils-libs)";
}
