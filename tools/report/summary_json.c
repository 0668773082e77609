/*
 * The summary for programs; REPORTS.md describes every key. A failed allocation leaves a member out; the
 * caller's print then fails.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/model/findings_frees.h"
#include "tools/model/oom_events.h"
#include "tools/report/component_report.h"
#include "tools/report/owner_report.h"
#include "tools/symbols/stack_owners.h"
#include "tools/report/report.h"
#include "tools/report/summary_report.h"
#include "tools/symbols/frame_text.h"

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
  add_copy(process, "library_version", from);
  add_number(process, "start_time_us", from);
  add_number(process, "driver_version", from);
  add_number(process, "runtime_version", from);
  add_copy(process, "environment", from);
}

/* null: nothing to set or do; there may still be advice where to look. */
static void add_remedy(cJSON *item, const gp_remedy_t *from)
{
  if (gp_remedy_is_empty(from)) {
    cJSON_AddNullToObject(item, "remedy");
    return;
  }
  cJSON *remedy = cJSON_AddObjectToObject(item, "remedy");
  cJSON *settings = cJSON_AddObjectToObject(remedy, "settings");
  for (size_t i = 0; i < from->setting_count; i++)
    cJSON_AddStringToObject(settings, from->settings[i].name, from->settings[i].value);
  gp_json_add_text_or_null(remedy, "action", from->action);
  gp_json_add_text_or_null(remedy, "owner", from->owner);
}

static void add_findings(cJSON *object, const gp_findings_t *findings)
{
  cJSON *list = cJSON_AddArrayToObject(object, "findings");
  for (size_t i = 0; i < findings->count; i++) {
    const gp_finding_t *finding = &findings->items[i];
    cJSON *item = gp_json_add_item(list);
    cJSON_AddStringToObject(item, "severity", gp_severity_name(finding->severity));
    cJSON_AddStringToObject(item, "code", finding->code);
    gp_json_add_uint_or_null(item, "device", finding->device >= 0, (uint64_t)finding->device);
    cJSON_AddStringToObject(item, "message", finding->text);
    gp_json_add_text_or_null(item, "advice", finding->advice);
    add_remedy(item, &finding->remedy);
  }
}

static void add_growth(cJSON *object, const gp_summary_t *summary)
{
  const gp_growth_t *growth = &summary->growth;
  cJSON *list = cJSON_AddArrayToObject(object, "growth");
  for (size_t i = 0; i < growth->count; i++) {
    const gp_grower_t *grower = &growth->growers[i];
    const gp_growth_room_t *room = gp_growth_room(growth, grower->device);
    gp_owner_text_t text;
    bool has_owner = gp_stack_owner_text(summary->snapshot, grower->stack, &text);
    cJSON *item = gp_json_add_item(list);
    gp_json_add_uint(item, "device", (uint64_t)grower->device);
    gp_json_add_text_or_null(item, "owner", has_owner ? text.function : "");
    gp_json_add_text_or_null(item, "through", has_owner ? text.through : "");
    gp_json_add_text_or_null(item, "file", has_owner ? text.file : "");
    gp_json_add_uint_or_null(item, "line", has_owner && text.line > 0, has_owner ? (uint64_t)text.line : 0);
    gp_json_add_uint(item, "bytes", grower->bytes);
    gp_json_add_uint(item, "bytes_before", grower->bytes_before);
    gp_json_add_holding(item, &grower->holding, summary->snapshot);
    gp_json_add_uint(item, "since_ns", grower->since_ns);
    gp_json_add_uint(item, "until_ns", grower->until_ns);
    gp_json_add_uint_or_null(item, "bytes_per_second", grower->bytes_per_ns > 0,
        (uint64_t)(grower->bytes_per_ns < 9e9 ? grower->bytes_per_ns * 1e9 : 9e18));
    gp_json_add_uint_or_null(item, "room", room && room->is_known, room ? room->bytes : 0);
    gp_json_add_uint_or_null(
        item, "exhausted_in_ns", room && room->exhausted_ns > 0, room ? room->exhausted_ns : 0);
  }
}

static void add_gauge(cJSON *object, const char *name, const gp_gauge_t *gauge, gp_known_t known)
{
  cJSON *item = cJSON_AddObjectToObject(object, name);
  gp_json_add_uint_or_null(item, "current", known != GP_KNOWN_NOT, gauge->current);
  gp_json_add_uint_or_null(item, "peak", known == GP_KNOWN, gauge->peak);
  gp_json_add_uint_or_null(item, "allocated", known == GP_KNOWN, gauge->allocated);
  gp_json_add_uint_or_null(item, "freed", known == GP_KNOWN, gauge->freed);
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
  gp_json_add_uint(use, "in_pools", device->in_pools);
  gp_json_add_uint(use, "unaccounted", device->unaccounted);
}

static void add_then(cJSON *item, const gp_summary_device_t *device)
{
  const gp_memory_t *then = &device->then;
  if (!device->has_then) {
    cJSON_AddNullToObject(item, "then");
    return;
  }
  cJSON *object = cJSON_AddObjectToObject(item, "then");
  gp_json_add_uint(object, "requested", then->requested);
  gp_json_add_uint(object, "allocated", then->allocated);
  gp_json_add_uint(object, "deferred", then->deferred);
  gp_json_add_uint_or_null(object, "reserved", device->knows_reserved, then->reserved);
  gp_json_add_uint(object, "passthrough", then->forwarded);
  gp_json_add_uint(object, "count", then->count);
  gp_json_add_uint_or_null(object, "segment_count", device->knows_reserved, device->then_segments);
  gp_json_add_uint_or_null(object, "largest_hole", device->knows_reserved, device->then_hole);
}

static void add_device(cJSON *list, const gp_snapshot_t *snapshot, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  cJSON *item = gp_json_add_item(list);
  gp_json_add_uint(item, "device", (uint64_t)device->device->device);
  gp_json_add_uint_or_null(item, "limit", device->device->limit > 0, device->device->limit);
  add_use(item, device->device);
  add_then(item, device);
  cJSON *numbers = cJSON_AddObjectToObject(item, "stats");
#define KNOWN(name)        gp_stats_known(snapshot, device->device, offsetof(gp_stats_t, name))
#define GAUGE(name, ...)   add_gauge(numbers, #name, &stats->name, KNOWN(name));
#define COUNTER(name, ...) gp_json_add_uint_or_null(numbers, #name, KNOWN(name) == GP_KNOWN, stats->name);
#include "format/stats.def"
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
    cJSON *group = gp_json_add_item(groups);
    gp_json_add_uint(group, "requested_size", device->groups[i].requested);
    gp_json_add_uint(group, "count", device->groups[i].count);
    gp_json_add_uint(group, "bytes", device->groups[i].bytes);
  }
  gp_component_json(&device->components, item);
}

/* Adds when memory ran out, and everything known about the event described. */
static void add_asker(cJSON *item, const gp_snapshot_t *snapshot, const gp_oom_event_t *event)
{
  gp_oom_asker_t asker;

  gp_oom_asker_find(snapshot, event, &asker);
  gp_json_add_text_or_null(item, "asked_by", asker.by);
  gp_json_add_text_or_null(item, "asked_from", asker.from);
}

static void add_ooms(cJSON *object, const gp_summary_t *summary)
{
  cJSON *list = cJSON_AddArrayToObject(object, "ooms");
  for (size_t i = 0; i < summary->ooms.count; i++) {
    const gp_oom_event_t *event = &summary->ooms.events[i];
    cJSON *item = gp_json_add_item(list);
    gp_json_add_uint(item, "oom", i + 1);
    gp_json_add_int(item, "device", event->device);
    gp_json_add_uint_or_null(item, "event", event->has_event, event->has_event ? event->moment - 1 : 0);
    gp_json_add_uint(item, "time_ns", event->time_ns);
    gp_json_add_uint(item, "requested", event->requested);
    cJSON_AddBoolToObject(item, "reported", event->is_reported);
    cJSON_AddBoolToObject(item, "allocated_later", event->allocated_later);
    cJSON_AddBoolToObject(item, "got_as_much", event->got_as_much);
    add_asker(item, summary->snapshot, event);
  }
  const gp_oom_moment_t *oom = &summary->oom;
  if (!summary->has_oom) {
    cJSON_AddNullToObject(object, "described_oom");
    return;
  }
  cJSON *item = cJSON_AddObjectToObject(object, "described_oom");
  gp_json_add_uint(item, "oom", oom->number);
  gp_json_add_uint(item, "live", oom->live);
  gp_json_add_uint(item, "pending_free", oom->pending);
  gp_json_add_uint_or_null(item, "cached", oom->knows_cached, oom->cached);
  gp_json_add_uint_or_null(item, "usable", oom->knows_cached, oom->usable);
  gp_json_add_uint(item, "passthrough", oom->unpooled);
  gp_json_add_uint_or_null(item, "largest_hole", oom->knows_cached, oom->largest_hole);
  gp_json_add_uint_or_null(item, "limit", oom->limit > 0, oom->limit);
  cJSON_AddBoolToObject(item, "by_limit", oom->is_by_limit);
  gp_json_add_uint_or_null(item, "device_free", oom->knows_free, oom->device_free);
  gp_json_add_uint_or_null(item, "device_total", oom->device_total > 0, oom->device_total);
  cJSON *sizes = cJSON_AddArrayToObject(item, "sizes");
  for (int i = 0; i < GP_OOM_SIZES && oom->sizes[i].count; i++) {
    cJSON *size = gp_json_add_item(sizes);
    gp_json_add_uint(size, "requested_size", oom->sizes[i].size);
    gp_json_add_uint(size, "count", oom->sizes[i].count);
  }
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
    cJSON *item = cJSON_AddObjectToObject(actions, action->name);
    gp_json_add_uint(item, "count", action->count);
    gp_json_add_uint(item, "driver_calls", action->driver_calls);
    gp_json_add_uint(item, "driver_ns", action->driver_ns);
    gp_json_add_uint(item, "longest_ns", action->longest_ns);
  }
  cJSON *details = cJSON_AddArrayToObject(events, "details");
  for (size_t i = 0; i < summary->detail_count; i++) {
    cJSON *item = gp_json_add_item(details);
    cJSON_AddStringToObject(item, "action", summary->details[i].action);
    cJSON_AddStringToObject(item, "detail", summary->details[i].detail);
    gp_json_add_uint(item, "count", summary->details[i].count);
  }
}

static void add_stack(cJSON *object, const char *name, const gp_snapshot_t *snapshot, int stack)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  char frame[1024];
  if (stack < 0) {
    cJSON_AddNullToObject(object, name);
    return;
  }
  cJSON *list = cJSON_AddArrayToObject(object, name);
  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++)
    cJSON_AddItemToArray(list,
        cJSON_CreateString(gp_frame_describe(snapshot, stacks->frame_indexes[k], frame, sizeof(frame))));
}

static void add_double_frees(cJSON *object, const gp_summary_t *summary)
{
  gp_double_frees_t frees;
  gp_double_frees_find(summary->snapshot, summary->filter, &frees);
  gp_json_add_uint(object, "double_free_count", frees.total);
  cJSON *list = cJSON_AddArrayToObject(object, "double_frees");
  for (size_t i = 0; i < frees.count; i++) {
    const gp_double_free_t *found = &frees.frees[i];
    cJSON *item = gp_json_add_item(list);
    gp_json_add_int(item, "device", found->device);
    gp_json_add_uint(item, "address", found->address);
    gp_json_add_uint(item, "size", found->requested);
    gp_json_add_uint_or_null(item, "first_ns", found->has_first, found->first_ns);
    gp_json_add_uint(item, "second_ns", found->second_ns);
    add_stack(item, "alloc_stack", summary->snapshot, found->alloc_stack);
    add_stack(item, "first_stack", summary->snapshot, found->first_stack);
    add_stack(item, "second_stack", summary->snapshot, found->second_stack);
  }
}

static void add_phases(cJSON *object, const gp_summary_t *summary)
{
  cJSON *list = cJSON_AddArrayToObject(object, "phases");
  for (size_t i = 0; i < summary->phases.count; i++) {
    const gp_phase_row_t *row = &summary->phases.rows[i];
    cJSON *item = gp_json_add_item(list);
    cJSON_AddStringToObject(item, "name", row->name);
    gp_json_add_uint(item, "times", row->times);
    gp_json_add_uint(item, "peak", row->peak);
    gp_json_add_uint(item, "left", row->left);
    gp_json_add_uint(item, "ends", row->ends);
    gp_json_add_uint_or_null(item, "first_end", row->ends > 0, row->first_end);
    gp_json_add_uint_or_null(item, "last_end", row->ends > 0, row->last_end);
    gp_json_add_uint_or_null(item, "most_end", row->ends > 0, row->most_end);
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
  cJSON_AddBoolToObject(object, "has_times", !snapshot->times_are_numbers);
  gp_json_add_uint(object, "until_ns", summary->until_ns);
  gp_json_add_uint(object, "recorded_since_ns", snapshot->recorded_since_ns);
  gp_json_add_uint(object, "dropped_events", snapshot->dropped_events);
  cJSON_AddBoolToObject(object, "partial", summary->is_partial);
  cJSON *missing = cJSON_AddArrayToObject(object, "missing");
  for (size_t i = 0; i < snapshot->note_count; i++)
    cJSON_AddItemToArray(missing, cJSON_CreateString(snapshot->notes[i]));
  gp_json_add_moment(object, "at", &summary->moments, &summary->lifetimes);
  add_findings(object, findings);
  add_growth(object, summary);
  gp_json_add_owners(object, &findings->owners, summary->snapshot);
  cJSON *devices = cJSON_AddArrayToObject(object, "devices");
  for (size_t i = 0; i < summary->device_count; i++)
    add_device(devices, snapshot, &summary->devices[i]);
  add_double_frees(object, summary);
  add_phases(object, summary);
  add_events(object, summary);
  add_copy(object, "streams", snapshot->root);
  add_copy(object, "threads", snapshot->root);
  add_copy(object, "oom", snapshot->root);
  add_ooms(object, summary);
}
