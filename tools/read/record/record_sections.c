/*
 * Reads the header and the sections of a record from its file, and puts parts into their segments.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/read/record/record_parts.h"
#include "format/layout.h"
#include "trace/record/recorder.h"
#include "base/pages.h"

void gp_record_note_damage(gp_record_t *record)
{
  record->damaged++;
  record->is_partial = true;
}

void gp_record_add_note(gp_record_t *record, const char *format, ...)
{
  va_list arguments;
  size_t count = record->document.note_count;
  if (count == GP_RECORD_NOTES)
    return;
  va_start(arguments, format);
  vsnprintf(record->note_texts[count], GP_RECORD_NOTE_BYTES, format, arguments);
  va_end(arguments);
  record->notes[count] = record->note_texts[count];
  record->document.note_count = count + 1;
}

bool gp_record_refuse(gp_record_t *record, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record->problem, sizeof(record->problem), format, arguments);
  va_end(arguments);
  return false;
}

/*
 * Division of segments. Sorts the memory of a device by address and removes overlaps. Then divides each
 * segment into its parts and the idle memory between them, which has no slots. Joins adjacent segments that
 * one part spans.
 */

static gp_block_view_t *nth(const gp_copied_array_t *array, size_t i)
{
  return gp_record_block(array, array->by_address[i].index);
}

static uint64_t end_of(const gp_block_view_t *block)
{
  return block->address + block->size;
}

/* Sorts the blocks by address. If two blocks overlap, one is damaged, and the older one is dropped. */
static void sort_blocks(gp_record_t *record, gp_copied_array_t *array)
{
  for (size_t i = 0; i < array->count; i++)
    array->by_address[i] = (gp_sort_key_t){.key = gp_record_block(array, i)->address, .index = (uint32_t)i};
  gp_sort_keys(array->by_address, array->count);
  size_t kept = 0;
  for (size_t i = 0; i < array->count; i++) {
    const gp_block_view_t *last = kept ? nth(array, kept - 1) : NULL;
    const gp_block_view_t *block = nth(array, i);
    if (last && block->address < end_of(last)) {
      gp_record_note_damage(record);
      if (block->block_id < last->block_id)
        continue;
      kept--;
    }
    array->by_address[kept++] = array->by_address[i];
  }
  array->count = kept;
}

static void put(gp_copied_array_t *array, const gp_block_view_t *block, const gp_block_view_t *segment)
{
  size_t i = array->count++;
  gp_block_view_t *view = gp_record_block(array, i);
  *view = *block;
  view->segment_address = segment->address;
  view->segment_size = segment->size;
  view->context = segment->context;
  array->by_address[i] = (gp_sort_key_t){.key = view->address, .index = (uint32_t)i};
}

static void put_hole(gp_copied_array_t *array, uint64_t begin, uint64_t end, const gp_block_view_t *segment)
{
  const gp_block_view_t hole = {.address = begin, .size = end - begin, .state = GP_BLOCK_IDLE};
  if (begin < end)
    put(array, &hole, segment);
}

/* Handles a part whose segment has no slot. If slots may be missing, the part becomes a segment of its own.
 * Otherwise the part is damaged, and is omitted. */
static void put_alone(
    gp_record_t *record, gp_copied_array_t *array, const gp_block_view_t *part, uint64_t end)
{
  if (record->misses_slots && end_of(part) <= end)
    put(array, part, part);
  else
    gp_record_note_damage(record);
}

/* Adds the segment, its parts from index *at on, and the holes between them. Advances *at past the parts. */
static void put_segment(gp_record_t *record, gp_copied_array_t *array, const gp_block_view_t *segment,
    const gp_copied_array_t *parts, size_t *at)
{
  uint64_t begin = segment->address;
  for (; *at < parts->count && nth(parts, *at)->address < end_of(segment); ++*at) {
    const gp_block_view_t *part = nth(parts, *at);
    if (!gp_record_is_cuttable(segment) || end_of(part) > end_of(segment)) {
      gp_record_note_damage(record);
      continue;
    }
    put_hole(array, begin, part->address, segment);
    put(array, part, segment);
    begin = end_of(part);
  }
  if (begin == segment->address)
    put(array, segment, segment); /* the segment is one block */
  else
    put_hole(array, begin, end_of(segment), segment);
}

/* Returns true if a part spans both `segment` and `next`, so that they belong together. Mapped memory has a
 * slot for each piece. `at` is the index of the first part that may be in `segment`. */
static bool goes_on(
    const gp_block_view_t *segment, const gp_block_view_t *next, const gp_copied_array_t *parts, size_t at)
{
  if (next->address != end_of(segment) || next->context != segment->context ||
      !gp_record_is_cuttable(segment) || !gp_record_is_cuttable(next))
    return false;
  bool spans = false;
  for (; at < parts->count && nth(parts, at)->address < end_of(segment); at++)
    spans = end_of(nth(parts, at)) > end_of(segment);
  return spans;
}

bool gp_record_order_memory(gp_record_t *record, int device)
{
  gp_device_copy_t *copy = &record->copies[device];
  gp_copied_array_t *parts = &record->parts[device];
  gp_copied_array_t whole = copy->blocks;
  size_t at = 0;

  if (!whole.pages)
    return true; /* the record contains nothing about this device */
  for (size_t i = 0; i < copy->forwarded.count; i++)
    copy->forwarded.by_address[i] =
        (gp_sort_key_t){.key = gp_record_forwarded(&copy->forwarded, i)->address, .index = (uint32_t)i};
  gp_sort_keys(copy->forwarded.by_address, copy->forwarded.count);
  sort_blocks(record, &whole);
  sort_blocks(record, parts);
  copy->blocks = (gp_copied_array_t){0};
  bool good = gp_record_make_array(&copy->blocks, whole.count + 2 * parts->count, sizeof(gp_block_view_t));
  for (size_t i = 0; good && i <= whole.count; i++) {
    const gp_block_view_t *segment = i < whole.count ? nth(&whole, i) : NULL;
    uint64_t end = segment ? segment->address : UINT64_MAX;
    for (; at < parts->count && nth(parts, at)->address < end; at++)
      put_alone(record, &copy->blocks, nth(parts, at), end);
    if (!segment)
      continue;
    gp_block_view_t run = *segment;
    while (i + 1 < whole.count && goes_on(&run, nth(&whole, i + 1), parts, at))
      run.size += nth(&whole, ++i)->size;
    put_segment(record, &copy->blocks, &run, parts, &at);
  }
  gp_pages_unmap(whole.pages, whole.bytes);
  gp_record_drop_array(parts);
  return good;
}

#define SLACK_BYTES 64

/* Reads `bytes` bytes, or fewer at the end of the file. Returns their number, or -1 with errno set. */
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

/* Finds the next data in [offset, end) with lseek(2), and sets *ret_begin and *ret_end to its range. Returns
 * false if only a hole is left. Everything counts as data if the file system does not support holes. */
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

/* Reads [offset, offset + bytes) into zeroed memory. Leaves holes untouched. Returns 0 or an errno. */
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

/* Returns the first section read earlier that overlaps this section, or GP_SECTION_COUNT for none. */
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

/* Copies as much of a section as the file contains, if the section's position is valid. If memory runs out or
 * the section cannot be read, calls gp_record_refuse and returns false. */
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
    lose(record, section, "its position is impossible", "");
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
