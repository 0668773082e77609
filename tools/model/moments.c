#include "tools/model/moments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "tools/output.h"
#include "tools/tool.h"

#define WORDS_BYTES 96

static void set_moment(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, uint32_t moment)
{
  gp_assert(moment <= lifetimes->end);
  moments->is_end = moment >= lifetimes->end;
  moments->at = moment;
}

static void set_device(gp_moments_t *moments, int device)
{
  moments->is_of_one = true;
  moments->device = device;
}

/* Returns true if events have times. Without times, the file lists the events device after device, so there
 * is no common order. */
static bool has_times(const gp_lifetimes_t *lifetimes)
{
  return !lifetimes->snapshot->times_are_numbers;
}

static size_t count_devices(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter)
{
  size_t count = 0;
  for (size_t i = 0; i < lifetimes->snapshot->device_count; i++)
    count += gp_filter_has_device(filter, lifetimes->snapshot->devices[i].device);
  return count;
}

void gp_moments_end(gp_moments_t *moments, const gp_lifetimes_t *lifetimes)
{
  *moments = (gp_moments_t){.kind = GP_MOMENT_NONE};
  set_moment(moments, lifetimes, lifetimes->end);
}

/* Chooses the device with the largest peak, and the moment of that peak. */
static void find_largest(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter)
{
  const gp_snapshot_t *snapshot = lifetimes->snapshot;
  uint64_t bytes, most = 0;
  for (size_t i = 0; i < snapshot->device_count; i++) {
    int device = snapshot->devices[i].device;
    gp_assert(gp_filter_has_device(filter, device)); /* a caller with several devices selects all of them */
    uint32_t moment = gp_memory_peak(lifetimes, filter, device, &bytes);
    if (bytes <= most)
      continue;
    most = bytes;
    set_moment(moments, lifetimes, moment);
    set_device(moments, device);
  }
}

void gp_moments_peak(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter)
{
  uint64_t bytes;

  *moments = (gp_moments_t){.kind = GP_MOMENT_PEAK};
  set_moment(moments, lifetimes, gp_memory_peak(lifetimes, filter, GP_REQUEST_ALL_DEVICES, &bytes));
  if (count_devices(lifetimes, filter) > 1 && !has_times(lifetimes))
    find_largest(moments, lifetimes, filter);
}

void gp_moments_oom(
    gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_oom_event_t *event, size_t number)
{
  gp_assert(event->has_moment && number > 0);
  *moments = (gp_moments_t){.kind = GP_MOMENT_OOM, .oom = number};
  set_moment(moments, lifetimes, event->moment);
  set_device(moments, event->device);
}

static const char *plural(size_t count, char *buffer)
{
  return gp_number_plural(count, "out-of-memory event", buffer);
}

static int find_oom(gp_moments_t *moments, const gp_oom_events_t *ooms, const gp_lifetimes_t *lifetimes,
    const gp_filter_t *filter, const gp_request_t *request, const char *file)
{
  uint64_t number = request->at.number;
  char count[GP_NUMBER_BYTES], where[32] = "";

  if (number > ooms->count)
    return gp_message_usage(request->command, "%s: there %s %s; --at oom=%" PRIu64 " names none of them",
        file, ooms->count == 1 ? "is" : "are", ooms->count ? plural(ooms->count, count) : "none", number);
  size_t index = number ? (size_t)number - 1 : gp_oom_events_main(ooms, filter->device);
  if (filter->device != GP_REQUEST_ALL_DEVICES)
    snprintf(where, sizeof(where), " on device %d", filter->device);
  if (index == SIZE_MAX)
    return gp_message_usage(request->command, "%s: it has no out-of-memory event%s", file, where);
  const gp_oom_event_t *event = &ooms->events[index];
  if (!event->has_moment)
    return gp_message_usage(request->command,
        "%s: memory ran out before the first recorded event: what was allocated then is unknown", file);
  if (filter->device != GP_REQUEST_ALL_DEVICES && filter->device != event->device && !has_times(lifetimes))
    return gp_message_usage(request->command,
        "%s: its events have no times: what was allocated on device %d when memory ran out on device %d is unknown",
        file, filter->device, event->device);
  gp_moments_oom(moments, lifetimes, event, index + 1);
  moments->is_of_one =
      filter->device == GP_REQUEST_ALL_DEVICES; /* otherwise the filter already selects a single device */
  return 0;
}

static int find_time(
    gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_request_t *request, const char *file)
{
  uint64_t first_ns = lifetimes->snapshot->recorded_since_ns,
           last_ns = gp_memory_time(lifetimes, lifetimes->end);

  if (!has_times(lifetimes))
    return gp_message_usage(request->command,
        "%s: its events have no times; --at takes the number of an event, as in --at %" PRIu32, file,
        lifetimes->end ? lifetimes->end - 1 : 0);
  if (request->at.number < first_ns)
    return gp_message_usage(request->command, "%s: --at=%s is before the recorded events, which begin at %s",
        file, request->at.text, GP_AS_DURATION(first_ns));
  if (request->at.number > last_ns)
    return gp_message_usage(request->command,
        "%s: --at=%s is after the last event, at %s; --at exit shows what was allocated from then on", file,
        request->at.text, GP_AS_DURATION(last_ns));
  set_moment(moments, lifetimes, gp_memory_moment(lifetimes, request->at.number));
  return 0;
}

static int find_event(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_request_t *request, const char *file)
{
  uint64_t number = request->at.number;
  if (number >= lifetimes->end)
    return gp_message_usage(request->command,
        "%s: it has %s, numbered from 0; --at %" PRIu64 " names none of them", file,
        GP_AS_PLURAL(lifetimes->end, "event"), number);
  set_moment(moments, lifetimes, (uint32_t)number + 1);
  if (count_devices(lifetimes, filter) > 1 && !has_times(lifetimes))
    set_device(
        moments, (int)gp_snapshot_event(&lifetimes->snapshot->events, GP_COLUMN_DEVICE, (size_t)number, 0));
  return 0;
}

int gp_moments_find(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_request_t *request, const char *file)
{
  gp_oom_events_t ooms;
  int status = 0;

  gp_moments_end(moments, lifetimes);
  switch (request->at.kind) {
  case GP_MOMENT_NONE:
  case GP_MOMENT_EXIT: break;
  case GP_MOMENT_PEAK: gp_moments_peak(moments, lifetimes, filter); break;
  case GP_MOMENT_TIME: status = find_time(moments, lifetimes, request, file); break;
  case GP_MOMENT_EVENT: status = find_event(moments, lifetimes, filter, request, file); break;
  case GP_MOMENT_OOM:
    if (gp_oom_events_init(&ooms, lifetimes)) {
      gp_message("%s: %s", file, strerror(ENOMEM));
      status = GP_EXIT_INPUT;
    } else {
      status = find_oom(moments, &ooms, lifetimes, filter, request, file);
    }
    gp_oom_events_fini(&ooms);
    break;
  }
  moments->kind = request->at.kind;
  return status;
}

int gp_moments_device(const gp_moments_t *moments, const gp_filter_t *filter)
{
  return moments->is_of_one ? moments->device : filter->device;
}

void gp_moments_memory(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes,
    const gp_filter_t *filter, int device, gp_memory_t *ret_memory)
{
  *ret_memory = (gp_memory_t){0};
  if (moments->is_of_one && device == GP_REQUEST_ALL_DEVICES)
    device = moments->device;
  if (!moments->is_of_one || moments->device == device)
    gp_memory_held(lifetimes, filter, device, moments->at, moments->is_end, ret_memory);
}

bool gp_moments_time(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, uint64_t *ret_ns)
{
  *ret_ns = gp_memory_time(lifetimes, moments->at);
  return moments->at > 0;
}

char *gp_moments_describe(
    const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, char *buffer, size_t capacity)
{
  char device[32] = "", when[GP_NUMBER_BYTES], event[48], place[GP_NUMBER_BYTES + 64];
  bool is_cut = lifetimes->snapshot->recorded_since_ns > 0;
  uint32_t moment = moments->at;
  uint64_t time_ns;

  if (moments->is_of_one)
    snprintf(device, sizeof(device), " on device %d", moments->device);
  (void)gp_moments_time(moments, lifetimes, &time_ns);
  gp_number_duration(time_ns, when);
  snprintf(event, sizeof(event), "event %" PRIu32, moment ? moment - 1 : 0);
  snprintf(place, sizeof(place), "%s%s%s", has_times(lifetimes) ? when : "", has_times(lifetimes) ? ", " : "",
      event);
  switch (moments->kind) {
  case GP_MOMENT_PEAK:
    if (lifetimes->snapshot->lacks_history) {
      snprintf(buffer, capacity, "when the file was written");
      return buffer;
    }
    snprintf(buffer, capacity, "at the peak%s%s", is_cut ? " of what is recorded" : "", device);
    break;
  case GP_MOMENT_OOM: snprintf(buffer, capacity, "when memory ran out%s", device); break;
  case GP_MOMENT_TIME:
    snprintf(
        buffer, capacity, moment ? "at %s%s (%s)" : "at %s%s, before the first event", when, device, event);
    return buffer;
  case GP_MOMENT_EVENT:
    snprintf(buffer, capacity, has_times(lifetimes) ? "after %s%s (%s)" : "after %s%s", event, device, when);
    return buffer;
  case GP_MOMENT_NONE:
  case GP_MOMENT_EXIT: snprintf(buffer, capacity, "at the end"); return buffer;
  }
  size_t used = strlen(buffer);
  if (moment > 0)
    snprintf(buffer + used, capacity - used, " (%s)", place);
  return buffer;
}
