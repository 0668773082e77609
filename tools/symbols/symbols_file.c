#include "tools/symbols/symbols_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/symbols/symbols_open.h"

/* One search. Keeps the reason why the first existing file was unsuitable. */
typedef struct search {
  const gp_snapshot_module_t *module;
  uint64_t start_time_us;
  char *path;
  size_t path_capacity;
  char *why;
  size_t capacity;
  bool is_rebuilt; /* a file of another build exists */
} search_t;

static void refuse(search_t *search, const char *why)
{
  if (!search->why[0])
    (void)snprintf(search->why, search->capacity, "%s %s", search->path, why);
}

static bool is_the_module(search_t *search, int fd)
{
  char build_id[GP_BUILD_ID_TEXT_BYTES];
  char text[320];
  struct stat status;

  if (fstat(fd, &status) || !gp_symbols_read_build_id(fd, build_id)) {
    refuse(search, "is no ELF file");
    return false;
  }
  if (strcmp(build_id, search->module->build_id) != 0) {
    (void)snprintf(text, sizeof(text), "is another build (build-id %s, the program had %s)",
        build_id[0] ? build_id : "none", search->module->build_id[0] ? search->module->build_id : "none");
    refuse(search, text);
    search->is_rebuilt = true;
    return false;
  }
  uint64_t modified_us = (uint64_t)status.st_mtim.tv_sec * 1000000 + (uint64_t)status.st_mtim.tv_nsec / 1000;
  if (!build_id[0] && modified_us >= search->start_time_us) {
    refuse(search, "has no build-id and was changed after the program began");
    search->is_rebuilt = true;
    return false;
  }
  return true;
}

/* Opens a candidate. length: what snprintf returned when it wrote the path. */
static int try_file(search_t *search, int length)
{
  const char *why;
  if (length < 0 || (size_t)length >= search->path_capacity)
    return -1;
  int fd = gp_symbols_open(search->path, &why);
  if (fd < 0) {
    if (why)
      refuse(search, why);
    return -1;
  }
  if (is_the_module(search, fd))
    return fd;
  (void)close(fd); /* only read */
  return -1;
}

/* Tries folder/.build-id/ab/cdef... with ".debug" and without. */
static int try_build_id(search_t *search, const char *root, const char *folder)
{
  const char *id = search->module->build_id;
  int fd;

  if (!gp_symbols_build_id_is_sound(id))
    return -1;
  fd = try_file(search, snprintf(search->path, search->path_capacity, "%s%s/.build-id/%.2s/%s.debug", root,
                            folder, id, id + 2));
  if (fd < 0)
    fd = try_file(search,
        snprintf(search->path, search->path_capacity, "%s%s/.build-id/%.2s/%s", root, folder, id, id + 2));
  return fd;
}

/* True if ".." leads above the path's beginning; such a path is not below a sysroot. */
static bool climbs_out(const char *path)
{
  int depth = 0;
  while (*path && depth >= 0) {
    size_t length = strcspn(path, "/");
    if (length == 2 && strncmp(path, "..", 2) == 0)
      depth--;
    else if (length > 0 && !(length == 1 && path[0] == '.'))
      depth++;
    path += length;
    path += strspn(path, "/");
  }
  return depth < 0;
}

int gp_symbols_open_file(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, char *ret_path, size_t path_capacity, char *ret_why, size_t capacity,
    bool *ret_is_rebuilt)
{
  const char *root = options->sysroot ? options->sysroot : "";
  const char *base = strrchr(module->path, '/');
  search_t search = {module, start_time_us, ret_path, path_capacity, ret_why, capacity, false};
  int fd;

  *ret_is_rebuilt = false;
  ret_why[0] = '\0';
  (void)snprintf(ret_path, path_capacity, "%s", module->path);
  if (module->build_id[0] && !gp_symbols_build_id_is_sound(module->build_id)) {
    refuse(&search, "has a build-id in the snapshot that is none");
    return -1;
  }
  if (options->sysroot && climbs_out(module->path)) {
    refuse(&search, "is not below the sysroot");
    return -1;
  }
  /* A relative path would refer to our working folder, not the program's. */
  if (module->path[0] == '/') {
    fd = try_file(&search, snprintf(ret_path, path_capacity, "%s%s", root, module->path));
    if (fd >= 0)
      return fd;
  }
  if (options->debug_directory) {
    fd = try_build_id(&search, "", options->debug_directory);
    if (fd < 0 && base)
      fd = try_file(&search, snprintf(ret_path, path_capacity, "%s%s", options->debug_directory, base));
    if (fd >= 0)
      return fd;
  }
  fd = try_build_id(&search, root, "/usr/lib/debug");
  *ret_is_rebuilt = fd < 0 && search.is_rebuilt;
  if (fd < 0 && !ret_why[0])
    (void)snprintf(ret_why, capacity, "%s%s is not there", module->path[0] == '/' ? root : "", module->path);
  return fd;
}
