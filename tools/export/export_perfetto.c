/*
 * The trace event format, which Perfetto and chrome://tracing read. Blocks are asynchronous slices, since
 * their lifetimes overlap: a pair of "b" and "e" with an id. What was live before the first event begins with
 * it; what is live at the end has no end. Counters are of each device; each other event is an instant.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/util/size.h"
#include "tools/export/export.h"
#include "trace/snapshot/json.h"

#define BUFFER_BYTES (1 << 16)

typedef struct counters {
  uint64_t allocated; /* bytes */
  uint64_t active;
  uint64_t reserved;
  uint64_t forwarded;
  bool is_known;   /* there is such a device */
  bool is_changed; /* since they were last written */
} counters_t;

typedef struct perfetto {
  const gp_export_t *export;
  gp_json_t json;
  counters_t counters[GP_SNAPSHOT_DEVICES];
  uint64_t first_ns;
  uint64_t now_ns;
} perfetto_t;

/* What every event begins with. */
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
  gp_json_ratio(json, time_ns, 1000); /* microseconds */
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

static void write_counters(perfetto_t *perfetto)
{
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    counters_t *counters = &perfetto->counters[device];
    char name[32];
    if (!counters->is_changed)
      continue;
    counters->is_changed = false;
    snprintf(name, sizeof(name), "device %d memory", device);
    begin(perfetto, name, "C", perfetto->now_ns, -1);
    begin_args(perfetto);
    gp_json_key_uint(&perfetto->json, "allocated", counters->allocated);
    gp_json_key_uint(&perfetto->json, "active", counters->active);
    gp_json_key_uint(&perfetto->json, "reserved", counters->reserved);
    gp_json_key_uint(&perfetto->json, "passthrough", counters->forwarded);
    end_args(perfetto);
  }
}

/* Forwards, or backwards to undo. Returns whether something is counted. */
static bool count(perfetto_t *perfetto, const gp_export_event_t *event, bool forwards)
{
  counters_t *counters = &perfetto->counters[event->device];
  uint64_t up = forwards ? event->rounded : 0 - event->rounded;
  uint64_t moved = forwards ? event->size : 0 - event->size;

  counters->is_known = true;
  switch (event->kind) {
  case GP_EVENT_ALLOC:
    counters->allocated += up;
    counters->active += up;
    return true;
  case GP_EVENT_FREE_REQUESTED: counters->allocated -= up; return true;
  case GP_EVENT_FREE_COMPLETED: counters->active -= up; return true;
  case GP_EVENT_SEGMENT_ALLOC:
  case GP_EVENT_SEGMENT_MAP: counters->reserved += moved; return true;
  case GP_EVENT_SEGMENT_FREE:
  case GP_EVENT_SEGMENT_UNMAP: counters->reserved -= moved; return true;
  case GP_EVENT_FORWARDED_ALLOC:
    counters->forwarded += gp_export_is_device_memory(event->detail) ? moved : 0;
    return true;
  case GP_EVENT_FORWARDED_FREE:
    counters->forwarded -= gp_export_is_device_memory(event->detail) ? moved : 0;
    return true;
  default: return false;
  }
}

/* Where counters begin: at the figures of the end, with every event undone. */
static void count_backwards(perfetto_t *perfetto)
{
  const gp_export_t *export = perfetto->export;
  gp_export_event_t event;

  for (size_t i = 0; i < export->snapshot->device_count; i++) {
    const gp_snapshot_device_t *device = &export->snapshot->devices[i];
    if (!gp_export_has_device(export, device->device))
      continue;
    perfetto->counters[device->device] = (counters_t){
        .allocated = device->stats.allocated_bytes.current,
        .active = device->stats.active_bytes.current,
        .reserved = device->stats.reserved_bytes.current,
        .forwarded = device->stats.passthrough_bytes.current,
        .is_known = true,
    };
  }
  for (size_t i = export->event_count; i-- > 0;) {
    if (gp_export_event(export, i, &event))
      (void)count(perfetto, &event, false);
    perfetto->first_ns = event.time_ns;
  }
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    counters_t *counters = &perfetto->counters[device];
    /* Below zero: the snapshot contradicts itself. */
    counters->allocated = (int64_t)counters->allocated < 0 ? 0 : counters->allocated;
    counters->active = (int64_t)counters->active < 0 ? 0 : counters->active;
    counters->reserved = (int64_t)counters->reserved < 0 ? 0 : counters->reserved;
    counters->forwarded = (int64_t)counters->forwarded < 0 ? 0 : counters->forwarded;
    counters->is_changed = counters->is_known;
  }
}

/*
 * Blocks
 */

/* Both ends of a slice carry the same name, category and id. */
static void begin_slice(perfetto_t *perfetto, const char *phase, uint64_t time_ns, int thread, uint64_t block,
    uint64_t size, bool is_forwarded)
{
  char name[GP_SIZE_TEXT_BYTES];
  begin(perfetto, gp_size_format(size, name), phase, time_ns, thread);
  gp_json_key_string(&perfetto->json, "cat", is_forwarded ? "passthrough" : "block");
  gp_json_key(&perfetto->json, "id");
  gp_json_hex(&perfetto->json, block);
}

static void write_begin(
    perfetto_t *perfetto, const gp_block_entry_t *block, uint64_t time_ns, int thread, const char *kind)
{
  const gp_snapshot_t *snapshot = perfetto->export->snapshot;
  gp_json_t *json = &perfetto->json;
  char buffer[GP_EXPORT_FRAME_BYTES];

  begin_slice(perfetto, "b", time_ns, thread, block->key, block->size, block->is_forwarded);
  begin_args(perfetto);
  gp_json_key_int(json, "device", block->device);
  gp_json_key(json, "address");
  gp_json_hex(json, block->address);
  gp_json_key_uint(json, "size", block->size);
  gp_json_key_uint(json, "rounded_size", block->rounded);
  if (block->stream >= 0) {
    gp_json_key(json, "stream");
    gp_json_hex(json, perfetto->export->streams[block->stream]);
  }
  if (kind[0])
    gp_json_key_string(json, "kind", kind);
  if (block->stack >= 0 && snapshot->stacks.first[block->stack] < snapshot->stacks.first[block->stack + 1]) {
    size_t frame = (size_t)snapshot->stacks.frame_indexes[snapshot->stacks.first[block->stack]];
    gp_json_key_string(json, "function", gp_export_frame_function(snapshot, frame, buffer));
  }
  end_args(perfetto);
}

static void write_instant(perfetto_t *perfetto, const gp_export_event_t *event, const char *name)
{
  begin(perfetto, name, "i", event->time_ns, event->thread);
  gp_json_key_string(&perfetto->json, "s", "p"); /* across the whole process */
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
    if (block.key && !gp_block_map_find(live, block.key) && gp_block_map_put(live, &block))
      write_begin(perfetto, &block, event->time_ns, event->thread, is_forwarded ? event->detail : "");
    break;
  case GP_EVENT_FREE_REQUESTED:
  case GP_EVENT_FORWARDED_FREE: {
    gp_block_entry_t begun;
    if (!gp_block_map_take(live, event->block, &begun))
      break; /* nothing that could end */
    begin_slice(perfetto, "e", event->time_ns, event->thread, begun.key, begun.size, begun.is_forwarded);
    gp_json_end(&perfetto->json, '}');
    break;
  }
  case GP_EVENT_OOM: write_instant(perfetto, event, "out of memory"); break;
  case GP_EVENT_TRIM: write_instant(perfetto, event, "trim"); break;
  case GP_EVENT_SNAPSHOT: write_instant(perfetto, event, "snapshot"); break;
  case GP_EVENT_MODE: write_instant(perfetto, event, "mode"); break;
  default: break;
  }
}

static void write_events(perfetto_t *perfetto, gp_block_map_t *live)
{
  const gp_export_t *export = perfetto->export;
  gp_export_event_t event;

  for (size_t i = 0; i < export->event_count; i++) {
    gp_export_progress(export, i, export->event_count);
    if (!gp_export_event(export, i, &event))
      continue;
    /* What changes at one moment is one sample. */
    if (event.time_ns != perfetto->now_ns)
      write_counters(perfetto);
    perfetto->now_ns = event.time_ns;
    if (count(perfetto, &event, true))
      perfetto->counters[event.device].is_changed = true;
    write_event(perfetto, &event, live);
  }
  write_counters(perfetto);
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
    for (size_t i = 0; i < live.count; i++)
      write_begin(&perfetto, &first[i], perfetto.first_ns, -1, "");
    write_counters(&perfetto);
    write_events(&perfetto, &live);
    gp_json_end(&perfetto.json, ']');
    gp_json_end(&perfetto.json, '}');
    error = gp_json_finish(&perfetto.json);
  }
  free(first);
  gp_block_map_fini(&live);
  return error;
}
