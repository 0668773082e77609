/*
 * Completes the operations that the kill interrupted. Each thread may have been in one, and each stores the
 * record of its event first, and the slot last. So a slot may be behind its memory's newest record:
 *
 * - The record of a free tells, by the number of the block, that its slot has a later state.
 * - Any other event in flight is the last record of its thread's chunk, or one of the shared chunk. If no
 *   record of the same address is newer, the slot has to be as it says, and is unless the event was in
 * flight.
 * - An alloc that only its slot tells has not happened until the slot's state says so. Then the slot of an
 *   idle block may have a part of the next owner already.
 *
 * If events are not recorded, only the slots count.
 */
#include <stdlib.h>

#include "tools/hash_index.h"
#include "tools/read/record/record_parts.h"

/* An address in question, and its newest record so far. */
typedef struct question {
  uint64_t key;                    /* address and device */
  const gp_event_record_t *newest; /* NULL: none */
  bool is_last;                    /* newest is the last one of a chunk, or in the shared one */
} question_t;

typedef struct finishing {
  gp_record_t *record;
  question_t *questions;
  size_t question_count;
  gp_hash_index_t by_key;
  gp_hash_index_t blocks[GP_MAX_DEVICES]; /* places in record->copies[].blocks ... */
  gp_hash_index_t parts[GP_MAX_DEVICES];  /* ... and record->parts[], by address */
  bool *is_told[GP_MAX_DEVICES];          /* a record tells the owner of that block of copies[] ... */
  size_t known[GP_MAX_DEVICES];           /* ... of the first so many, which have slots */
  bool is_short;                          /* the host had no memory */
} finishing_t;

static uint64_t hash_of_block(const void *self, size_t item)
{
  return gp_hash_number(gp_record_block(self, item)->address);
}

static bool is_block(const void *self, size_t item, const void *key)
{
  return gp_record_block(self, item)->address == *(const uint64_t *)key;
}

/* NULL: none. */
static gp_block_view_t *find_block(
    const gp_hash_index_t *index, const gp_copied_array_t *array, uint64_t address)
{
  size_t place = gp_hash_index_find(index, gp_hash_number(address), is_block, array, &address);
  gp_block_view_t *block = place != SIZE_MAX ? gp_record_block(array, place) : NULL;
  return block && block->size != 0 ? block : NULL;
}

/* It is dropped in the end, so that places stay as they are. */
static void remove_block(gp_block_view_t *block)
{
  block->size = 0;
}

static void drop_removed(gp_copied_array_t *array)
{
  size_t kept = 0;
  for (size_t i = 0; i < array->count; i++)
    if (gp_record_block(array, i)->size != 0)
      *gp_record_block(array, kept++) = *gp_record_block(array, i);
  array->count = kept;
}

static void set_owner(gp_block_view_t *block, const gp_told_event_t *event)
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

/* The cuttable segment that contains address; NULL: none. */
static const gp_block_view_t *find_cuttable(const gp_copied_array_t *segments, uint64_t address)
{
  for (size_t i = 0; i < segments->count; i++) {
    const gp_block_view_t *segment = gp_record_block(segments, i);
    if (gp_record_is_cuttable(segment) && address >= segment->address &&
        address - segment->address < segment->size)
      return segment;
  }
  return NULL;
}

/* The segment from which these bytes are cut, or the first of several; NULL: none. */
static const gp_block_view_t *find_cut_segment(
    const gp_copied_array_t *segments, uint64_t address, uint64_t size)
{
  const gp_block_view_t *first = find_cuttable(segments, address);
  const gp_block_view_t *segment = first;

  while (segment && segment->size - (address - segment->address) < size) {
    uint64_t end = segment->address + segment->size;
    size -= end - address;
    address = end;
    segment = find_cuttable(segments, address);
  }
  return segment ? first : NULL;
}

static void finish_part(gp_copied_array_t *segments, gp_copied_array_t *parts, const gp_told_event_t *event)
{
  const gp_block_view_t *segment = find_cut_segment(segments, event->address, event->rounded_size);
  if (!segment || event->rounded_size == 0)
    return;
  gp_block_view_t *part = gp_record_block(parts, parts->count++);
  *part =
      (gp_block_view_t){.address = event->address, .size = event->rounded_size, .context = segment->context};
  set_owner(part, event);
}

static void finish_alloc(finishing_t *finishing, const gp_told_event_t *event)
{
  int device = event->device;
  gp_copied_array_t *segments = &finishing->record->copies[device].blocks;
  gp_copied_array_t *parts = &finishing->record->parts[device];
  if (find_block(&finishing->parts[device], parts, event->address))
    return; /* a part's slot appears only when complete */
  gp_block_view_t *block = find_block(&finishing->blocks[device], segments, event->address);
  if (!block || block->size != event->rounded_size) {
    finish_part(segments, parts, event);
    return;
  }
  /* The slot may have the new number already, but not the new state. */
  if (block->block_id > event->block_id ||
      (block->block_id == event->block_id && block->state == GP_BLOCK_ALLOCATED))
    return;
  set_owner(block, event);
}

/* The block has been freed, or its free has completed: an idle part has no slot. */
static void finish_free(finishing_t *finishing, const gp_event_record_t *event, gp_block_state_t state)
{
  int device = event->device;
  gp_told_event_t told = gp_event_record_tell(event, GP_PART_ACTION);
  gp_block_view_t *part =
      find_block(&finishing->parts[device], &finishing->record->parts[device], told.address);
  gp_block_view_t *whole =
      find_block(&finishing->blocks[device], &finishing->record->copies[device].blocks, told.address);
  gp_block_view_t *block = part && part->block_id == told.block_id ? part : whole;

  if (!block || block->block_id != told.block_id)
    return;
  if (block == whole && block->time_ns == told.time_ns - told.lifetime_ns)
    finishing->is_told[device][block - gp_record_block(&finishing->record->copies[device].blocks, 0)] = true;
  if (block->state >= state)
    return;
  block->state = state;
  block->refs = 0;
  if (block == part && state == GP_BLOCK_IDLE)
    remove_block(part);
}

/* Events do not tell the context. 0: none, for stream-ordered memory. */
static uint64_t context_of(const gp_copied_array_t *segments, const gp_told_event_t *event)
{
  if (event->stream >= 0)
    return 0;
  for (size_t i = 0; i < segments->count; i++)
    if (gp_record_block(segments, i)->context != 0)
      return gp_record_block(segments, i)->context;
  return 1;
}

static void finish_segment_alloc(finishing_t *finishing, const gp_told_event_t *event)
{
  gp_copied_array_t *segments = &finishing->record->copies[event->device].blocks;
  if (find_block(&finishing->blocks[event->device], segments, event->address) || event->address == 0 ||
      event->rounded_size == 0 || event->rounded_size > UINT64_MAX - event->address)
    return;
  *gp_record_block(segments, segments->count++) = (gp_block_view_t){.address = event->address,
      .size = event->rounded_size,
      .time_ns = event->time_ns,
      .context = context_of(segments, event),
      .stream = event->stream >= 0 ? (uint64_t)event->stream : 0,
      .has_stream = event->stream >= 0,
      .state = GP_BLOCK_IDLE};
}

static void finish_segment_free(finishing_t *finishing, const gp_told_event_t *event)
{
  gp_copied_array_t *segments = &finishing->record->copies[event->device].blocks;
  gp_block_view_t *segment = find_block(&finishing->blocks[event->device], segments, event->address);
  if (segment)
    remove_block(segment);
}

static gp_forwarded_t *find_forwarded(gp_copied_array_t *array, const gp_told_event_t *event)
{
  for (size_t i = 0; i < array->count; i++) {
    if (gp_record_forwarded(array, i)->block_id == event->block_id)
      return gp_record_forwarded(array, i);
  }
  return NULL;
}

static void finish_forwarded(gp_copied_array_t *array, const gp_told_event_t *event)
{
  gp_forwarded_t *memory = find_forwarded(array, event);
  bool is_alloc = event->action == GP_ACTION_FORWARDED_ALLOC;
  if (!is_alloc && memory)
    *memory = *gp_record_forwarded(array, --array->count);
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

static void finish_event(finishing_t *finishing, const gp_told_event_t *event)
{
  gp_copied_array_t *forwarded = &finishing->record->copies[event->device].forwarded;
  switch ((gp_action_t)event->action) {
  case GP_ACTION_ALLOC: finish_alloc(finishing, event); break;
  case GP_ACTION_SEGMENT_ALLOC: finish_segment_alloc(finishing, event); break;
  case GP_ACTION_SEGMENT_FREE: finish_segment_free(finishing, event); break;
  case GP_ACTION_FORWARDED_ALLOC:
  case GP_ACTION_FORWARDED_FREE: finish_forwarded(forwarded, event); break;
  default: break;
  }
}

/* Something newer is lost. It may be of the same memory, so that the event is no longer true. */
static bool is_lost(const gp_chunk_header_t *header, const gp_event_record_t *event)
{
  return header->has_lost && gp_event_record_newest_ns(event, event->completion) <= header->since_ns;
}

typedef void (*visit_fn)(finishing_t *finishing, const gp_event_record_t *event);

/* Visits the records of devices in a chunk that are not lost, from the first one of these on. */
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

/* NULL: no memory. */
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

/* A whole block that has had no owner has the time of its segment. */
static void see_segment(finishing_t *finishing, const gp_event_record_t *event)
{
  const gp_copied_array_t *blocks = &finishing->record->copies[event->device].blocks;
  const gp_block_view_t *block = find_block(&finishing->blocks[event->device], blocks, event->address);
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

static void finish_last_events(finishing_t *finishing)
{
  const gp_chunks_t *chunks = &finishing->record->chunks;
  for (uint32_t i = 0; i < chunks->header->used; i++) {
    uint32_t count = atomic_load(&chunks->chunks[i].count);
    visit_chunk(chunks, i, i == 0 || count == 0 ? 0 : count - 1, see_last, finishing);
  }
  visit_all(finishing, see);
  for (size_t i = 0; i < finishing->question_count; i++) {
    const question_t *question = &finishing->questions[i];
    if (question->is_last) {
      const gp_told_event_t event = gp_event_record_tell(question->newest, GP_PART_ACTION);
      finish_event(finishing, &event);
    }
  }
}

/*
 * The kill may have come while an idle block got its next owner, of which the slot had only a part: it has a
 * time that no record tells. So the alloc did not happen, and the owner is the last one again.
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
  gp_told_event_t last = {.stack = -1, .stream = GP_EVENT_RECORD_NO_STREAM};
  if (newest && newest->action != GP_ACTION_SEGMENT_ALLOC)
    last = gp_event_record_tell(newest, GP_PART_ACTION);
  set_owner(block, &last);
  block->time_ns = last.time_ns - last.lifetime_ns;
  block->state = GP_BLOCK_IDLE;
  block->refs = 0;
}

/* Asks which record of each such block is the newest, or with is_undo uses the answer. */
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

static bool index_blocks(gp_hash_index_t *index, const gp_copied_array_t *array)
{
  if (array->count > 0 && !gp_hash_index_grow(index, array->count, hash_of_block, array))
    return false;
  for (size_t i = 0; i < array->count; i++) {
    uint64_t address = gp_record_block(array, i)->address;
    uint32_t *slot = gp_hash_index_slot(index, gp_hash_number(address), is_block, array, &address);
    if (!*slot)
      gp_hash_index_put(index, slot, i);
  }
  return true;
}

static bool index_memory(finishing_t *finishing)
{
  bool good = true;
  for (int device = 0; good && device < GP_MAX_DEVICES; device++) {
    const gp_copied_array_t *blocks = &finishing->record->copies[device].blocks;
    const gp_copied_array_t *parts = &finishing->record->parts[device];
    if (!blocks->items)
      continue;
    finishing->known[device] = blocks->count;
    finishing->is_told[device] = calloc(blocks->count + 1, sizeof(bool));
    good = finishing->is_told[device] && index_blocks(&finishing->blocks[device], blocks) &&
           index_blocks(&finishing->parts[device], parts);
  }
  return good;
}

bool gp_record_finish_operations(gp_record_t *record)
{
  /* Without a description the library had not written yet what it records: this is the first operation. */
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
    gp_hash_index_fini(&finishing.blocks[device]);
    gp_hash_index_fini(&finishing.parts[device]);
    free(finishing.is_told[device]);
  }
  return good && !finishing.is_short;
}
