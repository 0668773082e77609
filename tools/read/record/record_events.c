/*
 * Reads the events of a record. Validates every chunk and event, removes invalid events, and merges the rest
 * in the order in which the library would merge them.
 */
#include <stdlib.h>

#include "base/options.h"
#include "tools/read/record/record_parts.h"
#include "base/sort.h"

/* The number of chunks for the largest GPUPOOL_TRACE_EVENTS. Smaller rings have fewer and smaller chunks. */
#define CHUNKS_MAX (gp_option_table[GP_OPTION_trace_events].maximum / GP_CHUNK_RECORDS + 1)

/* Larger times, which are centuries after the start, are invalid. So are times before the start: a part of
 * the file that was never written has time 0. */
#define TIME_NS_MAX (UINT64_C(1) << 62)

/* Returns true if the record of a free contains no allocation, or if that allocation is valid. */
static bool pair_is_sound(const gp_record_t *record, const gp_event_record_t *event)
{
  const gp_document_t *document = &record->document;
  if (!(event->flags & GP_EVENT_RECORD_PAIR))
    return true;
  return event->action == GP_ACTION_FREE_REQUESTED &&
         event->time_ns - document->base_ns >= event->lifetime_ns &&
         (event->alloc_thread < document->thread_count || document->thread_count == 0);
}

static bool is_sound(const gp_record_t *record, const gp_event_record_t *event)
{
  const gp_document_t *document = &record->document;
  return event->action < GP_ACTION_COUNT && event->detail < GP_DETAIL_COUNT && event->device >= -1 &&
         event->device < GP_MAX_DEVICES && (event->flags & ~GP_EVENT_RECORD_FLAGS) == 0 &&
         event->stream >= -1 &&
         (event->stream < (int32_t)document->stream_count || document->stream_count == 0) &&
         event->stack >= -1 && (event->thread < document->thread_count || document->thread_count == 0) &&
         event->time_ns > 0 && event->time_ns >= document->base_ns && event->time_ns < TIME_NS_MAX &&
         pair_is_sound(record, event);
}

/* Removes invalid events, and those from index `room` on, from a chunk. Returns the number that remain. */
static uint32_t clean_chunk(gp_record_t *record, gp_event_record_t *events, uint32_t count, size_t room)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (i >= room || !is_sound(record, &events[i])) {
      gp_record_note_damage(record);
      record->chunks.header->dropped++;
      continue;
    }
    events[kept] = events[i];
    if (events[kept].stack >= (int64_t)record->stack_count)
      events[kept].stack = -1;                /* the table of stacks does not contain the stack yet */
    if (record->document.thread_count == 0) { /* gp_record_read adds an entry to an empty table */
      events[kept].thread = 0;
      if (events[kept].flags & GP_EVENT_RECORD_PAIR)
        events[kept].alloc_thread = 0;
    }
    if (record->document.stream_count == 0 && events[kept].stream >= 0) {
      events[kept].stream = GP_EVENT_RECORD_NO_STREAM;
      record->lost_streams = true;
    }
    kept++;
  }
  return kept;
}

/* Validates the header of the section, and corrects it in place, since the section is a copy. Returns false
 * if there are no events to read. */
static bool check_layout(gp_record_t *record)
{
  gp_chunk_header_t *header = record->sections[GP_SECTION_EVENTS];
  size_t bytes = record->bytes[GP_SECTION_EVENTS];
  if (bytes < sizeof(*header) || !header->is_begun)
    return false; /* nothing was recorded */
  bool good = header->is_begun == 1 && header->chunk_records >= 1 &&
              header->chunk_records <= GP_CHUNK_RECORDS && header->chunks_offset % 64 == 0 &&
              header->records_offset % 64 == 0 && header->chunks_offset >= sizeof(*header) &&
              header->chunks_offset <= header->records_offset && header->records_offset <= bytes &&
              header->used >= 1;
  if (good) {
    size_t room = (header->records_offset - header->chunks_offset) / sizeof(gp_chunk_t);
    good = header->used <= room && header->used <= CHUNKS_MAX;
  }
  if (!good) {
    gp_record_note_damage(record);
    gp_record_add_note(record, "no event can be read: the beginning of their section is damaged");
  }
  return good;
}

static void clean(gp_record_t *record)
{
  gp_chunks_t *chunks = &record->chunks;
  gp_chunk_header_t *header = chunks->header;
  size_t events_there =
      (record->bytes[GP_SECTION_EVENTS] - header->records_offset) / sizeof(gp_event_record_t);
  uint32_t discarding = atomic_load(&header->discarding);

  header->has_lost = header->has_lost != 0;
  if (discarding)
    header->dropped = header->dropped_then;
  if (header->wanted == 0) {
    gp_record_note_damage(record);
    header->wanted = UINT64_MAX;
  }
  if (header->dropped >= UINT64_MAX / 2) {
    gp_record_note_damage(record);
    header->dropped = 0;
  }
  for (uint32_t i = 0; i < header->used; i++) {
    gp_chunk_t *chunk = &chunks->chunks[i];
    size_t first = (size_t)i * header->chunk_records;
    uint32_t count = atomic_load(&chunk->count);
    if (count > header->chunk_records) {
      gp_record_note_damage(record);
      count = 0;
    }
    if (discarding == i + 1)
      count = 0; /* the library was discarding this chunk, and had counted its events as dropped */
    count = clean_chunk(
        record, gp_chunks_records(chunks, i), count, first < events_there ? events_there - first : 0);
    atomic_store(&chunk->count, count);
    chunk->state = i == 0 ? GP_CHUNK_SHARED : GP_CHUNK_FREE;
    chunk->owner = i == 0 ? GP_CHUNK_OWNER_SHARED : chunk->owner & 0x7fff;
  }
}

/* Lists the chunks in the order in which the library would have reused them. Returns false if host memory
 * runs out. */
static bool enlist(gp_chunks_t *chunks)
{
  gp_chunk_header_t *header = chunks->header;
  size_t count = 0;
  gp_sort_key_t *keys = malloc(header->used * sizeof(*keys));
  if (!keys)
    return false;
  for (uint32_t i = 1; i < header->used; i++) {
    if (atomic_load(&chunks->chunks[i].count) > 0)
      keys[count++] = (gp_sort_key_t){.key = gp_chunks_newest_ns(chunks, i), .index = i};
  }
  gp_sort_keys(keys, count);
  for (size_t i = 0; i < count; i++)
    gp_chunks_enlist(chunks, keys[i].index);
  free(keys);
  return true;
}

bool gp_record_merge_events(gp_record_t *record)
{
  const gp_event_moment_t moment = {record->copies, record->document.devices};
  return !record->has_chunks || gp_event_merge_in_place(&record->chunks, &moment, &record->events);
}

bool gp_record_read_events(gp_record_t *record)
{
  char *section = record->sections[GP_SECTION_EVENTS];

  if (!check_layout(record))
    return true;
  gp_chunk_header_t *header = (gp_chunk_header_t *)(void *)section;
  gp_chunks_init_copy(&record->chunks, header, (gp_chunk_t *)(void *)(section + header->chunks_offset),
      (gp_event_record_t *)(void *)(section + header->records_offset));
  record->has_chunks = true;
  header->oldest = GP_CHUNK_NONE;
  header->newest = GP_CHUNK_NONE;
  header->chunk_count = header->used;
  clean(record);
  return enlist(&record->chunks);
}
