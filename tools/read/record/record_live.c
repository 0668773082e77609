/*
 * The memory in a record: slots and statistics. Statistics may have been killed between two additions, so
 * what they say of the present is counted anew from the slots; an operation in flight has its event and not
 * yet its slot.
 */
#include <string.h>

#include "tools/read/record/record_parts.h"
#include "trace/util/pages.h"

/* Room in a copy beside the slots, for the one operation in flight. */
#define IN_FLIGHT 1

static bool is_sound(const gp_record_t *record, const gp_live_slot_t *slot, gp_live_word_t word)
{
  if (word.state >= GP_LIVE_STATE_COUNT || word.device >= GP_MAX_DEVICES || word.kind >= GP_DETAIL_COUNT ||
      slot->stream < -1 ||
      (slot->stream >= (int32_t)record->document.stream_count && record->document.stream_count > 0) ||
      slot->address == 0 || slot->size > UINT64_MAX - slot->address || slot->origin > INT32_MAX)
    return false;
  if (word.state == GP_LIVE_FORWARDED)
    return word.kind >= GP_FORWARDED_PITCH && word.kind <= GP_FORWARDED_CAPTURE;
  return slot->size > 0 && slot->requested <= slot->size;
}

static gp_block_view_t *block_at(gp_device_copy_t *copy, size_t i)
{
  return (gp_block_view_t *)copy->blocks.items + i;
}

static gp_forwarded_t *forwarded_at(gp_device_copy_t *copy, size_t i)
{
  return (gp_forwarded_t *)copy->forwarded.items + i;
}

static void add_slot(gp_record_t *record, const gp_live_slot_t *slot, gp_live_word_t word)
{
  gp_device_copy_t *copy = &record->copies[word.device];
  bool has_stream = slot->stream >= 0 && record->document.stream_count > 0;
  record->lost_streams |= slot->stream >= 0 && !has_stream;
  if (word.state == GP_LIVE_FORWARDED) {
    *forwarded_at(copy, copy->forwarded.count++) = (gp_forwarded_t){.address = slot->address,
        .size = slot->size,
        .block_id = slot->block_id,
        .time_ns = slot->time_ns,
        .kind = word.kind,
        .device = word.device,
        .origin = slot->origin <= record->stack_count ? slot->origin : GP_ORIGIN_NONE,
        .stream = has_stream ? (uint64_t)slot->stream : 0,
        .has_stream = has_stream};
    return;
  }
  gp_block_state_t state = (gp_block_state_t)word.state;
  *block_at(copy, copy->blocks.count++) = (gp_block_view_t){.address = slot->address,
      .size = slot->size,
      .requested = slot->requested,
      .block_id = slot->block_id,
      .time_ns = slot->time_ns,
      .context = slot->context,
      .refs = state == GP_BLOCK_ALLOCATED && word.refs == 0 ? 1
              : state == GP_BLOCK_IDLE                      ? 0
                                                            : word.refs,
      .origin = slot->origin <= record->stack_count ? slot->origin : GP_ORIGIN_NONE,
      .state = state,
      .tainted = word.tainted};
}

static bool make_array(gp_copied_array_t *array, size_t capacity, size_t item_bytes)
{
  array->bytes = capacity * (item_bytes + sizeof(gp_sort_key_t));
  array->pages = gp_pages_map(array->bytes, false);
  if (!array->pages)
    return false;
  array->items = array->pages;
  array->by_address = (gp_sort_key_t *)(void *)((char *)array->pages + capacity * item_bytes);
  return true;
}

/* Visits the slots that make sense; with count, only counts them for each device. */
static void visit_slots(gp_record_t *record, size_t counts[GP_MAX_DEVICES][2])
{
  const gp_live_slot_t *slots = record->sections[GP_SECTION_LIVE];
  size_t slot_count = record->bytes[GP_SECTION_LIVE] / sizeof(*slots);
  for (size_t i = 0; i < slot_count; i++) {
    gp_live_word_t word = gp_live_unpack(atomic_load(&slots[i].word));
    if (word.state == GP_LIVE_NONE)
      continue;
    if (!is_sound(record, &slots[i], word)) {
      if (counts)
        gp_record_note_damage(record);
    } else if (counts) {
      counts[word.device][word.state == GP_LIVE_FORWARDED]++;
    } else {
      add_slot(record, &slots[i], word);
    }
  }
}

static uint64_t devices_of_events(const gp_event_merge_t *events)
{
  uint64_t devices = 0;
  for (size_t i = 0; i < events->count; i++) {
    if (events->records[i].device >= 0)
      devices |= UINT64_C(1) << events->records[i].device;
  }
  return devices;
}

static bool copy_slots(gp_record_t *record)
{
  const uint64_t event_devices = devices_of_events(&record->events);
  size_t counts[GP_MAX_DEVICES][2] = {{0}};
  visit_slots(record, counts);
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    gp_device_copy_t *copy = &record->copies[device];
    if (!counts[device][0] && !counts[device][1] && !(event_devices >> device & 1))
      continue;
    if (!make_array(&copy->blocks, counts[device][0] + IN_FLIGHT, sizeof(gp_block_view_t)) ||
        !make_array(&copy->forwarded, counts[device][1] + IN_FLIGHT, sizeof(gp_forwarded_t)))
      return false;
    if (counts[device][0] || counts[device][1])
      record->document.devices |= UINT64_C(1) << device;
  }
  visit_slots(record, NULL);
  return true;
}

/*
 * The operation in flight: the newest event of a device, whose slot may not have been written any more. Every
 * older one has, because the device's lock was held for both.
 */
static gp_block_view_t *find_block(gp_device_copy_t *copy, uint64_t address)
{
  for (size_t i = 0; i < copy->blocks.count; i++) {
    if (block_at(copy, i)->address == address)
      return block_at(copy, i);
  }
  return NULL;
}

static void remove_block(gp_device_copy_t *copy, gp_block_view_t *block)
{
  *block = *block_at(copy, --copy->blocks.count);
}

static void finish_alloc(gp_device_copy_t *copy, const gp_event_record_t *event)
{
  gp_block_view_t *block = find_block(copy, event->address);
  /* Its number may be there already, and its state not yet. */
  if (!block || block->block_id > event->block_id ||
      (block->block_id == event->block_id && block->state == GP_BLOCK_ALLOCATED))
    return;
  block->state = GP_BLOCK_ALLOCATED;
  block->refs = 1;
  block->requested = event->size < block->size ? event->size : block->size;
  block->block_id = event->block_id;
  block->time_ns = event->time_ns;
  block->origin = (uint32_t)(event->stack + 1);
}

static void finish_free(gp_device_copy_t *copy, const gp_event_record_t *event, gp_block_state_t state)
{
  gp_block_view_t *block = find_block(copy, event->address);
  if (!block || block->block_id != event->block_id || block->state >= state)
    return;
  block->state = state;
  block->refs = 0;
}

static void finish_segment_alloc(gp_device_copy_t *copy, const gp_event_record_t *event)
{
  if (find_block(copy, event->address) || event->address == 0 || event->rounded_size == 0 ||
      event->rounded_size > UINT64_MAX - event->address)
    return;
  uint64_t context = copy->blocks.count ? block_at(copy, 0)->context : 1; /* no event tells it */
  *block_at(copy, copy->blocks.count++) = (gp_block_view_t){.address = event->address,
      .size = event->rounded_size,
      .time_ns = event->time_ns,
      .context = context,
      .state = GP_BLOCK_IDLE};
}

static void finish_segment_free(gp_device_copy_t *copy, const gp_event_record_t *event)
{
  gp_block_view_t *block = find_block(copy, event->address);
  if (block)
    remove_block(copy, block);
}

static gp_forwarded_t *find_forwarded(gp_device_copy_t *copy, const gp_event_record_t *event)
{
  for (size_t i = 0; i < copy->forwarded.count; i++) {
    if (forwarded_at(copy, i)->block_id == event->block_id)
      return forwarded_at(copy, i);
  }
  return NULL;
}

static void finish_forwarded(gp_device_copy_t *copy, const gp_event_record_t *event)
{
  gp_forwarded_t *memory = find_forwarded(copy, event);
  bool is_alloc = event->action == GP_ACTION_FORWARDED_ALLOC;
  if (!is_alloc && memory)
    *memory = *forwarded_at(copy, --copy->forwarded.count);
  if (!is_alloc || memory || event->detail < GP_FORWARDED_PITCH || event->address == 0)
    return;
  *forwarded_at(copy, copy->forwarded.count++) = (gp_forwarded_t){.address = event->address,
      .size = event->size,
      .block_id = event->block_id,
      .time_ns = event->time_ns,
      .kind = (gp_forwarded_kind_t)event->detail,
      .device = event->device,
      .origin = (uint32_t)(event->stack + 1),
      .stream = (uint64_t)event->stream,
      .has_stream = event->stream >= 0};
}

static void finish_event(gp_device_copy_t *copy, const gp_event_record_t *event)
{
  switch ((gp_action_t)event->action) {
  case GP_ACTION_ALLOC: finish_alloc(copy, event); break;
  case GP_ACTION_FREE_REQUESTED: finish_free(copy, event, GP_BLOCK_PENDING); break;
  case GP_ACTION_FREE_COMPLETED: finish_free(copy, event, GP_BLOCK_IDLE); break;
  case GP_ACTION_SEGMENT_ALLOC: finish_segment_alloc(copy, event); break;
  case GP_ACTION_SEGMENT_FREE: finish_segment_free(copy, event); break;
  case GP_ACTION_FORWARDED_ALLOC:
  case GP_ACTION_FORWARDED_FREE: finish_forwarded(copy, event); break;
  default: break;
  }
}

static void finish_operations(gp_record_t *record)
{
  const gp_event_merge_t *events = &record->events;
  uint64_t seen = 0;
  for (size_t i = events->count; i-- > 0 && ~seen;) {
    const gp_event_record_t *event = &events->records[events->order[i]];
    if (event->device < 0 || seen >> event->device & 1)
      continue;
    seen |= UINT64_C(1) << event->device;
    finish_event(&record->copies[event->device], event);
  }
  record->document.devices |= seen;
}

/* Sorts by address; of two that overlap the older one goes: it was freed, or one of them is damaged. */
static void sort_copy(gp_record_t *record, gp_device_copy_t *copy)
{
  for (size_t i = 0; i < copy->blocks.count; i++)
    copy->blocks.by_address[i] = (gp_sort_key_t){.key = block_at(copy, i)->address, .index = (uint32_t)i};
  for (size_t i = 0; i < copy->forwarded.count; i++)
    copy->forwarded.by_address[i] =
        (gp_sort_key_t){.key = forwarded_at(copy, i)->address, .index = (uint32_t)i};
  gp_sort_keys(copy->blocks.by_address, copy->blocks.count);
  gp_sort_keys(copy->forwarded.by_address, copy->forwarded.count);
  size_t kept = 0;
  for (size_t i = 0; i < copy->blocks.count; i++) {
    const gp_block_view_t *last = kept ? gp_device_copy_block(copy, kept - 1) : NULL;
    const gp_block_view_t *block = gp_device_copy_block(copy, i);
    bool overlaps = last && block->address - last->address < last->size;
    if (overlaps) {
      gp_record_note_damage(record);
      if (block->block_id < last->block_id)
        continue;
      kept--;
    }
    copy->blocks.by_address[kept++] = copy->blocks.by_address[i];
  }
  copy->blocks.count = kept;
}

static void set_gauge(gp_gauge_t *gauge, uint64_t current)
{
  gauge->current = current;
  if (gauge->allocated < current)
    gauge->allocated = current;
  gauge->freed = gauge->allocated - current;
  if (gauge->peak < current)
    gauge->peak = current;
}

/* What the statistics say of the present, from what there is. */
static void count_copy(gp_device_copy_t *copy)
{
  gp_stats_t now = {0};
  for (size_t i = 0; i < copy->blocks.count; i++) {
    const gp_block_view_t *block = gp_device_copy_block(copy, i);
    bool is_live = block->state == GP_BLOCK_ALLOCATED;
    bool is_idle = block->state == GP_BLOCK_IDLE;
    now.segment.current++;
    now.reserved_bytes.current += block->size;
    now.allocation.current += is_live;
    now.allocated_bytes.current += is_live ? block->size : 0;
    now.requested_bytes.current += is_live ? block->requested : 0;
    now.active_bytes.current += is_idle ? 0 : block->size;
    now.deferred_bytes.current += is_live || is_idle ? 0 : block->size;
    now.cached_bytes.current += is_idle ? block->size : 0;
    if (is_idle && block->size > copy->largest_idle)
      copy->largest_idle = block->size;
  }
  copy->idle_bytes = now.cached_bytes.current;
  for (size_t i = 0; i < copy->forwarded.count; i++) {
    const gp_forwarded_t *memory = gp_device_copy_forwarded(copy, i);
    gp_gauge_t *gauge = gp_forwarded_is_host(memory->kind) ? &now.pinned_host_bytes : &now.passthrough_bytes;
    gauge->current += memory->size;
  }
#define GAUGE(name, unit, what) set_gauge(&copy->stats.name, now.name.current);
#include "trace/format/stats.def"
  /* The record's counters may be one operation behind its blocks. */
  if (copy->stats.driver_allocs < copy->stats.segment.allocated)
    copy->stats.driver_allocs = copy->stats.segment.allocated;
}

static void use_statistics(gp_record_t *record)
{
  const char *section = record->sections[GP_SECTION_DEVICES];
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    gp_device_record_t kept;
    gp_device_copy_t *copy = &record->copies[device];
    if (((size_t)device + 1) * sizeof(kept) > record->bytes[GP_SECTION_DEVICES])
      return;
    memcpy(&kept, section + (size_t)device * sizeof(kept), sizeof(kept));
    if (kept.is_known != 1) {
      if (kept.is_known)
        gp_record_note_damage(record);
      continue;
    }
    record->document.devices |= UINT64_C(1) << device;
    copy->stats = kept.stats;
    copy->limit = kept.limit;
    copy->use = kept.use;
    copy->has_use = kept.has_use == 1;
  }
}

bool gp_record_read_live(gp_record_t *record)
{
  if (!copy_slots(record))
    return false;
  use_statistics(record);
  finish_operations(record);
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    sort_copy(record, &record->copies[device]);
    count_copy(&record->copies[device]);
  }
  return true;
}
