#include "trace/chunks.h"

#include <string.h>
#include <sys/mman.h>

#include "pool/util/assert.h"
#include "trace/pages.h"

static uint32_t chunk_events_for(uint64_t events)
{
  uint32_t chunk_events = GP_CHUNK_EVENTS;
  while (chunk_events > GP_CHUNK_EVENTS_MIN && events / chunk_events < 64)
    chunk_events /= 2;
  return chunk_events;
}

static bool map_region(gp_chunks_t *chunks, uint64_t events)
{
  uint32_t chunk_events = chunk_events_for(events);
  uint64_t chunk_count = (events + chunk_events - 1) / chunk_events + 1;
  uint64_t chunks_offset = (sizeof(gp_chunk_region_t) + 63) / 64 * 64;
  uint64_t records_offset = (chunks_offset + chunk_count * sizeof(gp_chunk_t) + 4095) / 4096 * 4096;
  size_t bytes = records_offset + chunk_count * chunk_events * sizeof(gp_event_record_t);
  char *pages = gp_pages_map(bytes, false);
  if (!pages)
    return false;
  /* A forked child has no use for the events of its parent, and the parent none for copies on write. Wiped
   * rather than absent, for a child that records all the same. Older kernels lack it, which only costs
   * memory. */
  (void)madvise(pages, bytes, MADV_WIPEONFORK);

  gp_chunk_region_t *region = (gp_chunk_region_t *)(void *)pages;
  memcpy(region->magic, "gpupool", sizeof(region->magic));
  region->version = GP_EVENT_RECORD_VERSION;
  region->record_bytes = sizeof(gp_event_record_t);
  region->chunk_events = chunk_events;
  region->chunk_count = (uint32_t)chunk_count;
  region->chunks_offset = chunks_offset;
  region->records_offset = records_offset;
  region->oldest = GP_CHUNK_NONE;
  region->newest = GP_CHUNK_NONE;
  chunks->region = region;
  chunks->chunks = (gp_chunk_t *)(void *)(pages + chunks_offset);
  chunks->records = (gp_event_record_t *)(void *)(pages + records_offset);
  chunks->bytes = bytes;

  gp_chunk_t *shared = &chunks->chunks[chunk_count - 1];
  shared->state = GP_CHUNK_SHARED;
  shared->owner = GP_CHUNK_OWNER_SHARED;
  shared->opened = ++region->opened;
  return true;
}

bool gp_chunks_init(gp_chunks_t *chunks, uint64_t events)
{
  if (pthread_mutex_init(&chunks->mutex, NULL))
    return false;
  if (events < GP_CHUNK_EVENTS_MIN)
    events = GP_CHUNK_EVENTS_MIN;
  for (; events >= GP_CHUNK_EVENTS_MIN; events /= 2) {
    if (map_region(chunks, events))
      return true;
  }
  (void)pthread_mutex_destroy(&chunks->mutex); /* nobody holds it */
  return false;
}

void gp_chunks_fini(gp_chunks_t *chunks)
{
  gp_pages_unmap(chunks->region, chunks->bytes);
  chunks->region = NULL;
  (void)pthread_mutex_destroy(&chunks->mutex); /* nobody holds it */
}

uint64_t gp_chunks_newest_ns(const gp_chunks_t *chunks, uint32_t index)
{
  const gp_event_record_t *records = gp_chunks_records(chunks, index);
  uint32_t count = atomic_load_explicit(&chunks->chunks[index].count, memory_order_acquire);
  uint64_t newest_ns = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (records[i].time_ns > newest_ns)
      newest_ns = records[i].time_ns;
  }
  return newest_ns;
}

/* Puts a chunk into the closed list. From the new end: nearly always it has the newest events. */
static void list_insert(gp_chunks_t *chunks, uint32_t index)
{
  gp_chunk_region_t *region = chunks->region;
  gp_chunk_t *chunk = &chunks->chunks[index];
  uint32_t before = region->newest;
  while (before != GP_CHUNK_NONE && chunks->chunks[before].newest_ns > chunk->newest_ns)
    before = chunks->chunks[before].previous;
  uint32_t after = before == GP_CHUNK_NONE ? region->oldest : chunks->chunks[before].next;
  chunk->previous = before;
  chunk->next = after;
  if (before == GP_CHUNK_NONE)
    region->oldest = index;
  else
    chunks->chunks[before].next = index;
  if (after == GP_CHUNK_NONE)
    region->newest = index;
  else
    chunks->chunks[after].previous = index;
}

static uint32_t list_pop_oldest(gp_chunks_t *chunks)
{
  gp_chunk_region_t *region = chunks->region;
  uint32_t index = region->oldest;
  if (index == GP_CHUNK_NONE)
    return index;
  region->oldest = chunks->chunks[index].next;
  if (region->oldest == GP_CHUNK_NONE)
    region->newest = GP_CHUNK_NONE;
  else
    chunks->chunks[region->oldest].previous = GP_CHUNK_NONE;
  return index;
}

static void close_locked(gp_chunks_t *chunks, uint32_t index, uint64_t newest_ns)
{
  gp_chunk_t *chunk = &chunks->chunks[index];
  gp_assert(chunk->state == GP_CHUNK_OPEN);
  gp_assert_full(newest_ns == gp_chunks_newest_ns(chunks, index));
  chunk->state = GP_CHUNK_CLOSED;
  chunk->newest_ns = newest_ns;
  list_insert(chunks, index);
}

/* Empties a chunk that nobody appends to. newest_ns is its newest time; the records are no longer in any
 * cache. */
static void discard_locked(gp_chunks_t *chunks, uint32_t index, uint64_t newest_ns)
{
  gp_chunk_region_t *region = chunks->region;
  gp_chunk_t *chunk = &chunks->chunks[index];
  uint32_t count = atomic_load_explicit(&chunk->count, memory_order_relaxed);
  if (!count)
    return;
  if (!region->has_lost || newest_ns > region->since_ns)
    region->since_ns = newest_ns;
  region->has_lost = 1;
  region->dropped += count;
  /* After since_ns, so that one who looks at a killed process' region finds the loss announced. */
  atomic_store_explicit(&chunk->count, 0, memory_order_release);
}

static uint32_t open_locked(gp_chunks_t *chunks, uint32_t owner)
{
  gp_chunk_region_t *region = chunks->region;
  uint32_t index;
  if (region->used < region->chunk_count - 1) {
    index = region->used++;
  } else {
    index = list_pop_oldest(chunks);
    if (index == GP_CHUNK_NONE)
      return GP_CHUNK_NONE;
    discard_locked(chunks, index, chunks->chunks[index].newest_ns);
  }
  gp_chunk_t *chunk = &chunks->chunks[index];
  chunk->state = GP_CHUNK_OPEN;
  chunk->owner = owner;
  chunk->opened = ++region->opened;
  return index;
}

static void append_shared_locked(gp_chunks_t *chunks, const gp_event_record_t *record)
{
  uint32_t index = chunks->region->chunk_count - 1;
  gp_chunk_t *chunk = &chunks->chunks[index];
  uint32_t count = atomic_load_explicit(&chunk->count, memory_order_relaxed);
  if (count == chunks->region->chunk_events) {
    discard_locked(chunks, index, gp_chunks_newest_ns(chunks, index));
    chunk->opened = ++chunks->region->opened;
    count = 0;
  }
  gp_chunks_records(chunks, index)[count] = *record;
  atomic_store_explicit(&chunk->count, count + 1, memory_order_release);
}

/* A chunk's first pages at once: four faults cost half as much again. */
static void populate(gp_chunks_t *chunks, uint32_t index)
{
#ifdef MADV_POPULATE_WRITE
  size_t bytes = chunks->region->chunk_events * sizeof(gp_event_record_t);
  (void)madvise(
      gp_chunks_records(chunks, index), bytes, MADV_POPULATE_WRITE); /* since Linux 5.14; else faults */
#endif
}

uint32_t gp_chunks_turn(
    gp_chunks_t *chunks, uint32_t full, uint64_t newest_ns, uint32_t owner, const gp_event_record_t *record)
{
  (void)pthread_mutex_lock(&chunks->mutex); /* a plain mutex cannot fail */
  uint32_t used = chunks->region->used;
  if (full != GP_CHUNK_NONE)
    close_locked(chunks, full, newest_ns);
  uint32_t index = open_locked(chunks, owner);
  if (index == GP_CHUNK_NONE)
    append_shared_locked(chunks, record);
  bool is_fresh = chunks->region->used != used;
  (void)pthread_mutex_unlock(&chunks->mutex); /* held */
  if (is_fresh)
    populate(chunks, index);
  return index;
}

void gp_chunks_close(gp_chunks_t *chunks, uint32_t index, uint64_t newest_ns)
{
  (void)pthread_mutex_lock(&chunks->mutex); /* a plain mutex cannot fail */
  close_locked(chunks, index, newest_ns);
  (void)pthread_mutex_unlock(&chunks->mutex); /* held */
}

void gp_chunks_forget(gp_chunks_t *chunks, uint64_t now_ns)
{
  (void)pthread_mutex_lock(&chunks->mutex); /* a plain mutex cannot fail */
  gp_chunk_region_t *region = chunks->region;
  if (!region->has_lost || now_ns > region->since_ns)
    region->since_ns = now_ns;
  region->has_lost = 1;
  (void)pthread_mutex_unlock(&chunks->mutex); /* held */
}
