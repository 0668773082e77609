#include "tools/optional_library.h"

#include <dlfcn.h>

bool gp_optional_library_open(const char *file, const gp_optional_function_t *functions, size_t count)
{
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

  if (!library)
    return false;
  for (size_t i = 0; i < count; i++) {
    if (!dlsym(library, functions[i].name))
      return false;
  }
  for (size_t i = 0; i < count; i++)
    *functions[i].place = dlsym(library, functions[i].name);
  return true;
}
