/*
 * Reads the events of a snapshot.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/native/snapshot_parts.h"

static const struct {
  const char *name;
  int least;
} columns[GP_COLUMN_COUNT] = {
#define COLUMN(enumerator, name, least, member) [GP_COLUMN_##enumerator] = {name, least},
#include "format/columns.def"
};

#define NAME_BYTES_MOST 256 /* limit in bytes, because reports repeat the name with each event */

/* Reads an array of names. Does not resolve escapes, because no name in the format needs any. */
static bool read_names(gp_json_scan_t *scan, gp_snapshot_names_t *names)
{
  gp_json_slice_t name;
  if (!gp_json_scan_begin(scan, '['))
    return false;
  names->names = calloc(GP_SNAPSHOT_NAMES, sizeof(*names->names));
  if (!names->names)
    return gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
  while (gp_json_scan_element(scan)) {
    if (names->count == GP_SNAPSHOT_NAMES)
      return gp_json_scan_fail(scan, scan->at, "more names than there can be");
    if (!gp_json_scan_string(scan, &name))
      return false;
    if (name.length > NAME_BYTES_MOST)
      return gp_json_scan_fail(scan, scan->at, "a name of an action or detail that is longer than any");
    char *copy = strndup(name.text, name.length);
    if (!copy)
      return gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
    names->names[names->count++] = copy;
  }
  return !scan->error;
}

/* Reads an array of numbers into `column`. If `column` is NULL, only checks and counts the numbers. */
static bool read_values(gp_json_scan_t *scan, gp_column_t *column, size_t *ret_count)
{
  int64_t values[GP_COLUMN_PAGE];
  size_t got = GP_COLUMN_PAGE, count = 0;

  bool good = gp_json_scan_begin(scan, '[');
  while (good && got == GP_COLUMN_PAGE) {
    good = gp_json_scan_integers(scan, values, GP_COLUMN_PAGE, &got);
    if (good && column && !gp_column_append(column, values, got))
      good = gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
    count += good ? got : 0;
  }
  *ret_count = count;
  return good;
}

static bool read_column(gp_snapshot_parse_t *parse, int column)
{
  gp_json_scan_t *scan = &parse->scan;
  bool wanted = parse->columns >> column & 1;
  gp_column_t *values = wanted ? gp_column_create() : NULL;

  (void)gp_json_scan_peek(scan); /* skip blanks */
  parse->column_at[column] = scan->at;
  parse->snapshot->events.columns[column] = values; /* after an error, too, so that the column is freed */
  if (wanted && !values)
    return gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
  if (!read_values(scan, values, &parse->column_counts[column]))
    return false;
  if (values && !gp_column_finish(values))
    return gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
  parse->columns_seen |= 1u << column;
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
      return gp_json_scan_fail(scan, at, "a duplicate column");
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
  gp_snapshot_find_kinds(events);
  return !scan->error;
}

/* Returns how many items a column may refer to, or SIZE_MAX if it refers to no part that was read. */
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
  case GP_COLUMN_STACK: return snapshot->stacks.count;
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
    const gp_column_t *values = events->columns[column];
    size_t end = referred_count(parse->snapshot, column), wrong;
    int64_t most = end > INT64_MAX ? INT64_MAX : (int64_t)end - 1;
    if (!values || gp_column_is_within(values, events->count, columns[column].least, most, &wrong))
      continue;
    return gp_snapshot_fail(parse, parse->column_at[column],
        "events.%s: element %zu is %" PRId64 ", which %s", columns[column].name, wrong,
        gp_column_get(values, wrong), end == SIZE_MAX ? "cannot be" : "is beyond what it refers to");
  }
  return true;
}
