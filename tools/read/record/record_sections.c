/*
 * Reads header and sections of a record from its file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/read/record/record_parts.h"
#include "format/layout.h"
#include "trace/record/sections.h"

#define SLACK_BYTES 64

/* Reads up to `bytes` bytes; fewer at the end of the file. -1 with errno. */
static ssize_t read_at(int fd, void *buffer, size_t bytes, uint64_t offset)
{
  size_t done = 0;
  while (done < bytes) {
    ssize_t got = pread(fd, (char *)buffer + done, bytes - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return -1;
    if (got == 0)
      break;
    done += (size_t)got;
  }
  return (ssize_t)done;
}

/* Finds the next data in [offset, end), from *ret_begin to *ret_end, with lseek(2). False: only a hole is
 * left. If the file system does not support holes, everything is data. */
static bool find_data(int fd, uint64_t offset, uint64_t end, uint64_t *ret_begin, uint64_t *ret_end)
{
  off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
  if (data < 0 && errno == ENXIO)
    return false;
  off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
  *ret_begin = data < 0 ? offset : (uint64_t)data;
  *ret_end = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
  return *ret_begin < *ret_end;
}

/* Reads [offset, offset + bytes) into zeroed memory, and leaves it untouched
 * for holes. Returns 0 or an errno. */
static int read_sparse(int fd, char *zeroed, size_t bytes, uint64_t offset)
{
  uint64_t begin, end;
  for (uint64_t at = offset; at < offset + bytes && find_data(fd, at, offset + bytes, &begin, &end);
       at = end) {
    if (read_at(fd, zeroed + (begin - offset), (size_t)(end - begin), begin) < 0)
      return errno;
  }
  return 0;
}

static bool check_header(gp_record_t *record, const gp_record_header_t *header)
{
  static const char nothing[sizeof(header->magic)];
  if (memcmp(header->magic, nothing, sizeof(nothing)) == 0)
    return gp_record_refuse(
        record, "nothing was recorded: the program ended while its record was being made");
  if (memcmp(header->magic, GP_RECORD_MAGIC, sizeof(header->magic)) != 0)
    return gp_record_refuse(record, "not a record of gpupool (offset 0: no \"gpupool\")");
  if (header->byte_order != GP_RECORD_BYTE_ORDER)
    return gp_record_refuse(record,
        "byte order %08" PRIx32 " at offset 12 is not that of this machine (%08x)", header->byte_order,
        GP_RECORD_BYTE_ORDER);
  if (header->layout_hash != gp_layout_hash())
    return gp_record_refuse(record,
        "written by another build (gpupool %.*s), which stores other things or elsewhere; the gpupool of that build reads it",
        (int)sizeof(header->library_version), header->library_version);
  return true;
}

/* The first earlier section that was read and overlaps this one; GP_SECTION_COUNT: none. */
static gp_section_t find_overlap(
    const gp_record_t *record, const gp_record_header_t *header, gp_section_t section)
{
  uint64_t begin = header->sections[section].offset;
  uint64_t end = begin + header->sections[section].used;
  for (int i = 0; i < (int)section; i++) {
    uint64_t other = header->sections[i].offset;
    if (record->sections[i] && begin < other + header->sections[i].used && other < end)
      return (gp_section_t)i;
  }
  return GP_SECTION_COUNT;
}

static void lose(gp_record_t *record, gp_section_t section, const char *why, const char *name)
{
  gp_record_note_damage(record);
  gp_record_add_note(record, "the section of %s is lost: %s%s", gp_section_name(section), why, name);
}

/* Copies as much of a section as exists, if its place is valid. False, after gp_record_refuse:
 * no memory, or it cannot be read. */
static bool read_section(
    gp_record_t *record, int fd, uint64_t file_bytes, const gp_record_header_t *header, gp_section_t section)
{
  uint64_t offset = header->sections[section].offset;
  uint64_t used = header->sections[section].used;
  if (section >= header->section_count || used == 0)
    return true;
  if (used > gp_section_capacity_max(section)) {
    lose(record, section, "it would be larger than it ever is", "");
    return true;
  }
  if (offset < GP_RECORD_HEADER_BYTES || offset > INT64_MAX - used) {
    lose(record, section, "its place makes no sense", "");
    return true;
  }
  gp_section_t other = find_overlap(record, header, section);
  if (other != GP_SECTION_COUNT) {
    lose(record, section, "it overlaps that of ", gp_section_name(other));
    return true;
  }
  uint64_t bytes = offset >= file_bytes ? 0 : used < file_bytes - offset ? used : file_bytes - offset;
  char *copy = calloc(
      1, (size_t)bytes + SLACK_BYTES); /* calloc maps large blocks, which take no memory until touched */
  if (!copy)
    return gp_record_refuse(record, "out of memory");
  record->sections[section] = copy;
  record->bytes[section] = (size_t)bytes;
  int error = read_sparse(fd, copy, (size_t)bytes, offset);
  if (error)
    return gp_record_refuse(record, "cannot be read at offset %" PRIu64 ": %s", offset, strerror(error));
  if (bytes < used) {
    record->is_partial = true;
    gp_record_add_note(record,
        "the section of %s is cut short: %" PRIu64 " of %" PRIu64 " bytes are in the file",
        gp_section_name(section), bytes, used);
  }
  return true;
}

bool gp_record_read_sections(gp_record_t *record, int fd, gp_record_header_t *ret_header)
{
  union {
    gp_record_header_t header;
    char page[GP_RECORD_HEADER_BYTES];
  } first;
  struct stat status;

  if (fstat(fd, &status))
    return gp_record_refuse(record, "cannot be read: %s", strerror(errno));
  if (!S_ISREG(status.st_mode))
    return gp_record_refuse(record, "not a file");
  record->document.owner = status.st_uid;
  ssize_t got = read_at(fd, first.page, sizeof(first.page), 0);
  if (got < 0)
    return gp_record_refuse(record, "cannot be read at offset 0: %s", strerror(errno));
  if (got == 0)
    return gp_record_refuse(
        record, "nothing was recorded: the program ended while its record was being made");
  if ((size_t)got < sizeof(first.page))
    return gp_record_refuse(
        record, "cut short: %zd bytes, but a header takes %u", got, GP_RECORD_HEADER_BYTES);
  if (!check_header(record, &first.header))
    return false;
  for (int i = 0; i < GP_SECTION_COUNT; i++) {
    if (!read_section(record, fd, (uint64_t)status.st_size, &first.header, (gp_section_t)i))
      return false;
  }
  memcpy(ret_header, &first.header, sizeof(*ret_header));
  return true;
}
