/*
 * Completes the operation in flight: the newest event of a device, whose slot the kill may have left
 * unwritten. All older slots are written, because the device's lock covered event and slot. A newer alloc may
 * be in a slot only; then nothing is left to do for the event. If events are not recorded, only the slots
 * count.
 */
#include "tools/read/record/record_parts.h"

static gp_block_view_t *find_block(const gp_copied_array_t *array, uint64_t address)
{
  for (size_t i = 0; i < array->count; i++) {
    if (gp_record_block(array, i)->address == address)
      return gp_record_block(array, i);
  }
  return NULL;
}

static void remove_block(gp_copied_array_t *array, gp_block_view_t *block)
{
  *block = *gp_record_block(array, --array->count);
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

static void finish_alloc(gp_copied_array_t *segments, gp_copied_array_t *parts, const gp_told_event_t *event)
{
  if (find_block(parts, event->address))
    return; /* a part's slot appears only when complete */
  gp_block_view_t *block = find_block(segments, event->address);
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

static void finish_free(gp_copied_array_t *array, const gp_told_event_t *event, gp_block_state_t state)
{
  gp_block_view_t *block = find_block(array, event->address);
  if (!block || block->block_id != event->block_id || block->state >= state)
    return;
  block->state = state;
  block->refs = 0;
}

/* An idle part loses its slot, so removes the part. */
static void finish_part_use(gp_copied_array_t *parts, const gp_told_event_t *event)
{
  gp_block_view_t *part = find_block(parts, event->address);
  if (part && part->block_id == event->block_id)
    remove_block(parts, part);
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

static void finish_segment_alloc(gp_copied_array_t *segments, const gp_told_event_t *event)
{
  if (find_block(segments, event->address) || event->address == 0 || event->rounded_size == 0 ||
      event->rounded_size > UINT64_MAX - event->address)
    return;
  *gp_record_block(segments, segments->count++) = (gp_block_view_t){.address = event->address,
      .size = event->rounded_size,
      .time_ns = event->time_ns,
      .context = context_of(segments, event),
      .stream = event->stream >= 0 ? (uint64_t)event->stream : 0,
      .has_stream = event->stream >= 0,
      .state = GP_BLOCK_IDLE};
}

static void finish_segment_free(gp_copied_array_t *segments, const gp_told_event_t *event)
{
  gp_block_view_t *segment = find_block(segments, event->address);
  if (segment)
    remove_block(segments, segment);
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

static void finish_event(gp_record_t *record, const gp_told_event_t *event)
{
  gp_device_copy_t *copy = &record->copies[event->device];
  gp_copied_array_t *parts = &record->parts[event->device];
  switch ((gp_action_t)event->action) {
  case GP_ACTION_ALLOC: finish_alloc(&copy->blocks, parts, event); break;
  case GP_ACTION_FREE_REQUESTED:
    finish_free(&copy->blocks, event, GP_BLOCK_PENDING);
    finish_free(parts, event, GP_BLOCK_PENDING);
    break;
  case GP_ACTION_FREE_COMPLETED:
    finish_free(&copy->blocks, event, GP_BLOCK_IDLE);
    finish_part_use(parts, event);
    break;
  case GP_ACTION_SEGMENT_ALLOC: finish_segment_alloc(&copy->blocks, event); break;
  case GP_ACTION_SEGMENT_FREE: finish_segment_free(&copy->blocks, event); break;
  case GP_ACTION_FORWARDED_ALLOC:
  case GP_ACTION_FORWARDED_FREE: finish_forwarded(&copy->forwarded, event); break;
  default: break;
  }
}

/* Something newer is lost. It may be of the same memory, so that the event is no longer true. */
static bool is_lost(const gp_chunk_header_t *header, const gp_event_record_t *event)
{
  return header->has_lost && gp_event_record_newest_ns(event, event->completion) <= header->since_ns;
}

uint64_t gp_record_newest_events(const gp_record_t *record, gp_told_event_t ret_newest[GP_MAX_DEVICES])
{
  const gp_chunks_t *chunks = &record->chunks;
  uint64_t devices = 0;

  for (uint32_t i = 0; record->has_chunks && i < chunks->header->used; i++) {
    uint32_t count = atomic_load(&chunks->chunks[i].count);
    for (uint32_t j = 0; j < count; j++) {
      const gp_event_record_t *event = gp_chunks_records(chunks, i) + j;
      if (event->device < 0 || is_lost(chunks->header, event))
        continue;
      gp_told_event_t *newest = &ret_newest[event->device];
      bool is_first = !(devices >> event->device & 1);
      devices |= UINT64_C(1) << event->device;
      bool is_completed = gp_event_record_has(event, event->completion, GP_PART_COMPLETION);
      if (is_first || gp_event_record_newest_ns(event, event->completion) > newest->time_ns)
        *newest = gp_event_record_tell(event, is_completed ? GP_PART_COMPLETION : GP_PART_ACTION);
    }
  }
  return devices;
}

/* The newest record of memory at that address. False: the ring has lost it. */
static bool find_newest(const gp_record_t *record, int device, uint64_t address, gp_told_event_t *ret_event)
{
  const gp_chunks_t *chunks = &record->chunks;
  const gp_event_record_t *newest = NULL;

  for (uint32_t i = 0; i < chunks->header->used; i++) {
    uint32_t count = atomic_load(&chunks->chunks[i].count);
    for (uint32_t j = 0; j < count; j++) {
      const gp_event_record_t *event = gp_chunks_records(chunks, i) + j;
      if (event->device == device && event->address == address &&
          (!newest || event->time_ns > newest->time_ns))
        newest = event;
    }
  }
  if (newest)
    *ret_event = gp_event_record_tell(newest, GP_PART_ACTION);
  return newest != NULL;
}

/*
 * The kill may have come while an idle block got its next owner, of which the slot had only a part: it has
 * the time of that alloc, which no event of the device is as new as, and is still idle. So the alloc did not
 * happen, and the owner is the last one again.
 */
static void undo_handing_out(gp_record_t *record, int device, uint64_t newest_ns)
{
  const gp_copied_array_t *blocks = &record->copies[device].blocks;

  for (size_t i = 0; i < blocks->count; i++) {
    gp_block_view_t *block = gp_record_block(blocks, i);
    gp_told_event_t last;
    if (block->state != GP_BLOCK_IDLE || block->time_ns <= newest_ns)
      continue;
    bool has_owner = find_newest(record, device, block->address, &last) && last.block_id != 0;
    if (!has_owner)
      last = (gp_told_event_t){.stack = -1, .stream = GP_EVENT_RECORD_NO_STREAM};
    set_owner(block, &last);
    block->time_ns = last.time_ns - last.lifetime_ns;
    block->state = GP_BLOCK_IDLE;
    block->refs = 0;
  }
}

void gp_record_finish_operations(
    gp_record_t *record, uint64_t devices, const gp_told_event_t newest[GP_MAX_DEVICES])
{
  /* Without a description the library had not written yet what it records: this
   * is the first operation of all. */
  bool has_newest =
      record->document.recording == GP_RECORDING_ALL || record->document.description.length == 0;
  for (int device = 0; device < GP_MAX_DEVICES; device++)
    if (has_newest && devices >> device & 1) {
      finish_event(record, &newest[device]);
      undo_handing_out(record, device, newest[device].time_ns);
    }
  record->document.devices |= devices;
}
