/*
 * Builds the summary in JSON. If an allocation fails, the member is missing, and the caller's print fails.
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
#include "tools/symbols/frame_parts.h"

/* Adds a copy of a member. Adds null if the member is missing or is not of that kind (cJSON_String, ...). */
static void add_copy(cJSON *object, const char *name, const cJSON *from, int kind)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, name);
  cJSON *copy = item && (item->type & 0xff) == kind ? cJSON_Duplicate(item, true) : NULL;
  if (copy)
    cJSON_AddItemToObject(object, name, copy);
  else
    cJSON_AddNullToObject(object, name);
}

/* Like add_copy, but for a list or object whose members must all be texts. */
static void add_texts(cJSON *object, const char *name, const cJSON *from, int kind)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(from, name), *item;
  bool is_good = true;
  cJSON_ArrayForEach(item, list)
  {
    is_good = is_good && cJSON_IsString(item);
  }
  add_copy(object, name, is_good ? from : NULL, kind);
}

static void add_number(cJSON *object, const char *name, const cJSON *from)
{
  uint64_t number;
  bool known = gp_snapshot_uint(from, name, &number) == 1;
  gp_json_add_uint_or_null(object, name, known, known ? number : 0);
}

static void add_process(cJSON *object, const cJSON *from)
{
  GP_JSON_SHAPE(process);
  GP_PUT_BY(add_copy, object, "program", text_or_null, "path of the program", from, cJSON_String);
  GP_PUT_BY(add_texts, object, "command_line", texts_or_null, "its arguments, the program first", from,
      cJSON_Array);
  GP_PUT_BY(add_number, object, "pid", uint_or_null, "process id, in its own PID namespace", from);
  GP_PUT_BY(add_copy, object, "host", text_or_null, "name of the machine", from, cJSON_String);
  GP_PUT_BY(add_number, object, "rank", uint_or_null, "rank of the process in its job", from);
  GP_PUT_BY(add_copy, object, "library_version", text_or_null, "version of gpupool that recorded it", from,
      cJSON_String);
  GP_PUT_BY(add_number, object, "start_time_us", uint_or_null,
      "when recording began, microseconds since 1970", from);
  GP_PUT_BY(
      add_number, object, "driver_version", uint_or_null, "CUDA version of the driver: 13000 is 13.0", from);
  GP_PUT_BY(add_number, object, "runtime_version", uint_or_null, "CUDA version of the runtime", from);
  GP_PUT_BY(add_texts, object, "environment", map_of_text_or_null,
      "environment variables that select devices or limit their memory", from, cJSON_Object);
}

static void add_remedy(cJSON *object, const gp_remedy_t *from)
{
  GP_JSON_SHAPE(remedy);
  cJSON *settings =
      GP_PUT_MAP(object, "settings", text, "environment variables to set, by name; empty: none helps");
  for (size_t i = 0; i < from->setting_count; i++)
    cJSON_AddStringToObject(settings, from->settings[i].name, from->settings[i].value);
  GP_PUT_CHOICE_OR_NULL(object, "action", "synchronize|free", from->action,
      "what the program should do: synchronize the device before the allocation or now and then; free some of what the function `owner` allocated");
  GP_PUT_TEXT_OR_NULL(object, "owner", from->owner, "with the action `free`: the function");
}

static void add_finding(cJSON *object, const gp_finding_t *finding)
{
  GP_JSON_SHAPE(finding);
  GP_PUT_CHOICE(object, "severity", "good|note|warning|error", gp_severity_name(finding->severity),
      "how much it matters");
  GP_PUT_TEXT(object, "code", finding->code, "which finding it is ([doc/findings.md](../doc/findings.md))");
  GP_PUT_DEVICE_OR_NULL(object, "device", finding->device >= 0, finding->device,
      "the device it is about; null: none in particular");
  GP_PUT_TEXT(object, "message", finding->text, "the finding as a sentence, whose wording may change");
  GP_PUT_TEXT_OR_NULL(object, "advice", finding->advice,
      "what to try, or where to look; null: nothing follows from the figures");
  cJSON *remedy = GP_PUT_OBJECT_OR_NULL(object, "remedy", !gp_remedy_is_empty(&finding->remedy), remedy,
      "the advice for programs; null: the advice is only a hint");
  if (remedy)
    add_remedy(remedy, &finding->remedy);
}

static void add_grower(cJSON *object, const gp_summary_t *summary, const gp_grower_t *grower)
{
  const gp_growth_room_t *room = gp_growth_room(&summary->growth, grower->device);
  gp_owner_text_t text;
  bool has_owner = gp_stack_owner_text(summary->snapshot, grower->stack, &text);

  GP_JSON_SHAPE(grower);
  GP_PUT_DEVICE(object, "device", grower->device, "ordinal of the device");
  GP_PUT_TEXT_OR_NULL(object, "owner", has_owner ? text.function : "",
      "the function that allocates; of a script without frames its command, such as `python3 train.py`; null without stacks: then it is blocks of about one size");
  GP_PUT_TEXT_OR_NULL(object, "through", has_owner ? text.through : "", "the helper function that it calls");
  GP_PUT_TEXT_OR_NULL(object, "file", has_owner ? text.file : "", "source file of the owner");
  GP_PUT_UINT_OR_NULL(
      object, "line", has_owner && text.line > 0, has_owner ? (uint64_t)text.line : 0, "line in that file");
  GP_PUT_UINT(object, "bytes", grower->bytes, "what it has allocated and not freed at the end");
  GP_PUT_UINT(object, "bytes_before", grower->bytes_before, "the same when the growth began");
  GP_PUT_SHAPE(holding, gp_json_add_holding(object, &grower->holding, summary->snapshot));
  GP_PUT_UINT(object, "since_ns", grower->since_ns, "when the growth began");
  GP_PUT_UINT(object, "until_ns", grower->until_ns, "when the device's last allocation was made");
  GP_PUT_UINT_OR_NULL(object, "bytes_per_second", grower->bytes_per_ns > 0,
      (uint64_t)(grower->bytes_per_ns < 9e9 ? grower->bytes_per_ns * 1e9 : 9e18),
      "how fast it grows; null: the events have no times");
  GP_PUT_UINT_OR_NULL(object, "room", room && room->is_known, room ? room->bytes : 0,
      "bytes left at the end, of the limit or of the device");
  GP_PUT_UINT_OR_NULL(object, "exhausted_in_ns", room && room->exhausted_ns > 0,
      room ? room->exhausted_ns : 0,
      "when the room will be used up, at the rate of all growth on the device; null: not known, or memory has run out already");
}

static void add_gauge(cJSON *object, const gp_gauge_t *gauge, gp_known_t known)
{
  GP_JSON_SHAPE(gauge);
  GP_PUT_UINT_OR_NULL(object, "current", known != GP_KNOWN_NOT, gauge->current, "the value at the end");
  GP_PUT_UINT_OR_NULL(object, "peak", known == GP_KNOWN, gauge->peak, "the highest value");
  GP_PUT_UINT_OR_NULL(object, "allocated", known == GP_KNOWN, gauge->allocated, "the sum of all increases");
  GP_PUT_UINT_OR_NULL(object, "freed", known == GP_KNOWN, gauge->freed, "the sum of all decreases");
}

/* scripts/make-reports.py reads the statistics' names from format/stats.def. */
static void add_stats(cJSON *object, const gp_snapshot_t *snapshot, const gp_snapshot_device_t *device)
{
#define KNOWN(name)      gp_stats_known(snapshot, device, offsetof(gp_stats_t, name))
#define GAUGE(name, ...) add_gauge(cJSON_AddObjectToObject(object, #name), &device->stats.name, KNOWN(name));
#define COUNTER(name, ...)                                                                                   \
  gp_json_add_uint_or_null(object, #name, KNOWN(name) == GP_KNOWN, device->stats.name);
#include "format/stats.def"
#undef KNOWN
  GP_JSON_SHAPE(stats);
  GP_PUT_NUMBER(object, "cache_hit_rate", device->cache_hit_rate, "hits as a share of hits and misses");
  GP_PUT_NUMBER(object, "efficiency", device->efficiency, "requested bytes as a share of reserved ones");
  GP_PUT_NUMBER(object, "fragmentation", device->fragmentation,
      "share of the idle memory that is not in the largest idle block");
}

static void add_use(cJSON *object, const gp_snapshot_device_t *device)
{
  GP_JSON_SHAPE(use);
  GP_PUT_UINT(object, "time_ns", device->use_ns, "when the library asked the driver");
  GP_PUT_UINT(object, "total", device->total, "memory of the device");
  GP_PUT_UINT(object, "free", device->free, "what of it is free");
  GP_PUT_UINT(
      object, "in_pools", device->in_pools, "reserved by pools of the driver beyond what is allocated there");
  GP_PUT_UINT(object, "unaccounted", device->unaccounted,
      "in use but not allocated by the program: contexts, modules, other processes");
}

static void add_then(cJSON *object, const gp_summary_device_t *device)
{
  const gp_memory_t *then = &device->then;
  GP_JSON_SHAPE(then);
  GP_PUT_UINT(object, "requested", then->requested, "bytes requested and not freed");
  GP_PUT_UINT(object, "allocated", then->allocated, "the same, rounded up");
  GP_PUT_UINT(object, "deferred", then->deferred, "freed, but perhaps still in use by the device");
  GP_PUT_UINT_OR_NULL(object, "reserved", device->knows_reserved, then->reserved, "reserved from the driver");
  GP_PUT_UINT(object, "passthrough", then->forwarded, "forwarded memory");
  GP_PUT_UINT(object, "count", then->count, "allocated blocks");
  GP_PUT_UINT_OR_NULL(object, "segment_count", device->knows_reserved, device->then_segments, "segments");
  GP_PUT_UINT_OR_NULL(
      object, "largest_hole", device->knows_reserved, device->then_hole, "the largest idle block");
}

static void add_group(cJSON *object, const gp_summary_group_t *group)
{
  GP_JSON_SHAPE(size_group);
  GP_PUT_UINT(object, "requested_size", group->requested, "bytes requested for each block");
  GP_PUT_UINT(object, "count", group->count, "how many blocks");
  GP_PUT_UINT(object, "bytes", group->bytes, "their sum, rounded up");
}

static void add_device(cJSON *object, const gp_snapshot_t *snapshot, const gp_summary_device_t *summary)
{
  const gp_snapshot_device_t *device = summary->device;

  GP_JSON_SHAPE(summary_device);
  GP_PUT_DEVICE(object, "device", device->device, "ordinal of the device");
  GP_PUT_UINT_OR_NULL(object, "limit", device->limit > 0, device->limit, "`GPUPOOL_LIMIT`; null: none");
  cJSON *use = GP_PUT_OBJECT_OR_NULL(
      object, "use", device->total > 0, use, "the whole device, as the driver reports it");
  if (use)
    add_use(use, device);
  cJSON *then = GP_PUT_OBJECT_OR_NULL(object, "then", summary->has_then, then,
      "the figures at the moment `at`; null: that is the end, or concerns another device");
  if (then)
    add_then(then, summary);
  add_stats(GP_PUT_OBJECT(object, "stats", stats,
                "statistics of the whole device; null in it: PyTorch did not record it"),
      snapshot, device);
  GP_PUT_AMOUNT(
      object, "live", summary->live_bytes, summary->live_count, "blocks that are allocated, rounded up");
  GP_PUT_AMOUNT(object, "pending_free", summary->pending_bytes, summary->pending_count,
      "blocks that were freed but may still be in use");
  GP_PUT_AMOUNT(object, "idle", summary->idle_bytes, summary->idle_count, "blocks that are cached");
  GP_PUT_UINT(object, "largest_idle", summary->largest_idle, "bytes of the largest of these");
  GP_PUT_UINT(object, "live_sizes", summary->size_count,
      "how many different sizes were requested for allocated blocks");
  cJSON *groups =
      GP_PUT_LIST(object, "biggest_live", size_group, "up to ten of those sizes, the largest sum first");
  for (size_t i = 0; i < summary->group_count; i++)
    add_group(gp_json_add_item(groups), &summary->groups[i]);
  GP_PUT_SHAPE(components, gp_component_json(&summary->components, object));
}

static void add_oom(cJSON *object, const gp_snapshot_t *snapshot, const gp_oom_event_t *event, size_t number)
{
  gp_oom_asker_t asker;

  gp_oom_asker_find(snapshot, event, &asker);
  GP_JSON_SHAPE(oom_event);
  GP_PUT_UINT(object, "oom", number, "N of `--at oom=N`");
  GP_PUT_DEVICE(object, "device", event->device, "ordinal of the device");
  GP_PUT_UINT_OR_NULL(object, "event", event->has_event, event->has_event ? event->moment - 1 : 0,
      "number of the event; null: it is not among the recorded ones");
  GP_PUT_UINT(object, "time_ns", event->time_ns, "when");
  GP_PUT_UINT(object, "requested", event->requested, "bytes of the request that was refused");
  GP_PUT_BOOL(object, "reported", event->is_reported, "`oom` of the snapshot describes this one");
  GP_PUT_BOOL(
      object, "allocated_later", event->allocated_later, "the program allocated on that device afterwards");
  GP_PUT_BOOL(object, "got_as_much", event->got_as_much, "and at least as much at once");
  GP_PUT_TEXT_OR_NULL(object, "asked_by", asker.by, "function and line of the request");
  GP_PUT_TEXT_OR_NULL(object, "asked_from", asker.from, "the program's function that called it");
}

static void add_described_oom(cJSON *object, const gp_oom_moment_t *oom)
{
  GP_JSON_SHAPE(described_oom);
  GP_PUT_UINT(object, "oom", oom->number, "which of `ooms` it is");
  GP_PUT_UINT(object, "live", oom->figures.live, "bytes allocated on that device then, rounded up");
  GP_PUT_UINT(object, "pending_free", oom->figures.deferred, "freed, but perhaps still in use");
  GP_PUT_UINT_OR_NULL(object, "cached", oom->knows_cached, oom->figures.cached, "idle");
  GP_PUT_UINT_OR_NULL(object, "usable", oom->knows_cached, oom->usable,
      "the part of `cached` that can serve the request: under PyTorch where stream, pool and size fit");
  GP_PUT_UINT(object, "passthrough", oom->figures.passthrough, "forwarded memory");
  GP_PUT_UINT_OR_NULL(object, "largest_hole", oom->knows_cached, oom->figures.largest_free,
      "the largest idle block of `usable`");
  GP_PUT_UINT_OR_NULL(object, "limit", oom->figures.limit > 0, oom->figures.limit, "the limit; null: none");
  GP_PUT_BOOL(object, "by_limit", oom->figures.by_limit, "the limit refused the request, not the driver");
  GP_PUT_UINT_OR_NULL(
      object, "device_free", oom->knows_free, oom->figures.device_free, "free memory of the device");
  GP_PUT_UINT_OR_NULL(object, "device_total", oom->figures.device_total > 0, oom->figures.device_total,
      "memory of the device");
  cJSON *sizes = GP_PUT_LIST(
      object, "sizes", size_count, "the three sizes with the largest sums among allocated blocks");
  for (int i = 0; i < GP_OOM_OWNERS && oom->figures.owners[i].count; i++) {
    cJSON *size = gp_json_add_item(sizes);
    GP_JSON_SHAPE(size_count);
    GP_PUT_UINT(size, "requested_size", oom->figures.owners[i].size, "bytes requested for each block");
    GP_PUT_UINT(size, "count", oom->figures.owners[i].count, "how many blocks");
  }
}

static void add_events(cJSON *object, const gp_summary_t *summary)
{
  GP_JSON_SHAPE(events);
  GP_PUT_UINT(object, "count", summary->event_count, "recorded events");
  GP_PUT_UINT_OR_NULL(object, "first_ns", summary->event_count > 0, summary->first_ns, "time of the first");
  GP_PUT_UINT_OR_NULL(object, "last_ns", summary->event_count > 0, summary->last_ns, "time of the last");
  GP_PUT_UINT(object, "driver_calls", summary->driver_calls,
      "calls of the driver: events with a duration, the two of a miss counted as one call");
  GP_PUT_UINT(object, "driver_ns", summary->driver_ns, "the time they took");
  cJSON *actions = GP_PUT_MAP(object, "actions", action, "the same by kind of event");
  for (size_t i = 0; i < summary->action_count; i++) {
    const gp_summary_action_t *action = &summary->actions[i];
    cJSON *item = cJSON_AddObjectToObject(actions, action->name);
    GP_JSON_SHAPE(action);
    GP_PUT_UINT(item, "count", action->count, "events of that kind");
    GP_PUT_UINT(item, "driver_calls", action->driver_calls, "those with a call of the driver");
    GP_PUT_UINT(item, "driver_ns", action->driver_ns, "the time of these calls");
    GP_PUT_UINT(item, "longest_ns", action->longest_ns, "the longest of them");
  }
  GP_JSON_SHAPE(events);
  cJSON *details = GP_PUT_LIST(object, "details", detail, "how often a kind of event had a detail");
  for (size_t i = 0; i < summary->detail_count; i++) {
    cJSON *item = gp_json_add_item(details);
    GP_JSON_SHAPE(detail);
    GP_PUT_TEXT(item, "action", summary->details[i].action, "kind of the events");
    GP_PUT_TEXT(item, "detail", summary->details[i].detail, "the detail");
    GP_PUT_UINT(item, "count", summary->details[i].count, "how many have it");
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

static void add_double_free(cJSON *object, const gp_snapshot_t *snapshot, const gp_double_free_t *found)
{
  GP_JSON_SHAPE(double_free);
  GP_PUT_DEVICE(object, "device", found->device, "ordinal of the device");
  GP_PUT_UINT(object, "address", found->address, "the address that was freed again");
  GP_PUT_UINT(object, "size", found->requested, "bytes requested; 0: no block is known to begin there");
  GP_PUT_UINT_OR_NULL(object, "first_ns", found->has_first, found->first_ns,
      "when the free that succeeded was; null: before the recorded events");
  GP_PUT_UINT(object, "second_ns", found->second_ns, "when it was freed again");
  GP_PUT_BY(add_stack, object, "alloc_stack", texts_or_null, "frames of the allocation, the innermost first",
      snapshot, found->alloc_stack);
  GP_PUT_BY(add_stack, object, "first_stack", texts_or_null,
      "frames of the free that succeeded, with `GPUPOOL_STACKS_FREE=1`", snapshot, found->first_stack);
  GP_PUT_BY(add_stack, object, "second_stack", texts_or_null, "frames of the free that was refused", snapshot,
      found->second_stack);
}

static void add_phase(cJSON *object, const gp_phase_row_t *row)
{
  GP_JSON_SHAPE(phase);
  GP_PUT_TEXT(object, "name", row->name, "name of the NVTX range or annotation");
  GP_PUT_UINT(object, "times", row->times, "how often it began");
  GP_PUT_UINT(object, "peak", row->peak,
      "the most bytes that were allocated, on all devices together, while a thread was in it");
  GP_PUT_UINT(object, "left", row->left, "bytes allocated in it that are not freed at `at`");
  GP_PUT_UINT(object, "ends", row->ends, "how often it ended while events were recorded");
  GP_PUT_UINT_OR_NULL(
      object, "first_end", row->ends > 0, row->first_end, "bytes allocated when it ended first");
  GP_PUT_UINT_OR_NULL(object, "last_end", row->ends > 0, row->last_end, "bytes allocated when it ended last");
  GP_PUT_UINT_OR_NULL(
      object, "most_end", row->ends > 0, row->most_end, "the most bytes allocated at any of its ends");
}

void gp_summary_json(const gp_findings_t *findings, cJSON *object)
{
  const gp_summary_t *summary = findings->summary;
  const gp_snapshot_t *snapshot = summary->snapshot;
  const cJSON *root = snapshot->root;
  gp_double_frees_t frees;

  GP_JSON_SHAPE(summary_snapshot);
  GP_PUT_SHAPE(snapshot, gp_report_json_file(object, summary->file, snapshot));
  GP_PUT_BY(
      add_copy, object, "reason", text_or_null, "why the snapshot was written, as there", root, cJSON_String);
  add_process(GP_PUT_OBJECT(object, "process", process, "the program; null in it: not known"),
      cJSON_GetObjectItemCaseSensitive(root, "process"));
  GP_PUT_BY(add_copy, object, "settings", any_object_or_null,
      "as in the snapshot ([FORMAT.md](../trace/FORMAT.md))", root, cJSON_Object);
  GP_PUT_UINT(object, "until_ns", summary->until_ns, "the latest moment that the snapshot knows");
  GP_PUT_UINT(object, "recorded_since_ns", snapshot->recorded_since_ns, "events before it are not recorded");
  GP_PUT_UINT(object, "dropped_events", snapshot->dropped_events, "events that were lost");
  GP_PUT_BOOL(object, "partial", summary->is_partial, "something is missing; `--strict` then exits with 4");
  cJSON *missing =
      GP_PUT_LIST(object, "missing", text, "what the file lacks besides lost events, a sentence each");
  for (size_t i = 0; i < snapshot->note_count; i++)
    cJSON_AddItemToArray(missing, cJSON_CreateString(snapshot->notes[i]));
  GP_PUT_BY(gp_json_add_moment, object, "at", moment,
      "the moment that the summary is about: that of `--at`; else when memory ran out, if the program did not get as much of that device later; else the end",
      &summary->moments, &summary->lifetimes);
  cJSON *list = GP_PUT_LIST(
      object, "findings", finding, "what the figures mean: good news first, then the worst first");
  for (size_t i = 0; i < findings->count; i++)
    add_finding(gp_json_add_item(list), &findings->items[i]);
  list = GP_PUT_LIST(object, "growth", grower,
      "what grows ([doc/growth.md](../doc/growth.md)): up to three of a device, the largest growth first");
  for (size_t i = 0; i < summary->growth.count; i++)
    add_grower(gp_json_add_item(list), summary, &summary->growth.growers[i]);
  GP_PUT_BY(gp_json_add_owners, object, "owners", owner[],
      "up to three functions, which the finding `owners` names", &findings->owners, snapshot);
  list = GP_PUT_LIST(object, "devices", summary_device, "each device, or that of `--device`");
  for (size_t i = 0; i < summary->device_count; i++)
    add_device(gp_json_add_item(list), snapshot, &summary->devices[i]);
  gp_double_frees_find(snapshot, summary->filter, &frees);
  GP_PUT_UINT(object, "double_free_count", frees.total, "how often memory was freed again");
  list = GP_PUT_LIST(object, "double_frees", double_free, "the first 16 of these");
  for (size_t i = 0; i < frees.count; i++)
    add_double_free(gp_json_add_item(list), snapshot, &frees.frees[i]);
  list = GP_PUT_LIST(
      object, "phases", phase, "in the order in which they first begin ([doc/phases.md](../doc/phases.md))");
  for (size_t i = 0; i < summary->phases.count; i++)
    add_phase(gp_json_add_item(list), &summary->phases.rows[i]);
  add_events(GP_PUT_OBJECT(object, "events", events, "with `--device` those of that device only"), summary);
  GP_PUT_BY(add_copy, object, "streams", any_list_or_null, "as in the snapshot", root, cJSON_Array);
  GP_PUT_BY(add_copy, object, "threads", any_list_or_null, "as in the snapshot", root, cJSON_Array);
  GP_PUT_BY(add_copy, object, "oom", any_object_or_null, "as in the snapshot", root, cJSON_Object);
  list = GP_PUT_LIST(object, "ooms", oom_event, "each time that memory ran out");
  for (size_t i = 0; i < summary->ooms.count; i++)
    add_oom(gp_json_add_item(list), snapshot, &summary->ooms.events[i], i + 1);
  cJSON *oom = GP_PUT_OBJECT_OR_NULL(object, "described_oom", summary->has_oom, described_oom,
      "the one that the findings describe, and the memory of its device then");
  if (oom)
    add_described_oom(oom, &summary->oom);
}
