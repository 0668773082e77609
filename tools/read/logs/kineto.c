/*
 * Reads traces of PyTorch's profiler (Kineto). With profile_memory=True a trace has an instant event
 * "[memory]" without a stack for each allocation and free. The reader builds the stack from the complete
 * ("X") events around the instant on its thread: operators and, with with_stack=True, Python functions.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"
#include "tools/read/logs/event_log.h"
#include "tools/read/pytorch/import_json.h"

#define TIES_MOST  64     /* maximum number of events with the same time that are sorted */
#define DEPTH_MOST 128    /* maximum number of frames in a stack; outer frames beyond are dropped */
#define TIME_MOST  9.0e15 /* microseconds; nanoseconds then fit in 63 bits */

/* An interval on a thread: a function, an operator, or an annotation. */
typedef struct slice {
  int64_t begin_ns;
  int64_t end_ns;
  uint64_t thread;
  size_t number; /* position in the file */
  int frame;
} slice_t;

typedef struct memory {
  int64_t time_ns;
  int64_t bytes; /* negative: a free */
  uint64_t address;
  uint64_t total; /* bytes allocated on the device after the event; UINT64_MAX: unknown */
  uint64_t thread;
  size_t number;
  int device;
  int stack;
  bool is_oom;
} memory_t;

/* Beginning or end of an annotation. */
typedef struct mark {
  int64_t time_ns;
  size_t number;
  char *name;
  bool is_end;
} mark_t;

typedef struct trace {
  gp_import_t *import;
  slice_t *slices;
  size_t slice_count;
  memory_t *memories;
  size_t memory_count;
  mark_t *marks;
  size_t mark_count;
  size_t number; /* number of events read so far */
} trace_t;

static bool no_memory(trace_t *trace)
{
  return gp_import_no_memory(trace->import);
}

static bool is_member(const gp_value_t *event, const char *name, const char *text)
{
  const gp_value_t *value = gp_value_member(event, name);
  return value && gp_value_is(value, text);
}

/* Reads the member `name`, a time in microseconds, and converts it to nanoseconds. Returns false if the time
 * is missing or out of range. */
static bool read_time(const gp_value_t *event, const char *name, int64_t *ret_ns)
{
  const gp_value_t *value = gp_value_member(event, name);
  if (value && value->kind == GP_VALUE_INTEGER && value->integer >= 0 && (double)value->integer < TIME_MOST)
    *ret_ns = value->integer * 1000;
  else if (value && value->kind == GP_VALUE_FLOAT && value->number >= 0 && value->number < TIME_MOST)
    *ret_ns =
        (int64_t)value->number * 1000 + (int64_t)((value->number - (double)(int64_t)value->number) * 1000);
  else
    return false;
  return true;
}

/* Returns a hash of the event's process and thread, which may be numbers or names. */
static uint64_t thread_of(const gp_value_t *event)
{
  static const char *const names[] = {"pid", "tid"};
  uint64_t hash = GP_HASH_FIRST;
  for (size_t i = 0; i < 2; i++) {
    const gp_value_t *value = gp_value_member(event, names[i]);
    if (value && value->kind == GP_VALUE_INTEGER)
      hash = gp_hash_bytes(hash, &value->integer, sizeof(value->integer));
    else if (value && value->kind == GP_VALUE_TEXT)
      hash = gp_hash_bytes(hash, value->text, value->length);
  }
  return hash;
}

/* Adds the frame of a function called `name`. For a Python function the name is "path/file.py(12): name". */
static bool frame_of(trace_t *trace, const gp_value_t *name, int *ret_frame)
{
  gp_value_t file = *name, function = *name;
  const char *text = name->text, *end = text + name->length, *open = NULL;
  long line = 0;
  for (const char *at = text; at + 3 < end; at++) {
    if (*at == '(') {
      open = at;
      line = 0;
    }
    if (open && at > open + 1 && memcmp(at, "): ", 3) == 0) {
      file.length = (uint32_t)(open - text);
      function.text = at + 3;
      function.length = (uint32_t)(end - at - 3);
      break;
    }
    if (open && at > open)
      line = *at >= '0' && *at <= '9' && line < INT32_MAX / 10 ? 10 * line + (*at - '0') : (open = NULL, 0);
  }
  bool is_python = file.length < name->length;
  return gp_import_frame(
      trace->import, &function, is_python ? &file : NULL, is_python ? (int)line : 0, ret_frame);
}

static bool add_mark(trace_t *trace, const gp_value_t *name, int64_t time_ns, bool is_end)
{
  mark_t *mark = GP_ARRAY_ADD(trace->marks, trace->mark_count);
  if (!mark)
    return no_memory(trace);
  *mark = (mark_t){time_ns, trace->number, gp_import_copy(trace->import, name), is_end};
  return mark->name != NULL;
}

/* Returns true if the annotation marks a step of the profiler. Steps become phases but not owners, because
 * each step has a unique name. */
static bool is_step(const gp_value_t *name)
{
  static const char step[] = "ProfilerStep#";
  return name->length > sizeof(step) - 1 && memcmp(name->text, step, sizeof(step) - 1) == 0;
}

static bool read_slice(trace_t *trace, const gp_value_t *event, const gp_value_t *name)
{
  slice_t slice = {.thread = thread_of(event), .number = trace->number};
  int64_t duration_ns = 0;
  bool is_annotation = is_member(event, "cat", "user_annotation");
  if (!is_annotation && !is_member(event, "cat", "cpu_op") && !is_member(event, "cat", "python_function"))
    return true;
  if (!read_time(event, "ts", &slice.begin_ns))
    return true;
  (void)read_time(event, "dur", &duration_ns);
  slice.end_ns = duration_ns < INT64_MAX - slice.begin_ns ? slice.begin_ns + duration_ns : INT64_MAX;
  if (is_annotation &&
      (!add_mark(trace, name, slice.begin_ns, false) || !add_mark(trace, name, slice.end_ns, true)))
    return false;
  if (is_annotation && is_step(name))
    return true;
  if (!frame_of(trace, name, &slice.frame))
    return false;
  slice_t *added = GP_ARRAY_ADD(trace->slices, trace->slice_count);
  if (!added)
    return no_memory(trace);
  *added = slice;
  return true;
}

/* Reads an allocation, a free or an out-of-memory event. Skips host memory, which has no device id. */
static bool read_memory(trace_t *trace, const gp_value_t *event, bool is_oom)
{
  const gp_value_t *args = gp_value_member(event, "args"), *device = gp_value_member(args, "Device Id"),
                   *bytes = gp_value_member(args, "Bytes"), *address = gp_value_member(args, "Addr"),
                   *total = gp_value_member(args, "Total Allocated"),
                   *type = gp_value_member(args, "Device Type");
  const gp_import_place_t place = {
      .import = trace->import, .dict = event, .list = "traceEvents", .is_item = true, .at = trace->number};
  memory_t memory = {
      .thread = thread_of(event), .number = trace->number, .total = UINT64_MAX, .is_oom = is_oom};

  if (!device || device->kind != GP_VALUE_INTEGER || device->integer < 0 ||
      (type && type->kind == GP_VALUE_INTEGER && type->integer == 0))
    return true;
  if (device->integer >= GP_SNAPSHOT_DEVICES)
    return gp_import_fail(&place, "Device Id", "is too large");
  if (!bytes || bytes->kind != GP_VALUE_INTEGER || bytes->integer > GP_IMPORT_NUMBER_MOST ||
      bytes->integer < -GP_IMPORT_NUMBER_MOST)
    return gp_import_fail(&place, "Bytes", "is not a valid size");
  if (!is_oom && (!address || address->kind != GP_VALUE_INTEGER || address->integer < 0))
    return gp_import_fail(&place, "Addr", "is not a valid address");
  if (!read_time(event, "ts", &memory.time_ns))
    return gp_import_fail(&place, "ts", "is not a valid time");
  memory.device = (int)device->integer;
  memory.bytes = bytes->integer;
  memory.address = is_oom ? 0 : (uint64_t)address->integer;
  if (total && total->kind == GP_VALUE_INTEGER && total->integer >= 0)
    memory.total = (uint64_t)total->integer;
  memory_t *added = GP_ARRAY_ADD(trace->memories, trace->memory_count);
  if (!added)
    return no_memory(trace);
  *added = memory;
  return true;
}

static bool read_event(void *self, const gp_value_t *event)
{
  trace_t *trace = self;
  const gp_value_t *name = gp_value_member(event, "name");
  bool good = true;
  if (!name || name->kind != GP_VALUE_TEXT)
    good = true;
  else if (is_member(event, "ph", "X"))
    good = read_slice(trace, event, name);
  else if (gp_value_is(name, "[memory]") || gp_value_is(name, "[OutOfMemory]"))
    good = read_memory(trace, event, gp_value_is(name, "[OutOfMemory]"));
  trace->number++;
  return good;
}

#define ORDER(x, y) (((x) > (y)) - ((x) < (y)))

/* Compares slices by thread and time. An enclosing slice precedes the slices inside it. */
static int compare_slices(const void *a, const void *b)
{
  const slice_t *x = a, *y = b;
  int order = ORDER(x->thread, y->thread);
  order = order ? order : ORDER(x->begin_ns, y->begin_ns);
  order = order ? order : ORDER(y->end_ns, x->end_ns);
  return order ? order : ORDER(x->number, y->number);
}

static int compare_in_threads(const void *a, const void *b)
{
  const memory_t *x = a, *y = b;
  int order = ORDER(x->thread, y->thread);
  order = order ? order : ORDER(x->time_ns, y->time_ns);
  return order ? order : ORDER(x->number, y->number);
}

static int compare_on_devices(const void *a, const void *b)
{
  const memory_t *x = a, *y = b;
  int order = ORDER(x->device, y->device);
  order = order ? order : ORDER(x->time_ns, y->time_ns);
  return order ? order : ORDER(x->number, y->number);
}

static int compare_marks(const void *a, const void *b)
{
  const mark_t *x = a, *y = b;
  int order = ORDER(x->time_ns, y->time_ns);
  order = order ? order : ORDER(y->is_end, x->is_end);
  return order ? order : ORDER(x->number, y->number);
}

static void sort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b))
{
  if (count)
    qsort(items, count, size, compare);
}

/* Sets the stack of each memory event to the slices that enclose the event on its thread. */
static bool find_stacks(trace_t *trace)
{
  const slice_t **open = malloc((trace->slice_count + 1) * sizeof(*open));
  size_t depth = 0, next = 0;
  bool good = open || no_memory(trace);

  sort(trace->slices, trace->slice_count, sizeof(slice_t), compare_slices);
  sort(trace->memories, trace->memory_count, sizeof(memory_t), compare_in_threads);
  for (size_t i = 0; good && i < trace->memory_count; i++) {
    memory_t *memory = &trace->memories[i];
    int frames[DEPTH_MOST];
    for (; next < trace->slice_count; next++) {
      const slice_t *slice = &trace->slices[next];
      if (slice->thread > memory->thread ||
          (slice->thread == memory->thread && slice->begin_ns > memory->time_ns))
        break;
      while (
          depth && (open[depth - 1]->thread != slice->thread || open[depth - 1]->end_ns <= slice->begin_ns))
        depth--;
      open[depth++] = slice;
    }
    while (depth && (open[depth - 1]->thread != memory->thread || open[depth - 1]->end_ns < memory->time_ns))
      depth--;
    size_t count = 0;
    for (size_t k = depth; k-- > 0 && count < DEPTH_MOST;) {
      if (open[k]->end_ns >= memory->time_ns) /* an inner slice may outlast the outer one */
        frames[count++] = open[k]->frame;
    }
    good = gp_import_stack_of(trace->import, frames, count, &memory->stack);
  }
  free(open);
  return good;
}

static bool add_memory(gp_event_log_t *log, const memory_t *memory)
{
  int64_t time_us = memory->time_ns / 1000;
  if (memory->is_oom)
    return gp_event_log_oom(
        log, time_us, (uint64_t)(memory->bytes < 0 ? -memory->bytes : memory->bytes), memory->stack);
  if (memory->bytes < 0)
    return gp_event_log_free(log, time_us, memory->address, (uint64_t)-memory->bytes);
  return gp_event_log_alloc(log, time_us, memory->address, (uint64_t)memory->bytes, memory->stack);
}

/* Returns the bytes that were allocated on the device before its first event. */
static uint64_t total_before(const memory_t *first)
{
  int64_t bytes = first->is_oom ? 0 : first->bytes;
  if (first->total == UINT64_MAX || (bytes > 0 && first->total < (uint64_t)bytes))
    return 0;
  uint64_t total = bytes > 0 ? first->total - (uint64_t)bytes : first->total + (uint64_t)-bytes;
  return total < GP_IMPORT_NUMBER_MOST ? total : 0;
}

/* Sorts events with the same time. The file lists such events of different threads in any order. The bytes
 * allocated after each event show the true order. */
static void order_ties(memory_t *memories, size_t count)
{
  uint64_t total = memories[0].total;
  for (size_t i = 1; i < count; i++) {
    size_t next = i;
    while (next < count && next < i + TIES_MOST && memories[next].time_ns == memories[i].time_ns &&
           memories[next].device == memories[i].device &&
           memories[next].total != total + (uint64_t)memories[next].bytes)
      next++;
    bool is_found = next < count && memories[next].time_ns == memories[i].time_ns &&
                    memories[next].device == memories[i].device &&
                    memories[next].total == total + (uint64_t)memories[next].bytes;
    if (is_found && next > i) {
      memory_t found = memories[next];
      memmove(&memories[i + 1], &memories[i], (next - i) * sizeof(found));
      memories[i] = found;
    }
    total = memories[i].total;
  }
}

static bool add_memories(trace_t *trace)
{
  gp_event_log_t log = {.import = trace->import};
  const memory_t *first = NULL;
  bool good = true;

  sort(trace->memories, trace->memory_count, sizeof(memory_t), compare_on_devices);
  if (trace->memory_count)
    order_ties(trace->memories, trace->memory_count);
  for (size_t i = 0; good && i < trace->memory_count; i++) {
    const memory_t *memory = &trace->memories[i];
    if (first && first->device != memory->device) {
      good = gp_event_log_end_device(&log, total_before(first));
      first = NULL;
    }
    first = first ? first : memory;
    log.device = memory->device;
    good = good && add_memory(&log, memory);
  }
  good = good && (!first || gp_event_log_end_device(&log, total_before(first)));
  return gp_event_log_end(&log, GP_LOG_PROFILE) && good;
}

/* Converts the annotations to a list in the format of PyTorch's snapshots. */
static bool make_annotations(trace_t *trace, gp_value_t *ret_list)
{
  gp_value_tree_t *tree = &trace->import->tree;
  gp_container_t *list = gp_value_tree_container(tree, 0);
  bool good = list != NULL;

  sort(trace->marks, trace->mark_count, sizeof(mark_t), compare_marks);
  for (size_t i = 0; i < trace->mark_count; i++) {
    mark_t *mark = &trace->marks[i];
    gp_container_t *dict = good ? gp_value_tree_container(tree, 0) : NULL;
    const char *stage = mark->is_end ? "END" : "START";
    const gp_value_t items[] = {{.text = "name", .length = 4, .kind = GP_VALUE_TEXT},
        {.text = mark->name, .length = (uint32_t)strlen(mark->name), .kind = GP_VALUE_TEXT},
        {.text = "stage", .length = 5, .kind = GP_VALUE_TEXT},
        {.text = stage, .length = (uint32_t)strlen(stage), .kind = GP_VALUE_TEXT},
        {.text = "time_us", .length = 7, .kind = GP_VALUE_TEXT},
        {.integer = mark->time_ns / 1000, .kind = GP_VALUE_INTEGER}};
    const gp_value_t item = {.container = dict, .kind = GP_VALUE_DICT};
    good = gp_value_tree_adopt(tree, mark->name) && dict && gp_container_append(tree, dict, items, 6) &&
           gp_container_append(tree, list, &item, 1);
    mark->name = NULL;
  }
  *ret_list = (gp_value_t){.container = list, .kind = good ? GP_VALUE_LIST : GP_VALUE_NONE};
  return good;
}

bool gp_kineto_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top)
{
  trace_t trace = {.import = import};
  bool good = gp_import_json_items(import, input, "traceEvents", read_event, &trace);
  if (good && !trace.memory_count)
    good = gp_value_tree_fail(&import->tree, 0,
        "this Chrome trace has no allocations: profile with profile_memory=True, or view it in ui.perfetto.dev");
  good =
      good && find_stacks(&trace) && add_memories(&trace) && make_annotations(&trace, &ret_top->annotations);
  for (size_t i = 0; i < trace.mark_count; i++)
    free(trace.marks[i].name);
  free(trace.marks);
  free(trace.memories);
  free(trace.slices);
  return good;
}
