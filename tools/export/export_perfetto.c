/*
 * Writes the trace event format, which Perfetto and chrome://tracing read.
 *
 * - A block is an asynchronous slice: a "b" and an "e" event with the same id. Slices have to be asynchronous
 * because lifetimes overlap. Blocks that were live before the first event begin at that event. Blocks that
 * are live at the end have no "e". A block's name is its owner, so that the blocks of an owner are grouped,
 * or its size if it has no stack.
 *
 * - Counters are per device.
 *
 * - The program's scopes are slices. Its marks and all other events are instants.
 *
 * Traces are large, so optional members are left out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export.h"
#include "tools/export/export_marks.h"
#include "tools/output.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/stack_owners.h"
#include "base/json.h"

#define BUFFER_BYTES (1 << 16)
#define NAME_BYTES   4096
#define NAME_COLUMNS 60 /* most columns of an owner's name, which is written at both ends of each block */

/* The counters of a device, in bytes. */
typedef enum counter {
  COUNTER_ALLOCATED,
  COUNTER_ACTIVE,
  COUNTER_RESERVED,
  COUNTER_FORWARDED,
  COUNTER_COUNT,
} counter_t;

typedef struct counters {
  uint64_t now[COUNTER_COUNT];
  uint64_t written[COUNTER_COUNT]; /* last written value; 0 at first */
} counters_t;

typedef struct perfetto {
  const gp_export_t *export;
  gp_json_t json;
  counters_t counters[GP_SNAPSHOT_DEVICES];
  uint64_t first_ns;
  uint64_t now_ns;
  gp_export_marks_t marks;
  size_t next_mark;
  bool lacks_memory; /* memory ran out, so some allocations are missing from the live blocks */
} perfetto_t;

/* Begins an event and writes the members that every event has. */
static void begin(perfetto_t *perfetto, const char *name, const char *phase, uint64_t time_ns, int thread)
{
  const gp_export_t *export = perfetto->export;
  gp_json_t *json = &perfetto->json;

  gp_json_newline(json);
  gp_json_begin(json, '{');
  gp_json_key_string(json, "name", name);
  gp_json_key_string(json, "ph", phase);
  gp_json_key_uint(json, "pid", export->pid ? export->pid : 1);
  if (thread >= 0)
    gp_json_key_uint(json, "tid", export->tids[thread]);
  gp_json_key(json, "ts");
  if (export->snapshot->times_are_numbers)
    gp_json_uint(json, time_ns); /* without times, the timestamp is the event's number */
  else
    gp_json_microseconds(json, time_ns);
}

static void begin_args(perfetto_t *perfetto)
{
  gp_json_key(&perfetto->json, "args");
  gp_json_begin(&perfetto->json, '{');
}

static void end_args(perfetto_t *perfetto)
{
  gp_json_end(&perfetto->json, '}');
  gp_json_end(&perfetto->json, '}');
}

static void write_metadata(perfetto_t *perfetto)
{
  const gp_export_t *export = perfetto->export;
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(export->snapshot->root, "process");
  const char *program = gp_snapshot_text(process, "program");

  begin(perfetto, "process_name", "M", 0, -1);
  begin_args(perfetto);
  gp_json_key_string(&perfetto->json, "name", program[0] ? program : export->name);
  end_args(perfetto);
  for (size_t i = 0; i < export->thread_count; i++) {
    begin(perfetto, "thread_name", "M", 0, (int)i);
    begin_args(perfetto);
    gp_json_key_string(&perfetto->json, "name", export->threads[i]);
    end_args(perfetto);
  }
}

/*
 * Counters
 */

/* Writes the counters that changed since they were last written. A counter that is always 0 never appears. */
static void write_counters(perfetto_t *perfetto)
{
  static const char *const names[] = {[COUNTER_ALLOCATED] = "allocated",
      [COUNTER_ACTIVE] = "active",
      [COUNTER_RESERVED] = "reserved",
      [COUNTER_FORWARDED] = "passthrough"};
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    counters_t *counters = &perfetto->counters[device];
    for (counter_t counter = 0; counter < COUNTER_COUNT; counter++) {
      char name[40];
      if (counters->now[counter] == counters->written[counter])
        continue;
      counters->written[counter] = counters->now[counter];
      snprintf(name, sizeof(name), "device %d %s", device, names[counter]);
      begin(perfetto, name, "C", perfetto->now_ns, -1);
      begin_args(perfetto);
      gp_json_key_uint(&perfetto->json, "bytes", counters->now[counter]);
      end_args(perfetto);
    }
  }
}

/* Applies an event to the counters. If `forwards` is false, undoes the event instead. */
static void count(perfetto_t *perfetto, const gp_export_event_t *event, bool forwards)
{
  uint64_t *now = perfetto->counters[event->device].now;
  uint64_t up = forwards ? event->rounded : 0 - event->rounded;
  uint64_t moved = forwards ? event->size : 0 - event->size;

  switch (event->kind) {
  case GP_EVENT_ALLOC:
    now[COUNTER_ALLOCATED] += up;
    now[COUNTER_ACTIVE] += up;
    break;
  case GP_EVENT_FREE_REQUESTED: now[COUNTER_ALLOCATED] -= up; break;
  case GP_EVENT_FREE_COMPLETED: now[COUNTER_ACTIVE] -= up; break;
  case GP_EVENT_SEGMENT_ALLOC:
  case GP_EVENT_SEGMENT_MAP: now[COUNTER_RESERVED] += moved; break;
  case GP_EVENT_SEGMENT_FREE:
  case GP_EVENT_SEGMENT_UNMAP: now[COUNTER_RESERVED] -= moved; break;
  case GP_EVENT_FORWARDED_ALLOC:
    now[COUNTER_FORWARDED] += gp_export_is_device_memory(event->detail) ? moved : 0;
    break;
  case GP_EVENT_FORWARDED_FREE:
    now[COUNTER_FORWARDED] -= gp_export_is_device_memory(event->detail) ? moved : 0;
    break;
  default: break;
  }
}

/* Computes the counters before the first event: those at the end, with every event undone. */
static void count_backwards(perfetto_t *perfetto)
{
  const gp_export_t *export = perfetto->export;
  gp_export_event_t event;

  for (size_t i = 0; i < export->snapshot->device_count; i++) {
    const gp_snapshot_device_t *device = &export->snapshot->devices[i];
    uint64_t *now = perfetto->counters[device->device].now;
    if (!gp_export_has_device(export, device->device))
      continue;
    now[COUNTER_ALLOCATED] = device->stats.allocated_bytes.current;
    now[COUNTER_ACTIVE] = device->stats.active_bytes.current;
    now[COUNTER_RESERVED] = device->stats.reserved_bytes.current;
    now[COUNTER_FORWARDED] = device->stats.passthrough_bytes.current;
  }
  for (size_t i = export->event_count; i-- > 0;) {
    if (gp_export_event(export, i, &event))
      count(perfetto, &event, false);
    perfetto->first_ns = event.time_ns;
  }
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    uint64_t *now = perfetto->counters[device].now;
    for (counter_t counter = 0; counter < COUNTER_COUNT;
         counter++) /* a negative value means that the snapshot is inconsistent */
      now[counter] = (int64_t)now[counter] < 0 ? 0 : now[counter];
  }
}

/*
 * Blocks
 */

/* Begins a slice event. Both ends of a slice have the same name, category and id. */
static void begin_slice(
    perfetto_t *perfetto, const char *phase, uint64_t time_ns, int thread, const gp_block_entry_t *block)
{
  const gp_snapshot_t *snapshot = perfetto->export->snapshot;
  char name[NAME_BYTES];
  gp_owner_text_t owner;

  begin(perfetto,
      gp_stack_owner_text(snapshot, block->stack, &owner)
          ? gp_text_shorten(owner.function, NAME_COLUMNS, name, sizeof(name))
          : GP_AS_SIZE(block->size),
      phase, time_ns, thread);
  gp_json_key_string(&perfetto->json, "cat", block->is_forwarded ? "passthrough" : "block");
  gp_json_key(&perfetto->json, "id");
  gp_json_hex(&perfetto->json, block->key);
}

static void write_begin(
    perfetto_t *perfetto, const gp_block_entry_t *block, uint64_t time_ns, int thread, const char *kind)
{
  gp_json_t *json = &perfetto->json;

  begin_slice(perfetto, "b", time_ns, thread, block);
  begin_args(perfetto);
  gp_json_key_int(json, "device", block->device);
  gp_json_key(json, "address");
  gp_json_hex(json, block->address);
  gp_json_key_uint(json, "size", block->size);
  if (block->rounded != block->size)
    gp_json_key_uint(json, "rounded_size", block->rounded);
  if (block->stream >= 0 && perfetto->export->streams[block->stream]) { /* not on the default stream */
    gp_json_key(json, "stream");
    gp_json_hex(json, perfetto->export->streams[block->stream]);
  }
  if (kind[0])
    gp_json_key_string(json, "kind", kind);
  end_args(perfetto);
}

static void write_instant(perfetto_t *perfetto, const gp_export_event_t *event, const char *name)
{
  begin(perfetto, name, "i", event->time_ns, event->thread);
  gp_json_key_string(&perfetto->json, "s", "p"); /* "p": the instant belongs to the whole process */
  begin_args(perfetto);
  gp_json_key_int(&perfetto->json, "device", event->device);
  gp_json_key_uint(&perfetto->json, "size", event->size);
  if (event->detail[0])
    gp_json_key_string(&perfetto->json, "detail", event->detail);
  end_args(perfetto);
}

static void write_event(perfetto_t *perfetto, const gp_export_event_t *event, gp_block_map_t *live)
{
  bool is_forwarded = event->kind == GP_EVENT_FORWARDED_ALLOC || event->kind == GP_EVENT_FORWARDED_FREE;
  const char *instant = gp_event_look(event->kind).instant;
  const gp_block_entry_t block = {.key = event->block,
      .address = event->address,
      .size = event->size,
      .rounded = event->rounded,
      .device = event->device,
      .stream = event->stream,
      .stack = event->stack,
      .is_forwarded = is_forwarded};

  switch (event->kind) {
  case GP_EVENT_ALLOC:
  case GP_EVENT_FORWARDED_ALLOC:
    if (!block.key || gp_block_map_find(live, block.key))
      break;
    if (gp_block_map_put(live, &block))
      write_begin(perfetto, &block, event->time_ns, event->thread, is_forwarded ? event->detail : "");
    else
      perfetto->lacks_memory = true;
    break;
  case GP_EVENT_FREE_REQUESTED:
  case GP_EVENT_FORWARDED_FREE: {
    gp_block_entry_t begun;
    if (!gp_block_map_take(live, event->block, &begun))
      break; /* the block's begin was not written */
    begin_slice(perfetto, "e", event->time_ns, -1, &begun);
    gp_json_end(&perfetto->json, '}');
    break;
  }
  default:
    if (instant[0])
      write_instant(perfetto, event, instant);
    break;
  }
}

static void write_mark(perfetto_t *perfetto, const gp_export_mark_t *mark)
{
  static const char *const phases[] = {[GP_MARK_MOMENT] = "i",
      [GP_MARK_BEGIN] = "b",
      [GP_MARK_END] = "e",
      [GP_MARK_PUSH] = "B",
      [GP_MARK_POP] = "E"};
  gp_json_t *json = &perfetto->json;

  begin(perfetto, mark->name, phases[mark->kind], mark->time_ns, mark->thread);
  if (mark->kind == GP_MARK_MOMENT) {
    gp_json_key_string(json, "s", "p");
  } else if (mark->kind == GP_MARK_BEGIN || mark->kind == GP_MARK_END) {
    gp_json_key_string(json, "cat", "scope");
    gp_json_key(json, "id");
    gp_json_hex(json, mark->scope);
  }
  gp_json_end(json, '}');
}

/* Writes the marks before time_ns, so that times in the file never go back. */
static void write_marks_before(perfetto_t *perfetto, uint64_t time_ns)
{
  const gp_export_marks_t *marks = &perfetto->marks;
  while (perfetto->next_mark < marks->count && marks->marks[perfetto->next_mark].time_ns < time_ns)
    write_mark(perfetto, &marks->marks[perfetto->next_mark++]);
}

static void write_events(perfetto_t *perfetto, gp_block_map_t *live)
{
  const gp_export_t *export = perfetto->export;
  gp_export_event_t event;

  for (size_t i = 0; i < export->event_count; i++) {
    gp_export_progress(export, i, export->event_count);
    if (!gp_export_event(export, i, &event))
      continue;
    /* All changes with the same timestamp are one sample. */
    if (event.time_ns != perfetto->now_ns)
      write_counters(perfetto);
    write_marks_before(perfetto, event.time_ns);
    perfetto->now_ns = event.time_ns;
    count(perfetto, &event, true);
    write_event(perfetto, &event, live);
  }
  write_counters(perfetto);
  write_marks_before(perfetto, UINT64_MAX);
}

int gp_export_perfetto(gp_export_t *export)
{
  static char buffer[BUFFER_BYTES];
  static perfetto_t perfetto; /* too large for a stack */
  gp_block_map_t live = {.count = 0};
  gp_block_entry_t *first = NULL;

  perfetto = (perfetto_t){.export = export};
  int error = gp_export_live_at_start(export, &live);
  if (!error) {
    first = gp_block_map_sorted(&live);
    error = first ? 0 : ENOMEM;
  }
  if (!error) {
    gp_json_init(&perfetto.json, fileno(export->stream), buffer, sizeof(buffer));
    gp_json_bound(&perfetto.json, gp_snapshot_output_most(export->snapshot));
    count_backwards(&perfetto);
    perfetto.now_ns = perfetto.first_ns;
    gp_json_begin(&perfetto.json, '{');
    gp_json_key_string(&perfetto.json, "displayTimeUnit", "ns");
    gp_json_key(&perfetto.json, "traceEvents");
    gp_json_begin(&perfetto.json, '[');
    write_metadata(&perfetto);
    gp_export_marks_read(export, &perfetto.marks);
    write_marks_before(&perfetto, perfetto.first_ns);
    for (size_t i = 0; i < live.count; i++)
      write_begin(&perfetto, &first[i], perfetto.first_ns, -1, "");
    write_counters(&perfetto);
    write_events(&perfetto, &live);
    gp_json_end(&perfetto.json, ']');
    gp_json_end(&perfetto.json, '}');
    error = gp_json_finish(&perfetto.json);
    error = perfetto.lacks_memory ? ENOMEM : error;
  }
  free(first);
  gp_block_map_fini(&live);
  return error;
}
