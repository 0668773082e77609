#include "tools/model/oom_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/array.h"
#include "tools/symbols/frame_parts.h"

bool gp_oom_report_read(const gp_snapshot_t *snapshot, const char *key, gp_oom_t *ret_oom)
{
  const cJSON *report = cJSON_GetObjectItemCaseSensitive(snapshot->root, key);
  const struct {
    const char *name;
    uint64_t *number;
  } figures[] = {
#define FIGURE(member) {#member, &ret_oom->member}
      FIGURE(time_ns), FIGURE(requested), FIGURE(live), FIGURE(deferred), FIGURE(cached), FIGURE(in_pieces),
      FIGURE(passthrough), FIGURE(limit), FIGURE(device_free), FIGURE(device_total), FIGURE(unaccounted),
      FIGURE(largest_free), FIGURE(waited_ns), FIGURE(busy_ns), FIGURE(busy_context)
#undef FIGURE
  };
  uint64_t device;
  bool by_limit = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(report, "by_limit"));
  bool is_there = gp_snapshot_uint(report, "device", &device) == 1 && device < GP_SNAPSHOT_DEVICES;

  ret_oom->by_limit = by_limit ? GP_OOM_BY_LIMIT : GP_OOM_BY_DRIVER;
  ret_oom->device = is_there ? (int32_t)device : ret_oom->device;
  for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
    (void)gp_snapshot_uint(report, figures[i].name, figures[i].number);
  return is_there;
}

/* What the program allocated on each device from some event to the end: if anything, and the largest size. */
typedef struct got {
  bool any[GP_SNAPSHOT_DEVICES];
  uint64_t largest[GP_SNAPSHOT_DEVICES];
} got_t;

/* Lists the recorded out-of-memory events. Walks backwards to know what the program allocated after each
 * event. Returns 0 or ENOMEM. */
static int list_events(gp_oom_events_t *ooms, const gp_snapshot_events_t *events, got_t *got)
{
  for (size_t i = events->count; i-- > 0;) {
    gp_event_kind_t kind = gp_snapshot_event_kind(events, i);
    if (kind != GP_EVENT_ALLOC && kind != GP_EVENT_OOM)
      continue;
    int device = (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0);
    uint64_t size = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, i);
    if (device < 0)
      continue;
    if (kind == GP_EVENT_ALLOC) {
      got->any[device] = true;
      got->largest[device] = size > got->largest[device] ? size : got->largest[device];
      continue;
    }
    gp_oom_event_t *event = GP_ARRAY_ADD(ooms->events, ooms->count);
    if (!event)
      return ENOMEM;
    *event = (gp_oom_event_t){.device = device,
        .has_moment = true,
        .has_event = true,
        .allocated_later = got->any[device],
        .got_as_much = got->any[device] && got->largest[device] >= size,
        .moment = (uint32_t)i + 1,
        .time_ns = gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, i),
        .requested = size};
  }
  for (size_t i = 0; i < ooms->count / 2; i++) { /* reverse the list: oldest event first */
    gp_oom_event_t event = ooms->events[i];
    ooms->events[i] = ooms->events[ooms->count - 1 - i];
    ooms->events[ooms->count - 1 - i] = event;
  }
  return 0;
}

/* Returns the event that the report describes, or NULL. It is the event at the report's time, otherwise the
 * last event with the report's device and size. */
static gp_oom_event_t *find_reported(const gp_oom_events_t *ooms, const gp_oom_t *report)
{
  gp_oom_event_t *found = NULL;
  for (size_t i = 0; i < ooms->count; i++) {
    gp_oom_event_t *event = &ooms->events[i];
    if (event->device != report->device || event->requested != report->requested)
      continue;
    found = event;
    if (event->time_ns == report->time_ns)
      return event;
  }
  return found;
}

/* Adds an event for a report whose event was not recorded. The event is at the end if the snapshot was
 * written because memory ran out, otherwise before the recorded events. Returns 0 or ENOMEM. */
static int add_report(
    gp_oom_events_t *ooms, const gp_lifetimes_t *lifetimes, const gp_oom_t *report, const got_t *got)
{
  bool is_end = ooms->is_written_then;
  const gp_oom_event_t event = {.device = report->device,
      .has_moment = is_end,
      .is_reported = true,
      .allocated_later = !is_end && got->any[report->device],
      .got_as_much = !is_end && got->any[report->device] && got->largest[report->device] >= report->requested,
      .moment = is_end ? lifetimes->end : 0,
      .time_ns = report->time_ns == UINT64_MAX ? 0 : report->time_ns,
      .requested = report->requested};
  if (!GP_ARRAY_ADD(ooms->events, ooms->count))
    return ENOMEM;
  if (!is_end)
    memmove(&ooms->events[1], &ooms->events[0], (ooms->count - 1) * sizeof(event));
  ooms->events[is_end ? ooms->count - 1 : 0] = event;
  return 0;
}

int gp_oom_events_init(gp_oom_events_t *ooms, const gp_lifetimes_t *lifetimes)
{
  got_t got = {.any = {false}};
  gp_oom_t report = {.time_ns = UINT64_MAX};

  *ooms = (gp_oom_events_t){
      .is_written_then = strcmp(gp_snapshot_text(lifetimes->snapshot->root, "reason"), "oom") == 0};
  int error = list_events(ooms, &lifetimes->snapshot->events, &got);
  if (error || !gp_oom_report_read(lifetimes->snapshot, "oom", &report))
    return error;
  gp_oom_event_t *event = find_reported(ooms, &report);
  if (!event)
    return add_report(ooms, lifetimes, &report, &got);
  event->is_reported = true;
  return 0;
}

void gp_oom_events_fini(gp_oom_events_t *ooms)
{
  free(ooms->events);
  *ooms = (gp_oom_events_t){.count = 0};
}

size_t gp_oom_events_main(const gp_oom_events_t *ooms, int device)
{
  size_t last = SIZE_MAX, last_fatal = SIZE_MAX;
  for (size_t i = 0; i < ooms->count; i++) {
    const gp_oom_event_t *event = &ooms->events[i];
    if (device != GP_REQUEST_ALL_DEVICES && event->device != device)
      continue;
    if (event->is_reported && ooms->is_written_then)
      return i;
    last = i;
    last_fatal = event->allocated_later ? last_fatal : i;
  }
  gp_assert(last_fatal == SIZE_MAX || last_fatal <= last);
  return last_fatal != SIZE_MAX ? last_fatal : last;
}

static int stack_of(const gp_snapshot_t *snapshot, const gp_oom_event_t *event)
{
  return event->has_event ? (int)gp_snapshot_event(&snapshot->events, GP_COLUMN_STACK, event->moment - 1, -1)
                          : -1;
}

void gp_oom_asker_find(const gp_snapshot_t *snapshot, const gp_oom_event_t *event, gp_oom_asker_t *asker)
{
  gp_assert(!event->has_event || event->has_moment);
  int stack = stack_of(snapshot, event);
  gp_owner_text_t text;

  *asker = (gp_oom_asker_t){.stack = stack};
  if (!gp_stack_owner_text(snapshot, stack, &text))
    return;
  asker->language = text.language;
  text.language = NULL;
  gp_owner_describe(&text, asker->by, sizeof(asker->by));
  size_t caller = gp_stack_next_user(snapshot, stack, gp_stack_owner_place(snapshot, stack));
  if (caller != SIZE_MAX)
    gp_frame_describe(snapshot, snapshot->stacks.frame_indexes[caller], asker->from, sizeof(asker->from));
}
