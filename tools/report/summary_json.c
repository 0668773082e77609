/*
 * The summary for programs; REPORTS.md describes every key. A failed allocation leaves a member out, so the
 * caller's print is what can fail.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/report/report.h"
#include "tools/report/summary_report.h"

static void add_copy(cJSON *object, const char *name, const cJSON *from)
{
  cJSON *copy = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(from, name), true);
  if (copy)
    cJSON_AddItemToObject(object, name, copy);
  else
    cJSON_AddNullToObject(object, name);
}

static void add_number(cJSON *object, const char *name, const cJSON *from)
{
  uint64_t number;
  bool known = gp_snapshot_uint(from, name, &number) == 1;
  gp_json_add_uint_or_null(object, name, known, known ? number : 0);
}

static void add_process(cJSON *object, const cJSON *root)
{
  const cJSON *from = cJSON_GetObjectItemCaseSensitive(root, "process");
  cJSON *process = cJSON_AddObjectToObject(object, "process");
  add_copy(process, "program", from);
  add_copy(process, "command_line", from);
  add_number(process, "pid", from);
  add_copy(process, "host", from);
  add_number(process, "rank", from);
  add_number(process, "start_time_us", from);
  add_number(process, "driver_version", from);
  add_number(process, "runtime_version", from);
}

static void add_findings(cJSON *object, const gp_findings_t *findings)
{
  cJSON *list = cJSON_AddArrayToObject(object, "findings");
  for (size_t i = 0; i < findings->count; i++) {
    const gp_finding_t *finding = &findings->items[i];
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "severity", gp_severity_name(finding->severity));
    cJSON_AddStringToObject(item, "code", finding->code);
    gp_json_add_uint_or_null(item, "device", finding->device >= 0, (uint64_t)finding->device);
    cJSON_AddStringToObject(item, "message", finding->text);
    if (finding->advice)
      cJSON_AddStringToObject(item, "advice", finding->advice);
    else
      cJSON_AddNullToObject(item, "advice");
    cJSON_AddItemToArray(list, item);
  }
}

static void add_gauge(cJSON *object, const char *name, const gp_gauge_t *gauge)
{
  cJSON *item = cJSON_AddObjectToObject(object, name);
  gp_json_add_uint(item, "current", gauge->current);
  gp_json_add_uint(item, "peak", gauge->peak);
  gp_json_add_uint(item, "allocated", gauge->allocated);
  gp_json_add_uint(item, "freed", gauge->freed);
}

static void add_blocks(cJSON *object, const char *name, uint64_t count, uint64_t bytes)
{
  cJSON *item = cJSON_AddObjectToObject(object, name);
  gp_json_add_uint(item, "count", count);
  gp_json_add_uint(item, "bytes", bytes);
}

static void add_use(cJSON *item, const gp_snapshot_device_t *device)
{
  if (!device->total) {
    cJSON_AddNullToObject(item, "use");
    return;
  }
  cJSON *use = cJSON_AddObjectToObject(item, "use");
  gp_json_add_uint(use, "time_ns", device->use_ns);
  gp_json_add_uint(use, "total", device->total);
  gp_json_add_uint(use, "free", device->free);
  gp_json_add_uint(use, "unaccounted", device->unaccounted);
}

static void add_device(cJSON *list, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  cJSON *item = cJSON_CreateObject();
  gp_json_add_uint(item, "device", (uint64_t)device->device->device);
  gp_json_add_uint_or_null(item, "limit", device->device->limit > 0, device->device->limit);
  add_use(item, device->device);
  cJSON *numbers = cJSON_AddObjectToObject(item, "stats");
#define GAUGE(name, unit, what) add_gauge(numbers, #name, &stats->name);
#define COUNTER(name, what)     gp_json_add_uint(numbers, #name, stats->name);
#include "trace/format/stats.def"
  cJSON_AddNumberToObject(numbers, "cache_hit_rate", device->device->cache_hit_rate);
  cJSON_AddNumberToObject(numbers, "efficiency", device->device->efficiency);
  cJSON_AddNumberToObject(numbers, "fragmentation", device->device->fragmentation);
  add_blocks(item, "live", device->live_count, device->live_bytes);
  add_blocks(item, "pending_free", device->pending_count, device->pending_bytes);
  add_blocks(item, "idle", device->idle_count, device->idle_bytes);
  gp_json_add_uint(item, "largest_idle", device->largest_idle);
  gp_json_add_uint(item, "live_sizes", device->size_count);
  cJSON *groups = cJSON_AddArrayToObject(item, "biggest_live");
  for (size_t i = 0; i < device->group_count; i++) {
    cJSON *group = cJSON_CreateObject();
    gp_json_add_uint(group, "requested_size", device->groups[i].requested);
    gp_json_add_uint(group, "count", device->groups[i].count);
    gp_json_add_uint(group, "bytes", device->groups[i].bytes);
    cJSON_AddItemToArray(groups, group);
  }
  cJSON_AddItemToArray(list, item);
}

static void add_events(cJSON *object, const gp_summary_t *summary)
{
  cJSON *events = cJSON_AddObjectToObject(object, "events");
  gp_json_add_uint(events, "count", summary->event_count);
  gp_json_add_uint_or_null(events, "first_ns", summary->event_count > 0, summary->first_ns);
  gp_json_add_uint_or_null(events, "last_ns", summary->event_count > 0, summary->last_ns);
  gp_json_add_uint(events, "driver_calls", summary->driver_calls);
  gp_json_add_uint(events, "driver_ns", summary->driver_ns);
  cJSON *actions = cJSON_AddObjectToObject(events, "actions");
  for (size_t i = 0; i < summary->action_count; i++) {
    const gp_summary_action_t *action = &summary->actions[i];
    cJSON *item = cJSON_CreateObject();
    gp_json_add_uint(item, "count", action->count);
    gp_json_add_uint(item, "driver_calls", action->driver_calls);
    gp_json_add_uint(item, "driver_ns", action->driver_ns);
    gp_json_add_uint(item, "longest_ns", action->longest_ns);
    cJSON_AddItemToObject(actions, action->name, item);
  }
  cJSON *details = cJSON_AddArrayToObject(events, "details");
  for (size_t i = 0; i < summary->detail_count; i++) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "action", summary->details[i].action);
    cJSON_AddStringToObject(item, "detail", summary->details[i].detail);
    gp_json_add_uint(item, "count", summary->details[i].count);
    cJSON_AddItemToArray(details, item);
  }
}

void gp_summary_json(const gp_findings_t *findings, cJSON *object)
{
  const gp_summary_t *summary = findings->summary;
  const gp_snapshot_t *snapshot = summary->snapshot;
  cJSON_AddStringToObject(object, "file", summary->file);
  add_copy(object, "reason", snapshot->root);
  add_process(object, snapshot->root);
  add_copy(object, "settings", snapshot->root);
  gp_json_add_uint(object, "until_ns", summary->until_ns);
  gp_json_add_uint(object, "recorded_since_ns", snapshot->recorded_since_ns);
  gp_json_add_uint(object, "dropped_events", snapshot->dropped_events);
  cJSON_AddBoolToObject(object, "partial", summary->is_partial);
  cJSON *missing = cJSON_AddArrayToObject(object, "missing");
  for (size_t i = 0; i < snapshot->note_count; i++)
    cJSON_AddItemToArray(missing, cJSON_CreateString(snapshot->notes[i]));
  add_findings(object, findings);
  cJSON *devices = cJSON_AddArrayToObject(object, "devices");
  for (size_t i = 0; i < summary->device_count; i++)
    add_device(devices, &summary->devices[i]);
  add_events(object, summary);
  add_copy(object, "streams", snapshot->root);
  add_copy(object, "threads", snapshot->root);
  add_copy(object, "oom", snapshot->root);
}
