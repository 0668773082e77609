/*
 * Converts the events of a PyTorch snapshot, one list per device, into the columns of a gpupool snapshot.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"
#include "tools/read/pytorch/import_parts.h"
#include "format/marks.h"

/*
 * Conversion of PyTorch's annotations, which are the begins and ends of record_function() ranges. They become
 * the begins and ends of scopes. PyTorch does not record their thread, so they become phases of the process.
 */

/* The ranges that have begun but not ended. The scope of a range is its index plus 1. */
typedef struct open_ranges {
  const gp_value_t *names[GP_MARKS_MAX]; /* NULL: the range has ended */
  size_t count;
} open_ranges_t;

/* Ends the newest open range called `name`. Returns its scope, or 0 if its begin was not recorded. */
static size_t close_range(open_ranges_t *open, const gp_value_t *name)
{
  for (size_t scope = open->count; scope > 0; scope--) {
    const gp_value_t *begun = open->names[scope - 1];
    if (begun && begun->length == name->length && memcmp(begun->text, name->text, name->length) == 0) {
      open->names[scope - 1] = NULL;
      return scope;
    }
  }
  return 0;
}

static bool add_mark(gp_import_t *import, cJSON *marks, const gp_value_t *name, gp_mark_kind_t kind,
    size_t scope, uint64_t time_ns)
{
  cJSON *mark = cJSON_CreateObject();
  char *copy = gp_import_copy(import, name);
  bool good = mark && copy && cJSON_AddStringToObject(mark, "kind", gp_mark_kind_name(kind)) &&
              cJSON_AddNumberToObject(mark, "time_ns", (double)time_ns) &&
              cJSON_AddNumberToObject(mark, "thread", 0) && cJSON_AddNullToObject(mark, "device") &&
              cJSON_AddNumberToObject(mark, "scope", (double)scope) &&
              cJSON_AddStringToObject(mark, "name", copy) && cJSON_AddItemToArray(marks, mark);
  free(copy);
  if (!good)
    cJSON_Delete(mark);
  return good || gp_import_no_memory(import);
}

static bool add_annotation(gp_import_t *import, cJSON *marks, open_ranges_t *open,
    const gp_value_t *annotation, uint64_t start_us, uint64_t *last_ns)
{
  const gp_value_t *name = gp_value_member(annotation, "name"), *stage = gp_value_member(annotation, "stage"),
                   *time_us = gp_value_member(annotation, "time_us");
  bool is_begin = stage && gp_value_is(stage, "START");

  if (!name || name->kind != GP_VALUE_TEXT || !time_us || time_us->kind != GP_VALUE_INTEGER ||
      !(is_begin || (stage && gp_value_is(stage, "END"))))
    return true; /* reports do not need this annotation */
  int64_t after_us = time_us->integer - (int64_t)start_us;
  if (time_us->integer < 0 || after_us >= GP_IMPORT_NUMBER_MOST / 1000)
    return true;
  if (after_us > 0 && (uint64_t)after_us * 1000 > *last_ns)
    *last_ns = (uint64_t)after_us * 1000;
  if (is_begin)
    open->names[open->count++] = name;
  size_t scope = is_begin ? open->count : close_range(open, name);
  return !scope || add_mark(import, marks, name, is_begin ? GP_MARK_BEGIN : GP_MARK_END, scope, *last_ns);
}

bool gp_import_annotations(gp_import_t *import, const gp_value_t *list, uint64_t start_us)
{
  if (list->kind != GP_VALUE_LIST || !start_us)
    return true;
  cJSON *marks = cJSON_AddArrayToObject(import->snapshot->root, "marks");
  open_ranges_t *open = calloc(1, sizeof(*open));
  bool good = (marks && open) || gp_import_no_memory(import);
  uint32_t count = list->container->count;
  uint64_t last_ns = 0;

  /* Keep the newest annotations, as the library does with marks. A limit is necessary, since the list may
   * contain the same dict any number of times. */
  for (uint32_t i = count > GP_MARKS_MAX ? count - GP_MARKS_MAX : 0; good && i < count; i++)
    good = add_annotation(import, marks, open, &list->container->items[i], start_us, &last_ns);
  free(open);
  return good;
}

#define ACTIONS_MOST 64
#define NO_TIME      (-1)

/* The columns that are filled from PyTorch's events. import_replay.c computes the other columns. */
static const int recorded[] = {GP_COLUMN_ACTION, GP_COLUMN_TIME_NS, GP_COLUMN_DEVICE, GP_COLUMN_STREAM,
    GP_COLUMN_ADDRESS, GP_COLUMN_SIZE, GP_COLUMN_ROUNDED_SIZE, GP_COLUMN_STACK, GP_IMPORT_DEVICE_FREE,
    GP_IMPORT_POOL};
#define RECORDED_COUNT (sizeof(recorded) / sizeof(recorded[0]))

/* The kinds of events that PyTorch records. Their actions come first in the snapshot, and the summary shows
 * them in this order. Actions unknown to gpupool follow. */
static const gp_event_kind_t known[] = {GP_EVENT_ALLOC, GP_EVENT_FREE_REQUESTED, GP_EVENT_FREE_COMPLETED,
    GP_EVENT_SEGMENT_ALLOC, GP_EVENT_SEGMENT_FREE, GP_EVENT_SEGMENT_MAP, GP_EVENT_SEGMENT_UNMAP, GP_EVENT_OOM,
    GP_EVENT_SNAPSHOT};
#define KNOWN_COUNT (sizeof(known) / sizeof(known[0]))

bool gp_import_events_begin(gp_import_t *import)
{
  gp_snapshot_events_t *events = &import->snapshot->events;
  events->actions.names = calloc(ACTIONS_MOST, sizeof(char *));
  events->details.names = calloc(1, sizeof(char *));
  if (!events->actions.names || !events->details.names)
    return gp_import_no_memory(import);
  for (size_t i = 0; i < KNOWN_COUNT; i++) {
    events->actions.names[i] = strdup(gp_event_kind_name(known[i]));
    if (!events->actions.names[i])
      return gp_import_no_memory(import);
    events->actions.count++;
  }
  events->details.names[0] = strdup("");
  events->details.count = events->details.names[0] != NULL;
  return events->details.count || gp_import_no_memory(import);
}

static bool find_action(gp_import_t *import, const gp_value_t *value, int64_t *ret_action)
{
  gp_snapshot_names_t *actions = &import->snapshot->events.actions;
  for (size_t i = 0; i < actions->count; i++) {
    if (gp_value_is(value, actions->names[i])) {
      *ret_action = (int64_t)i;
      return true;
    }
  }
  if (actions->count == ACTIONS_MOST)
    return gp_value_tree_fail(&import->tree, 0, "device_traces: more actions than there can be");
  char *name = gp_import_copy(import, value);
  if (!name)
    return false;
  *ret_action = (int64_t)actions->count;
  actions->names[actions->count++] = name;
  return true;
}

/* Makes room in all columns for one more event. */
static bool reserve(gp_import_t *import)
{
  size_t room = import->event_room, more = room ? room : 1024;
  if (import->snapshot->events.count < room)
    return true;
  if (!gp_value_tree_account(&import->tree, more * GP_IMPORT_COLUMNS * sizeof(int64_t)))
    return false;
  for (size_t i = 0; i < RECORDED_COUNT; i++) {
    if (!gp_array_resize(&import->columns[recorded[i]], room + more, sizeof(int64_t)))
      return gp_import_no_memory(import);
  }
  import->event_room = room + more;
  return true;
}

/* Reads the time of an event in microseconds, or NO_TIME if it is missing. gp_import_events_end converts the
 * column to nanoseconds. */
static bool read_time(const gp_import_place_t *place, int64_t *ret_time_us)
{
  uint64_t time_us = UINT64_MAX;
  if (!gp_import_number(place, "time_us", GP_IMPORT_NUMBER_MOST, false, &time_us))
    return false;
  *ret_time_us = time_us == UINT64_MAX ? NO_TIME : (int64_t)time_us;
  return true;
}

/* Returns the free bytes of the device that the event records, or -1 if the event does not record them. */
static int64_t read_device_free(const gp_value_t *event)
{
  const gp_value_t *value = gp_value_member(event, "device_free");
  bool is_said = value && value->kind == GP_VALUE_INTEGER && value->integer >= 0;
  return is_said ? value->integer : -1;
}

bool gp_import_add_event(gp_import_t *import, const gp_import_event_t *event)
{
  if (!reserve(import) || !gp_import_device(import, event->device))
    return false;
  size_t i = import->snapshot->events.count++;
  import->columns[GP_COLUMN_ACTION][i] = event->action;
  import->columns[GP_COLUMN_TIME_NS][i] = event->time_us;
  import->columns[GP_COLUMN_DEVICE][i] = event->device;
  import->columns[GP_COLUMN_STREAM][i] = event->stream;
  import->columns[GP_COLUMN_ADDRESS][i] = (int64_t)event->address;
  import->columns[GP_COLUMN_SIZE][i] = (int64_t)event->size;
  import->columns[GP_COLUMN_ROUNDED_SIZE][i] = (int64_t)event->rounded;
  import->columns[GP_COLUMN_STACK][i] = event->stack;
  import->columns[GP_IMPORT_DEVICE_FREE][i] = event->device_free;
  import->columns[GP_IMPORT_POOL][i] = event->pool;
  import->says_device_free |= event->device_free >= 0;
  import->says_pool |= event->pool > 0;
  return true;
}

int gp_import_action(gp_event_kind_t kind)
{
  size_t i = 0;
  while (known[i] != kind)
    i++;
  return (int)i;
}

bool gp_import_event(gp_import_t *import, const gp_value_t *event, int device, size_t index)
{
  const gp_import_place_t place = {.import = import,
      .dict = event,
      .list = "device_traces",
      .is_item = true,
      .at = (size_t)device,
      .inner = "",
      .inner_at = index};
  gp_import_event_t row = {.device = device};

  if (device < import->last_device) /* PyTorch writes devices in order */
    return gp_value_tree_fail(&import->tree, 0, "device_traces: those of device %d are not together", device);
  import->last_device = device;
  if (!gp_import_is_dict(&place) || !read_time(&place, &row.time_us))
    return false;
  const gp_value_t *action = gp_value_member(event, "action");
  if (!action || action->kind != GP_VALUE_TEXT)
    return gp_import_fail(&place, "action", "is missing");
  if (!find_action(import, action, &row.action))
    return false;
  bool is_known = (size_t)row.action < KNOWN_COUNT;
  bool is_oom = is_known && known[row.action] == GP_EVENT_OOM;
  bool has_address = is_known && !is_oom && known[row.action] != GP_EVENT_SNAPSHOT;
  row.device_free = is_oom ? read_device_free(event) : -1;
  return gp_import_number(&place, "addr", INT64_MAX, has_address, &row.address) &&
         gp_import_number(&place, "size", GP_IMPORT_NUMBER_MOST, is_known, &row.size) &&
         gp_import_number(&place, "rounded_size", GP_IMPORT_NUMBER_MOST, false, &row.rounded) &&
         gp_import_stream(&place, &row.stream) && gp_import_pool(&place, "pool_id", &row.pool) &&
         gp_import_stack(import, gp_value_member(event, "frames"), &row.stack) &&
         gp_import_add_event(import, &row);
}

/*
 * Sorting of the events of all devices by time
 */

/* The events of one device. Events [next, end) are not sorted yet. */
typedef struct trace {
  size_t next;
  size_t end;
} trace_t;

static int find_traces(const gp_import_t *import, trace_t *traces)
{
  const int64_t *devices = import->columns[GP_COLUMN_DEVICE];
  size_t count = import->snapshot->events.count;
  int trace_count = 0;
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || devices[i] != devices[i - 1])
      traces[trace_count++].next = i;
    traces[trace_count - 1].end = i + 1;
  }
  return trace_count;
}

/* Sets order[i] to the current index of the event that will be event i. Of events with equal times, the one
 * of the lower device comes first. */
static void merge(const gp_import_t *import, trace_t *traces, int trace_count, size_t *order)
{
  const int64_t *times = import->columns[GP_COLUMN_TIME_NS];
  for (size_t i = 0; i < import->snapshot->events.count; i++) {
    int first = -1;
    for (int k = 0; k < trace_count; k++) {
      if (traces[k].next < traces[k].end && (first < 0 || times[traces[k].next] < times[traces[first].next]))
        first = k;
    }
    order[i] = traces[first].next++; /* `first` is valid, because the traces contain all events */
  }
}

static bool put_in_order(gp_import_t *import, trace_t *traces, int trace_count)
{
  size_t count = import->snapshot->events.count;
  size_t *order = malloc(count * sizeof(*order));
  int64_t *ordered = malloc(count * sizeof(*ordered));

  bool good = order && ordered;
  if (good)
    merge(import, traces, trace_count, order);
  for (size_t k = 0; good && k < RECORDED_COUNT; k++) {
    for (size_t i = 0; i < count; i++)
      ordered[i] = import->columns[recorded[k]][order[i]];
    memcpy(import->columns[recorded[k]], ordered, count * sizeof(*ordered));
  }
  free(order);
  free(ordered);
  return good || gp_import_no_memory(import);
}

/* Replaces missing times. An event gets the time of the last event before it on the same device. If there is
 * none, it gets that of the first event after it. Also makes the times of a device monotonic. */
static void fill_times(int64_t *times, const trace_t *trace, int64_t first_us)
{
  int64_t last_us = first_us;
  for (size_t i = trace->next; i < trace->end; i++) {
    if (times[i] != NO_TIME) {
      last_us = times[i];
      break;
    }
  }
  for (size_t i = trace->next; i < trace->end; i++) {
    last_us = times[i] > last_us ? times[i] : last_us;
    times[i] = last_us;
  }
}

/* Returns the time of the first event that has a time, or NO_TIME. */
static int64_t first_time(const int64_t *times, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (times[i] != NO_TIME)
      return times[i];
  }
  return NO_TIME;
}

/* Uses the index of each event as its time. In snapshots of PyTorch 2.0, events have only an order. */
static void number_events(gp_import_t *import)
{
  size_t count = import->snapshot->events.count;
  import->snapshot->times_are_numbers = true;
  if (count > 1)
    gp_snapshot_note_usual(import->snapshot, "the events have no times");
  for (size_t i = 0; i < count; i++)
    import->columns[GP_COLUMN_TIME_NS][i] = (int64_t)i;
}

/* Returns true if PyTorch recorded events. It keeps the last event of each device even when not recording. */
static bool has_history(const trace_t *traces, int trace_count)
{
  for (int k = 0; k < trace_count; k++) {
    if (traces[k].end - traces[k].next > 1)
      return true;
  }
  return false;
}

bool gp_import_events_end(gp_import_t *import, uint64_t *start_us)
{
  trace_t traces[GP_SNAPSHOT_DEVICES] = {{0, 0}};
  size_t count = import->snapshot->events.count;
  int64_t *times = import->columns[GP_COLUMN_TIME_NS];
  int trace_count = find_traces(import, traces);
  int64_t first_us = first_time(times, count);
  bool has_times = first_us != NO_TIME;

  import->snapshot->lacks_history = import->snapshot->device_count && !import->snapshot->lacks_segments &&
                                    !has_history(traces, trace_count); /* a log is always complete */
  for (int k = 0; k < trace_count; k++)
    fill_times(times, &traces[k], first_us);
  if (trace_count > 1 && !put_in_order(import, traces, trace_count))
    return false;
  if (!import->snapshot->lacks_history && !gp_import_complete_frees(import))
    return false;
  count = import->snapshot->events.count; /* includes the added events */
  times = import->columns[GP_COLUMN_TIME_NS];
  if (!*start_us && has_times)
    *start_us = (uint64_t)times[0];
  if (count && !has_times)
    number_events(import);
  for (size_t i = 0; i < count && has_times; i++) {
    uint64_t after_us = (uint64_t)times[i] > *start_us ? (uint64_t)times[i] - *start_us : 0;
    times[i] = after_us < GP_IMPORT_NUMBER_MOST / 1000 ? (int64_t)after_us * 1000 : GP_IMPORT_NUMBER_MOST;
  }
  for (int column = 0; column < GP_COLUMN_COUNT; column++) {
    if (!import->columns[column])
      import->columns[column] = calloc(count + 1, sizeof(int64_t));
    if (!import->columns[column])
      return gp_import_no_memory(import);
  }
  return true;
}
