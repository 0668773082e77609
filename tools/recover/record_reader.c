#include "tools/recover/record_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/recover/record_parts.h"
#include "trace/record/streams.h"

#define SLACK_BYTES 64

/* No section is ever larger; a number above is no number of ours. */
#define SECTION_BYTES_MAX ((uint64_t)2 << 30)

static const char *const section_names[] = {
    [GP_SECTION_DESCRIPTION] = "description",
    [GP_SECTION_DEVICES] = "devices",
    [GP_SECTION_OOM] = "out of memory",
    [GP_SECTION_THREADS] = "threads",
    [GP_SECTION_STREAMS] = "streams",
    [GP_SECTION_LIVE] = "live memory",
    [GP_SECTION_STACKS] = "stacks",
    [GP_SECTION_MODULES] = "modules",
    [GP_SECTION_EVENTS] = "events",
};
_Static_assert(sizeof(section_names) / sizeof(section_names[0]) == GP_SECTION_COUNT, "each has a name");

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

static bool refuse(gp_record_t *record, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(gp_record_t *record, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record->problem, sizeof(record->problem), format, arguments);
  va_end(arguments);
  return false;
}

/* Reads up to bytes; less at the end of the file. -1 with errno. */
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

static bool check_header(gp_record_t *record, const gp_region_header_t *header)
{
  static const char nothing[sizeof(header->magic)];
  if (memcmp(header->magic, nothing, sizeof(nothing)) == 0)
    return refuse(record, "nothing was recorded: the program ended while its record was being made");
  if (memcmp(header->magic, GP_REGION_MAGIC, sizeof(header->magic)) != 0)
    return refuse(record, "not a record of gpupool (offset 0: no \"gpupool\")");
  if (header->byte_order != GP_REGION_BYTE_ORDER)
    return refuse(record, "byte order %08" PRIx32 " at offset 12 is not that of this machine (%08x)",
        header->byte_order, GP_REGION_BYTE_ORDER);
  if (header->version != GP_REGION_VERSION)
    return refuse(record, "version %" PRIu32 " at offset 8; this gpupool reads version %u (written by gpupool %.*s)",
        header->version, GP_REGION_VERSION, (int)sizeof(header->library_version), header->library_version);
  return true;
}

/* Copies a section as far as it is there and its place makes sense. False: the host has no memory. */
static bool read_section(gp_record_t *record, int fd, const gp_region_header_t *header, gp_section_t section)
{
  uint64_t offset = header->sections[section].offset;
  uint64_t used = header->sections[section].used;
  if (section >= header->section_count || used == 0)
    return true;
  if (offset < GP_REGION_HEADER_BYTES || offset > INT64_MAX - SECTION_BYTES_MAX || used > SECTION_BYTES_MAX) {
    gp_record_note_damage(record);
    gp_record_add_note(record, "the section of %s is lost: its place makes no sense", section_names[section]);
    return true;
  }
  void *copy = malloc((size_t)used + SLACK_BYTES);
  if (!copy)
    return refuse(record, "out of memory");
  ssize_t got = read_at(fd, copy, (size_t)used, offset);
  if (got < 0) {
    int error = errno;
    free(copy);
    return refuse(record, "cannot be read at offset %" PRIu64 ": %s", offset, strerror(error));
  }
  if ((uint64_t)got < used) {
    record->is_partial = true;
    gp_record_add_note(record, "the section of %s is cut short: %zd of %" PRIu64 " bytes are in the file",
        section_names[section], got, used);
  }
  memset((char *)copy + got, 0, SLACK_BYTES);
  record->sections[section] = copy;
  record->bytes[section] = (size_t)got;
  return true;
}

static void use_description(gp_record_t *record)
{
  const char *section = record->sections[GP_SECTION_DESCRIPTION];
  size_t bytes = record->bytes[GP_SECTION_DESCRIPTION];
  uint64_t length = 0;
  if (bytes > sizeof(length))
    memcpy(&length, section, sizeof(length));
  if (length > (bytes > sizeof(length) ? bytes - sizeof(length) : 0)) {
    gp_record_note_damage(record);
    length = 0;
  }
  record->document.description = (gp_description_t){section + (section ? sizeof(length) : 0), (size_t)length};
}

static void use_threads(gp_record_t *record)
{
  gp_thread_table_t *table = record->sections[GP_SECTION_THREADS];
  size_t bytes = record->bytes[GP_SECTION_THREADS];
  size_t first = offsetof(gp_thread_table_t, entries);
  uint32_t count = bytes >= first ? atomic_load(&table->count) : 0;
  size_t room = bytes >= first ? (bytes - first) / sizeof(table->entries[0]) : 0;
  if (room > GP_THREADS_MAX)
    room = GP_THREADS_MAX;
  if (count > room) {
    gp_record_note_damage(record);
    count = (uint32_t)room;
  }
  for (uint32_t i = 0; i < count; i++) {
    table->entries[i].name[GP_THREAD_NAME_BYTES - 1] = '\0';
    if (table->entries[i].tid < 0) {
      gp_record_note_damage(record);
      table->entries[i].tid = 0;
    }
  }
  record->document.threads = table ? table->entries : NULL;
  record->document.thread_count = count;
}

static void use_streams(gp_record_t *record)
{
  const gp_stream_table_t *table = record->sections[GP_SECTION_STREAMS];
  size_t bytes = record->bytes[GP_SECTION_STREAMS];
  size_t first = offsetof(gp_stream_table_t, handles);
  uint32_t count = bytes >= first ? atomic_load(&table->count) : 0;
  size_t room = bytes >= first ? (bytes - first) / sizeof(table->handles[0]) : 0;
  if (room > GP_STREAMS_MAX)
    room = GP_STREAMS_MAX;
  if (count > room) {
    gp_record_note_damage(record);
    count = (uint32_t)room;
  }
  record->document.streams = table ? table->handles : NULL;
  record->document.stream_count = count;
}

/* Stacks are checked one by one as they are written (trace/snapshot/document_stacks.c); what is wrong ends the list. */
static void use_stacks(gp_record_t *record)
{
  gp_stacks_t *stacks = &record->stacks;
  gp_stack_view_t stack;
  uint32_t at = 0;

  stacks->log = record->sections[GP_SECTION_STACKS];
  stacks->log_bytes = record->bytes[GP_SECTION_STACKS];
  stacks->modules.log = record->sections[GP_SECTION_MODULES];
  stacks->modules.log_bytes = record->bytes[GP_SECTION_MODULES];
  size_t bytes = gp_stacks_log_bytes(stacks);
  while (bytes && gp_stack_log_next(stacks->log, bytes, &at, &stack))
    record->stack_count++;
  if (bytes && (record->stack_count < atomic_load(&stacks->log->stack_count)) && at < atomic_load(&stacks->log->word_count))
    gp_record_note_damage(record);
  record->document.stacks = stacks;
}

/* The report of an out of memory. Its flag is a byte that may hold anything: it is not read as a bool before. */
static void use_oom(gp_record_t *record)
{
  unsigned char by_limit;
  gp_oom_record_t *section = record->sections[GP_SECTION_OOM];
  if (record->bytes[GP_SECTION_OOM] < sizeof(*section) || atomic_load(&section->is_complete) != 1)
    return;
  memcpy(&by_limit, (const char *)&section->report + offsetof(gp_oom_t, by_limit), 1);
  if (by_limit > 1 || section->report.device < 0 || section->report.device >= GP_MAX_DEVICES) {
    gp_record_note_damage(record);
    return;
  }
  memcpy(&record->oom, &section->report, sizeof(record->oom));
  record->document.oom = &record->oom;
}

static void use_header(gp_record_t *record, gp_region_header_t *header)
{
  gp_document_t *document = &record->document;
  uint32_t mode = atomic_load(&header->mode);
  if (mode > GP_TRACE_ALL) {
    gp_record_note_damage(record);
    mode = GP_TRACE_ALL;
  }
  document->mode = (int)mode;
  document->start_time_us = header->start_time_us;
  document->base_ns = header->base_ns;
  document->pid = header->pid > 0 ? header->pid : 0;
  document->driver_version = atomic_load(&header->driver_version);
  document->runtime_version = atomic_load(&header->runtime_version);
  document->reason = "recovered";
  if (atomic_load(&header->missing_slots)) {
    record->is_partial = true;
    gp_record_add_note(record, "%" PRIu32 " segments or allocations are missing: there was no memory to note them",
        atomic_load(&header->missing_slots));
  }
  if (atomic_load(&header->has_gap))
    gp_record_add_note(record, "recording was off for a while: memory from then may be missing");
}

bool gp_record_read(int fd, gp_record_t *ret_record)
{
  gp_record_t *record = ret_record;
  union {
    gp_region_header_t header;
    char page[GP_REGION_HEADER_BYTES];
  } first;
  struct stat status;

  memset(record, 0, sizeof(*record));
  if (fstat(fd, &status))
    return refuse(record, "cannot be read: %s", strerror(errno));
  if (!S_ISREG(status.st_mode))
    return refuse(record, "not a file");
  ssize_t got = read_at(fd, first.page, sizeof(first.page), 0);
  if (got < 0)
    return refuse(record, "cannot be read at offset 0: %s", strerror(errno));
  if (got == 0)
    return refuse(record, "nothing was recorded: the program ended while its record was being made");
  if ((size_t)got < sizeof(first.page))
    return refuse(record, "cut short: %zd bytes, but a header takes %u", got, GP_REGION_HEADER_BYTES);
  if (!check_header(record, &first.header))
    return false;
  for (int i = 0; i < GP_SECTION_COUNT; i++) {
    if (!read_section(record, fd, &first.header, (gp_section_t)i))
      return false;
  }
  use_header(record, &first.header);
  use_description(record);
  use_threads(record);
  use_streams(record);
  use_stacks(record);
  use_oom(record);
  if (!gp_record_read_events(record) || !gp_record_read_live(record))
    return refuse(record, "out of memory");
  if (record->damaged)
    gp_record_add_note(record, "%" PRIu64 " damaged record%s left out", record->damaged,
        record->damaged == 1 ? " was" : "s were");
  record->document.views = record->views;
  record->document.history = &record->history;
  record->document.notes = record->notes;
  return true;
}

void gp_record_fini(gp_record_t *record)
{
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    gp_device_view_fini(&record->views[i]);
  gp_event_history_fini(&record->history);
  if (record->has_chunks)
    gp_chunks_fini(&record->chunks);
  for (int i = 0; i < GP_SECTION_COUNT; i++)
    free(record->sections[i]);
  memset(record, 0, sizeof(*record));
}
