#include "tools/read/record/record_reader.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/path.h"

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
  if (length == 0)
    gp_record_add_note(record, "the settings and the name of the program are missing");
  record->document.description = (gp_description_t){length ? section + sizeof(length) : "", (size_t)length};
}

/* Returns true if the record was written on this host. The pid of a process on another host is
 * meaningless. */
static bool is_of_this_host(const gp_record_t *record)
{
  const char *host = gp_description_find(&record->document.description, "host");
  char here[GP_PATH_BYTES];
  return host && gp_path_expand("%h", 0, NULL, here, sizeof(here)) == 0 && strcmp(host, here) == 0;
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

/* Adds a note for each lost table. If the table of streams is lost, all events lose their streams. If the
 * table of threads is lost, adds one entry, because every event needs a thread. */
static void tell_lost_tables(gp_record_t *record)
{
  static const gp_thread_entry_t lost = {.tid = 0, .name = "(lost)"};
  if (record->lost_streams) {
    record->is_partial = true;
    gp_record_add_note(record, "the list of streams is lost");
  }
  if (record->document.thread_count > 0 || record->events.count == 0)
    return;
  record->is_partial = true;
  gp_record_add_note(record, "the list of threads is lost");
  record->document.threads = &lost;
  record->document.thread_count = 1;
}

static void use_streams(gp_record_t *record)
{
  const gp_handle_table_t *table = record->sections[GP_SECTION_STREAMS];
  size_t bytes = record->bytes[GP_SECTION_STREAMS];
  size_t first = offsetof(gp_handle_table_t, handles);
  uint32_t count = bytes >= first ? atomic_load(&table->count) : 0;
  size_t room = bytes >= first ? (bytes - first) / sizeof(table->handles[0]) : 0;
  if (room > GP_HANDLES_MAX)
    room = GP_HANDLES_MAX;
  if (count > room) {
    gp_record_note_damage(record);
    count = (uint32_t)room;
  }
  record->document.streams = table ? table->handles : NULL;
  record->document.stream_count = count;
}

/* Counts the stacks. trace/snapshot/document_stacks.c validates each stack while writing it, and stops at an
 * invalid stack. */
static void use_stacks(gp_record_t *record)
{
  gp_stack_logs_t *logs = &record->document.stacks;
  gp_stack_view_t stack;
  uint32_t at = 0;

  if (record->bytes[GP_SECTION_MODULES] >= sizeof(*logs->modules)) {
    logs->modules = record->sections[GP_SECTION_MODULES];
    logs->module_bytes = record->bytes[GP_SECTION_MODULES];
  }
  if (record->bytes[GP_SECTION_CODES] >= sizeof(*logs->codes)) {
    logs->codes = record->sections[GP_SECTION_CODES];
    logs->code_bytes = record->bytes[GP_SECTION_CODES];
  }
  if (record->bytes[GP_SECTION_STACKS] < sizeof(*logs->stacks))
    return;
  logs->stacks = record->sections[GP_SECTION_STACKS];
  logs->stack_bytes = record->bytes[GP_SECTION_STACKS];
  while (gp_stack_log_next(logs->stacks, logs->stack_bytes, &at, &stack))
    record->stack_count++;
  if (record->stack_count < atomic_load(&logs->stacks->stack_count) &&
      at < atomic_load(&logs->stacks->word_count))
    gp_record_note_damage(record);
}

static void use_oom(gp_record_t *record)
{
  const gp_oom_record_t *section = record->sections[GP_SECTION_OOM];
  if (record->bytes[GP_SECTION_OOM] < sizeof(*section) || atomic_load(&section->is_complete) != 1)
    return;
  const gp_oom_t *report = &section->report;
  if (report->by_limit > GP_OOM_BY_HOST_LIMIT || report->device < 0 || report->device >= GP_MAX_DEVICES) {
    gp_record_note_damage(record);
    return;
  }
  record->document.oom = report;
}

static bool mark_is_sound(const gp_record_t *record, const gp_mark_record_t *mark)
{
  return mark->kind < GP_MARK_KIND_COUNT && mark->device >= -1 && mark->device < GP_MAX_DEVICES &&
         mark->thread < record->document.thread_count;
}

/* Reads the marks that the program made. Returns false if host memory runs out. */
static bool use_marks(gp_record_t *record)
{
  const gp_mark_table_t *table = record->sections[GP_SECTION_MARKS];
  const size_t first = offsetof(gp_mark_table_t, entries);
  if (record->bytes[GP_SECTION_MARKS] <= first)
    return true;
  record->marks = calloc(GP_MARKS_MAX, sizeof(*record->marks));
  if (!record->marks)
    return false;
  size_t room = (record->bytes[GP_SECTION_MARKS] - first) / sizeof(table->entries[0]);
  size_t count = gp_marks_order(table, room, record->marks);
  for (size_t i = 0; i < count; i++) {
    gp_mark_record_t mark = record->marks[i];
    mark.name[GP_MARK_NAME_BYTES - 1] = '\0';
    if (mark_is_sound(record, &mark))
      record->marks[record->document.mark_count++] = mark;
    else
      gp_record_note_damage(record);
  }
  record->document.marks = record->marks;
  return true;
}

static void use_header(gp_record_t *record, gp_record_header_t *header)
{
  gp_document_t *document = &record->document;
  uint32_t recording = atomic_load(&header->recording);
  if (recording >= GP_RECORDING_COUNT) {
    gp_record_note_damage(record);
    recording = GP_RECORDING_ALL;
  }
  document->recording = (gp_recording_t)recording;
  document->start_time_us = header->start_time_us;
  document->base_ns = header->base_ns;
  document->pid = header->pid > 0 ? header->pid : 0;
  memcpy(record->library_version, header->library_version, sizeof(header->library_version));
  if (!memchr(record->library_version, '\0', sizeof(record->library_version))) {
    gp_record_note_damage(record);
    record->library_version[0] = '\0';
  }
  document->library_version = record->library_version;
  document->driver_version = atomic_load(&header->driver_version);
  document->runtime_version = atomic_load(&header->runtime_version);
  document->reason = "recovered";
  record->misses_slots = atomic_load(&header->missing_slots) || atomic_load(&header->has_gap);
  if (atomic_load(&header->missing_slots)) {
    record->is_partial = true;
    gp_record_add_note(record,
        "%" PRIu32 " segments or allocations are missing: there was no memory to record them",
        atomic_load(&header->missing_slots));
  }
  if (atomic_load(&header->has_gap))
    gp_record_add_note(record, "recording was off for a while: memory from then may be missing");
}

bool gp_record_read(int fd, gp_record_t *ret_record)
{
  gp_record_t *record = ret_record;
  gp_record_header_t header;

  memset(record, 0, sizeof(*record));
  if (!gp_record_read_sections(record, fd, &header))
    return false;
  use_header(record, &header);
  use_description(record);
  if (!is_of_this_host(record))
    record->document.owner = (uid_t)-1;
  use_threads(record);
  use_streams(record);
  use_stacks(record);
  use_oom(record);
  if (!gp_record_read_events(record) || !gp_record_read_live(record) || !gp_record_merge_events(record))
    return gp_record_refuse(record, "out of memory");
  tell_lost_tables(record);
  if (!use_marks(record))
    return gp_record_refuse(record, "out of memory");
  if (record->damaged)
    gp_record_add_note(record, "%" PRIu64 " damaged record%s left out", record->damaged,
        record->damaged == 1 ? " was" : "s were");
  record->document.copies = record->copies;
  record->document.events = &record->events;
  record->document.notes = record->notes;
  return true;
}

void gp_record_fini(gp_record_t *record)
{
  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    gp_device_copy_fini(&record->copies[i]);
    gp_record_drop_array(&record->parts[i]);
  }
  gp_event_merge_fini(&record->events);
  free(record->marks);
  if (record->has_chunks)
    gp_chunks_fini(&record->chunks);
  for (int i = 0; i < GP_SECTION_COUNT; i++)
    free(record->sections[i]);
  memset(record, 0, sizeof(*record));
}
