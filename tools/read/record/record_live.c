/*
 * Reads the memory of a record from its slots and statistics. The kill may have come between two updates of
 * the statistics. So the current values of gauges are recomputed from the slots.
 */
#include <string.h>

#include "tools/read/record/record_parts.h"
#include "format/heap_counts.h"
#include "base/pages.h"

/* The kinds of items into which slots are converted. */
typedef enum kind {
  SEGMENT, /* a segment, whether whole or divided into parts */
  PART,    /* a block that is part of a segment */
  FORWARDED,
  KINDS,
} kind_t;

static kind_t kind_of(gp_live_word_t word)
{
  return word.state == GP_LIVE_FORWARDED ? FORWARDED : word.is_cut ? PART : SEGMENT;
}

static bool is_sound(const gp_record_t *record, const gp_live_slot_t *slot, gp_live_word_t word)
{
  if (word.state >= GP_LIVE_STATE_COUNT || word.device >= GP_MAX_DEVICES || word.kind >= GP_DETAIL_COUNT ||
      slot->stream < -1 ||
      (slot->stream >= (int32_t)record->document.stream_count && record->document.stream_count > 0) ||
      slot->address == 0 || slot->size > UINT64_MAX - slot->address || slot->origin > INT32_MAX)
    return false;
  if (word.state == GP_LIVE_FORWARDED)
    return word.kind >= GP_FORWARDED_PITCH && word.kind <= GP_FORWARDED_CAPTURE && !word.is_cut;
  if (word.is_cut && word.state != GP_LIVE_ALLOCATED && word.state != GP_LIVE_PENDING)
    return false;
  return slot->size > 0 && slot->requested <= slot->size;
}

static void add_forwarded(gp_record_t *record, const gp_live_slot_t *slot, gp_live_word_t word)
{
  gp_copied_array_t *array = &record->copies[word.device].forwarded;
  bool has_stream = slot->stream >= 0 && record->document.stream_count > 0;
  record->lost_streams |= slot->stream >= 0 && !has_stream;
  *gp_record_forwarded(array, array->count++) = (gp_forwarded_t){.address = slot->address,
      .size = slot->size,
      .block_id = slot->block_id,
      .time_ns = slot->time_ns,
      .kind = word.kind,
      .device = word.device,
      .origin = slot->origin <= record->stack_count ? slot->origin : GP_ORIGIN_NONE,
      .stream = has_stream ? (uint64_t)slot->stream : 0,
      .has_stream = has_stream};
}

/* Adds a block or a segment. Adds a divided segment as one idle block without an owner, which the parts
 * replace later. */
static void add_block(gp_record_t *record, const gp_live_slot_t *slot, gp_live_word_t word)
{
  gp_copied_array_t *array = word.is_cut ? &record->parts[word.device] : &record->copies[word.device].blocks;
  bool has_stream = slot->stream >= 0 && record->document.stream_count > 0;
  record->lost_streams |= slot->stream >= 0 && !has_stream;
  if (word.state == GP_LIVE_SEGMENT) {
    *gp_record_block(array, array->count++) = (gp_block_view_t){
        .address = slot->address, .size = slot->size, .context = slot->context, .state = GP_BLOCK_IDLE};
    return;
  }
  gp_block_state_t state = (gp_block_state_t)word.state;
  uint16_t thread = slot->thread < record->document.thread_count ? slot->thread : 0;
  *gp_record_block(array, array->count++) = (gp_block_view_t){.address = slot->address,
      .size = slot->size,
      .requested = slot->requested,
      .block_id = slot->block_id,
      .time_ns = slot->time_ns,
      .context = slot->context,
      .stream = has_stream ? (uint64_t)slot->stream : 0,
      .has_stream = has_stream,
      .refs = state == GP_BLOCK_ALLOCATED && word.refs == 0 ? 1
              : state == GP_BLOCK_IDLE                      ? 0
                                                            : word.refs,
      .origin = slot->origin <= record->stack_count ? slot->origin : GP_ORIGIN_NONE,
      .observer_note = word.records_alloc && state == GP_BLOCK_ALLOCATED ? gp_note_of_alloc(thread) : 0,
      .state = state,
      .tainted = word.tainted};
}

void gp_record_drop_array(gp_copied_array_t *array)
{
  gp_pages_unmap(array->pages, array->bytes);
  *array = (gp_copied_array_t){0};
}

bool gp_record_make_array(gp_copied_array_t *array, size_t capacity, size_t item_bytes)
{
  array->bytes = capacity * (item_bytes + sizeof(gp_sort_key_t));
  array->pages = gp_pages_map(array->bytes, false);
  if (!array->pages)
    return false;
  array->items = array->pages;
  array->by_address = (gp_sort_key_t *)(void *)((char *)array->pages + capacity * item_bytes);
  return true;
}

/* Visits the valid slots, and adds their memory to the record. If `counts` is not NULL, only counts the
 * memory by device and kind. */
static void visit_slots(gp_record_t *record, size_t counts[GP_MAX_DEVICES][KINDS])
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
      counts[word.device][kind_of(word)]++;
    } else if (kind_of(word) == FORWARDED) {
      add_forwarded(record, &slots[i], word);
    } else {
      add_block(record, &slots[i], word);
    }
  }
}

/* Allocates the arrays for all slots and operations in flight, and copies the slots. `event_devices` is a bit
 * mask of the devices with events. Returns false if host memory runs out. */
static bool copy_slots(gp_record_t *record, uint64_t event_devices)
{
  size_t counts[GP_MAX_DEVICES][KINDS] = {{0}};
  size_t in_flight = gp_record_most_in_flight(record);
  visit_slots(record, counts);
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    gp_device_copy_t *copy = &record->copies[device];
    const size_t *count = counts[device];
    copy->until_ns = UINT64_MAX;
    bool has_slots = count[SEGMENT] || count[PART] || count[FORWARDED];
    if (!has_slots && !(event_devices >> device & 1))
      continue;
    if (!gp_record_make_array(&copy->blocks, count[SEGMENT] + in_flight, sizeof(gp_block_view_t)) ||
        !gp_record_make_array(&record->parts[device], count[PART] + in_flight, sizeof(gp_block_view_t)) ||
        !gp_record_make_array(&copy->forwarded, count[FORWARDED] + in_flight, sizeof(gp_forwarded_t)))
      return false;
    if (has_slots)
      record->document.devices |= UINT64_C(1) << device;
  }
  visit_slots(record, NULL);
  return true;
}

static void set_gauge(gp_gauge_t *gauge, uint64_t current)
{
  gauge->current = current;
  /* The library increments its counters before the memory becomes visible. So counts without matching memory
   * are rolled back. */
  if (gauge->allocated > gauge->freed && gauge->allocated - gauge->freed > current)
    gauge->allocated = gauge->freed + current;
  if (gauge->allocated < current)
    gauge->allocated = current;
  gauge->freed = gauge->allocated - current;
  if (gauge->peak < current)
    gauge->peak = current;
}

/* Recomputes the current values of the gauges from the copied memory. */
static void count_copy(gp_device_copy_t *copy)
{
  gp_stats_t now = {0};
  for (size_t i = 0; i < copy->blocks.count; i++) {
    const gp_block_view_t *block = gp_device_copy_block(copy, i);
    bool is_live = block->state == GP_BLOCK_ALLOCATED;
    bool is_idle = block->state == GP_BLOCK_IDLE;
    now.segment.current += block->address == block->segment_address;
    now.reserved_bytes.current += block->size;
    now.allocation.current += is_live;
    now.allocated_bytes.current += is_live ? block->size : 0;
    now.requested_bytes.current += is_live ? block->requested : 0;
    now.active_bytes.current += is_idle ? 0 : block->size;
    now.deferred_bytes.current += is_live || is_idle ? 0 : block->size;
    now.cached_bytes.current += is_idle ? block->size : 0;
    now.inactive_split_bytes.current += is_idle && block->size < block->segment_size ? block->size : 0;
    if (is_idle && block->size > copy->largest_idle)
      copy->largest_idle = block->size;
  }
  copy->idle_bytes = now.cached_bytes.current;
  for (size_t i = 0; i < copy->forwarded.count; i++) {
    const gp_forwarded_t *memory = gp_device_copy_forwarded(copy, i);
    gp_gauge_t *gauge = gp_forwarded_is_host(memory->kind) ? &now.pinned_host_bytes : &now.passthrough_bytes;
    gauge->current += memory->size;
  }
#define GAUGE(name, ...) set_gauge(&copy->stats.name, now.name.current);
#include "format/stats.def"
  /* The counter of driver calls may be one operation behind the blocks. */
  if (copy->stats.driver_allocs < copy->stats.segment.allocated)
    copy->stats.driver_allocs = copy->stats.segment.allocated;
}

/* Adds the counters of the per-thread heaps to the statistics of the device. */
static void add_heaps(gp_record_t *record, int device)
{
  const gp_heap_counts_t *heaps = record->sections[GP_SECTION_HEAPS];
  size_t count = record->bytes[GP_SECTION_HEAPS] / sizeof(*heaps);

  for (size_t i = 0; i < count; i++)
    if (heaps[i].device == (uint32_t)device + 1)
      gp_stats_undo_fold(&record->copies[device].stats, &heaps[i]);
  for (size_t i = 0; i < count; i++)
    if (heaps[i].device == (uint32_t)device + 1)
      gp_stats_add_heap(&record->copies[device].stats, &heaps[i]);
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
    add_heaps(record, device);
    gp_stats_join_peaks(&copy->stats);
    copy->limit = kept.limit;
    copy->use = kept.use;
    copy->has_use = kept.has_use == 1;
  }
}

bool gp_record_read_live(gp_record_t *record)
{
  uint64_t event_devices = gp_record_event_devices(record);
  if (!copy_slots(record, event_devices))
    return false;
  use_statistics(record);
  if (!gp_record_finish_operations(record))
    return false;
  record->document.devices |= event_devices;
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    if (!gp_record_order_memory(record, device))
      return false;
    count_copy(&record->copies[device]);
  }
  return true;
}
