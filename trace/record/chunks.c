#include "trace/record/chunks.h"

static uint32_t chunk_records_for(uint64_t events)
{
  uint32_t chunk_records = GP_CHUNK_RECORDS;
  while (chunk_records > GP_CHUNK_RECORDS_MIN && events / chunk_records < 64)
    chunk_records /= 2;
  return chunk_records;
}

/* The layout of the section: sizes, and offsets from the section's start. */
typedef struct layout {
  uint32_t chunk_records;
  uint32_t chunk_count;
  size_t chunks_offset;
  size_t records_offset;
} layout_t;

static layout_t layout_for(uint64_t events)
{
  layout_t layout;
  if (events < GP_CHUNK_RECORDS_MIN)
    events = GP_CHUNK_RECORDS_MIN;
  layout.chunk_records = chunk_records_for(events);
  layout.chunk_count = (uint32_t)((events + layout.chunk_records - 1) / layout.chunk_records + 1);
  layout.chunks_offset = (sizeof(gp_chunk_header_t) + 63) / 64 * 64;
  layout.records_offset =
      (layout.chunks_offset + layout.chunk_count * sizeof(gp_chunk_t) + 4095) / 4096 * 4096;
  return layout;
}

static size_t chunk_bytes(const gp_chunks_t *chunks)
{
  return chunks->header->chunk_records * sizeof(gp_event_record_t);
}

size_t gp_chunks_bytes(uint64_t events)
{
  layout_t layout = layout_for(events);
  return layout.records_offset +
         (size_t)layout.chunk_count * layout.chunk_records * sizeof(gp_event_record_t);
}

void gp_chunks_init(gp_chunks_t *chunks, gp_region_t *region, uint64_t events)
{
  layout_t layout = layout_for(events);
  char *section = gp_region_section(region, GP_SECTION_EVENTS, NULL);
  chunks->region = region;
  chunks->events = events;
  chunks->header = (gp_chunk_header_t *)(void *)section;
  chunks->chunks = (gp_chunk_t *)(void *)(section + layout.chunks_offset);
  chunks->records = (gp_event_record_t *)(void *)(section + layout.records_offset);
  gp_lock_init(&chunks->lock, GP_RANK_CHUNKS);
}

void gp_chunks_init_copy(
    gp_chunks_t *chunks, gp_chunk_header_t *header, gp_chunk_t *array, gp_event_record_t *records)
{
  *chunks = (gp_chunks_t){.header = header, .chunks = array, .records = records};
  gp_lock_init(&chunks->lock, GP_RANK_CHUNKS);
}

void gp_chunks_fini(gp_chunks_t *chunks)
{
  gp_assert_internal(gp_lock_is_free(&chunks->lock));
}

/* Initializes the header before the first event. Returns false if there is no memory. The caller holds the
 * lock. */
static bool begin_locked(gp_chunks_t *chunks)
{
  gp_assert(gp_lock_is_held(&chunks->lock));
  layout_t layout = layout_for(chunks->events);
  gp_chunk_header_t *header = chunks->header;
  size_t first_bytes = layout.records_offset + layout.chunk_records * sizeof(gp_event_record_t);
  if (!gp_region_grow(chunks->region, GP_SECTION_EVENTS, first_bytes))
    return false;
  header->chunk_records = layout.chunk_records;
  header->chunk_count = layout.chunk_count;
  header->chunks_offset = layout.chunks_offset;
  header->records_offset = layout.records_offset;
  header->oldest = GP_CHUNK_NONE;
  header->newest = GP_CHUNK_NONE;
  header->since_ns = chunks->since_ns;
  header->has_lost = chunks->has_lost;
  header->wanted = chunks->events;
  header->used = 1;
  chunks->chunks[0].state = GP_CHUNK_SHARED;
  chunks->chunks[0].owner = GP_CHUNK_OWNER_SHARED;
  atomic_signal_fence(memory_order_release);
  header->is_begun = 1; /* stored last: a reader that sees is_begun also sees the other members */
  return true;
}

uint64_t gp_chunks_newest_ns(const gp_chunks_t *chunks, uint32_t index)
{
  const gp_event_record_t *records = gp_chunks_records(chunks, index);
  uint32_t count = atomic_load_explicit(&chunks->chunks[index].count, memory_order_acquire);
  uint64_t newest_ns = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t time_ns = gp_event_record_newest_ns(&records[i], gp_event_record_completion(&records[i]));
    if (time_ns > newest_ns)
      newest_ns = time_ns;
  }
  return newest_ns;
}

/* Returns the number of events in a closed chunk. If the completion of a free may still be stored, counts it
 * as an event. */
static uint32_t count_events(const gp_chunks_t *chunks, uint32_t index)
{
  const gp_event_record_t *records = gp_chunks_records(chunks, index);
  uint32_t count = atomic_load_explicit(&chunks->chunks[index].count, memory_order_relaxed);
  uint32_t events = count;
  for (uint32_t i = 0; i < count; i++)
    if (records[i].action == GP_ACTION_FREE_REQUESTED) {
      bool is_closed = gp_event_record_completion(&records[i]) >> 32 == GP_COMPLETION_CLOSED;
      events += !is_closed + (records[i].flags & GP_EVENT_RECORD_PAIR ? 1 : 0);
    }
  return events;
}

/* Inserts a chunk into the list of closed chunks, which is ordered by newest_ns. Searches from the newest
 * end, because the chunk to insert nearly always has the newest events. */
static void list_insert(gp_chunks_t *chunks, uint32_t index)
{
  gp_chunk_header_t *header = chunks->header;
  gp_chunk_t *chunk = &chunks->chunks[index];
  uint32_t before = header->newest;
  while (before != GP_CHUNK_NONE && chunks->chunks[before].newest_ns > chunk->newest_ns)
    before = chunks->chunks[before].previous;
  uint32_t after = before == GP_CHUNK_NONE ? header->oldest : chunks->chunks[before].next;
  gp_assert_internal(chunk->state == GP_CHUNK_CLOSED);
  gp_assert_internal(after == GP_CHUNK_NONE || chunks->chunks[after].newest_ns > chunk->newest_ns);
  chunk->previous = before;
  chunk->next = after;
  if (before == GP_CHUNK_NONE)
    header->oldest = index;
  else
    chunks->chunks[before].next = index;
  if (after == GP_CHUNK_NONE)
    header->newest = index;
  else
    chunks->chunks[after].previous = index;
}

static uint32_t list_pop_oldest(gp_chunks_t *chunks)
{
  gp_chunk_header_t *header = chunks->header;
  uint32_t index = header->oldest;
  if (index == GP_CHUNK_NONE)
    return index;
  header->oldest = chunks->chunks[index].next;
  if (header->oldest == GP_CHUNK_NONE)
    header->newest = GP_CHUNK_NONE;
  else
    chunks->chunks[header->oldest].previous = GP_CHUNK_NONE;
  return index;
}

static void close_locked(gp_chunks_t *chunks, uint32_t index, uint64_t newest_ns)
{
  gp_chunk_t *chunk = &chunks->chunks[index];
  gp_assert(gp_lock_is_held(&chunks->lock));
  gp_assert(chunk->state == GP_CHUNK_OPEN);
  gp_assert_full(newest_ns <= gp_chunks_newest_ns(chunks, index));
  chunk->state = GP_CHUNK_CLOSED;
  chunk->newest_ns = newest_ns;
  chunk->events = count_events(chunks, index);
  chunks->header->events += chunk->events;
  list_insert(chunks, index);
}

/* Marks a free's completion as closed if it is still open, so that no thread can store a time any more.
 * Returns the final value of the completion. */
static uint64_t close_completion(gp_event_record_t *record)
{
  uint64_t completion = gp_event_record_completion(record);
  if (record->action != GP_ACTION_FREE_REQUESTED || completion >> 32 != GP_COMPLETION_OPEN)
    return completion;
  uint64_t closed = gp_completion_set(completion, GP_COMPLETION_CLOSED);
  /* Acquire and release: a thread that stores a completion has read the record before the record is
   * reused. */
  return __atomic_compare_exchange_n(
             &record->completion, &completion, closed, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
             ? closed
             : completion;
}

/* Empties a chunk that no thread appends to, and counts its events as dropped. The stores are ordered so that
 * a reader gets the right count even if the process is killed between them. */
static void discard_locked(gp_chunks_t *chunks, uint32_t index)
{
  gp_chunk_header_t *header = chunks->header;
  gp_chunk_t *chunk = &chunks->chunks[index];
  gp_event_record_t *records = gp_chunks_records(chunks, index);
  uint32_t count = atomic_load_explicit(&chunk->count, memory_order_relaxed);
  uint64_t newest_ns = 0;
  uint64_t events = 0;

  gp_assert(chunk->state != GP_CHUNK_OPEN && count <= header->chunk_records);
  if (!count)
    return;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t completion = close_completion(&records[i]);
    uint64_t time_ns = gp_event_record_newest_ns(&records[i], completion);
    if (time_ns > newest_ns)
      newest_ns = time_ns;
    events += gp_event_record_count(&records[i], completion);
  }
  if (!header->has_lost || newest_ns > header->since_ns)
    header->since_ns = newest_ns;
  header->has_lost = 1;
  header->dropped_then = header->dropped + events;
  atomic_signal_fence(memory_order_release);
  header->discarding = index + 1;
  atomic_signal_fence(memory_order_release);
  header->dropped = header->dropped_then;
  atomic_store_explicit(&chunk->count, 0, memory_order_release);
  atomic_store_explicit(&header->discarding, 0, memory_order_release);
}

/* The section grows by several chunks at a time, so that the kernel is called less often. Page faults for the
 * four pages of a chunk would take half as much time again. */
#define GROWTH_BYTES ((size_t)64 * 1024)

static bool has_room_for(gp_chunks_t *chunks, uint32_t index)
{
  size_t end = chunks->header->records_offset + ((size_t)index + 1) * chunk_bytes(chunks);
  size_t capacity;
  if (end <= gp_region_used(chunks->region, GP_SECTION_EVENTS))
    return true;
  (void)gp_region_section(chunks->region, GP_SECTION_EVENTS, &capacity);
  size_t wanted = end + GROWTH_BYTES < capacity ? end + GROWTH_BYTES : capacity;
  return gp_region_grow(chunks->region, GP_SECTION_EVENTS, wanted) ||
         gp_region_grow(chunks->region, GP_SECTION_EVENTS, end);
}

/* Returns true if the closed chunks except the oldest contain at least the requested number of events. */
static bool has_enough(const gp_chunks_t *chunks)
{
  const gp_chunk_header_t *header = chunks->header;
  gp_assert_internal(gp_lock_is_held(&chunks->lock));
  return header->oldest != GP_CHUNK_NONE &&
         header->events - chunks->chunks[header->oldest].events >= chunks->events;
}

static uint32_t open_locked(gp_chunks_t *chunks, uint32_t owner)
{
  gp_chunk_header_t *header = chunks->header;
  gp_assert(gp_lock_is_held(&chunks->lock));
  uint32_t index = GP_CHUNK_NONE;
  if (!has_enough(chunks)) {
    if (header->used < header->chunk_count && has_room_for(chunks, header->used))
      index = header->used++;
    else
      header->chunk_count = header->used; /* no more memory: only existing chunks are used from now on */
  }
  if (index == GP_CHUNK_NONE) {
    index = list_pop_oldest(chunks);
    if (index == GP_CHUNK_NONE)
      return GP_CHUNK_NONE;
    header->events -= chunks->chunks[index].events;
    discard_locked(chunks, index);
  }
  gp_chunk_t *chunk = &chunks->chunks[index];
  gp_assert(gp_lock_is_held(&chunks->lock));
  gp_assert(chunk->state == GP_CHUNK_FREE || chunk->state == GP_CHUNK_CLOSED);
  gp_assert(atomic_load_explicit(&chunk->count, memory_order_relaxed) == 0);
  chunk->state = GP_CHUNK_OPEN;
  chunk->owner = owner;
  return index;
}

static void append_shared_locked(gp_chunks_t *chunks, const gp_event_record_t *record)
{
  const uint32_t index = 0;
  gp_chunk_t *chunk = &chunks->chunks[index];
  uint32_t count = atomic_load_explicit(&chunk->count, memory_order_relaxed);
  gp_assert(gp_lock_is_held(&chunks->lock));
  gp_assert(chunk->state == GP_CHUNK_SHARED && count <= chunks->header->chunk_records);
  if (count == chunks->header->chunk_records) {
    discard_locked(chunks, index);
    count = 0;
  }
  gp_event_record_copy(&gp_chunks_records(chunks, index)[count], record);
  atomic_store_explicit(&chunk->count, count + 1, memory_order_release);
}

uint32_t gp_chunks_rotate(
    gp_chunks_t *chunks, uint32_t full, uint64_t newest_ns, uint32_t owner, const gp_event_record_t *record)
{
  uint32_t index = GP_CHUNK_NONE;
  gp_lock_take(&chunks->lock);
  if (gp_chunks_is_empty(chunks) && !begin_locked(chunks)) {
    chunks->unstored++;
  } else {
    if (full != GP_CHUNK_NONE)
      close_locked(chunks, full, newest_ns);
    index = open_locked(chunks, owner);
    if (index == GP_CHUNK_NONE)
      append_shared_locked(chunks, record);
  }
  gp_lock_release(&chunks->lock);
  return index;
}

void gp_chunks_close(gp_chunks_t *chunks, uint32_t index, uint64_t newest_ns)
{
  gp_lock_take(&chunks->lock);
  close_locked(chunks, index, newest_ns);
  gp_lock_release(&chunks->lock);
}

void gp_chunks_forget(gp_chunks_t *chunks, uint64_t now_ns)
{
  gp_lock_take(&chunks->lock);
  bool is_empty = gp_chunks_is_empty(chunks);
  gp_chunk_header_t *header = chunks->header;
  gp_assert(gp_lock_is_held(&chunks->lock));
  if (is_empty) {
    chunks->since_ns = now_ns;
    chunks->has_lost = true;
    /* Stores the loss in the record at once, because the process may be killed before it records an event. */
    if (gp_region_is_started(chunks->region))
      (void)begin_locked(chunks);
  } else {
    if (!header->has_lost || now_ns > header->since_ns)
      header->since_ns = now_ns;
    header->has_lost = 1;
  }
  gp_lock_release(&chunks->lock);
}

void gp_chunks_enlist(gp_chunks_t *chunks, uint32_t index)
{
  gp_chunk_t *chunk = &chunks->chunks[index];
  chunk->state = GP_CHUNK_CLOSED;
  chunk->newest_ns = gp_chunks_newest_ns(chunks, index);
  list_insert(chunks, index);
}
