#include "trace/snapshot/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pages.h"

#define TEXT_BYTES ((size_t)32 << 20)
#define NAME_BYTES 4096u /* of a longer name this much is kept */

static bool is_sound(int fd, uid_t owner, off_t *ret_bytes)
{
  struct stat status;
  if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_uid != owner || status.st_nlink != 1 ||
      (status.st_mode & (S_IWGRP | S_IWOTH)))
    return false;
  *ret_bytes = status.st_size;
  return status.st_size > 0;
}

/* The file may shrink meanwhile, so it is read and not mapped. */
static size_t read_all(int fd, char *text, size_t bytes)
{
  size_t used = 0;
  while (used < bytes) {
    ssize_t got = read(fd, text + used, bytes - used);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    used += (size_t)got;
  }
  return used;
}

void gp_perf_map_read(gp_perf_map_t *map, int64_t pid, uid_t owner)
{
  char path[64];
  off_t bytes;

  *map = (gp_perf_map_t){0};
  (void)snprintf(path, sizeof(path), "/tmp/perf-%lld.map", (long long)pid);
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return;
  if (is_sound(fd, owner, &bytes) && (map->text = gp_pages_map(TEXT_BYTES, false)) != NULL) {
    off_t begin = bytes > (off_t)TEXT_BYTES ? bytes - (off_t)TEXT_BYTES : 0;
    if (lseek(fd, begin, SEEK_SET) == begin)
      map->bytes = read_all(fd, map->text, TEXT_BYTES);
  }
  close(fd);
}

void gp_perf_map_fini(gp_perf_map_t *map)
{
  gp_pages_unmap(map->text, TEXT_BYTES);
  *map = (gp_perf_map_t){0};
}

/* Reads a hexadecimal number and the space behind it. */
static bool read_number(const char **at, const char *end, uint64_t *ret_number)
{
  const char *p = *at;
  uint64_t number = 0;

  for (; p < end && p - *at < 16; p++) {
    int digit = *p >= '0' && *p <= '9'                 ? *p - '0'
                : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (*p | 32) - 'a' + 10
                                                       : -1;
    if (digit < 0)
      break;
    number = number << 4 | (unsigned)digit;
  }
  if (p == *at || p == end || *p != ' ')
    return false;
  *at = p + 1;
  *ret_number = number;
  return true;
}

static uint32_t length_of(const char *begin, const char *end)
{
  return end - begin < NAME_BYTES ? (uint32_t)(end - begin) : NAME_BYTES;
}

static gp_perf_name_t name_of(const char *at, const char *end)
{
  bool is_python = end - at > 4 && memcmp(at, "py::", 4) == 0;
  const char *function = is_python ? at + 4 : at;
  const char *colon = is_python ? memchr(function, ':', (size_t)(end - function)) : NULL;

  return (gp_perf_name_t){.function = function,
      .function_length = length_of(function, colon ? colon : end),
      .file = colon ? colon + 1 : end,
      .file_length = colon ? length_of(colon + 1, end) : 0};
}

/* The first of the addresses that is not below. */
static size_t first_from(const gp_sort_key_t *wanted, size_t count, uint64_t address)
{
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (wanted[middle].key < address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void gp_perf_map_find(
    const gp_perf_map_t *map, const gp_sort_key_t *wanted, size_t count, gp_perf_name_t *ret_names)
{
  const char *at = map->text, *end = map->text + map->bytes, *line_end;
  uint64_t start, size;

  for (; at < end && (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1) {
    if (!read_number(&at, line_end, &start) || !read_number(&at, line_end, &size))
      continue;
    for (size_t i = first_from(wanted, count, start); i < count && wanted[i].key - start < size; i++)
      ret_names[wanted[i].index] = name_of(at, line_end);
  }
}
