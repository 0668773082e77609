/*
 * Completes the operations that the kill interrupted. Each thread may have been in one operation. An
 * operation first stores the record of its event, and last the slot of its memory. So a slot may be older
 * than the newest record of its memory.
 *
 * - The record of a free contains the number of the block. It proves that the slot must have a later state.
 *
 * - Any other event in flight is the last record of its thread's chunk, or is in the shared chunk. If no
 * record of the same address is newer, the slot must agree with the event. If they disagree, the event was in
 * flight.
 *
 * - An allocation may be recorded only in its slot. It happened only if the slot's state says so. Before
 * that, the slot of an idle block may already contain some members of the next owner.
 *
 * If events were not recorded, only the slots count.
 */
#include <stdlib.h>

#include "tools/hash_index.h"
#include "tools/read/record/record_parts.h"

/* A search for the newest record of an address, and the newest record found so far. */
typedef struct question {
  uint64_t key;                    /* made from address and device */
  const gp_event_record_t *newest; /* NULL: none found */
  bool is_last;                    /* `newest` is the last record of a chunk, or is in the shared chunk */
} question_t;

/* Adjacent segments that may be divided into parts. Mapped memory has a slot for each piece, and one part may
 * span several pieces. */
typedef struct run {
  uint64_t begin;
  uint64_t end;
  uint64_t context;
} run_t;

/* An index of the items of an array by a number of each item. It does not find items that are added to the
 * array later. */
typedef struct numbered {
  const gp_copied_array_t *array;
  uint64_t (*number_of)(const gp_copied_array_t *array, size_t i);
  gp_hash_index_t places;
} numbered_t;

/* The state of the completion. The record may be damaged, so no step may take time proportional to events
 * times slots. */
typedef struct finishing {
  gp_record_t *record;
  question_t *questions;
  size_t question_count;
  gp_hash_index_t by_key;
  numbered_t blocks[GP_MAX_DEVICES];    /* record->copies[].blocks, indexed by address */
  numbered_t parts[GP_MAX_DEVICES];     /* record->parts[], indexed by address */
  numbered_t forwarded[GP_MAX_DEVICES]; /* record->copies[].forwarded, indexed by block_id */
  /* For each block of copies[] that has a slot: true if a record confirms the block's owner. */
  bool *is_told[GP_MAX_DEVICES];
  size_t known[GP_MAX_DEVICES];      /* number of elements of is_told */
  uint64_t contexts[GP_MAX_DEVICES]; /* first context in a slot; 1: no slot has a context */
  run_t *runs[GP_MAX_DEVICES];       /* sorted by address; NULL: not computed yet */
  size_t run_counts[GP_MAX_DEVICES];
  bool is_short; /* true after host memory ran out */
} finishing_t;

static uint64_t address_of_block(const gp_copied_array_t *array, size_t i)
{
  return gp_record_block(array, i)->address;
}

static uint64_t id_of_forwarded(const gp_copied_array_t *array, size_t i)
{
  return gp_record_forwarded(array, i)->block_id;
}

static uint64_t hash_of_number(const void *self, size_t item)
{
  const numbered_t *numbered = self;
  return gp_hash_number(numbered->number_of(numbered->array, item));
}

static bool has_number(const void *self, size_t item, const void *key)
{
  const numbered_t *numbered = self;
  return numbered->number_of(numbered->array, item) == *(const uint64_t *)key;
}

/* Indexes the items of an array. A search finds the first of several items with the same number. Returns
 * false if memory runs out. */
static bool number(numbered_t *numbered, const gp_copied_array_t *array,
    uint64_t (*number_of)(const gp_copied_array_t *array, size_t i))
{
  *numbered = (numbered_t){.array = array, .number_of = number_of};
  if (array->count > 0 && !gp_hash_index_grow(&numbered->places, array->count, hash_of_number, numbered))
    return false;
  for (size_t i = 0; i < array->count; i++) {
    uint64_t key = number_of(array, i);
    uint32_t *slot = gp_hash_index_slot(&numbered->places, gp_hash_number(key), has_number, numbered, &key);
    if (!*slot)
      gp_hash_index_put(&numbered->places, slot, i);
  }
  return true;
}

/* Returns the array index of the item with the number `key`, or SIZE_MAX if there is no such item. */
static size_t find_number(const numbered_t *numbered, uint64_t key)
{
  return gp_hash_index_find(&numbered->places, gp_hash_number(key), has_number, numbered, &key);
}

/* Returns the block at `address`, or NULL if there is no block or if it was removed. */
static gp_block_view_t *find_block(const numbered_t *blocks, uint64_t address)
{
  size_t place = find_number(blocks, address);
  gp_block_view_t *block = place != SIZE_MAX ? gp_record_block(blocks->array, place) : NULL;
  return block && block->size != 0 ? block : NULL;
}

/* Marks a block as removed. The block stays in the array until the end, so that indexes remain valid. */
static void remove_block(gp_block_view_t *block)
{
  block->size = 0;
}

static void drop_removed_forwarded(gp_copied_array_t *array)
{
  size_t kept = 0;
  for (size_t i = 0; i < array->count; i++)
    if (gp_record_forwarded(array, i)->address != 0)
      *gp_record_forwarded(array, kept++) = *gp_record_forwarded(array, i);
  array->count = kept;
}

static void drop_removed(gp_copied_array_t *array)
{
  size_t kept = 0;
  for (size_t i = 0; i < array->count; i++)
    if (gp_record_block(array, i)->size != 0)
      *gp_record_block(array, kept++) = *gp_record_block(array, i);
  array->count = kept;
}

static void set_owner(gp_block_view_t *block, const gp_decoded_event_t *event)
{
  block->state = GP_BLOCK_ALLOCATED;
  block->refs = 1;
  block->requested = event->size < block->size ? event->size : block->size;
  block->block_id = event->block_id;
  block->time_ns = event->time_ns;
  block->origin = (uint32_t)(event->stack + 1);
  block->has_stream = event->stream >= 0;
  block->stream = block->has_stream ? (uint64_t)event->stream : 0;
}

/* Computes the runs of a device, whose segments must be final. Returns false if memory runs out. */
static bool make_runs(finishing_t *finishing, int device)
{
  const gp_copied_array_t *segments = &finishing->record->copies[device].blocks;
  /* The array is still unsorted, so its sort keys are free for other use. */
  gp_sort_key_t *keys = segments->by_address;
  size_t count = 0;
  size_t run_count = 0;
  for (size_t i = 0; i < segments->count; i++) {
    const gp_block_view_t *segment = gp_record_block(segments, i);
    if (segment->size != 0 && gp_record_is_cuttable(segment))
      keys[count++] = (gp_sort_key_t){.key = segment->address, .index = (uint32_t)i};
  }
  gp_sort_keys(keys, count);
  run_t *runs = malloc((count + 1) * sizeof(*runs));
  finishing->is_short |= !runs;
  for (size_t i = 0; runs && i < count; i++) {
    const gp_block_view_t *segment = gp_record_block(segments, keys[i].index);
    run_t *last = run_count ? &runs[run_count - 1] : NULL;
    if (last && last->end == segment->address && last->context == segment->context)
      last->end += segment->size;
    else
      runs[run_count++] = (run_t){segment->address, segment->address + segment->size, segment->context};
  }
  finishing->runs[device] = runs;
  finishing->run_counts[device] = run_count;
  return runs != NULL;
}

/* Returns the last run that begins at or before `address`, or NULL. */
static const run_t *find_run(const run_t *runs, size_t count, uint64_t address)
{
  size_t first = 0;
  while (first < count) {
    size_t middle = first + (count - first) / 2;
    if (runs[middle].begin <= address)
      first = middle + 1;
    else
      count = middle;
  }
  return first ? &runs[first - 1] : NULL;
}

/* Returns the block if the allocation uses a whole segment, or NULL if it uses a part of one. */
static gp_block_view_t *find_whole(const finishing_t *finishing, const gp_decoded_event_t *event)
{
  int device = event->device;
  gp_block_view_t *block = find_block(&finishing->blocks[device], event->address);
  return block && block->size == event->rounded_size ? block : NULL;
}

/* Returns true if the part has a slot. The slot of a part becomes visible only when it is complete. */
static bool has_part(const finishing_t *finishing, const gp_decoded_event_t *event)
{
  int device = event->device;
  return find_block(&finishing->parts[device], event->address) != NULL;
}

static void finish_part(finishing_t *finishing, const gp_decoded_event_t *event)
{
  int device = event->device;
  gp_copied_array_t *parts = &finishing->record->parts[device];
  if (event->action != GP_ACTION_ALLOC || event->rounded_size == 0 || has_part(finishing, event) ||
      find_whole(finishing, event))
    return;
  if (!finishing->runs[device] && !make_runs(finishing, device))
    return;
  const run_t *run = find_run(finishing->runs[device], finishing->run_counts[device], event->address);
  if (!run || event->address >= run->end || event->rounded_size > run->end - event->address)
    return;
  gp_block_view_t *part = gp_record_block(parts, parts->count++);
  *part = (gp_block_view_t){.address = event->address, .size = event->rounded_size, .context = run->context};
  set_owner(part, event);
}

static void finish_whole(finishing_t *finishing, const gp_decoded_event_t *event)
{
  gp_block_view_t *block = has_part(finishing, event) ? NULL : find_whole(finishing, event);
  /* The slot may contain the new block number while its state is still old. */
  if (!block || block->block_id > event->block_id ||
      (block->block_id == event->block_id && block->state == GP_BLOCK_ALLOCATED))
    return;
  set_owner(block, event);
}

/* Applies the free of a block, or the completion of the free. An idle part has no slot, so it is removed. */
static void finish_free(finishing_t *finishing, const gp_event_record_t *event, gp_block_state_t state)
{
  int device = event->device;
  gp_decoded_event_t decoded = gp_event_record_decode(event, GP_PART_ACTION);
  gp_block_view_t *part = find_block(&finishing->parts[device], decoded.address);
  gp_block_view_t *whole = find_block(&finishing->blocks[device], decoded.address);
  gp_block_view_t *block = part && part->block_id == decoded.block_id ? part : whole;

  if (!block || block->block_id != decoded.block_id)
    return;
  if (block == whole && block->time_ns == decoded.time_ns - decoded.lifetime_ns)
    finishing->is_told[device][block - gp_record_block(&finishing->record->copies[device].blocks, 0)] = true;
  if (block->state >= state)
    return;
  block->state = state;
  block->refs = 0;
  if (block == part && state == GP_BLOCK_IDLE)
    remove_block(part);
}

/* Adds a segment. Events do not record the context, so the segment gets the first context found in a slot. A
 * stream-ordered segment has no context. */
static void finish_segment_alloc(finishing_t *finishing, const gp_decoded_event_t *event)
{
  gp_copied_array_t *segments = &finishing->record->copies[event->device].blocks;
  if (find_block(&finishing->blocks[event->device], event->address) || event->address == 0 ||
      event->rounded_size == 0 || event->rounded_size > UINT64_MAX - event->address)
    return;
  *gp_record_block(segments, segments->count++) = (gp_block_view_t){.address = event->address,
      .size = event->rounded_size,
      .time_ns = event->time_ns,
      .context = event->stream >= 0 ? 0 : finishing->contexts[event->device],
      .stream = event->stream >= 0 ? (uint64_t)event->stream : 0,
      .has_stream = event->stream >= 0,
      .state = GP_BLOCK_IDLE};
}

static void finish_segment_free(finishing_t *finishing, const gp_decoded_event_t *event)
{
  gp_block_view_t *segment = find_block(&finishing->blocks[event->device], event->address);
  if (segment)
    remove_block(segment);
}

/* Applies an event of forwarded memory. Freed memory gets address 0, and is dropped at the end. */
static void finish_forwarded(finishing_t *finishing, const gp_decoded_event_t *event)
{
  gp_copied_array_t *array = &finishing->record->copies[event->device].forwarded;
  size_t place = find_number(&finishing->forwarded[event->device], event->block_id);
  gp_forwarded_t *memory = place != SIZE_MAX ? gp_record_forwarded(array, place) : NULL;
  bool is_alloc = event->action == GP_ACTION_FORWARDED_ALLOC;
  if (!is_alloc && memory)
    memory->address = 0;
  if (!is_alloc || memory || event->detail < GP_FORWARDED_PITCH || event->address == 0)
    return;
  *gp_record_forwarded(array, array->count++) = (gp_forwarded_t){.address = event->address,
      .size = event->size,
      .block_id = event->block_id,
      .time_ns = event->time_ns,
      .kind = (gp_forwarded_kind_t)event->detail,
      .device = event->device,
      .origin = (uint32_t)(event->stack + 1),
      .stream = (uint64_t)event->stream,
      .has_stream = event->stream >= 0};
}

static void finish_event(finishing_t *finishing, const gp_decoded_event_t *event)
{
  switch ((gp_action_t)event->action) {
  case GP_ACTION_ALLOC: finish_whole(finishing, event); break;
  case GP_ACTION_SEGMENT_ALLOC: finish_segment_alloc(finishing, event); break;
  case GP_ACTION_SEGMENT_FREE: finish_segment_free(finishing, event); break;
  case GP_ACTION_FORWARDED_ALLOC:
  case GP_ACTION_FORWARDED_FREE: finish_forwarded(finishing, event); break;
  default: break;
  }
}

/* Returns true if events newer than this one are lost. A lost event may concern the same memory, so this
 * event may be outdated. */
static bool is_lost(const gp_chunk_header_t *header, const gp_event_record_t *event)
{
  return header->has_lost && gp_event_record_newest_ns(event, event->completion) <= header->since_ns;
}

typedef void (*visit_fn)(finishing_t *finishing, const gp_event_record_t *event);

/* Calls `visit` for each record of a chunk from index `first` on that has a device and is not outdated. */
static void visit_chunk(
    const gp_chunks_t *chunks, uint32_t chunk, uint32_t first, visit_fn visit, finishing_t *finishing)
{
  uint32_t count = atomic_load(&chunks->chunks[chunk].count);
  for (uint32_t i = first; i < count; i++) {
    const gp_event_record_t *event = gp_chunks_records(chunks, chunk) + i;
    if (event->device >= 0 && !is_lost(chunks->header, event))
      visit(finishing, event);
  }
}

uint64_t gp_record_event_devices(const gp_record_t *record)
{
  const gp_chunks_t *chunks = &record->chunks;
  uint64_t devices = 0;

  for (uint32_t i = 0; record->has_chunks && i < chunks->header->used; i++) {
    uint32_t count = atomic_load(&chunks->chunks[i].count);
    for (uint32_t j = 0; j < count; j++) {
      const gp_event_record_t *event = gp_chunks_records(chunks, i) + j;
      if (event->device >= 0 && !is_lost(chunks->header, event))
        devices |= UINT64_C(1) << event->device;
    }
  }
  return devices;
}

size_t gp_record_most_in_flight(const gp_record_t *record)
{
  return record->has_chunks ? record->chunks.header->used + (size_t)GP_CHUNK_RECORDS : 0;
}

static uint64_t key_of(const gp_event_record_t *event)
{
  return event->address << 6 | (uint64_t)event->device;
}

_Static_assert(GP_MAX_DEVICES <= 1 << 6, "a device fits beside the address");

static bool is_question(const void *self, size_t item, const void *key)
{
  return ((const finishing_t *)self)->questions[item].key == *(const uint64_t *)key;
}

/* Returns the question with the key, and adds it if it is new. Returns NULL if memory runs out. */
static question_t *add_question(finishing_t *finishing, uint64_t key)
{
  question_t *question =
      GP_HASH_NUMBER(&finishing->by_key, finishing->questions, finishing->question_count, key);
  finishing->is_short |= !question;
  return question;
}

static void answer(question_t *question, const gp_event_record_t *event, bool is_last)
{
  if (question->newest && question->newest->time_ns >= event->time_ns)
    return;
  question->newest = event;
  question->is_last = is_last;
}

static void see_last(finishing_t *finishing, const gp_event_record_t *event)
{
  question_t *question = add_question(finishing, key_of(event));
  if (question)
    answer(question, event, true);
}

static void see_newest(finishing_t *finishing, const gp_event_record_t *event)
{
  uint64_t key = key_of(event);
  size_t place = gp_hash_index_find(&finishing->by_key, gp_hash_number(key), is_question, finishing, &key);
  if (place != SIZE_MAX)
    answer(&finishing->questions[place], event, false);
}

/* Confirms the block of a new segment. A whole block that never had an owner has the time of its segment. */
static void see_segment(finishing_t *finishing, const gp_event_record_t *event)
{
  const gp_copied_array_t *blocks = &finishing->record->copies[event->device].blocks;
  const gp_block_view_t *block = find_block(&finishing->blocks[event->device], event->address);
  if (block && block->block_id == 0 && block->time_ns == event->time_ns)
    finishing->is_told[event->device][block - gp_record_block(blocks, 0)] = true;
}

static void see(finishing_t *finishing, const gp_event_record_t *event)
{
  see_newest(finishing, event);
  if (event->action == GP_ACTION_SEGMENT_ALLOC)
    see_segment(finishing, event);
  else if (event->action == GP_ACTION_FREE_COMPLETED ||
           gp_event_record_has(event, event->completion, GP_PART_COMPLETION))
    finish_free(finishing, event, GP_BLOCK_IDLE);
  else if (event->action == GP_ACTION_FREE_REQUESTED)
    finish_free(finishing, event, GP_BLOCK_PENDING);
}

static void visit_all(finishing_t *finishing, visit_fn visit)
{
  const gp_chunks_t *chunks = &finishing->record->chunks;
  for (uint32_t i = 0; i < chunks->header->used; i++)
    visit_chunk(chunks, i, 0, visit, finishing);
}

static void answer_last(
    finishing_t *finishing, void (*finish)(finishing_t *finishing, const gp_decoded_event_t *event))
{
  for (size_t i = 0; i < finishing->question_count; i++) {
    const question_t *question = &finishing->questions[i];
    if (question->is_last) {
      const gp_decoded_event_t event = gp_event_record_decode(question->newest, GP_PART_ACTION);
      finish(finishing, &event);
    }
  }
}

/* Applies the events that may have been in flight. Allocations of parts come last, because they need the
 * final segments. */
static void finish_last_events(finishing_t *finishing)
{
  const gp_chunks_t *chunks = &finishing->record->chunks;
  for (uint32_t i = 0; i < chunks->header->used; i++) {
    uint32_t count = atomic_load(&chunks->chunks[i].count);
    visit_chunk(chunks, i, i == 0 || count == 0 ? 0 : count - 1, see_last, finishing);
  }
  visit_all(finishing, see);
  answer_last(finishing, finish_event);
  answer_last(finishing, finish_part);
}

/*
 * Returns true if the kill interrupted the allocation of an idle block when its slot contained only some
 * members of the new owner. Then the slot has a time that is in no record. The allocation did not happen, so
 * the caller restores the previous owner.
 */
static bool has_part_of_owner(const finishing_t *finishing, int device, size_t i)
{
  const gp_chunk_header_t *header = finishing->record->chunks.header;
  const gp_block_view_t *block = gp_record_block(&finishing->record->copies[device].blocks, i);
  return block->state == GP_BLOCK_IDLE && block->time_ns > (header->has_lost ? header->since_ns : 0) &&
         !finishing->is_told[device][i];
}

static void undo_handing_out(gp_block_view_t *block, const gp_event_record_t *newest)
{
  gp_decoded_event_t last = {.stack = -1, .stream = GP_EVENT_RECORD_NO_STREAM};
  if (newest && newest->action != GP_ACTION_SEGMENT_ALLOC)
    last = gp_event_record_decode(newest, GP_PART_ACTION);
  set_owner(block, &last);
  block->time_ns = last.time_ns - last.lifetime_ns;
  block->state = GP_BLOCK_IDLE;
  block->refs = 0;
}

/* Adds a question for the newest record of each block in that state. With is_undo, restores the block's owner
 * from the answer. */
static void visit_parts_of_owners(finishing_t *finishing, int device, bool is_undo)
{
  const gp_copied_array_t *blocks = &finishing->record->copies[device].blocks;
  for (size_t i = 0; i < finishing->known[device]; i++) {
    gp_block_view_t *block = gp_record_block(blocks, i);
    if (!has_part_of_owner(finishing, device, i))
      continue;
    const question_t *question = add_question(finishing, block->address << 6 | (uint64_t)device);
    if (question && is_undo)
      undo_handing_out(block, question->newest);
  }
}

static void drop_questions(finishing_t *finishing)
{
  free(finishing->questions);
  gp_hash_index_fini(&finishing->by_key);
  finishing->questions = NULL;
  finishing->question_count = 0;
  finishing->by_key = (gp_hash_index_t){0};
}

static void undo_parts_of_owners(finishing_t *finishing)
{
  for (int device = 0; device < GP_MAX_DEVICES; device++)
    visit_parts_of_owners(finishing, device, false);
  if (finishing->question_count == 0)
    return;
  visit_all(finishing, see_newest);
  for (int device = 0; device < GP_MAX_DEVICES; device++)
    visit_parts_of_owners(finishing, device, true);
}

static uint64_t first_context(const gp_copied_array_t *segments)
{
  for (size_t i = 0; i < segments->count; i++)
    if (gp_record_block(segments, i)->context != 0)
      return gp_record_block(segments, i)->context;
  return 1;
}

static bool index_memory(finishing_t *finishing)
{
  bool good = true;
  for (int device = 0; good && device < GP_MAX_DEVICES; device++) {
    const gp_copied_array_t *blocks = &finishing->record->copies[device].blocks;
    if (!blocks->items)
      continue;
    finishing->known[device] = blocks->count;
    finishing->is_told[device] = calloc(blocks->count + 1, sizeof(bool));
    finishing->contexts[device] = first_context(blocks);
    good =
        finishing->is_told[device] && number(&finishing->blocks[device], blocks, address_of_block) &&
        number(&finishing->parts[device], &finishing->record->parts[device], address_of_block) &&
        number(&finishing->forwarded[device], &finishing->record->copies[device].forwarded, id_of_forwarded);
  }
  return good;
}

bool gp_record_finish_operations(gp_record_t *record)
{
  /* If the record has no description, the process was killed in its first operation. The library had not yet
   * written which events it records. */
  bool has_events =
      record->document.recording == GP_RECORDING_ALL || record->document.description.length == 0;
  finishing_t finishing = {.record = record};

  if (!record->has_chunks || !has_events)
    return true;
  bool good = index_memory(&finishing);
  if (good) {
    finish_last_events(&finishing);
    drop_questions(&finishing);
    undo_parts_of_owners(&finishing);
  }
  drop_questions(&finishing);
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    drop_removed(&record->copies[device].blocks);
    drop_removed(&record->parts[device]);
    gp_hash_index_fini(&finishing.blocks[device].places);
    gp_hash_index_fini(&finishing.parts[device].places);
    drop_removed_forwarded(&record->copies[device].forwarded);
    gp_hash_index_fini(&finishing.forwarded[device].places);
    free(finishing.runs[device]);
    free(finishing.is_told[device]);
  }
  return good && !finishing.is_short;
}
