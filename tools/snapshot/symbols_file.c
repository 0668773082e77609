#include "tools/snapshot/symbols_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>

/* One search. The reason of the first file that was there but would not do is the one to tell. */
typedef struct search {
  const gp_snapshot_module_t *module;
  uint64_t start_time_us;
  char *path;
  size_t path_capacity;
  char *why;
  size_t capacity;
} search_t;

static void refuse(search_t *search, const char *why)
{
  if (!search->why[0])
    (void)snprintf(search->why, search->capacity, "%s %s", search->path, why);
}

/* Lower-case hexadecimal of the file's build-id; "" without one. Returns false if it is no ELF file. */
static bool read_build_id(int fd, char *buffer, size_t capacity)
{
  const void *bits = NULL;
  Elf *elf = elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, NULL);
  bool is_elf = elf && elf_kind(elf) == ELF_K_ELF;
  ssize_t length = is_elf ? dwelf_elf_gnu_build_id(elf, &bits) : 0;

  buffer[0] = '\0';
  for (ssize_t i = 0; i < length && (size_t)i * 2 + 3 <= capacity; i++)
    (void)snprintf(buffer + i * 2, 3, "%02x", ((const unsigned char *)bits)[i]);
  (void)elf_end(elf); /* NULL is legal */
  return is_elf;
}

static bool is_the_module(search_t *search, int fd)
{
  char build_id[129];
  char text[320];
  struct stat status;

  if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
    refuse(search, "is no regular file");
    return false;
  }
  if (!read_build_id(fd, build_id, sizeof(build_id))) {
    refuse(search, "is no ELF file");
    return false;
  }
  if (strcmp(build_id, search->module->build_id) != 0) {
    (void)snprintf(text, sizeof(text), "is another build (build-id %s, the program had %s)",
        build_id[0] ? build_id : "none", search->module->build_id[0] ? search->module->build_id : "none");
    refuse(search, text);
    return false;
  }
  uint64_t modified_us = (uint64_t)status.st_mtim.tv_sec * 1000000 + (uint64_t)status.st_mtim.tv_nsec / 1000;
  if (!build_id[0] && modified_us >= search->start_time_us) {
    refuse(search, "has no build-id and was changed after the program began");
    return false;
  }
  return true;
}

/* Opens a candidate whose path was written by snprintf, which returned `length`. */
static int try_file(search_t *search, int length)
{
  if (length < 0 || (size_t)length >= search->path_capacity)
    return -1;
  /* Without waiting for a writer, should it be a pipe. */
  int fd = open(search->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    if (errno != ENOENT && errno != ENOTDIR)
      refuse(search, strerror(errno));
    return -1;
  }
  if (is_the_module(search, fd))
    return fd;
  (void)close(fd); /* it was only read */
  return -1;
}

/* folder/.build-id/ab/cdef..., as it is and with ".debug". */
static int try_build_id(search_t *search, const char *root, const char *folder)
{
  const char *id = search->module->build_id;
  int fd;

  if (strlen(id) < 3)
    return -1;
  fd = try_file(search,
      snprintf(search->path, search->path_capacity, "%s%s/.build-id/%.2s/%s.debug", root, folder, id, id + 2));
  if (fd < 0)
    fd = try_file(
        search, snprintf(search->path, search->path_capacity, "%s%s/.build-id/%.2s/%s", root, folder, id, id + 2));
  return fd;
}

int gp_symbols_open_file(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, char *ret_path, size_t path_capacity, char *ret_why, size_t capacity)
{
  const char *root = options->sysroot ? options->sysroot : "";
  const char *base = strrchr(module->path, '/');
  search_t search = {module, start_time_us, ret_path, path_capacity, ret_why, capacity};
  int fd;

  ret_why[0] = '\0';
  (void)elf_version(EV_CURRENT);
  /* A relative path would be looked up in a folder that has nothing to do with the program's. */
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
  if (fd < 0 && !ret_why[0])
    (void)snprintf(ret_why, capacity, "%s%s is not there", module->path[0] == '/' ? root : "", module->path);
  return fd;
}
