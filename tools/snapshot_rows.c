#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/snapshot_parts.h"

static const struct {
  const char *name;
  int least;
} columns[GP_COLUMN_COUNT] = {
#define COLUMN(enumerator, name, least) [GP_COLUMN_##enumerator] = {name, least},
    GP_SNAPSHOT_COLUMNS
#undef COLUMN
};

#define NAMES_MOST 256 /* actions or details: a few dozen at most */

/* Reads a member that is a number from 0 on. */
static bool read_uint(gp_json_scan_t *scan, uint64_t *ret_number)
{
  int64_t number;
  char c = gp_json_scan_peek(scan);
  size_t at = scan->at;
  if (c == 'n') /* null: not known */
    return gp_json_scan_skip(scan);
  if (!gp_json_scan_integer(scan, &number))
    return false;
  if (number < 0)
    return gp_json_scan_fail(scan, at, "a negative number");
  *ret_number = (uint64_t)number;
  return true;
}

static bool read_state(gp_json_scan_t *scan, gp_snapshot_state_t *ret_state)
{
  static const char *const names[] = {
      [GP_SNAPSHOT_ALLOCATED] = "active_allocated",
      [GP_SNAPSHOT_PENDING] = "active_pending_free",
      [GP_SNAPSHOT_INACTIVE] = "inactive",
  };
  gp_json_slice_t name;
  if (!gp_json_scan_string(scan, &name))
    return false;
  *ret_state = GP_SNAPSHOT_OTHER;
  for (int i = 0; i < GP_SNAPSHOT_OTHER; i++) {
    if (gp_json_slice_is(name, names[i]))
      *ret_state = (gp_snapshot_state_t)i;
  }
  return true;
}

static bool read_block(gp_json_scan_t *scan, gp_snapshot_block_t *ret_block)
{
  gp_snapshot_block_t block = {.state = GP_SNAPSHOT_OTHER};
  gp_json_slice_t name;

  if (!gp_json_scan_begin(scan, '{'))
    return false;
  while (gp_json_scan_member(scan, &name)) {
    bool good;
    if (gp_json_slice_is(name, "size"))
      good = read_uint(scan, &block.size);
    else if (gp_json_slice_is(name, "requested_size"))
      good = read_uint(scan, &block.requested);
    else if (gp_json_slice_is(name, "time_ns"))
      good = read_uint(scan, &block.time_ns);
    else if (gp_json_slice_is(name, "state"))
      good = read_state(scan, &block.state);
    else
      good = gp_json_scan_skip(scan);
    if (!good)
      return false;
  }
  *ret_block = block;
  return !scan->error;
}

typedef struct blocks {
  gp_snapshot_block_t *items;
  size_t count;
  size_t capacity;
} blocks_t;

static bool read_blocks(gp_json_scan_t *scan, blocks_t *blocks)
{
  if (!gp_json_scan_begin(scan, '['))
    return false;
  while (gp_json_scan_element(scan)) {
    if (blocks->count == blocks->capacity) {
      size_t capacity = blocks->capacity ? 2 * blocks->capacity : 64;
      gp_snapshot_block_t *items = realloc(blocks->items, capacity * sizeof(*items));
      if (!items)
        return gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
      blocks->items = items;
      blocks->capacity = capacity;
    }
    if (!read_block(scan, &blocks->items[blocks->count]))
      return false;
    blocks->count++;
  }
  return !scan->error;
}

/* The device of a segment may come after its blocks, so they get it in the end. */
static bool read_segment(gp_json_scan_t *scan, blocks_t *blocks)
{
  size_t first = blocks->count;
  size_t device_at = scan->at;
  uint64_t device = UINT64_MAX;
  gp_json_slice_t name;

  if (!gp_json_scan_begin(scan, '{'))
    return false;
  while (gp_json_scan_member(scan, &name)) {
    bool good;
    if (gp_json_slice_is(name, "device")) {
      (void)gp_json_scan_peek(scan); /* for the blanks */
      device_at = scan->at;
      good = read_uint(scan, &device);
    } else if (gp_json_slice_is(name, "blocks")) {
      good = read_blocks(scan, blocks);
    } else {
      good = gp_json_scan_skip(scan);
    }
    if (!good)
      return false;
  }
  if (scan->error)
    return false;
  if (device >= GP_SNAPSHOT_DEVICES)
    return gp_json_scan_fail(scan, device_at, "a segment of no possible device");
  for (size_t i = first; i < blocks->count; i++)
    blocks->items[i].device = (int)device;
  return true;
}

bool gp_snapshot_read_segments(gp_snapshot_parse_t *parse)
{
  gp_json_scan_t *scan = &parse->scan;
  blocks_t blocks = {0};
  bool good = gp_json_scan_begin(scan, '[');

  while (good && gp_json_scan_element(scan))
    good = read_segment(scan, &blocks);
  parse->snapshot->blocks = blocks.items;
  parse->snapshot->block_count = blocks.count;
  return good && !scan->error;
}

/* Names are those of the format and need no escapes; one that has some is kept as it stands. */
static bool read_names(gp_json_scan_t *scan, gp_snapshot_names_t *names)
{
  gp_json_slice_t name;
  if (!gp_json_scan_begin(scan, '['))
    return false;
  names->names = calloc(NAMES_MOST, sizeof(*names->names));
  if (!names->names)
    return gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
  while (gp_json_scan_element(scan)) {
    if (names->count == NAMES_MOST)
      return gp_json_scan_fail(scan, scan->at, "more names than there can be");
    if (!gp_json_scan_string(scan, &name))
      return false;
    char *copy = strndup(name.text, name.length);
    if (!copy)
      return gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
    names->names[names->count++] = copy;
  }
  return !scan->error;
}

static bool read_column(gp_snapshot_parse_t *parse, int column)
{
  gp_json_integers_t integers;
  bool wanted = parse->columns >> column & 1;
  size_t expected = 0;

  (void)gp_json_scan_peek(&parse->scan); /* for the blanks */
  parse->column_at[column] = parse->scan.at;
  for (int i = 0; i < GP_COLUMN_COUNT; i++) {
    if (parse->columns_seen >> i & 1 && parse->column_counts[i] > expected)
      expected = parse->column_counts[i];
  }
  if (!gp_json_scan_integers(&parse->scan, wanted, expected, &integers))
    return false;
  parse->columns_seen |= 1u << column;
  parse->column_counts[column] = integers.count;
  parse->snapshot->events.columns[column] = integers.values;
  return true;
}

bool gp_snapshot_read_events(gp_snapshot_parse_t *parse)
{
  gp_json_scan_t *scan = &parse->scan;
  gp_snapshot_events_t *events = &parse->snapshot->events;
  gp_json_slice_t name;

  if (!gp_json_scan_begin(scan, '{'))
    return false;
  while (gp_json_scan_member(scan, &name)) {
    size_t at = scan->at;
    bool good = true;
    int column = 0;
    while (column < GP_COLUMN_COUNT && !gp_json_slice_is(name, columns[column].name))
      column++;
    bool again = (column < GP_COLUMN_COUNT && parse->columns_seen >> column & 1) ||
                 (gp_json_slice_is(name, "actions") && events->actions.names) ||
                 (gp_json_slice_is(name, "details") && events->details.names);
    if (again)
      return gp_json_scan_fail(scan, at, "a column that was there already");
    if (column < GP_COLUMN_COUNT)
      good = read_column(parse, column);
    else if (gp_json_slice_is(name, "actions"))
      good = read_names(scan, &events->actions);
    else if (gp_json_slice_is(name, "details"))
      good = read_names(scan, &events->details);
    else
      good = gp_json_scan_skip(scan);
    if (!good)
      return false;
  }
  return !scan->error;
}

/* How many there are of what a column refers to; SIZE_MAX if it refers to nothing that was read. */
static size_t referred_count(const gp_snapshot_t *snapshot, int column)
{
  switch (column) {
  case GP_COLUMN_ACTION: return snapshot->events.actions.count;
  case GP_COLUMN_DETAIL: return snapshot->events.details.count;
  case GP_COLUMN_DEVICE: return GP_SNAPSHOT_DEVICES;
  case GP_COLUMN_HIT: return 2;
  case GP_COLUMN_STREAM:
    return (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(snapshot->root, "streams"));
  case GP_COLUMN_THREAD:
    return (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(snapshot->root, "threads"));
  default: return SIZE_MAX;
  }
}

bool gp_snapshot_check_events(gp_snapshot_parse_t *parse)
{
  gp_snapshot_events_t *events = &parse->snapshot->events;
  size_t longest = 0;
  events->count = SIZE_MAX;
  for (int column = 0; column < GP_COLUMN_COUNT; column++) {
    size_t count = parse->column_counts[column];
    if (!(parse->columns_seen >> column & 1)) {
      gp_snapshot_note(parse->snapshot, "events have no column %s", columns[column].name);
      continue;
    }
    events->count = count < events->count ? count : events->count;
    longest = count > longest ? count : longest;
  }
  if (!parse->columns_seen)
    events->count = 0;
  if (longest > events->count)
    gp_snapshot_note(parse->snapshot,
        "the columns of events differ in length: %zu of %zu events are complete", events->count, longest);

  for (int column = 0; column < GP_COLUMN_COUNT; column++) {
    const int64_t *values = events->columns[column];
    size_t most = referred_count(parse->snapshot, column);
    int64_t end = most > INT64_MAX ? INT64_MAX : (int64_t)most;
    for (size_t i = 0; values && i < events->count; i++) {
      if (values[i] >= columns[column].least && values[i] < end)
        continue;
      return gp_snapshot_fail(parse, parse->column_at[column],
          "events.%s: element %zu is %" PRId64 ", which %s", columns[column].name, i, values[i],
          most == SIZE_MAX ? "cannot be" : "is beyond what it refers to");
    }
  }
  return true;
}

static void names_fini(gp_snapshot_names_t *names)
{
  for (size_t i = 0; i < names->count; i++)
    free(names->names[i]);
  free(names->names);
}

void gp_snapshot_rows_fini(gp_snapshot_t *snapshot)
{
  free(snapshot->blocks);
  for (int column = 0; column < GP_COLUMN_COUNT; column++)
    free(snapshot->events.columns[column]);
  names_fini(&snapshot->events.actions);
  names_fini(&snapshot->events.details);
}
