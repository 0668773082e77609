#include "trace/snapshot/event_merge.h"

#include <string.h>

#include "base/assert.h"
#include "base/sort.h"
#include "base/emergency_pages.h"

/* The copy of one chunk: records[first, first + count), in order of time. */
typedef struct piece {
  size_t first;
  size_t count;
  uint32_t owner;
  uint64_t opened;
} piece_t;

/* A sequence of pieces of one thread, in order of time. The merge joins runs. */
typedef struct run {
  uint32_t piece; /* position in pieces_by_owner */
  uint32_t piece_end;
  size_t record; /* the next one */
} run_t;

typedef struct heap_entry {
  uint64_t time_ns;
  uint64_t block_id;
  uint32_t run;
} heap_entry_t;

/* A chunk to copy, and how many of its records. */
typedef struct chunk_ref {
  uint32_t index;
  uint32_t count;
} chunk_ref_t;

/* The parts of merge->pages. */
typedef struct workspace {
  size_t capacity; /* records */
  chunk_ref_t *chunks;
  size_t chunk_count;
  piece_t *pieces;
  size_t piece_count;
  gp_sort_key_t *pieces_by_owner;
  run_t *runs;
  gp_sort_key_t *runs_by_time;
  size_t run_count;
  heap_entry_t *heap;
  size_t heap_count;
} workspace_t;

/* copies: of so many records; order has as many, or room for so many more. */
static bool map_workspace(
    gp_event_merge_t *merge, workspace_t *work, size_t copies, size_t ordered, size_t chunk_count)
{
  size_t per_chunk = sizeof(chunk_ref_t) + sizeof(piece_t) + sizeof(run_t) + sizeof(heap_entry_t) +
                     2 * sizeof(gp_sort_key_t);
  size_t bytes =
      copies * sizeof(gp_event_record_t) + ordered * sizeof(*merge->order) + chunk_count * per_chunk + 64;
  /* Populated, because faults while the chunks are locked would make other threads wait. */
  char *pages = gp_emergency_pages_map(bytes, true);
  if (!pages)
    return false;
  merge->pages = pages;
  merge->bytes = bytes;
  merge->records = (gp_event_record_t *)(void *)pages;
  pages += copies * sizeof(gp_event_record_t);
  work->chunks = (chunk_ref_t *)(void *)pages;
  pages += chunk_count * sizeof(chunk_ref_t);
  work->pieces = (piece_t *)(void *)pages;
  pages += chunk_count * sizeof(piece_t);
  work->runs = (run_t *)(void *)pages;
  pages += chunk_count * sizeof(run_t);
  work->heap = (heap_entry_t *)(void *)pages;
  pages += chunk_count * sizeof(heap_entry_t);
  work->pieces_by_owner = (gp_sort_key_t *)(void *)pages;
  pages += chunk_count * sizeof(gp_sort_key_t);
  work->runs_by_time = (gp_sort_key_t *)(void *)pages;
  pages += chunk_count * sizeof(gp_sort_key_t);
  merge->order = (uint32_t *)(void *)pages;
  work->capacity = copies;
  return true;
}

/* Copying. Reads each chunk under the lock, so that records below its count do not
 * change and nobody reuses it. */

static uint32_t record_count(const gp_chunks_t *chunks, uint32_t index)
{
  return atomic_load_explicit(&chunks->chunks[index].count, memory_order_acquire);
}

/* The records in all chunks. The caller holds the lock. */
static size_t count_records(const gp_chunks_t *chunks)
{
  size_t recorded = 0;

  gp_assert(gp_lock_is_held(&chunks->lock));
  for (uint32_t i = 0; i < chunks->header->used; i++)
    recorded += record_count(chunks, i);
  return recorded;
}

/* Makes room for all present records and some more, for events recorded before the copy. With little memory
 * there is less room; with none this returns false. */
static bool make_room(gp_chunks_t *chunks, gp_event_merge_t *merge, workspace_t *work)
{
  const gp_chunk_header_t *header = chunks->header;
  gp_lock_take(&chunks->lock);
  size_t recorded = count_records(chunks);
  size_t chunk_count = header->chunk_count; /* it can only shrink, when there is no memory for more */
  gp_lock_release(&chunks->lock);

  size_t capacity = recorded + recorded / 8 + 64 * (size_t)header->chunk_events;
  if (capacity > chunk_count * header->chunk_events)
    capacity = chunk_count * header->chunk_events;
  while (!map_workspace(merge, work, capacity, capacity, chunk_count)) {
    capacity /= 2;
    if (capacity < GP_CHUNK_EVENTS)
      return false;
  }
  return true;
}

/* Lists every chunk that has records: closed ones in the order in which they will be used again, then the
 * others. Reads each count once, because owners go on recording. Returns the sum of the counts. */
static size_t list_chunks(const gp_chunks_t *chunks, workspace_t *work)
{
  const gp_chunk_header_t *header = chunks->header;
  size_t total = 0;
  for (uint32_t i = header->oldest; i != GP_CHUNK_NONE; i = chunks->chunks[i].next)
    work->chunks[work->chunk_count++] = (chunk_ref_t){i, record_count(chunks, i)};
  for (uint32_t i = 0; i < header->used; i++) {
    const gp_chunk_t *chunk = &chunks->chunks[i];
    if (chunk->state == GP_CHUNK_OPEN || chunk->state == GP_CHUNK_SHARED)
      work->chunks[work->chunk_count++] = (chunk_ref_t){i, record_count(chunks, i)};
  }
  gp_assert(work->chunk_count <= header->used);
  for (size_t i = 0; i < work->chunk_count; i++)
    total += work->chunks[i].count;
  return total;
}

/* Declares the oldest chunks lost, until at least `excess` records are. */
static void lose_oldest(
    const gp_chunks_t *chunks, gp_event_merge_t *merge, const workspace_t *work, size_t excess)
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

/* records[first, first + count) are those of the chunk. */
static void add_piece(
    const gp_chunks_t *chunks, uint32_t chunk, size_t first, size_t count, workspace_t *work)
{
  if (count > 0)
    work->pieces[work->piece_count++] = (piece_t){.first = first,
        .count = count,
        .owner = chunks->chunks[chunk].owner,
        .opened = chunks->chunks[chunk].opened};
}

/* Events of other threads from before the oldest that is kept are dropped, too, so that none is missing in
 * between. */
static bool is_lost(const gp_event_merge_t *merge, const gp_event_record_t *record)
{
  return merge->has_lost && record->time_ns <= merge->since_ns;
}

/* Copies the records that are neither lost nor newer than their device's until_ns. */
static void copy_chunk(const gp_chunks_t *chunks, const chunk_ref_t *chunk, const uint64_t *until_ns,
    gp_event_merge_t *merge, workspace_t *work)
{
  const gp_event_record_t *from = gp_chunks_records(chunks, chunk->index);
  size_t first = merge->count;

  for (size_t i = 0; i < chunk->count; i++) {
    const gp_event_record_t *record = &from[i];
    if (is_lost(merge, record)) {
      merge->dropped++;
      continue;
    }
    if (record->device >= 0 && record->device < GP_MAX_DEVICES && record->time_ns > until_ns[record->device])
      continue;
    if (merge->count == work->capacity)
      break;
    merge->records[merge->count++] = *record;
  }
  add_piece(chunks, chunk->index, first, merge->count - first, work);
}

/* What is known before the first record. The caller holds the lock. */
static void begin(const gp_chunks_t *chunks, gp_event_merge_t *merge)
{
  gp_assert(gp_lock_is_held(&chunks->lock));
  merge->has_lost = chunks->header->has_lost;
  merge->since_ns = chunks->header->since_ns;
  merge->dropped = chunks->header->dropped + chunks->unstored;
}

/* Copies all records that fit, leaving out the oldest first. The caller holds the lock. */
static void copy_records(
    const gp_chunks_t *chunks, const uint64_t *until_ns, gp_event_merge_t *merge, workspace_t *work)
{
  begin(chunks, merge);
  size_t total = list_chunks(chunks, work);
  if (total > work->capacity)
    lose_oldest(chunks, merge, work, total - work->capacity);
  for (size_t i = 0; i < work->chunk_count; i++)
    copy_chunk(chunks, &work->chunks[i], until_ns, merge, work);
}

/*
 * Merging
 */

/* The records are nearly always in order: a thread's events come as they happen. */
static void sort_piece(gp_event_record_t *records, size_t count)
{
  for (size_t i = 1; i < count; i++) {
    if (records[i - 1].time_ns <= records[i].time_ns)
      continue;
    gp_event_record_t moving = records[i];
    size_t at = i;
    for (; at > 0 && records[at - 1].time_ns > moving.time_ns; at--)
      records[at] = records[at - 1];
    records[at] = moving;
  }
}

/* Joins the pieces of each thread to runs where they follow each other in time. */
static void make_runs(gp_event_merge_t *merge, workspace_t *work)
{
  for (size_t i = 0; i < work->piece_count; i++) {
    const piece_t *piece = &work->pieces[i];
    sort_piece(&merge->records[piece->first], piece->count);
    work->pieces_by_owner[i] = (gp_sort_key_t){
        .key = (uint64_t)piece->owner << 48 | (piece->opened & 0xffffffffffffu), .index = (uint32_t)i};
  }
  gp_sort_keys(work->pieces_by_owner, work->piece_count);

  uint64_t end_ns = 0;
  for (size_t i = 0; i < work->piece_count; i++) {
    const piece_t *piece = &work->pieces[work->pieces_by_owner[i].index];
    const gp_event_record_t *records = &merge->records[piece->first];
    bool follows = i > 0 && work->pieces[work->pieces_by_owner[i - 1].index].owner == piece->owner &&
                   records[0].time_ns >= end_ns;
    if (!follows) {
      work->runs_by_time[work->run_count] =
          (gp_sort_key_t){.key = records[0].time_ns, .index = (uint32_t)work->run_count};
      work->runs[work->run_count++] = (run_t){.piece = (uint32_t)i, .record = piece->first};
    }
    work->runs[work->run_count - 1].piece_end = (uint32_t)i + 1;
    end_ns = records[piece->count - 1].time_ns;
  }
  gp_sort_keys(work->runs_by_time, work->run_count);
}

static bool heap_is_less(const heap_entry_t *a, const heap_entry_t *b)
{
  if (a->time_ns != b->time_ns)
    return a->time_ns < b->time_ns;
  return a->block_id != b->block_id ? a->block_id < b->block_id : a->run < b->run;
}

static void heap_sift_down(workspace_t *work)
{
  heap_entry_t moving = work->heap[0];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= work->heap_count)
      break;
    if (child + 1 < work->heap_count && heap_is_less(&work->heap[child + 1], &work->heap[child]))
      child++;
    if (!heap_is_less(&work->heap[child], &moving))
      break;
    work->heap[at] = work->heap[child];
    at = child;
  }
  work->heap[at] = moving;
}

static heap_entry_t heap_entry_of(const gp_event_merge_t *merge, const workspace_t *work, uint32_t run)
{
  const gp_event_record_t *record = &merge->records[work->runs[run].record];
  return (heap_entry_t){.time_ns = record->time_ns, .block_id = record->block_id, .run = run};
}

static void heap_push(workspace_t *work, heap_entry_t entry)
{
  size_t at = work->heap_count++;
  for (; at > 0 && heap_is_less(&entry, &work->heap[(at - 1) / 2]); at = (at - 1) / 2)
    work->heap[at] = work->heap[(at - 1) / 2];
  work->heap[at] = entry;
}

static bool run_advance(const workspace_t *work, run_t *run)
{
  const piece_t *piece = &work->pieces[work->pieces_by_owner[run->piece].index];
  if (++run->record < piece->first + piece->count)
    return true;
  if (++run->piece == run->piece_end)
    return false;
  run->record = work->pieces[work->pieces_by_owner[run->piece].index].first;
  return true;
}

/* A run joins the heap when its first event is due: so the heap holds only threads active at that time. */
static void merge_runs(gp_event_merge_t *merge, workspace_t *work)
{
  size_t next_run = 0;
  size_t written = 0;
  while (work->heap_count > 0 || next_run < work->run_count) {
    while (next_run < work->run_count &&
           (work->heap_count == 0 || work->runs_by_time[next_run].key <= work->heap[0].time_ns)) {
      heap_push(work, heap_entry_of(merge, work, work->runs_by_time[next_run].index));
      next_run++;
    }
    uint32_t index = work->heap[0].run;
    run_t *run = &work->runs[index];
    gp_assert_full(written == 0 ||
                   merge->records[merge->order[written - 1]].time_ns <= merge->records[run->record].time_ns);
    merge->order[written++] = (uint32_t)run->record;
    if (run_advance(work, run))
      work->heap[0] = heap_entry_of(merge, work, index);
    else
      work->heap[0] = work->heap[--work->heap_count];
    heap_sift_down(work);
  }
  gp_assert(written == merge->count);
}

bool gp_event_merge_take(
    gp_chunks_t *chunks, const uint64_t until_ns[GP_MAX_DEVICES], gp_event_merge_t *ret_merge)
{
  gp_event_merge_t *merge = ret_merge;
  workspace_t work = {0};
  memset(merge, 0, sizeof(*merge));
  if (gp_chunks_is_empty(chunks)) {
    merge->has_lost = chunks->has_lost;
    merge->since_ns = chunks->since_ns;
    merge->dropped = chunks->unstored;
    return true;
  }
  if (!make_room(chunks, merge, &work))
    return false;
  gp_lock_take(&chunks->lock);
  copy_records(chunks, until_ns, merge, &work);
  gp_lock_release(&chunks->lock);
  make_runs(merge, &work);
  merge_runs(merge, &work);
  return true;
}

/* Moves records[first, first + count) together that are not lost. Returns how many are left. */
static size_t drop_lost(gp_event_merge_t *merge, size_t first, size_t count)
{
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (is_lost(merge, &merge->records[first + i]))
      merge->dropped++;
    else
      merge->records[first + kept++] = merge->records[first + i];
  }
  return kept;
}

bool gp_event_merge_in_place(gp_chunks_t *chunks, gp_event_merge_t *ret_merge)
{
  const gp_chunk_header_t *header = chunks->header;
  gp_event_merge_t *merge = ret_merge;
  workspace_t work = {0};

  memset(merge, 0, sizeof(*merge));
  gp_lock_take(&chunks->lock);
  bool has_room = map_workspace(merge, &work, 0, count_records(chunks), header->used);
  if (has_room) {
    begin(chunks, merge);
    (void)list_chunks(chunks, &work);
  }
  gp_lock_release(&chunks->lock);
  if (!has_room)
    return false;
  merge->records = gp_chunks_records(chunks, 0);
  for (size_t i = 0; i < work.chunk_count; i++) {
    size_t first = (size_t)work.chunks[i].index * header->chunk_events;
    size_t count = drop_lost(merge, first, work.chunks[i].count);
    add_piece(chunks, work.chunks[i].index, first, count, &work);
    merge->count += count;
  }
  make_runs(merge, &work);
  merge_runs(merge, &work);
  return true;
}

void gp_event_merge_fini(gp_event_merge_t *merge)
{
  gp_emergency_pages_unmap(merge->pages, merge->bytes);
  memset(merge, 0, sizeof(*merge));
}
