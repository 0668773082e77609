#include "trace/snapshot/event_merge.h"

#include "base/pages.h"
#include "trace/record/live.h"

typedef struct reading {
  gp_engine_t *engine;
  int device;
  gp_stats_t *stats;
  const gp_moment_t *moment;
} reading_t;

typedef size_t (*read_fn)(const reading_t *reading, void *array, size_t capacity);

static size_t read_blocks(const reading_t *reading, void *array, size_t capacity)
{
  return gp_engine_blocks(reading->engine, reading->device, array, capacity, reading->stats, reading->moment);
}

static size_t read_forwarded(const reading_t *reading, void *array, size_t capacity)
{
  return gp_engine_forwarded_copy(reading->engine, reading->device, array, capacity);
}

static bool take_array(
    const reading_t *reading, read_fn read, size_t item_bytes, size_t guess, gp_copied_array_t *ret_array)
{
  size_t capacity = guess + guess / 4 + 64;
  for (;;) {
    size_t bytes = capacity * (item_bytes + sizeof(gp_sort_key_t));
    char *pages = gp_emergency_pages_map(bytes, false);
    if (!pages)
      return false;
    size_t count = read(reading, pages, capacity);
    if (count <= capacity) {
      ret_array->items = pages;
      ret_array->by_address = (gp_sort_key_t *)(void *)(pages + capacity * item_bytes);
      ret_array->count = count;
      ret_array->pages = pages;
      ret_array->bytes = bytes;
      return true;
    }
    /* Doubles the room, to make sure that the loop ends although other threads may be allocating. */
    gp_emergency_pages_unmap(pages, bytes);
    capacity = 2 * count;
  }
}

bool gp_device_copy_take(
    gp_engine_t *engine, int device, const gp_moment_t *moment, gp_device_copy_t *ret_copy)
{
  gp_device_copy_t *copy = ret_copy;
  const reading_t reading = {engine, device, &copy->stats, moment};
  memset(copy, 0, sizeof(*copy));
  gp_engine_stats(engine, device, &copy->stats); /* gives the expected number of blocks */
  copy->limit = gp_engine_limit(engine, device);
  copy->has_use = gp_engine_device_use(engine, device, &copy->use);
  /* Guesses the number of blocks. There are more blocks than segments only if segments are split, and then
   * about as many blocks are idle as allocated. */
  uint64_t guess = copy->stats.segment.current;
  if (copy->stats.allocation.current > guess)
    guess += 2 * copy->stats.allocation.current;
  static_assert(sizeof(gp_block_view_t) % 8 == 0 && sizeof(gp_forwarded_t) % 8 == 0, "keys follow, aligned");
  if (!take_array(&reading, read_blocks, sizeof(gp_block_view_t), guess, &copy->blocks) ||
      !take_array(&reading, read_forwarded, sizeof(gp_forwarded_t), 64, &copy->forwarded))
    return false;

  const gp_block_view_t *blocks = copy->blocks.items;
  for (size_t i = 0; i < copy->blocks.count; i++) {
    copy->blocks.by_address[i] = (gp_sort_key_t){.key = blocks[i].address, .index = (uint32_t)i};
    if (blocks[i].state != GP_BLOCK_IDLE)
      continue;
    copy->idle_bytes += blocks[i].size;
    gp_assert_internal(blocks[i].refs == 0);
    if (blocks[i].size > copy->largest_idle)
      copy->largest_idle = blocks[i].size;
  }
  const gp_forwarded_t *forwarded = copy->forwarded.items;
  for (size_t i = 0; i < copy->forwarded.count; i++)
    copy->forwarded.by_address[i] = (gp_sort_key_t){.key = forwarded[i].address, .index = (uint32_t)i};
  gp_sort_keys(copy->blocks.by_address, copy->blocks.count);
  gp_sort_keys(copy->forwarded.by_address, copy->forwarded.count);
  return true;
}

void gp_device_copy_fini(gp_device_copy_t *copy)
{
  gp_emergency_pages_unmap(copy->blocks.pages, copy->blocks.bytes);
  gp_emergency_pages_unmap(copy->forwarded.pages, copy->forwarded.bytes);
  memset(copy, 0, sizeof(*copy));
}

/* A chunk to copy, and the number of records to copy. */
typedef struct chunk_ref {
  uint32_t index;
  uint32_t count;
} chunk_ref_t;

typedef struct work {
  const gp_event_moment_t *moment;
  size_t capacity; /* number of records */
  size_t room;     /* number of events that the records may represent */
  size_t alloc_count;
  chunk_ref_t *chunks;
  size_t chunk_count;
} work_t;

/* Returns true if the block is allocated and no event record has its alloc event. */
static bool records_alloc(const gp_block_view_t *block)
{
  return block->state == GP_BLOCK_ALLOCATED && gp_note_records_alloc(block->observer_note);
}

static const gp_device_copy_t *copy_of(const gp_event_moment_t *moment, int device)
{
  bool is_there = device >= 0 && device < GP_MAX_DEVICES && moment->devices >> device & 1;
  return is_there ? &moment->copies[device] : NULL;
}

static size_t count_allocs(const gp_event_moment_t *moment)
{
  size_t count = 0;
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    const gp_device_copy_t *copy = copy_of(moment, device);
    for (size_t i = 0; copy && i < copy->blocks.count; i++)
      count += records_alloc((const gp_block_view_t *)copy->blocks.items + i);
  }
  return count;
}

/* Allocates the merge's arrays, with room for `copies` copied records. work->room, work->alloc_count and
 * work->chunk_count must be set. Returns false if there is no memory. */
static bool map_pages(gp_event_merge_t *merge, work_t *work, size_t copies)
{
  size_t bytes = (copies + work->alloc_count) * sizeof(gp_event_record_t) +
                 (work->room + work->alloc_count) * sizeof(gp_sort_key_t) +
                 work->chunk_count * sizeof(chunk_ref_t);
  /* Makes the pages resident now, because page faults while the chunks are locked would delay other
   * threads. */
  char *pages = gp_emergency_pages_map(bytes + 1, true);
  if (!pages)
    return false;
  merge->pages = pages;
  merge->bytes = bytes + 1;
  merge->records = (gp_event_record_t *)(void *)pages;
  pages += copies * sizeof(gp_event_record_t);
  merge->allocs = (gp_event_record_t *)(void *)pages;
  pages += work->alloc_count * sizeof(gp_event_record_t);
  merge->order = (gp_sort_key_t *)(void *)pages;
  pages += (work->room + work->alloc_count) * sizeof(gp_sort_key_t);
  work->chunks = (chunk_ref_t *)(void *)pages;
  work->chunk_count = 0;
  work->capacity = copies;
  return true;
}

/* Copying. Chunks are read under the lock, so no thread reuses them. In the records below a chunk's count,
 * only completions can change. */

static uint32_t count_of(const gp_chunks_t *chunks, uint32_t index)
{
  return atomic_load_explicit(&chunks->chunks[index].count, memory_order_acquire);
}

/* Returns the number of records in all chunks. *ret_events gets an upper bound of the number of their events.
 * The caller holds the lock. */
static size_t count_records(const gp_chunks_t *chunks, size_t *ret_events)
{
  size_t recorded = 0;

  gp_assert(gp_lock_is_held(&chunks->lock));
  *ret_events = 0;
  for (uint32_t i = 0; i < chunks->header->used; i++) {
    bool is_closed = chunks->chunks[i].state == GP_CHUNK_CLOSED;
    recorded += count_of(chunks, i);
    *ret_events += is_closed ? chunks->chunks[i].events : count_of(chunks, i) * (size_t)GP_PARTS;
  }
  return recorded;
}

/* Makes room for all records, and for some more that may be recorded before the copy. Makes less room if
 * memory is short. Returns false if there is no memory at all. */
static bool make_room(gp_chunks_t *chunks, gp_event_merge_t *merge, work_t *work)
{
  const gp_chunk_header_t *header = chunks->header;
  size_t events;
  gp_lock_take(&chunks->lock);
  size_t recorded = count_records(chunks, &events);
  size_t chunk_count = header->chunk_count; /* can only shrink, when memory is short */
  gp_lock_release(&chunks->lock);

  size_t more = recorded / 8 + 64 * (size_t)header->chunk_records;
  size_t capacity = recorded + more;
  if (capacity > chunk_count * header->chunk_records)
    capacity = chunk_count * header->chunk_records;
  work->room = events + more * GP_PARTS;
  work->chunk_count = chunk_count;
  while (!map_pages(merge, work, capacity)) {
    capacity /= 2;
    work->room = capacity * GP_PARTS;
    if (capacity < GP_CHUNK_RECORDS)
      return false;
  }
  return true;
}

/* Lists all chunks: the closed ones in the order in which they will be reused, then the open ones and the
 * shared one. Returns the sum of their counts. Reads each count only once, because owners continue to
 * record. */
static size_t list_chunks(const gp_chunks_t *chunks, work_t *work)
{
  const gp_chunk_header_t *header = chunks->header;
  size_t total = 0;
  for (uint32_t i = header->oldest; i != GP_CHUNK_NONE; i = chunks->chunks[i].next)
    work->chunks[work->chunk_count++] = (chunk_ref_t){i, count_of(chunks, i)};
  for (uint32_t i = 0; i < header->used; i++) {
    const gp_chunk_t *chunk = &chunks->chunks[i];
    if (chunk->state == GP_CHUNK_OPEN || chunk->state == GP_CHUNK_SHARED)
      work->chunks[work->chunk_count++] = (chunk_ref_t){i, count_of(chunks, i)};
  }
  gp_assert(work->chunk_count <= header->used);
  for (size_t i = 0; i < work->chunk_count; i++)
    total += work->chunks[i].count;
  return total;
}

/* Marks the oldest chunks as lost until at least `excess` records are lost. */
static void lose_oldest(const gp_chunks_t *chunks, gp_event_merge_t *merge, const work_t *work, size_t excess)
{
  for (size_t i = 0; i < work->chunk_count && excess; i++) {
    const chunk_ref_t *chunk = &work->chunks[i];
    if (!chunk->count)
      continue;
    uint64_t newest_ns = gp_chunks_newest_ns(chunks, chunk->index);
    if (!merge->has_lost || newest_ns > merge->since_ns)
      merge->since_ns = newest_ns;
    merge->has_lost = true;
    excess -= excess > chunk->count ? chunk->count : excess;
  }
}

/* Returns true if events of this time are lost. All events of all threads up to since_ns are dropped, so that
 * no event after since_ns is missing. */
static bool is_lost(const gp_event_merge_t *merge, uint64_t time_ns)
{
  return merge->has_lost && time_ns <= merge->since_ns;
}

/* Returns true if the record represents the event `part` and the merge includes that event. If the event is
 * lost, counts it as dropped. No thread may change the record any more. */
static bool is_kept(
    gp_event_merge_t *merge, const gp_event_record_t *record, gp_event_part_t part, uint64_t until_ns)
{
  if (!gp_event_record_has(record, record->completion, part))
    return false;
  uint64_t time_ns = gp_event_record_part_ns(record, record->completion, part);
  if (is_lost(merge, time_ns)) {
    merge->dropped++;
    return false;
  }
  return time_ns <= until_ns;
}

static void add_event(gp_event_merge_t *merge, size_t record, gp_event_part_t part, uint64_t time_ns)
{
  merge->order[merge->count++] =
      (gp_sort_key_t){.key = time_ns, .index = (uint32_t)(record * GP_PARTS + part)};
}

static uint64_t until_of(const work_t *work, const gp_event_record_t *record)
{
  const gp_device_copy_t *copy = copy_of(work->moment, record->device);
  return copy ? copy->until_ns : UINT64_MAX;
}

/* Adds the events of merge->records[place] to the merge. Returns false if the merge includes none of them. */
static bool add_record(gp_event_merge_t *merge, const work_t *work, size_t place)
{
  const gp_event_record_t *record = &merge->records[place];
  uint64_t until_ns = until_of(work, record);
  size_t before = merge->count;

  /* The record is later than the moment. If it is a free, the copy of the device still has the block, with
   * its alloc event. */
  if (record->time_ns > until_ns)
    return false;
  for (int part = 0; part < GP_PARTS; part++)
    if (is_kept(merge, record, (gp_event_part_t)part, until_ns))
      add_event(merge, place, (gp_event_part_t)part,
          gp_event_record_part_ns(record, record->completion, (gp_event_part_t)part));
  return merge->count > before;
}

/* Adds the alloc events of blocks that were allocated at the moment and whose alloc is in no record. */
static void add_allocs(gp_event_merge_t *merge, const work_t *work)
{
  size_t added = 0;
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    const gp_device_copy_t *copy = copy_of(work->moment, device);
    for (size_t i = 0; copy && i < copy->blocks.count; i++) {
      const gp_block_view_t *block = (const gp_block_view_t *)copy->blocks.items + i;
      if (!records_alloc(block))
        continue;
      if (is_lost(merge, block->time_ns)) {
        merge->dropped++;
        continue;
      }
      merge->allocs[added] = (gp_event_record_t){.time_ns = block->time_ns,
          .address = block->address,
          .size = block->requested,
          .stack = (int32_t)block->origin - 1,
          .stream = block->has_stream ? (int16_t)block->stream : (int16_t)GP_EVENT_RECORD_NO_STREAM,
          .thread = gp_note_thread(block->observer_note),
          .action = GP_ACTION_ALLOC,
          .device = (int8_t)device,
          .flags = GP_EVENT_RECORD_HIT};
      gp_event_record_set_block(&merge->allocs[added], block->size, block->block_id);
      add_event(merge, merge->record_count + added, GP_PART_ACTION, block->time_ns);
      added++;
    }
  }
}

/* Notes which events were lost before the first record. The caller holds the lock. */
static void begin(const gp_chunks_t *chunks, gp_event_merge_t *merge)
{
  gp_assert(gp_lock_is_held(&chunks->lock));
  merge->has_lost = chunks->header->has_lost;
  merge->since_ns = chunks->header->since_ns;
  merge->dropped = chunks->header->dropped + chunks->unstored;
}

/* Copies all records for which there is room, and leaves out the oldest ones. The caller holds the lock. */
static void copy_records(const gp_chunks_t *chunks, gp_event_merge_t *merge, work_t *work)
{
  begin(chunks, merge);
  size_t total = list_chunks(chunks, work);
  if (total > work->capacity)
    lose_oldest(chunks, merge, work, total - work->capacity);
  for (size_t i = 0; i < work->chunk_count; i++) {
    const gp_event_record_t *from = gp_chunks_records(chunks, work->chunks[i].index);
    for (uint32_t j = 0; j < work->chunks[i].count; j++) {
      if (merge->record_count == work->capacity || merge->count + GP_PARTS > work->room)
        return;
      gp_event_record_copy(&merge->records[merge->record_count], &from[j]);
      merge->record_count += add_record(merge, work, merge->record_count);
    }
  }
}

/* Drops the oldest events if there are more than requested. */
static void lose_excess(const gp_chunks_t *chunks, gp_event_merge_t *merge)
{
  size_t most = chunks->header->wanted;

  if (merge->count <= most)
    return;
  size_t excess = merge->count - most;
  merge->since_ns = merge->order[excess - 1].key;
  merge->has_lost = true;
  /* Also drops the events of other devices with the time since_ns. */
  while (excess < merge->count && merge->order[excess].key == merge->since_ns)
    excess++;
  merge->dropped += excess;
  merge->order += excess;
  merge->count -= excess;
}

static void finish(const gp_chunks_t *chunks, gp_event_merge_t *merge, const work_t *work)
{
  add_allocs(merge, work);
  gp_sort_keys(merge->order, merge->count);
  lose_excess(chunks, merge);
}

bool gp_event_merge_take(gp_chunks_t *chunks, const gp_event_moment_t *moment, gp_event_merge_t *ret_merge)
{
  gp_event_merge_t *merge = ret_merge;
  work_t work = {.moment = moment};

  memset(merge, 0, sizeof(*merge));
  if (gp_chunks_is_empty(chunks)) {
    merge->has_lost = chunks->has_lost;
    merge->since_ns = chunks->since_ns;
    merge->dropped = chunks->unstored;
    return true;
  }
  work.alloc_count = count_allocs(moment);
  if (!make_room(chunks, merge, &work))
    return false;
  gp_lock_take(&chunks->lock);
  copy_records(chunks, merge, &work);
  gp_lock_release(&chunks->lock);
  finish(chunks, merge, &work);
  return true;
}

bool gp_event_merge_in_place(
    gp_chunks_t *chunks, const gp_event_moment_t *moment, gp_event_merge_t *ret_merge)
{
  const gp_chunk_header_t *header = chunks->header;
  gp_event_merge_t *merge = ret_merge;
  work_t work = {.moment = moment, .alloc_count = count_allocs(moment), .chunk_count = header->used};

  memset(merge, 0, sizeof(*merge));
  gp_lock_take(&chunks->lock);
  work.room = 0;
  for (uint32_t i = 0; i < header->used; i++)
    work.room += count_of(chunks, i) * (size_t)GP_PARTS;
  bool has_room = map_pages(merge, &work, 0);
  if (has_room) {
    begin(chunks, merge);
    (void)list_chunks(chunks, &work);
  }
  gp_lock_release(&chunks->lock);
  if (!has_room)
    return false;
  merge->records = gp_chunks_records(chunks, 0);
  merge->record_count = (size_t)header->used * header->chunk_records;
  for (size_t i = 0; i < work.chunk_count; i++) {
    size_t first = (size_t)work.chunks[i].index * header->chunk_records;
    for (uint32_t j = 0; j < work.chunks[i].count; j++)
      (void)add_record(merge, &work, first + j);
  }
  finish(chunks, merge, &work);
  return true;
}

void gp_event_merge_fini(gp_event_merge_t *merge)
{
  gp_emergency_pages_unmap(merge->pages, merge->bytes);
  memset(merge, 0, sizeof(*merge));
}
