#include "tools/run/preload.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/run_id.h"
#include "base/path.h"
#include "tools/run/conflicts.h"
#include "tools/run/elf_facts.h"
#include "tools/run/program_probe.h"
#include "tools/shorten.h"
#include "tools/tool.h"

#define LIBRARY "libgpupool.so"

/* The folder of this executable, links resolved, with a slash. Without /proc, as in a chroot, it is the
 * path by which the executable was started. */
static bool own_folder(char *buffer, size_t capacity)
{
  const char *started = (const char *)getauxval(AT_EXECFN); /* NULL: unknown */
  char *path = realpath("/proc/self/exe", NULL);
  if (!path && started)
    path = realpath(started, NULL);
  int length = path ? snprintf(buffer, capacity, "%s", path) : -1;
  free(path);
  if (length < 0 || (size_t)length >= capacity)
    return false;
  char *slash = strrchr(buffer, '/');
  if (!slash)
    return false;
  slash[1] = '\0';
  return true;
}

/* A library that this tool's own programs could load: the folders below may hold another kind's. What kind
 * this tool is of is not known where /proc is not mounted. */
static bool is_library(const char *path, char *buffer, size_t capacity)
{
  gp_elf_facts_t facts, own;
  char *resolved = realpath(path, NULL);
  bool good = resolved && access(resolved, R_OK) == 0 && strlen(resolved) < capacity;

  if (good) {
    gp_elf_read_file(resolved, &facts);
    gp_elf_read_file("/proc/self/exe", &own);
    good = facts.is_elf && (!own.is_elf || gp_elf_is_alike(&facts, &own));
  }
  if (good)
    strcpy(buffer, resolved);
  free(resolved);
  return good;
}

bool gp_preload_find(char *buffer, size_t capacity)
{
  /*
   * From the folder of the executable: first the installed layouts (wherever the tree was moved to), then the
   * build's. Last the configured path, which may hold another version.
   */
  static const char *const places[] = {
      "../" GP_LIBDIR_NAME "/" LIBRARY,
      "../lib/" LIBRARY, /* a wheel's, too: gpupool/bin and gpupool/lib */
      "../lib/" GP_MULTIARCH "/" LIBRARY,
      "../lib64/" LIBRARY,
      "../interpose/" LIBRARY,
      LIBRARY,
  };
  char folder[GP_PATH_BYTES];
  char path[GP_PATH_BYTES + 256];

  if (own_folder(folder, sizeof(folder))) {
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
      int length = snprintf(path, sizeof(path), "%s%s", folder, places[i]);
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

static bool is_library_name(const char *entry)
{
  return strcmp(gp_base_name(entry), LIBRARY) == 0;
}

/* Another copy's path is named before it is dropped: the user may have meant that one. */
static void drop_copy(const char *entry, const char *library)
{
  char *resolved = strchr(entry, '/') ? realpath(entry, NULL) : NULL;
  if (resolved && strcmp(resolved, library) != 0)
    gp_message("LD_PRELOAD has another copy of the library, %s; %s is used", entry, library);
  free(resolved);
}

/* Appends entry to the list in text, which has room for it. */
static void append(char *text, const char *entry)
{
  if (text[0])
    strcat(text, ":");
  strcat(text, entry);
}

/* True if list, entries with a colon between them, has entry. */
static bool holds(const char *list, const char *entry)
{
  size_t length = strlen(entry);
  for (const char *at = list; *at; at += strcspn(at, ":"), at += *at == ':')
    if (strcspn(at, ":") == length && strncmp(at, entry, length) == 0)
      return true;
  return false;
}

/* Takes the entries of LD_PRELOAD that have to be before the library, or those that come after it. */
static void take(const char *before, bool are_first, const char *library, char *text)
{
  char *copy = strdup(before), *save;

  for (char *entry = copy ? strtok_r(copy, GP_PRELOAD_SEPARATORS, &save) : NULL; entry;
       entry = strtok_r(NULL, GP_PRELOAD_SEPARATORS, &save)) {
    if (is_library_name(entry)) {
      if (!are_first)
        drop_copy(entry, library);
    } else if (gp_conflict_comes_first(entry) == are_first && !holds(text, entry)) {
      append(text, entry);
    }
  }
  free(copy);
}

bool gp_preload_set(const char *library)
{
  const char *before = getenv("LD_PRELOAD");

  if (strpbrk(library, GP_PRELOAD_SEPARATORS)) {
    gp_message("%s cannot be preloaded: the loader takes no path with a blank or a colon", library);
    return false;
  }
  before = before ? before : "";
  char *text = calloc(1, strlen(before) + strlen(library) + 3);
  if (text) {
    take(before, true, library, text);
    append(text, library);
    take(before, false, library, text);
  }
  bool good = text && setenv("LD_PRELOAD", text, 1) == 0;
  if (!good)
    gp_message("out of memory");
  free(text);
  return good;
}

bool gp_preload_set_nvtx(const char *library)
{
  static const char variable[] = "NVTX_INJECTION64_PATH";
  const char *tool = getenv(variable);
  int error = 0;

  if (tool && tool[0] && strcmp(tool, library) != 0)
    error |= setenv(GP_NVTX_NEXT_VARIABLE, tool, 1);
  error |= setenv(variable, library, 1);
  if (error)
    gp_message("out of memory");
  return !error;
}
