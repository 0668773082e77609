#include "tools/symbols/symbols_debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>

#include "tools/symbols/symbols_open.h"

#define PATH_CAPACITY   8192
#define USUAL_DIRECTORY "/usr/lib/debug"
#define DIRECTORY_COUNT 2

static const gp_symbols_options_t no_options;

/* Returns `crc` extended by the bytes, as for .gnu_debuglink in gdb's manual ("Separate Debug Files"). */
static uint32_t add_to_crc(uint32_t crc, const unsigned char *bytes, size_t count)
{
  crc = ~crc;
  for (size_t i = 0; i < count; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++)
      crc = crc & 1 ? crc >> 1 ^ UINT32_C(0xedb88320) : crc >> 1;
  }
  return ~crc;
}

static bool has_crc(int fd, uint32_t expected)
{
  unsigned char buffer[65536];
  uint32_t crc = 0;
  ssize_t got;
  for (off_t at = 0; (got = pread(fd, buffer, sizeof(buffer), at)) > 0; at += got)
    crc = add_to_crc(crc, buffer, (size_t)got);
  return got == 0 && crc == expected;
}

/* Opens a file if it has that build-id or, if `build_id` is "", that checksum. Returns a descriptor or -1.
 * `length` is the return value of snprintf for the path. */
static int try_file(const char *path, int length, const char *build_id, uint32_t crc)
{
  char found[GP_BUILD_ID_TEXT_BYTES];
  const char *why;
  int fd = length > 0 && length < PATH_CAPACITY ? gp_symbols_open(path, &why) : -1;
  if (fd < 0)
    return -1;
  bool is_it =
      build_id[0] ? gp_symbols_read_build_id(fd, found) && strcmp(found, build_id) == 0 : has_crc(fd, crc);
  if (is_it)
    return fd;
  (void)close(fd); /* only read */
  return -1;
}

/* Returns the i-th folder with debug files, the user's folder first. Sets *ret_root to the sysroot to put in
 * front of the folder. */
static const char *directory(const gp_symbols_options_t *options, size_t i, const char **ret_root)
{
  *ret_root = i == 0 || !options->sysroot ? "" : options->sysroot;
  return i == 0 ? options->debug_directory : USUAL_DIRECTORY;
}

static int find_by_build_id(const gp_symbols_options_t *options, const char *build_id, char *path)
{
  int fd = -1;
  for (size_t i = 0; i < DIRECTORY_COUNT && fd < 0 && gp_symbols_build_id_is_sound(build_id); i++) {
    const char *root;
    const char *folder = directory(options, i, &root);
    if (folder)
      fd = try_file(path,
          snprintf(path, PATH_CAPACITY, "%s%s/.build-id/%.2s/%s.debug", root, folder, build_id, build_id + 2),
          build_id, 0);
  }
  return fd;
}

/* Looks for `link`, a name without folders, in the file's folder, in .debug inside that folder, and in each
 * debug folder. In a debug folder, first appends the path of the file's folder, then looks in the debug
 * folder itself. */
static int find_by_link(const gp_symbols_options_t *options, const char *file_name, const char *link,
    const char *build_id, uint32_t crc, char *path)
{
  const char *slash = strrchr(file_name, '/');
  int folder = slash ? (int)(slash - file_name) + 1 : 0;
  int fd = try_file(path, snprintf(path, PATH_CAPACITY, "%.*s%s", folder, file_name, link), build_id, crc);
  if (fd < 0)
    fd = try_file(
        path, snprintf(path, PATH_CAPACITY, "%.*s.debug/%s", folder, file_name, link), build_id, crc);
  for (size_t i = 0; i < DIRECTORY_COUNT && fd < 0; i++) {
    const char *root;
    const char *of = directory(options, i, &root);
    if (!of)
      continue;
    fd = try_file(
        path, snprintf(path, PATH_CAPACITY, "%s%s/%.*s%s", root, of, folder, file_name, link), build_id, crc);
    if (fd < 0)
      fd = try_file(path, snprintf(path, PATH_CAPACITY, "%s%s/%s", root, of, link), build_id, crc);
  }
  return fd;
}

int gp_symbols_find_elf(
    Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file_name, Elf **elf)
{
  return -1;
}

int gp_symbols_find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
    const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc, char **debuginfo_file_name)
{
  const gp_symbols_options_t *options = userdata && *userdata ? *userdata : &no_options;
  char build_id[GP_BUILD_ID_TEXT_BYTES];
  char path[PATH_CAPACITY];
  const unsigned char *bits = NULL;
  GElf_Addr address;

  /* libdwfl calls this for dwz's file, too, without a checksum. gp_symbols_find_alternate handles it. */
  bool has_link =
      debuglink_file && debuglink_crc != 0 && !strchr(debuglink_file, '/') && debuglink_file[0] != '.';
  if (debuglink_file && debuglink_crc == 0)
    return -1;
  int length = dwfl_module_build_id(module, &bits, &address);
  gp_symbols_format_build_id(bits, length > 0 ? (size_t)length : 0, build_id);
  int fd = find_by_build_id(options, build_id, path);
  if (fd < 0 && has_link && file_name)
    fd = find_by_link(options, file_name, debuglink_file, build_id, debuglink_crc, path);
  if (fd < 0)
    return -1;
  *debuginfo_file_name = strdup(path); /* may be NULL if memory runs out */
  return fd;
}

bool gp_symbols_find_alternate(
    Dwarf *dwarf, const gp_symbols_options_t *options, Dwarf **ret_alternate, int *ret_fd)
{
  char build_id[GP_BUILD_ID_TEXT_BYTES];
  char path[PATH_CAPACITY];
  const char *name;
  const void *bits;

  *ret_alternate = NULL;
  *ret_fd = -1;
  ssize_t length = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &bits);
  if (length <= 0)
    return length == 0;
  gp_symbols_format_build_id(bits, (size_t)length, build_id);
  int fd = find_by_build_id(options, build_id, path);
  if (fd < 0 && name[0] == '/')
    fd = try_file(path, snprintf(path, PATH_CAPACITY, "%s%s", options->sysroot ? options->sysroot : "", name),
        build_id, 0);
  if (fd < 0)
    return false;
  *ret_alternate = dwarf_begin(fd, DWARF_C_READ);
  if (!*ret_alternate) {
    (void)close(fd); /* only read */
    return false;
  }
  *ret_fd = fd;
  dwarf_setalt(dwarf, *ret_alternate);
  return true;
}
