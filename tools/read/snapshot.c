#include "tools/read/snapshot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/options.h"
#include "tools/output.h"
#include "tools/array.h"

#define WIDTH_MOST 57 /* a value may begin at bit 7 of its first byte, which leaves 57 of 64 bits */

static unsigned char no_bits[sizeof(uint64_t)]; /* `bits` of all pages whose values are equal */

gp_column_t *gp_column_create(void)
{
  gp_column_t *column = calloc(1, sizeof(*column));
  if (column)
    column->tail = malloc(GP_COLUMN_PAGE * sizeof(*column->tail));
  if (column && !column->tail) {
    free(column);
    column = NULL;
  }
  return column;
}

void gp_column_destroy(gp_column_t *column)
{
  if (!column)
    return;
  for (size_t i = 0; i < column->page_count; i++) {
    if (column->pages[i].width)
      free(column->pages[i].bits);
  }
  free(column->pages);
  free(column->tail);
  free(column);
}

/* Returns the layout with which to store the values of a page. Sets all members except `bits`. */
static gp_column_page_t layout_of(const int64_t *values, size_t count)
{
  gp_column_page_t page = {.bits = no_bits};
  int64_t least = values[0], most = values[0];
  uint64_t differing = 0; /* bits that are set in the difference between any value and the first */
  for (size_t i = 0; i < count; i++) {
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
    differing |= (uint64_t)values[i] - (uint64_t)values[0];
  }
  page.least = least;
  if (!differing)
    return page;
  page.shift = (uint8_t)__builtin_ctzll(differing);
  page.width = (uint8_t)(64 - __builtin_clzll((uint64_t)most - (uint64_t)least) - page.shift);
  if (page.width > WIDTH_MOST)
    page.width = 64;
  gp_assert_internal(page.width && (page.width <= WIDTH_MOST || page.width == 64));
  page.mask = page.width == 64 ? UINT64_MAX : (UINT64_C(1) << page.width) - 1;
  return page;
}

/* Writes the values of a page to `to`, starting with the lowest bit of the first byte. `to` must have 8 bytes
 * more than the values need. */
static void write_bits(const gp_column_page_t *page, const int64_t *values, size_t count, unsigned char *to)
{
  uint64_t word = 0;
  unsigned used = 0; /* number of bits in use in `word`, below 64 */
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = ((uint64_t)values[i] - (uint64_t)page->least) >> page->shift;
    word |= bits << used;
    used += page->width;
    if (used < 64)
      continue;
    word = htole64(word);
    memcpy(to, &word, sizeof(word));
    to += sizeof(word);
    used -= 64;
    word = used ? bits >> (page->width - used) : 0;
  }
  word = htole64(word);
  memcpy(to, &word, (used + 7) / 8);
}

static bool add_page(gp_column_t *column, const int64_t *values, size_t count)
{
  gp_column_page_t page = layout_of(values, count);
  if (page.width) {
    page.bits = malloc((count * page.width + 7) / 8 + sizeof(uint64_t));
    if (!page.bits)
      return false;
    write_bits(&page, values, count, page.bits);
  }
  gp_column_page_t *added = GP_ARRAY_ADD(column->pages, column->page_count);
  if (added)
    *added = page;
  else
    free(page.bits);
  return added != NULL;
}

bool gp_column_append(gp_column_t *column, const int64_t *values, size_t count)
{
  gp_assert(column->tail); /* the column must be unfinished */
  while (count) {
    size_t room = GP_COLUMN_PAGE - column->tail_count, part = count < room ? count : room;
    if (part == GP_COLUMN_PAGE) { /* a whole page: store it directly */
      if (!add_page(column, values, part))
        return false;
    } else {
      memcpy(column->tail + column->tail_count, values, part * sizeof(*values));
      column->tail_count += part;
    }
    if (column->tail_count == GP_COLUMN_PAGE) {
      if (!add_page(column, column->tail, GP_COLUMN_PAGE))
        return false;
      column->tail_count = 0;
    }
    column->count += part;
    values += part;
    count -= part;
  }
  return true;
}

bool gp_column_finish(gp_column_t *column)
{
  if (column->tail_count && !add_page(column, column->tail, column->tail_count))
    return false;
  column->tail_count = 0;
  free(column->tail);
  column->tail = NULL;
  return true;
}

/* Returns true if every value that the page's layout can represent is between `least` and `most`. */
static bool is_page_within(const gp_column_page_t *page, int64_t least, int64_t most)
{
  uint64_t reach = page->mask << page->shift; /* loses no bits, because the largest value has them all */
  return page->least >= least && page->least <= most && reach <= (uint64_t)most - (uint64_t)page->least;
}

bool gp_column_is_within(
    const gp_column_t *column, size_t count, int64_t least, int64_t most, size_t *ret_wrong)
{
  gp_assert(!column->tail && count <= column->count);
  for (size_t first = 0; first < count; first += GP_COLUMN_PAGE) {
    if (is_page_within(&column->pages[first / GP_COLUMN_PAGE], least, most))
      continue;
    for (size_t i = first; i < count && i < first + GP_COLUMN_PAGE; i++) {
      int64_t value = gp_column_get(column, i);
      if (value >= least && value <= most)
        continue;
      *ret_wrong = i;
      return false;
    }
  }
  return true;
}

/*
 * Knowledge of a device's statistics; files of other tools have no counters
 */

/* The source from which a statistic can be computed if the file has no counters. */
typedef enum origin {
  ORIGIN_COUNTED,         /* none: only the library counts it */
  ORIGIN_EVENTS,          /* events of allocations and frees */
  ORIGIN_FREES,           /* events of completed frees, and pending blocks */
  ORIGIN_SEGMENTS,        /* segments, and events of segments that were allocated or freed */
  ORIGIN_SEGMENTS_AT_END, /* segments, which are known only at the end */
  ORIGIN_DRIVER_EVENTS,   /* events of segments that were allocated or freed */
  ORIGIN_OOMS,            /* events of failed requests */
} origin_t;

static const struct {
  size_t stat;
  origin_t origin;
} origins[] = {
#define GAUGE(name, unit, label, origin, what) {offsetof(gp_stats_t, name), ORIGIN_##origin},
#define COUNTER(name, label, origin, what)     {offsetof(gp_stats_t, name), ORIGIN_##origin},
#include "format/stats.def"
};

_Static_assert(sizeof(origins) / sizeof(origins[0]) <= 64, "lacked_stats has a bit for each");

static size_t row_of(size_t stat)
{
  size_t i = 0;
  while (origins[i].stat != stat)
    i++;
  return i;
}

gp_known_t gp_stats_known(const gp_snapshot_t *snapshot, const gp_snapshot_device_t *device, size_t stat)
{
  size_t row = row_of(stat);
  origin_t origin = origins[row].origin;
  bool lacks_driver_events = snapshot->lacks_history || device->lacks_reserved;
  if (device->lacked_stats >> row & 1)
    return GP_KNOWN_NOT;
  if (!snapshot->lacks_counters)
    return GP_KNOWN;
  switch (origin) {
  case ORIGIN_COUNTED: return GP_KNOWN_NOT;
  case ORIGIN_EVENTS: return snapshot->lacks_history ? GP_KNOWN_AT_END : GP_KNOWN;
  case ORIGIN_OOMS: return snapshot->lacks_history ? GP_KNOWN_NOT : GP_KNOWN;
  case ORIGIN_DRIVER_EVENTS: return lacks_driver_events ? GP_KNOWN_NOT : GP_KNOWN;
  case ORIGIN_FREES:
  case ORIGIN_SEGMENTS:
  case ORIGIN_SEGMENTS_AT_END: break;
  }
  if (snapshot->lacks_segments)
    return GP_KNOWN_NOT;
  if (origin == ORIGIN_FREES)
    return snapshot->lacks_history ? GP_KNOWN_AT_END : GP_KNOWN;
  return lacks_driver_events || origin == ORIGIN_SEGMENTS_AT_END ? GP_KNOWN_AT_END : GP_KNOWN;
}

#define INTEGER_MAX ((INT64_C(1) << 53) - 1) /* largest integer that a JSON number represents exactly */

_Static_assert(GP_SNAPSHOT_DEVICES == GP_OPTION_DEVICES, "every device that the library knows");

#define OUTPUT_FIRST (UINT64_C(64) << 20)
#define OUTPUT_TIMES 64 /* the largest ratio in 80 real files was 52; a pickle stores each stack once */

uint64_t gp_snapshot_output_most(const gp_snapshot_t *snapshot)
{
  if (snapshot->input_bytes > (UINT64_MAX - OUTPUT_FIRST) / OUTPUT_TIMES)
    return UINT64_MAX;
  return OUTPUT_FIRST + OUTPUT_TIMES * snapshot->input_bytes;
}

__attribute__((format(printf, 3, 0))) static void add_note(
    gp_snapshot_t *snapshot, bool is_usual, const char *format, va_list arguments)
{
  char *text;
  if (snapshot->note_count == GP_SNAPSHOT_NOTES || vasprintf(&text, format, arguments) < 0)
    return;
  snapshot->note_is_usual[snapshot->note_count] = is_usual;
  snapshot->notes[snapshot->note_count++] = text;
}

void gp_snapshot_note(gp_snapshot_t *snapshot, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  add_note(snapshot, false, format, arguments);
  va_end(arguments);
}

void gp_snapshot_note_usual(gp_snapshot_t *snapshot, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  add_note(snapshot, true, format, arguments);
  va_end(arguments);
}

char *gp_snapshot_moment(const gp_snapshot_t *snapshot, uint64_t time_ns, char *buffer)
{
  if (!snapshot->times_are_numbers)
    return gp_number_duration(time_ns, buffer);
  snprintf(buffer, GP_NUMBER_BYTES, "event %" PRIu64, time_ns); /* --at accepts this form */
  return buffer;
}

const gp_snapshot_device_t *gp_snapshot_device(const gp_snapshot_t *snapshot, int device)
{
  for (size_t i = 0; i < snapshot->device_count; i++) {
    if (snapshot->devices[i].device == device)
      return &snapshot->devices[i];
  }
  return NULL;
}

const char *gp_snapshot_text(const cJSON *object, const char *name)
{
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  return text ? text : "";
}

static bool to_uint(const cJSON *item, uint64_t *ret_number)
{
  double value = cJSON_GetNumberValue(item);
  if (!(value >= 0 && value <= (double)INTEGER_MAX))
    return false;
  uint64_t number = (uint64_t)value;
  if ((double)number < value)
    return false;
  *ret_number = number;
  return true;
}

int gp_snapshot_uint(const cJSON *object, const char *name, uint64_t *ret_number)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  if (!item || cJSON_IsNull(item))
    return 0;
  return cJSON_IsNumber(item) && to_uint(item, ret_number) ? 1 : -1;
}

static const char *const action_names[] = {
#define ACTION(enumerator, name, ...) [GP_EVENT_##enumerator] = name,
#include "format/actions.def"
    [GP_EVENT_SEGMENT_MAP] = "segment_map",
    [GP_EVENT_SEGMENT_UNMAP] = "segment_unmap",
    [GP_EVENT_OTHER] = "",
};

const char *gp_event_kind_name(gp_event_kind_t kind)
{
  return action_names[kind];
}

gp_event_look_t gp_event_look(gp_event_kind_t kind)
{
  static const gp_event_look_t looks[] = {
#define ACTION(enumerator, name, instant, letter, mark, what)                                                \
  [GP_EVENT_##enumerator] = {instant, letter, mark},
#include "format/actions.def"
      [GP_EVENT_SEGMENT_MAP] = {"", 0, ""},
      [GP_EVENT_SEGMENT_UNMAP] = {"", 0, ""},
      [GP_EVENT_OTHER] = {"", 0, ""},
  };
  return looks[kind];
}

void gp_snapshot_find_kinds(gp_snapshot_events_t *events)
{
  gp_assert(events->actions.count <= GP_SNAPSHOT_NAMES);
  for (size_t i = 0; i < events->actions.count; i++) {
    int kind = 0;
    while (kind < GP_EVENT_OTHER && strcmp(events->actions.names[i], action_names[kind]) != 0)
      kind++;
    events->kinds[i] = (uint8_t)kind;
  }
}

static const char *const state_names[] = {
#define BLOCK_STATE(enumerator, name) [GP_SNAPSHOT_##enumerator] = name,
#include "format/states.def"
    [GP_SNAPSHOT_OTHER] = "",
};

const char *gp_snapshot_state_name(gp_snapshot_state_t state)
{
  return state_names[state];
}

gp_snapshot_state_t gp_snapshot_state_of(const char *name, size_t length)
{
  int state = 0;
  while (state < GP_SNAPSHOT_OTHER &&
         (strlen(state_names[state]) != length || memcmp(name, state_names[state], length) != 0))
    state++;
  return (gp_snapshot_state_t)state;
}

bool gp_snapshot_is_partial(const gp_snapshot_t *snapshot)
{
  return snapshot->note_count || snapshot->dropped_events || snapshot->recorded_since_ns ||
         snapshot->lacks_history;
}

static bool is_in(int64_t index, int64_t least, size_t count)
{
  return index >= least && (index < 0 || (uint64_t)index < count);
}

static bool are_stacks_sound(const gp_snapshot_t *snapshot)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    const gp_snapshot_frame_t *frame = &snapshot->frames[i];
    if (!is_in(frame->module, -1, snapshot->module_count) || !frame->function || !frame->file)
      return false;
  }
  for (size_t i = 0; i < stacks->count; i++) {
    if (stacks->first[i] > stacks->first[i + 1])
      return false;
    for (size_t k = stacks->first[i]; k < stacks->first[i + 1]; k++) {
      if (!is_in(stacks->frame_indexes[k], 0, snapshot->frame_count))
        return false;
    }
  }
  return true;
}

static bool are_events_sound(const gp_snapshot_t *snapshot)
{
  const gp_snapshot_events_t *events = &snapshot->events;
  for (size_t i = 0; i < events->count; i++) {
    if (!is_in(gp_snapshot_event(events, GP_COLUMN_ACTION, i, -1), -1, events->actions.count) ||
        !is_in(gp_snapshot_event(events, GP_COLUMN_DETAIL, i, -1), -1, events->details.count) ||
        !is_in(gp_snapshot_event(events, GP_COLUMN_DEVICE, i, -1), -1, GP_SNAPSHOT_DEVICES) ||
        !is_in(gp_snapshot_event(events, GP_COLUMN_STACK, i, -1), -1, snapshot->stacks.count))
      return false;
  }
  return true;
}

bool gp_snapshot_is_sound(const gp_snapshot_t *snapshot)
{
  for (size_t i = 0; i < snapshot->segment_count; i++) {
    const gp_snapshot_segment_t *segment = &snapshot->segments[i];
    if (!is_in(segment->device, 0, GP_SNAPSHOT_DEVICES) || segment->first_block > snapshot->block_count ||
        segment->block_count > snapshot->block_count - segment->first_block)
      return false;
  }
  for (size_t i = 0; i < snapshot->block_count; i++) {
    const gp_snapshot_block_t *block = &snapshot->blocks[i];
    if (block->segment >= snapshot->segment_count || !is_in(block->stack, -1, snapshot->stacks.count) ||
        block->device != snapshot->segments[block->segment].device)
      return false;
  }
  for (size_t i = 0; i < snapshot->forwarded_count; i++) {
    const gp_snapshot_forwarded_t *memory = &snapshot->forwarded[i];
    if (!is_in(memory->device, 0, GP_SNAPSHOT_DEVICES) || !is_in(memory->stack, -1, snapshot->stacks.count) ||
        !memory->kind)
      return false;
  }
  for (size_t i = 0; i < snapshot->extent_count; i++) {
    const gp_snapshot_extent_t *extent = &snapshot->extents[i];
    if (!is_in(extent->device, 0, GP_SNAPSHOT_DEVICES) || extent->begin > extent->end ||
        (extent->end > snapshot->events.count && extent->end != SIZE_MAX))
      return false;
  }
  return are_stacks_sound(snapshot) && are_events_sound(snapshot);
}

static void names_fini(gp_snapshot_names_t *names)
{
  for (size_t i = 0; i < names->count; i++)
    free(names->names[i]);
  free(names->names);
}

void gp_snapshot_destroy(gp_snapshot_t *snapshot)
{
  if (!snapshot)
    return;
  cJSON_Delete(snapshot->root);
  for (size_t i = 0; i < snapshot->forwarded_count; i++)
    free(snapshot->forwarded[i].kind);
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    free(snapshot->frames[i].function);
    free(snapshot->frames[i].file);
  }
  for (size_t i = 0; i < snapshot->module_count; i++) {
    free(snapshot->modules[i].path);
    free(snapshot->modules[i].build_id);
  }
  for (int column = 0; column < GP_COLUMN_COUNT; column++)
    gp_column_destroy(snapshot->events.columns[column]);
  gp_column_destroy(snapshot->events.device_free);
  gp_column_destroy(snapshot->events.pool);
  names_fini(&snapshot->events.actions);
  names_fini(&snapshot->events.details);
  for (size_t i = 0; i < snapshot->note_count; i++)
    free(snapshot->notes[i]);
  free(snapshot->forwarded);
  free(snapshot->segments);
  free(snapshot->extents);
  free(snapshot->blocks);
  free(snapshot->stacks.first);
  free(snapshot->stacks.frame_indexes);
  free(snapshot->frames);
  free(snapshot->owners);
  free(snapshot->frame_kinds);
  free(snapshot->components);
  free(snapshot->modules);
  free(snapshot);
}
