/*
 * Functions for all formats. They assemble events from their columns, and find the blocks that were live
 * before the first event.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/export/export.h"

#define PROGRESS_STEP (UINT64_C(1) << 16)

/* Reads the stream handles. The snapshot contains handles as texts, because a JSON number cannot represent
 * them exactly. An invalid handle becomes 0, the default stream. */
static int read_streams(gp_export_t *export)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(export->snapshot->root, "streams");
  const cJSON *item;
  export->streams = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*export->streams));
  if (!export->streams)
    return ENOMEM;
  cJSON_ArrayForEach(item, list) export->streams[export->stream_count++] =
      strtoull(gp_snapshot_text(item, "handle"), NULL, 0);
  return 0;
}

/* Largest length of a thread's name in bytes. Names from the kernel have at most 15 bytes. The limit matters
 * because formats repeat the name with each event. */
#define THREAD_NAME_MOST 256

static int read_threads(gp_export_t *export)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(export->snapshot->root, "threads");
  const cJSON *item;
  size_t room = (size_t)cJSON_GetArraySize(list) + 1;
  export->threads = calloc(room, sizeof(*export->threads));
  export->tids = calloc(room, sizeof(*export->tids));
  if (!export->threads || !export->tids)
    return ENOMEM;
  cJSON_ArrayForEach(item, list)
  {
    const char *name = gp_snapshot_text(item, "name");
    export->threads[export->thread_count] = strlen(name) <= THREAD_NAME_MOST ? name : "(a long name)";
    (void)gp_snapshot_uint(
        item, "tid", &export->tids[export->thread_count++]); /* else stays 0, as for unknown threads */
  }
  return 0;
}

int gp_export_init(gp_export_t *export, const gp_snapshot_t *snapshot, const char *name, int device)
{
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");

  *export = (gp_export_t){.snapshot = snapshot, .name = name, .device = device, .metric = GP_EXPORT_PEAK};
  if (snapshot->events.columns[GP_COLUMN_ACTION] && snapshot->events.columns[GP_COLUMN_TIME_NS])
    export->event_count = snapshot->events.count;
  (void)gp_snapshot_uint(process, "start_time_us", &export->start_time_us); /* without it, times start at 0 */
  (void)gp_snapshot_uint(process, "pid", &export->pid);
  int error = read_streams(export);
  if (!error)
    error = read_threads(export);
  return error;
}

void gp_export_fini(gp_export_t *export)
{
  free(export->streams);
  free(export->threads);
  free(export->tids);
  export->streams = NULL;
  export->threads = NULL;
  export->tids = NULL;
}

bool gp_export_has_device(const gp_export_t *export, int device)
{
  return device >= 0 && (export->device == GP_EXPORT_ALL || export->device == device);
}

bool gp_export_event(const gp_export_t *export, size_t i, gp_export_event_t *ret_event)
{
  gp_assert_internal(i < export->event_count);
  const gp_snapshot_events_t *events = &export->snapshot->events;
  int64_t detail = gp_snapshot_event(events, GP_COLUMN_DETAIL, i, -1);
  *ret_event = (gp_export_event_t){
      .index = i,
      .kind = gp_snapshot_event_kind(events, i),
      .time_ns = (uint64_t)gp_snapshot_event(events, GP_COLUMN_TIME_NS, i, 0),
      .address = (uint64_t)gp_snapshot_event(events, GP_COLUMN_ADDRESS, i, 0),
      .size = (uint64_t)gp_snapshot_event(events, GP_COLUMN_SIZE, i, 0),
      .block = (uint64_t)gp_snapshot_event(events, GP_COLUMN_BLOCK, i, 0),
      .device = (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0),
      .stream = (int)gp_snapshot_event(events, GP_COLUMN_STREAM, i, -1),
      .thread = (int)gp_snapshot_event(events, GP_COLUMN_THREAD, i, -1),
      .stack = (int)gp_snapshot_event(events, GP_COLUMN_STACK, i, -1),
      .detail = detail >= 0 ? events->details.names[detail] : "",
  };
  ret_event->rounded =
      (uint64_t)gp_snapshot_event(events, GP_COLUMN_ROUNDED_SIZE, i, (int64_t)ret_event->size);
  return gp_export_has_device(export, ret_event->device);
}

bool gp_export_is_device_memory(const char *kind)
{
  return strcmp(kind, "pinned_host") != 0;
}

int gp_export_live_at_end(const gp_export_t *export, gp_block_map_t *map)
{
  const gp_snapshot_t *snapshot = export->snapshot;
  for (size_t i = 0; i < snapshot->block_count; i++) {
    const gp_snapshot_block_t *block = &snapshot->blocks[i];
    const gp_block_entry_t entry = {.key = block->block,
        .address = block->address,
        .size = block->requested,
        .rounded = block->size,
        .device = block->device,
        .stream = block->stream,
        .stack = block->stack};
    if (block->state != GP_SNAPSHOT_ALLOCATED || !block->block ||
        !gp_export_has_device(export, block->device))
      continue;
    if (!gp_block_map_put(map, &entry))
      return ENOMEM;
  }
  for (size_t i = 0; i < snapshot->forwarded_count; i++) {
    const gp_snapshot_forwarded_t *memory = &snapshot->forwarded[i];
    const gp_block_entry_t entry = {.key = memory->block,
        .address = memory->address,
        .size = memory->size,
        .rounded = memory->size,
        .device = memory->device,
        .stream = memory->stream,
        .stack = memory->stack,
        .is_forwarded = true};
    if (!memory->block || !gp_export_has_device(export, memory->device) ||
        !gp_export_is_device_memory(memory->kind))
      continue;
    if (!gp_block_map_put(map, &entry))
      return ENOMEM;
  }
  return 0;
}

int gp_export_live_at_start(const gp_export_t *export, gp_block_map_t *map)
{
  gp_export_event_t event;
  int error = gp_export_live_at_end(export, map);
  for (size_t i = export->event_count; i-- > 0 && !error;) {
    if (!gp_export_event(export, i, &event) || !event.block)
      continue;
    bool is_forwarded = event.kind == GP_EVENT_FORWARDED_FREE;
    if (event.kind == GP_EVENT_ALLOC || event.kind == GP_EVENT_FORWARDED_ALLOC) {
      (void)gp_block_map_take(map, event.block, NULL); /* a block that is not in the map needs no undoing */
    } else if (event.kind == GP_EVENT_FREE_REQUESTED ||
               (is_forwarded && gp_export_is_device_memory(event.detail))) {
      const gp_block_entry_t entry = {.key = event.block,
          .address = event.address,
          .size = event.size,
          .rounded = event.rounded,
          .device = event.device,
          .stream = event.stream,
          .stack = event.stack,
          .is_forwarded = is_forwarded};
      if (!gp_block_map_put(map, &entry))
        error = ENOMEM;
    }
  }
  return error;
}

void gp_export_progress(const gp_export_t *export, uint64_t part, uint64_t whole)
{
  if (!export->shows_progress || part % PROGRESS_STEP || whole < 4 * PROGRESS_STEP)
    return;
  fprintf(stderr, "\rgpupool: exporting: %" PRIu64 "%%", whole ? part * 100 / whole : 100);
  fflush(stderr);
}
