/*
 * Reads the devices of a snapshot and their statistics.
 */
#include <stdio.h>

#include "tools/read/native/snapshot_parts.h"

typedef struct device_parse {
  gp_snapshot_parse_t *parse;
  size_t offset; /* offset of "devices" in the input */
  int device;
} device_parse_t;

static bool read_number(
    const device_parse_t *at, const cJSON *object, const char *where, const char *name, uint64_t *ret_number)
{
  int got = gp_snapshot_uint(object, name, ret_number);
  if (got == 0)
    gp_snapshot_note(at->parse->snapshot, "device %d has no %s%s", at->device, where, name);
  if (got < 0)
    return gp_snapshot_fail(
        at->parse, at->offset, "%s%s of device %d is not a number from 0 to 2^53", where, name, at->device);
  return true;
}

static bool read_gauge(const device_parse_t *at, const cJSON *stats, const char *name, gp_gauge_t *gauge)
{
  const cJSON *object = cJSON_GetObjectItemCaseSensitive(stats, name);
  char where[64];
  if (!cJSON_IsObject(object))
    return gp_snapshot_fail(at->parse, at->offset, "%s of device %d is not an object", name, at->device);
  snprintf(where, sizeof(where), "%s.", name);
  return read_number(at, object, where, "current", &gauge->current) &&
         read_number(at, object, where, "peak", &gauge->peak) &&
         read_number(at, object, where, "allocated", &gauge->allocated) &&
         read_number(at, object, where, "freed", &gauge->freed);
}

static bool read_ratio(const device_parse_t *at, const cJSON *stats, const char *name, double *ret_ratio)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(stats, name);
  if (!item)
    return true;
  double ratio = cJSON_GetNumberValue(item);
  if (!cJSON_IsNumber(item) ||
      !(ratio >= 0 && ratio < 1e6)) /* efficiency exceeds 1 for memory outside the pool */
    return gp_snapshot_fail(at->parse, at->offset, "%s of device %d is not a ratio", name, at->device);
  *ret_ratio = ratio;
  return true;
}

static bool read_use(const device_parse_t *at, const cJSON *use, gp_snapshot_device_t *device)
{
  if (!use || cJSON_IsNull(use))
    return true;
  if (!cJSON_IsObject(use))
    return gp_snapshot_fail(at->parse, at->offset, "use of device %d is not an object", at->device);
  if (gp_snapshot_uint(use, "in_pools", &device->in_pools) < 0)
    return gp_snapshot_fail(
        at->parse, at->offset, "use.in_pools of device %d is not a number from 0 to 2^53", at->device);
  return read_number(at, use, "use.", "total", &device->total) &&
         read_number(at, use, "use.", "free", &device->free) &&
         read_number(at, use, "use.", "unaccounted", &device->unaccounted) &&
         read_number(at, use, "use.", "time_ns", &device->use_ns);
}

/* Returns true if the file contains the statistic; otherwise sets bit `row` of lacked_stats. Older versions
 * wrote fewer statistics. */
static bool has(const cJSON *stats, const char *name, gp_snapshot_device_t *device, size_t row)
{
  bool is_there = cJSON_GetObjectItemCaseSensitive(stats, name) != NULL;
  if (!is_there)
    device->lacked_stats |= UINT64_C(1) << row;
  return is_there;
}

bool gp_snapshot_read_device(gp_snapshot_parse_t *parse, size_t offset, const cJSON *item)
{
  gp_snapshot_t *snapshot = parse->snapshot;
  const cJSON *stats = cJSON_GetObjectItemCaseSensitive(item, "stats");
  uint64_t ordinal = 0;

  if (!cJSON_IsObject(item) || gp_snapshot_uint(item, "device", &ordinal) != 1 ||
      ordinal >= GP_SNAPSHOT_DEVICES)
    return gp_snapshot_fail(parse, offset, "devices: one without a possible ordinal");
  if (!cJSON_IsObject(stats))
    return gp_snapshot_fail(parse, offset, "device %u has no stats", (unsigned)ordinal);
  if (snapshot->device_count == GP_SNAPSHOT_DEVICES)
    return gp_snapshot_fail(parse, offset, "more devices than there can be");
  for (size_t i = 0; i < snapshot->device_count; i++) {
    if (snapshot->devices[i].device == (int)ordinal)
      return gp_snapshot_fail(parse, offset, "device %u appears twice", (unsigned)ordinal);
  }
  gp_snapshot_device_t *device = &snapshot->devices[snapshot->device_count++];
  const device_parse_t at = {parse, offset, (int)ordinal};
  device->device = (int)ordinal;
  if (gp_snapshot_uint(item, "limit", &device->limit) < 0)
    return gp_snapshot_fail(parse, offset, "limit of device %d is not a size", device->device);
  if (!read_use(&at, cJSON_GetObjectItemCaseSensitive(item, "use"), device))
    return false;
  size_t row = 0;
#define GAUGE(name, ...)                                                                                     \
  if (has(stats, #name, device, row++) && !read_gauge(&at, stats, #name, &device->stats.name))               \
    return false;
#define COUNTER(name, ...)                                                                                   \
  if (has(stats, #name, device, row++) && !read_number(&at, stats, "", #name, &device->stats.name))          \
    return false;
#include "format/stats.def"
  return read_ratio(&at, stats, "cache_hit_rate", &device->cache_hit_rate) &&
         read_ratio(&at, stats, "efficiency", &device->efficiency) &&
         read_ratio(&at, stats, "fragmentation", &device->fragmentation);
}
