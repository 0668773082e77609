/*
 * A snapshot of PyTorch as one of ours. What it says is checked on the way: a value that is missing or cannot be is an
 * error that names its place, since figures made of half of a file would look like figures.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/import/import.h"
#include "tools/import/import_parts.h"
#include "tools/snapshot/snapshot_parts.h"

#define NUMBER_MOST   GP_JSON_SCAN_INTEGER_MAX /* sizes and times, as in our own format */
#define ACTIONS_MOST  64
#define SETTINGS_MOST 1024
#define PATH_BYTES    64

bool gp_import_reserve(gp_import_t *import, void **items, size_t count, size_t *room, size_t item_size)
{
  if (count < *room)
    return true;
  size_t more = *room ? *room : 16;
  if (!gp_document_account(&import->document, more * item_size))
    return false;
  char *larger = realloc(*items, (*room + more) * item_size);
  if (!larger)
    return gp_document_fail(&import->document, 0, "not enough memory to read this");
  memset(larger + *room * item_size, 0, more * item_size);
  *items = larger;
  *room += more;
  return true;
}

static bool no_memory(gp_import_t *import)
{
  return gp_document_fail(&import->document, 0, "not enough memory to read this");
}

/*
 * Members, with the place they are at in messages
 */

typedef struct place {
  gp_import_t *import;
  const gp_value_t *dict;
  char path[PATH_BYTES];
} place_t;

static bool fail(const place_t *place, const char *name, const char *what)
{
  return gp_document_fail(
      &place->import->document, place->dict->container->at, "%s: %s %s", place->path, name, what);
}

/* Each container is read once, whatever shares it: else a small file could be as long as it likes, and one that is a
 * frame would be taken for an event. */
static bool claim(gp_container_t *container)
{
  bool is_new = container->note == GP_CONTAINER_NEW;
  container->note = GP_CONTAINER_READ;
  return is_new;
}

static bool is_dict(gp_import_t *import, const gp_value_t *value, const char *path)
{
  if (value->kind != GP_VALUE_DICT)
    return gp_document_fail(&import->document, 0, "%s is no dict", path);
  return claim(value->container) ||
         gp_document_fail(&import->document, value->container->at, "%s is the same dict as another", path);
}

/* A number from 0 to most; required, or otherwise left as it is. */
static bool read_number(const place_t *place, const char *name, uint64_t most, bool is_required, uint64_t *ret_number)
{
  const gp_value_t *value = gp_value_member(place->dict, name);
  if (!value || value->kind == GP_VALUE_NONE)
    return !is_required || fail(place, name, "is missing");
  if (value->kind != GP_VALUE_INTEGER || value->integer < 0 || (uint64_t)value->integer > most)
    return fail(place, name, "is no number that it can be");
  *ret_number = (uint64_t)value->integer;
  return true;
}

/* A list, NULL if there is none. */
static bool read_list(const place_t *place, const char *name, bool is_required, const gp_container_t **ret_list)
{
  const gp_value_t *value = gp_value_member(place->dict, name);
  *ret_list = NULL;
  if (!value || value->kind == GP_VALUE_NONE)
    return !is_required || fail(place, name, "are missing");
  if (value->kind != GP_VALUE_LIST)
    return fail(place, name, "are no list");
  if (!claim(value->container))
    return fail(place, name, "are the same list as others");
  *ret_list = value->container;
  return true;
}

/* The index of a stream in the table; handles are pointers, and 0 is the default stream. */
static bool read_stream(const place_t *place, int *ret_stream)
{
  gp_import_t *import = place->import;
  cJSON *streams = cJSON_GetObjectItemCaseSensitive(import->snapshot->root, "streams");
  const gp_value_t *value = gp_value_member(place->dict, "stream");
  char handle[32];

  *ret_stream = -1;
  if (!value || value->kind != GP_VALUE_INTEGER || value->integer == -1)
    return true;
  gp_block_entry_t entry = {.key = (uint64_t)value->integer + 1, .stream = (int)import->streams.count};
  const gp_block_entry_t *known = gp_block_map_find(&import->streams, entry.key);
  if (known) {
    *ret_stream = known->stream;
    return true;
  }
  snprintf(handle, sizeof(handle), "0x%" PRIx64, (uint64_t)value->integer);
  cJSON *item = cJSON_CreateObject();
  if (!cJSON_AddStringToObject(item, "handle", handle) || !gp_block_map_put(&import->streams, &entry)) {
    cJSON_Delete(item);
    return no_memory(import);
  }
  cJSON_AddItemToArray(streams, item);
  *ret_stream = entry.stream;
  return true;
}

/* Devices appear as they are met. */
static bool add_device(gp_import_t *import, int ordinal)
{
  gp_snapshot_t *snapshot = import->snapshot;
  size_t i = 0;
  while (i < snapshot->device_count && snapshot->devices[i].device < ordinal)
    i++;
  if (i < snapshot->device_count && snapshot->devices[i].device == ordinal)
    return true;
  memmove(&snapshot->devices[i + 1], &snapshot->devices[i], (snapshot->device_count - i) * sizeof(snapshot->devices[0]));
  snapshot->devices[i] = (gp_snapshot_device_t){.device = ordinal};
  snapshot->device_count++;
  return true;
}

/*
 * Segments
 */

static gp_snapshot_state_t state_of(const gp_value_t *state)
{
  if (gp_value_is(state, "active_allocated"))
    return GP_SNAPSHOT_ALLOCATED;
  if (gp_value_is(state, "active_pending_free") || gp_value_is(state, "active_awaiting_free"))
    return GP_SNAPSHOT_PENDING;
  return gp_value_is(state, "inactive") ? GP_SNAPSHOT_INACTIVE : GP_SNAPSHOT_OTHER;
}

/* Until PyTorch 2.0 a block had no stack of its own but a history of owners, the last one first. */
static const gp_value_t *owner_of(const gp_value_t *block)
{
  const gp_value_t *history = gp_value_member(block, "history");
  bool has_owner = history && history->kind == GP_VALUE_LIST && history->container->count > 0 &&
                   history->container->items[0].kind == GP_VALUE_DICT;
  return has_owner ? &history->container->items[0] : block;
}

static bool read_block(place_t *place, const gp_snapshot_segment_t *segment, size_t segment_index, uint64_t *address,
    gp_snapshot_block_t *block)
{
  const gp_value_t *state = gp_value_member(place->dict, "state");
  const gp_value_t *owner = owner_of(place->dict);
  const gp_value_t *real_size = gp_value_member(owner, "real_size");

  *block = (gp_snapshot_block_t){.address = *address,
      .segment = segment_index,
      .device = segment->device,
      .stream = segment->stream,
      .stack = -1};
  if (!state || state->kind != GP_VALUE_TEXT)
    return fail(place, "state", "is missing");
  block->state = state_of(state);
  if (!read_number(place, "size", NUMBER_MOST, true, &block->size))
    return false;
  block->requested = real_size && real_size->kind == GP_VALUE_INTEGER && real_size->integer >= 0
                         ? (uint64_t)real_size->integer
                         : block->size;
  /* The address has been there since 2.1; it is what the sizes before it say. */
  *address += block->size;
  return read_number(place, "address", INT64_MAX, false, &block->address) &&
         read_number(place, "requested_size", NUMBER_MOST, false, &block->requested) &&
         gp_import_stack(place->import, gp_value_member(owner, "frames"), &block->stack);
}

static bool read_segment(place_t *place, const gp_value_t *value, size_t *block_room)
{
  gp_import_t *import = place->import;
  gp_snapshot_t *snapshot = import->snapshot;
  gp_snapshot_segment_t *segment = &snapshot->segments[snapshot->segment_count];
  const gp_container_t *blocks;
  uint64_t device = 0;

  place->dict = value;
  *segment = (gp_snapshot_segment_t){.first_block = snapshot->block_count};
  if (!read_number(place, "device", GP_SNAPSHOT_DEVICES - 1, true, &device) ||
      !read_number(place, "address", INT64_MAX, true, &segment->address) ||
      !read_number(place, "total_size", NUMBER_MOST, true, &segment->size) || !read_stream(place, &segment->stream) ||
      !read_list(place, "blocks", true, &blocks))
    return false;
  segment->device = (int)device;
  uint64_t address = segment->address;
  for (uint32_t i = 0; i < blocks->count; i++) {
    place_t at = {.import = import, .dict = &blocks->items[i]};
    snprintf(at.path, sizeof(at.path), "segments[%zu].blocks[%u]", snapshot->segment_count, i);
    if (!is_dict(import, at.dict, at.path) ||
        !gp_import_reserve(
            import, (void **)&snapshot->blocks, snapshot->block_count, block_room, sizeof(gp_snapshot_block_t)) ||
        !read_block(&at, segment, snapshot->segment_count, &address, &snapshot->blocks[snapshot->block_count]))
      return false;
    snapshot->block_count++;
  }
  if (address != segment->address + segment->size)
    gp_snapshot_note(snapshot, "segment 0x%" PRIx64 " of device %d is not filled by its blocks", segment->address,
        segment->device);
  segment->block_count = snapshot->block_count - segment->first_block;
  snapshot->segment_count++;
  return add_device(import, segment->device);
}

static int64_t sort_key(const gp_value_t *segment, const char *name)
{
  const gp_value_t *value = gp_value_member(segment, name);
  return value && value->kind == GP_VALUE_INTEGER ? value->integer : -1;
}

static int compare_segments(const void *a, const void *b)
{
  static const char *const names[] = {"device", "address"};
  for (size_t i = 0; i < 2; i++) {
    int64_t x = sort_key(a, names[i]), y = sort_key(b, names[i]);
    if (x != y)
      return x < y ? -1 : 1;
  }
  return 0;
}

static bool read_segments(gp_import_t *import, const gp_container_t *list)
{
  size_t block_room = 0;
  if (!gp_document_account(&import->document, list->count * sizeof(gp_snapshot_segment_t)))
    return false;
  import->snapshot->segments = calloc((size_t)list->count + 1, sizeof(gp_snapshot_segment_t));
  if (!import->snapshot->segments)
    return no_memory(import);
  if (list->count)
    qsort(list->items, list->count, sizeof(gp_value_t), compare_segments);
  for (uint32_t i = 0; i < list->count; i++) {
    place_t place = {.import = import};
    snprintf(place.path, sizeof(place.path), "segments[%u]", i);
    if (!is_dict(import, &list->items[i], place.path) || !read_segment(&place, &list->items[i], &block_room))
      return false;
  }
  return true;
}

/*
 * Events
 */

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
    return gp_document_fail(&import->document, 0, "device_traces: more actions than there can be");
  char *name = gp_import_copy(import, value);
  if (!name)
    return false;
  *ret_action = (int64_t)actions->count;
  actions->names[actions->count++] = name;
  return true;
}

static bool read_event(const place_t *place, int device, size_t i, uint64_t time_ns)
{
  gp_import_t *import = place->import;
  const gp_value_t *action = gp_value_member(place->dict, "action");
  uint64_t address = 0, size = 0, rounded = 0;
  int stack, stream;

  if (!action || action->kind != GP_VALUE_TEXT)
    return fail(place, "action", "is missing");
  if (!find_action(import, action, &import->columns[GP_COLUMN_ACTION][i]))
    return false;
  int64_t kind = import->columns[GP_COLUMN_ACTION][i];
  bool is_known = kind < GP_IMPORT_ACTION_COUNT;
  bool has_address = is_known && kind != GP_IMPORT_OOM && kind != GP_IMPORT_SNAPSHOT;
  if (!read_number(place, "addr", INT64_MAX, has_address, &address) ||
      !read_number(place, "size", NUMBER_MOST, is_known, &size) ||
      !read_number(place, "rounded_size", NUMBER_MOST, false, &rounded) || !read_stream(place, &stream) ||
      !gp_import_stack(import, gp_value_member(place->dict, "frames"), &stack))
    return false;
  import->columns[GP_COLUMN_TIME_NS][i] = (int64_t)time_ns;
  import->columns[GP_COLUMN_DEVICE][i] = device;
  import->columns[GP_COLUMN_STREAM][i] = stream;
  import->columns[GP_COLUMN_ADDRESS][i] = (int64_t)address;
  import->columns[GP_COLUMN_SIZE][i] = (int64_t)size;
  import->columns[GP_COLUMN_ROUNDED_SIZE][i] = (int64_t)rounded; /* 0: not said */
  import->columns[GP_COLUMN_STACK][i] = stack;
  return true;
}

/* One list of events, which are read in the order of their times over all devices. */
typedef struct trace {
  const gp_container_t *list;
  uint32_t next;
  uint64_t time_us; /* of the next one, and never before the one before it */
} trace_t;

/* The time of the next event. Snapshots of PyTorch 2.0 have none: then every time is 0. */
static bool look_ahead(gp_import_t *import, trace_t *trace, int device)
{
  place_t place = {.import = import};
  uint64_t time_us = trace->time_us;

  if (trace->next == trace->list->count)
    return true;
  place.dict = &trace->list->items[trace->next];
  snprintf(place.path, sizeof(place.path), "device_traces[%d][%u]", device, trace->next);
  if (!is_dict(import, place.dict, place.path) || !read_number(&place, "time_us", NUMBER_MOST, false, &time_us))
    return false;
  if (time_us > trace->time_us)
    trace->time_us = time_us;
  return true;
}

static bool read_events(gp_import_t *import, trace_t *traces, int trace_count, uint64_t start_us)
{
  size_t count = import->snapshot->events.count;
  for (size_t i = 0; i < count; i++) {
    int first = -1;
    for (int k = 0; k < trace_count; k++) {
      if (traces[k].next < traces[k].list->count && (first < 0 || traces[k].time_us < traces[first].time_us))
        first = k;
    }
    trace_t *trace = &traces[first]; /* there is one: count is the sum of their lengths */
    uint64_t after_us = trace->time_us > start_us ? trace->time_us - start_us : 0;
    place_t place = {.import = import, .dict = &trace->list->items[trace->next]};
    snprintf(place.path, sizeof(place.path), "device_traces[%d][%u]", first, trace->next);
    uint64_t time_ns = after_us < NUMBER_MOST / 1000 ? after_us * 1000 : NUMBER_MOST;
    if (!read_event(&place, first, i, time_ns))
      return false;
    trace->next++;
    if (!look_ahead(import, trace, first))
      return false;
  }
  return true;
}

static bool make_columns(gp_import_t *import, size_t count)
{
  gp_snapshot_events_t *events = &import->snapshot->events;
  static const char *const names[] = {
#define ACTION(enumerator, name) name,
      GP_IMPORT_ACTIONS
#undef ACTION
  };
  if (!gp_document_account(&import->document, count * GP_COLUMN_COUNT * sizeof(int64_t)))
    return false;
  for (int column = 0; column < GP_COLUMN_COUNT; column++) {
    import->columns[column] = calloc(count + 1, sizeof(int64_t));
    if (!import->columns[column])
      return no_memory(import);
  }
  events->count = count;
  events->actions.names = calloc(ACTIONS_MOST, sizeof(char *));
  events->details.names = calloc(1, sizeof(char *));
  if (!events->actions.names || !events->details.names)
    return no_memory(import);
  for (size_t i = 0; i < GP_IMPORT_ACTION_COUNT; i++) {
    events->actions.names[i] = strdup(names[i]);
    if (!events->actions.names[i])
      return no_memory(import);
    events->actions.count++;
  }
  events->details.names[0] = strdup("");
  events->details.count = events->details.names[0] != NULL;
  return events->details.count || no_memory(import);
}

/* list: NULL if there are no traces. *start_us: when time 0 is; 0: at the first event. */
static bool read_traces(gp_import_t *import, const gp_container_t *list, uint64_t *start_us)
{
  trace_t traces[GP_SNAPSHOT_DEVICES] = {{NULL, 0, 0}};
  size_t count = 0;
  uint64_t first_us = UINT64_MAX;

  if (list && list->count > GP_SNAPSHOT_DEVICES)
    return gp_document_fail(&import->document, list->at, "device_traces: more devices than there can be");
  for (uint32_t i = 0; list && i < list->count; i++) {
    const gp_value_t *value = &list->items[i];
    if (value->kind != GP_VALUE_LIST || !claim(value->container))
      return gp_document_fail(&import->document, list->at, "device_traces[%u] is no list, or one that others are, too", i);
    traces[i].list = value->container;
    count += value->container->count;
    if (!look_ahead(import, &traces[i], (int)i) || (value->container->count && !add_device(import, (int)i)))
      return false;
    if (value->container->count && traces[i].time_us < first_us)
      first_us = traces[i].time_us;
  }
  if (!*start_us && count)
    *start_us = first_us;
  if (count && !*start_us)
    gp_snapshot_note(import->snapshot, "the events have no times");
  return make_columns(import, count) && read_events(import, traces, list ? (int)list->count : 0, *start_us);
}

/*
 * The document
 */

static void add_text(gp_import_t *import, cJSON *object, const char *name, const gp_value_t *value)
{
  char *copy = gp_import_copy(import, value); /* without memory the member is missing, and the error is noted */
  if (copy)
    cJSON_AddStringToObject(object, name, copy);
  free(copy);
}

static void add_number(cJSON *object, const char *name, const gp_value_t *value)
{
  if (value && value->kind == GP_VALUE_INTEGER && value->integer >= 0 && value->integer <= NUMBER_MOST)
    cJSON_AddNumberToObject(object, name, (double)value->integer);
  else
    cJSON_AddNullToObject(object, name);
}

/* Texts and numbers; what is deeper is PyTorch's own. */
static void add_settings(gp_import_t *import, cJSON *settings, const gp_value_t *from)
{
  char number[32];
  for (uint32_t i = 0; from && from->kind == GP_VALUE_DICT && i + 1 < from->container->count && i < SETTINGS_MOST; i += 2) {
    const gp_value_t *value = &from->container->items[i + 1];
    char *name = gp_import_copy(import, &from->container->items[i]);
    if (!name)
      return;
    snprintf(number, sizeof(number), "%" PRId64, value->kind == GP_VALUE_INTEGER ? value->integer : 0);
    if (cJSON_GetObjectItemCaseSensitive(settings, name))
      (void)0; /* the first one counts */
    else if (value->kind == GP_VALUE_TEXT)
      add_text(import, settings, name, value);
    else if (value->kind == GP_VALUE_INTEGER)
      cJSON_AddStringToObject(settings, name, number);
    else if (value->kind == GP_VALUE_BOOL)
      cJSON_AddStringToObject(settings, name, value->integer ? "1" : "0");
    free(name);
  }
}

/* The small parts of the tree. own: what an export of ours added, or NULL. */
static bool make_root(gp_import_t *import, const gp_value_t *top, const gp_value_t *own)
{
  cJSON *root = import->snapshot->root;
  const gp_value_t none = {.kind = GP_VALUE_NONE};
  const gp_value_t *from = own ? own : &none;
  const gp_value_t *reason = gp_value_member(from, "reason");

  cJSON_AddStringToObject(root, "format", GP_SNAPSHOT_FORMAT);
  cJSON_AddNumberToObject(root, "version", GP_SNAPSHOT_VERSION);
  if (reason)
    add_text(import, root, "reason", reason);
  else
    cJSON_AddStringToObject(root, "reason", "PyTorch snapshot");
  cJSON *process = cJSON_AddObjectToObject(root, "process");
  add_text(import, process, "program", gp_value_member(from, "program"));
  add_text(import, process, "host", gp_value_member(from, "host"));
  add_number(process, "pid", gp_value_member(from, "pid"));
  add_settings(import, cJSON_AddObjectToObject(root, "settings"), gp_value_member(top, "allocator_settings"));
  cJSON_AddArrayToObject(root, "streams");
  cJSON *thread = cJSON_CreateObject(); /* one stands for all: it is not known which */
  cJSON_AddNumberToObject(thread, "tid", 0);
  cJSON_AddStringToObject(thread, "name", "unknown");
  cJSON *threads = cJSON_AddArrayToObject(root, "threads");
  if (!threads || !cJSON_AddItemToArray(threads, thread)) {
    cJSON_Delete(thread);
    return no_memory(import);
  }
  return !import->document.failed;
}

/* Those that the caller did not ask for were needed on the way only. */
static bool keep_columns(gp_import_t *import, unsigned columns)
{
  gp_snapshot_events_t *events = &import->snapshot->events;
  for (int column = 0; column < GP_COLUMN_COUNT; column++) {
    if (columns >> column & 1) {
      events->columns[column] = gp_column_create();
      if (!events->columns[column] || !gp_column_append(events->columns[column], import->columns[column], events->count) ||
          !gp_column_finish(events->columns[column]))
        return no_memory(import);
    }
    free(import->columns[column]);
    import->columns[column] = NULL;
  }
  return true;
}

static bool build(gp_import_t *import, const gp_value_t *top)
{
  gp_snapshot_t *snapshot = import->snapshot;
  const gp_container_t *segments, *traces = NULL;
  uint64_t start_us = 0, dropped = 0, since_ns = 0;

  if (top->kind == GP_VALUE_LIST) { /* PyTorch 1: nothing but segments */
    (void)claim(top->container); /* the first one */
    segments = top->container;
  } else if (top->kind != GP_VALUE_DICT) {
    return gp_document_fail(&import->document, 0, "not a snapshot of PyTorch: neither a dict nor a list");
  } else {
    const place_t place = {import, top, "not a snapshot of PyTorch"};
    if (!read_list(&place, "segments", true, &segments) || !read_list(&place, "device_traces", false, &traces))
      return false;
  }
  const gp_value_t *own = gp_value_member(top, "gpupool");
  if (own && own->kind == GP_VALUE_DICT) {
    const place_t place = {import, own, "gpupool"};
    if (!read_number(&place, "start_time_us", NUMBER_MOST, false, &start_us) ||
        !read_number(&place, "dropped_events", NUMBER_MOST, false, &dropped) ||
        !read_number(&place, "recorded_since_ns", NUMBER_MOST, false, &since_ns))
      return false;
  }
  if (!make_root(import, top, own) || !read_segments(import, segments) || !read_traces(import, traces, &start_us) ||
      !gp_import_stacks_end(import) || !gp_import_history(import))
    return false;
  if (start_us)
    cJSON_AddNumberToObject(cJSON_GetObjectItemCaseSensitive(snapshot->root, "process"), "start_time_us", (double)start_us);
  snapshot->dropped_events = dropped;
  snapshot->recorded_since_ns = since_ns;
  return true;
}

typedef bool (*read_fn)(gp_document_t *document, gp_value_t *ret_value);

static gp_snapshot_t *import_with(
    read_fn read, const char *text, size_t length, unsigned columns, gp_snapshot_error_t *ret_error)
{
  gp_import_t import = {.snapshot = calloc(1, sizeof(gp_snapshot_t))};
  gp_value_t top;

  gp_document_init(&import.document, text, length, ret_error);
  if (import.snapshot)
    import.snapshot->root = cJSON_CreateObject();
  bool good = import.snapshot && import.snapshot->root ? true : no_memory(&import);
  good = good && read(&import.document, &top) && build(&import, &top) && keep_columns(&import, columns);
  gp_document_fini(&import.document);
  free(import.frames.indexes);
  free(import.stacks.indexes);
  gp_block_map_fini(&import.streams);
  for (int column = 0; column < GP_COLUMN_COUNT; column++)
    free(import.columns[column]);
  if (good)
    return import.snapshot;
  gp_snapshot_destroy(import.snapshot);
  return NULL;
}

bool gp_import_is_pickle(const char *text, size_t length)
{
  return length >= 2 && (unsigned char)text[0] == 0x80 && (unsigned char)text[1] < 0x20;
}

gp_snapshot_t *gp_import_pickle(
    const char *text, size_t length, unsigned columns, gp_snapshot_error_t *ret_error)
{
  return import_with(gp_import_read_pickle, text, length, columns, ret_error);
}

gp_snapshot_t *gp_import_pytorch_json(
    const char *text, size_t length, unsigned columns, gp_snapshot_error_t *ret_error)
{
  return import_with(gp_import_read_json, text, length, columns, ret_error);
}
