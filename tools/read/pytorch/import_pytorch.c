/*
 * Converts a PyTorch snapshot into a gpupool snapshot, and validates it. A missing or impossible value is an
 * error that names its place, because figures from half a file would look valid.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/hash_index.h"
#include "tools/read/pytorch/import_parts.h"

#define SETTINGS_MOST 1024

#define YEAR_2000_US UINT64_C(946684800000000)

const char *const gp_import_logs[GP_IMPORT_LOGS] = {"PyTorch profile", "PyTorch memory timeline", "RMM log"};

static const char of_pytorch[] = "PyTorch snapshot"; /* `reason` of such a snapshot; an export preserves it */

static void add_text(gp_import_t *import, cJSON *object, const char *name, const gp_value_t *value)
{
  char *copy = gp_import_copy(import, value); /* NULL if memory runs out, which is recorded as an error */
  if (copy)
    cJSON_AddStringToObject(object, name, copy);
  free(copy);
}

static void add_number(cJSON *object, const char *name, const gp_value_t *value)
{
  if (value && value->kind == GP_VALUE_INTEGER && value->integer >= 0 &&
      value->integer <= GP_IMPORT_NUMBER_MOST)
    cJSON_AddNumberToObject(object, name, (double)value->integer);
  else
    cJSON_AddNullToObject(object, name);
}

/* Adds the settings that are texts or numbers. Nested values are internal to PyTorch. */
static void add_settings(gp_import_t *import, cJSON *settings, const gp_value_t *from)
{
  char number[32];
  for (uint32_t i = 0;
       from && from->kind == GP_VALUE_DICT && i + 1 < from->container->count && i < SETTINGS_MOST; i += 2) {
    const gp_value_t *value = &from->container->items[i + 1];
    char *name = gp_import_copy(import, &from->container->items[i]);
    if (!name)
      return;
    snprintf(number, sizeof(number), "%" PRId64, value->kind == GP_VALUE_INTEGER ? value->integer : 0);
    if (cJSON_GetObjectItemCaseSensitive(settings, name))
      (void)0; /* the first setting with a name wins */
    else if (value->kind == GP_VALUE_TEXT)
      add_text(import, settings, name, value);
    else if (value->kind == GP_VALUE_INTEGER)
      cJSON_AddStringToObject(settings, name, number);
    else if (value->kind == GP_VALUE_FLOAT && snprintf(number, sizeof(number), "%g", value->number) > 0)
      cJSON_AddStringToObject(settings, name, number);
    else if (value->kind == GP_VALUE_BOOL)
      cJSON_AddStringToObject(settings, name, value->integer ? "1" : "0");
    free(name);
  }
}

/* Creates the parts of the snapshot to which the readers append. */
static bool begin(gp_import_t *import)
{
  cJSON *root = import->snapshot->root;
  cJSON *streams = cJSON_AddArrayToObject(root, "streams"),
        *threads = cJSON_AddArrayToObject(root, "threads");
  cJSON *thread = cJSON_CreateObject(); /* PyTorch does not record threads */
  cJSON_AddNumberToObject(thread, "tid", 0);
  cJSON_AddStringToObject(thread, "name", "unknown");
  if (!streams || !threads || !cJSON_AddItemToArray(threads, thread)) {
    cJSON_Delete(thread);
    return gp_import_no_memory(import);
  }
  return gp_import_events_begin(import);
}

/* Adds the small members of the snapshot's root. */
static bool make_root(gp_import_t *import, const gp_import_top_t *top)
{
  cJSON *root = import->snapshot->root;
  const gp_value_t *own = &top->own, *reason = gp_value_member(own, "reason");

  cJSON_AddStringToObject(root, "format", GP_SNAPSHOT_FORMAT);
  cJSON_AddNumberToObject(root, "version", GP_SNAPSHOT_VERSION);
  import->snapshot->is_pytorch =
      reason ? reason->kind == GP_VALUE_TEXT && reason->length > 7 && memcmp(reason->text, of_pytorch, 7) == 0
             : !import->source || strncmp(import->source, of_pytorch, 7) == 0;
  for (size_t i = 0; reason && i < GP_IMPORT_LOGS; i++)
    import->snapshot->lacks_segments |= gp_value_is(reason, gp_import_logs[i]); /* gpupool exported a log */
  if (reason)
    add_text(import, root, "reason", reason);
  else
    cJSON_AddStringToObject(root, "reason", import->source ? import->source : of_pytorch);
  cJSON *process = cJSON_AddObjectToObject(root, "process");
  add_text(import, process, "program", gp_value_member(own, "program"));
  add_text(import, process, "host", gp_value_member(own, "host"));
  add_number(process, "pid", gp_value_member(own, "pid"));
  cJSON *settings = cJSON_AddObjectToObject(root, "settings");
  if (!process || !settings)
    return gp_import_no_memory(import);
  add_settings(import, settings, &top->settings);
  return !import->tree.failed;
}

static bool keep_column(gp_import_t *import, int column, gp_column_t **ret_column)
{
  size_t count = import->snapshot->events.count;
  *ret_column = gp_column_create();
  if (!*ret_column || !gp_column_append(*ret_column, import->columns[column], count) ||
      !gp_column_finish(*ret_column))
    return gp_import_no_memory(import);
  return true;
}

/* Keeps the columns that the caller requested, and frees those that only the import needed. */
static bool keep_columns(gp_import_t *import, unsigned columns)
{
  gp_snapshot_events_t *events = &import->snapshot->events;
  for (int column = 0; column < GP_COLUMN_COUNT; column++) {
    if ((columns >> column & 1) && !keep_column(import, column, &events->columns[column]))
      return false;
    free(import->columns[column]);
    import->columns[column] = NULL;
  }
  return (!import->says_device_free || keep_column(import, GP_IMPORT_DEVICE_FREE, &events->device_free)) &&
         (!import->says_pool || keep_column(import, GP_IMPORT_POOL, &events->pool));
}

/* Completes the snapshot after reading all segments and events. */
static bool end(gp_import_t *import, const gp_import_top_t *top)
{
  gp_snapshot_t *snapshot = import->snapshot;
  const gp_import_place_t place = {.import = import, .dict = &top->own, .list = "gpupool"};
  uint64_t start_us = 0;

  snapshot->lacks_counters = true;
  gp_snapshot_find_kinds(&snapshot->events);
  if (!gp_import_number(&place, "start_time_us", GP_IMPORT_NUMBER_MOST, false, &start_us) ||
      !gp_import_number(&place, "dropped_events", GP_IMPORT_NUMBER_MOST, false, &snapshot->dropped_events) ||
      !gp_import_number(
          &place, "recorded_since_ns", GP_IMPORT_NUMBER_MOST, false, &snapshot->recorded_since_ns) ||
      !make_root(import, top) || !gp_import_events_end(import, &start_us) || !gp_import_stacks_end(import) ||
      !gp_import_replay(import) ||
      !gp_import_annotations(import, &top->annotations, import->snapshot->times_are_numbers ? 0 : start_us))
    return false;
  if (start_us > YEAR_2000_US) /* earlier times are relative to boot or midnight */
    cJSON_AddNumberToObject(
        cJSON_GetObjectItemCaseSensitive(snapshot->root, "process"), "start_time_us", (double)start_us);
  return true;
}

/* Reads the traces. NULL means that there are no traces. */
static bool read_traces(gp_import_t *import, const gp_container_t *list)
{
  if (list && list->count > GP_SNAPSHOT_DEVICES)
    return gp_value_tree_fail(&import->tree, list->at, "device_traces: more devices than there can be");
  for (uint32_t device = 0; list && device < list->count; device++) {
    const gp_value_t *trace = &list->items[device];
    if (trace->kind != GP_VALUE_LIST || !gp_import_claim(trace->container))
      return gp_value_tree_fail(
          &import->tree, list->at, "device_traces[%u] is not a list, or is the same list as another", device);
    for (uint32_t i = 0; i < trace->container->count; i++) {
      if (!gp_import_event(import, &trace->container->items[i], (int)device, i))
        return false;
    }
  }
  return true;
}

static bool take_event(void *self, const gp_value_t *event, int device, size_t index)
{
  return gp_import_event(self, event, device, index);
}

/* Reads the segments before the events. If `segments` is not a list, or was read already, the error is
 * reported at the end. */
static bool take_segments(void *self, const gp_value_t *segments)
{
  gp_import_t *import = self;
  if (segments->kind != GP_VALUE_LIST || !gp_import_claim(segments->container))
    return true;
  import->has_segments = true;
  return gp_import_segments(import, segments->container);
}

bool gp_import_read_pickle(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top)
{
  const gp_container_t *segments = NULL, *traces = NULL;
  gp_value_t top;
  bool is_cut;

  const gp_import_taker_t taker = {take_segments, take_event, import};
  if (!gp_input_read_all(input))
    return false;
  import->tree.text = input->text;
  gp_value_tree_grow(&import->tree, input->length);
  if (!gp_pickle_read(&import->tree, &taker, &top, &is_cut))
    return false;
  if (is_cut)
    gp_snapshot_note(
        import->snapshot, "it ends too early: what follows byte %zu is missing", import->tree.length);
  if (top.kind == GP_VALUE_LIST) {        /* PyTorch 1 writes only the segments */
    (void)gp_import_claim(top.container); /* cannot fail for the first container */
    segments = top.container;
  } else if (top.kind != GP_VALUE_DICT) {
    return gp_value_tree_fail(&import->tree, 0, "not a snapshot of PyTorch: neither a dict nor a list");
  } else {
    const gp_import_place_t place = {.import = import, .dict = &top, .list = "not a snapshot of PyTorch"};
    if ((!import->has_segments && !gp_import_list(&place, "segments", true, &segments)) ||
        !gp_import_list(&place, "device_traces", false, &traces))
      return false;
  }
  const gp_value_t *own = gp_value_member(&top, "gpupool"),
                   *settings = gp_value_member(&top, "allocator_settings"),
                   *annotations = gp_value_member(&top, "external_annotations");
  if (own)
    ret_top->own = *own;
  if (settings)
    ret_top->settings = *settings;
  if (annotations)
    ret_top->annotations = *annotations;
  return (import->has_segments || gp_import_segments(import, segments)) && read_traces(import, traces);
}

bool gp_import_is_pickle(const char *text, size_t length)
{
  return length >= 2 && (unsigned char)text[0] == 0x80 && (unsigned char)text[1] < 0x20;
}

gp_snapshot_t *gp_import(
    gp_import_read_fn read, gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error)
{
  gp_import_t import = {.event_room = 0};
  gp_import_top_t top = {.own = {.kind = GP_VALUE_NONE}}; /* members are missing until they are read */

  gp_value_tree_init(&import.tree, "", 0, ret_error);
  import.snapshot = calloc(1, sizeof(*import.snapshot));
  if (import.snapshot)
    import.snapshot->root = cJSON_CreateObject();
  bool good = (import.snapshot && import.snapshot->root) || gp_import_no_memory(&import);
  good = good && begin(&import) && read(&import, input, &top) && end(&import, &top) &&
         keep_columns(&import, columns);
  gp_value_tree_fini(&import.tree);
  gp_hash_index_fini(&import.frames);
  gp_hash_index_fini(&import.stacks);
  gp_block_map_fini(&import.streams);
  gp_block_map_fini(&import.pools);
  for (int column = 0; column < GP_IMPORT_COLUMNS; column++)
    free(import.columns[column]);
  gp_assert_full(!good || gp_snapshot_is_sound(import.snapshot));
  if (good)
    return import.snapshot;
  gp_snapshot_destroy(import.snapshot);
  return NULL;
}
