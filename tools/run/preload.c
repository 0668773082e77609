#include "tools/run/preload.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/util/path.h"
#include "tools/tool.h"

#define LIBRARY "libgpupool.so"

/* The folder of this executable, links resolved, with a slash. */
static bool own_folder(char *buffer, size_t capacity)
{
  ssize_t length = readlink("/proc/self/exe", buffer, capacity - 1);
  if (length <= 0)
    return false;
  buffer[length] = '\0';
  char *slash = strrchr(buffer, '/');
  if (!slash)
    return false;
  slash[1] = '\0';
  return true;
}

static bool is_library(const char *path, char *buffer, size_t capacity)
{
  char *resolved = realpath(path, NULL);
  bool good = resolved && access(resolved, R_OK) == 0 && strlen(resolved) < capacity;
  if (good)
    strcpy(buffer, resolved);
  free(resolved);
  return good;
}

bool gp_preload_find(char *buffer, size_t capacity)
{
  /*
   * Beside the executable: first the installed layout (wherever the tree was moved to), then the build's.
   * Last the configured path, which may hold another version.
   */
  static const char *const beside[] = {
      ("../" GP_LIBDIR_NAME "/" LIBRARY),
      ("../interpose/" LIBRARY),
      LIBRARY,
  };
  char folder[GP_PATH_BYTES];
  char path[GP_PATH_BYTES + 256];

  if (own_folder(folder, sizeof(folder))) {
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
      int length = snprintf(path, sizeof(path), "%s%s", folder, beside[i]);
      if (length > 0 && (size_t)length < sizeof(path) && is_library(path, buffer, capacity))
        return true;
    }
  }
  if (is_library(GP_LIBDIR "/" LIBRARY, buffer, capacity))
    return true;
  gp_message("%s was not found, neither beside this tool nor in %s: the installation is not complete",
      LIBRARY, GP_LIBDIR);
  return false;
}

/* True if list contains word. Blanks and colons separate words, as for the loader. */
static bool holds(const char *list, const char *word)
{
  size_t word_length = strlen(word);
  while (*list) {
    size_t length = strcspn(list, " :");
    if (length == word_length && strncmp(list, word, length) == 0)
      return true;
    list += length;
    list += strspn(list, " :");
  }
  return false;
}

bool gp_preload_set(const char *library)
{
  const char *before = getenv("LD_PRELOAD");
  char *value;

  if (strpbrk(library, " :")) {
    gp_message("%s cannot be preloaded: the loader takes no path with a blank or a colon", library);
    return false;
  }
  if (before && holds(before, library))
    return true;
  bool has_more = before && before[0];
  if (asprintf(&value, "%s%s%s", library, has_more ? ":" : "", has_more ? before : "") < 0 ||
      setenv("LD_PRELOAD", value, 1)) {
    gp_message("out of memory");
    return false;
  }
  free(value);
  return true;
}
