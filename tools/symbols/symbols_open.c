#include "tools/symbols/symbols_open.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

#include "tools/optional_library.h"
#include "tools/symbols/symbols_module.h"

/*
 * The functions of libdw under their own names. Call them only if gp_symbols_are_available returned true.
 */

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

/* Returns true if the file is in a kernel file system such as /proc. Reading such a file may consume data, or
 * make a driver act. */
static bool is_of_the_kernel(int fd)
{
  static const long kinds[] = {
      PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC, PSTOREFS_MAGIC};
  struct statfs status;
  if (fstatfs(fd, &status))
    return true;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if ((unsigned long)status.f_type == (unsigned long)kinds[i])
      return true;
  }
  return false;
}

/* Returns true if the file begins like a program, a library or a debug file. */
static bool is_module(int fd)
{
  Elf64_Ehdr header; /* the fields read here have the same offsets in an Elf32_Ehdr */
  if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
    return false;
  return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

int gp_symbols_open(const char *path, const char **ret_why)
{
  struct stat status;
  char again[64];

  *ret_why = NULL;
  /* O_PATH (open(2)) returns a descriptor without opening the file, so it has no effect on drivers, pipes or
   * terminals. From then on, nobody can replace the file by another. */
  int place = open(path, O_PATH | O_CLOEXEC);
  if (place < 0) {
    if (errno != ENOENT && errno != ENOTDIR)
      *ret_why = strerror(errno);
    return -1;
  }
  int fd = -1;
  if (fstat(place, &status) || !S_ISREG(status.st_mode)) {
    *ret_why = "is not a regular file";
  } else if (status.st_size < (off_t)sizeof(Elf64_Ehdr) || is_of_the_kernel(place)) {
    *ret_why = "is not an ELF file";
  } else {
    (void)snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
    fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
      *ret_why = strerror(errno);
  }
  (void)close(place); /* the file was only inspected */
  if (fd < 0 || is_module(fd))
    return fd;
  *ret_why = "is not an ELF file";
  (void)close(fd); /* only read */
  return -1;
}

bool gp_symbols_read_build_id(int fd, char *buffer)
{
  const void *bits = NULL;
  (void)elf_version(EV_CURRENT);
  Elf *elf = elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, NULL);
  bool is_elf = elf && elf_kind(elf) == ELF_K_ELF;
  ssize_t length = is_elf ? dwelf_elf_gnu_build_id(elf, &bits) : 0;

  gp_symbols_format_build_id(bits, length > 0 ? (size_t)length : 0, buffer);
  (void)elf_end(elf); /* NULL is legal */
  return is_elf;
}

void gp_symbols_format_build_id(const void *bits, size_t length, char *buffer)
{
  buffer[0] = '\0';
  for (size_t i = 0; i < length && i * 2 + 3 <= GP_BUILD_ID_TEXT_BYTES; i++)
    (void)snprintf(buffer + i * 2, 3, "%02x", ((const unsigned char *)bits)[i]);
}

bool gp_symbols_build_id_is_sound(const char *build_id)
{
  size_t length = strlen(build_id);
  return length >= 6 && length % 2 == 0 && length < GP_BUILD_ID_TEXT_BYTES &&
         strspn(build_id, "0123456789abcdef") == length;
}
