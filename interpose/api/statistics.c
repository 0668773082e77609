/* Reads the statistics of a device by name, as JSON or as a table, and resets them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "interpose/api/api.h"
#include "interpose/api/figures.h"
#include "interpose/api/scopes.h"

/* A text in the caller's buffer, filled as snprintf does: truncates the text, but counts its whole length. */

/* Invariant: if capacity > 0, bytes[0..capacity) contains a terminating 0; length may exceed capacity. */
typedef struct text {
  char *bytes; /* NULL is legal if capacity is 0 */
  size_t capacity;
  size_t length; /* length of the whole text, also of the part that did not fit */
} text_t;

static void text_add(text_t *text, const char *format, ...)
{
  va_list arguments;
  size_t left = text->length < text->capacity ? text->capacity - text->length : 0;

  va_start(arguments, format);
  int added = vsnprintf(left ? text->bytes + text->length : NULL, left, format, arguments);
  va_end(arguments);
  if (added > 0)
    text->length += (size_t)added;
}

static gp_stats_t resets[GP_MAX_DEVICES];

/* Returns the statistics at the last reset of the device, all 0 if there was no reset. The caller holds
 * gp_api_lock. */
static gp_stats_t *since(int device)
{
  gp_assert(gp_lock_is_held(&gp_api_lock));
  return &resets[device];
}

static gpupool_result_t read_stats(int *device, gp_engine_t **ret_engine, gp_stats_t *ret_stats)
{
  gpupool_result_t result = gp_api_device(ret_engine, device);
  if (result != GPUPOOL_OK)
    return result;
  gp_lock_take(&gp_api_lock); /* otherwise a reset could come between the two reads */
  gp_engine_stats(*ret_engine, *device, ret_stats);
  gp_figures_since(ret_stats, since(*device));
  gp_lock_release(&gp_api_lock);
  return GPUPOOL_OK;
}

typedef struct wanted {
  const char *name;
  uint64_t value;
  bool found;
} wanted_t;

static void look(void *arg, const char *name, uint64_t value)
{
  wanted_t *wanted = arg;
  if (strcmp(name, wanted->name) == 0) {
    wanted->value = value;
    wanted->found = true;
  }
}

GP_API gpupool_result_t gpupool_api_statistic(int device, const char *name, uint64_t *ret_value)
{
  gp_engine_t *engine;
  gp_stats_t stats;

  if (!name)
    return GPUPOOL_INVALID;
  gpupool_result_t result = read_stats(&device, &engine, &stats);
  if (result != GPUPOOL_OK)
    return result;
  wanted_t wanted = {.name = name};
  gp_figures_each(&stats, look, &wanted);
  if (!wanted.found)
    return GPUPOOL_UNKNOWN;
  if (ret_value)
    *ret_value = wanted.value;
  return GPUPOOL_OK;
}

static void add_ratio(text_t *text, const char *name, uint64_t part, uint64_t whole)
{
  uint64_t millionths = whole ? (uint64_t)((double)part / (double)whole * 1e6 + 0.5) : 0;
  text_add(text, ", \"%s\": %" PRIu64 ".%06" PRIu64, name, millionths / 1000000, millionths % 1000000);
}

static void add_number(void *arg, const char *name, uint64_t value)
{
  text_t *text = arg;
  text_add(text, "%s\"%s\": %" PRIu64, text->length > 1 ? ", " : "", name, value);
}

GP_API size_t gpupool_api_memory_stats(int device, char *bytes, size_t capacity)
{
  text_t text = {bytes, capacity, 0};
  gp_engine_t *engine;
  gp_stats_t stats;

  if ((!bytes && capacity) || read_stats(&device, &engine, &stats) != GPUPOOL_OK)
    return 0;
  uint64_t idle = stats.cached_bytes.current;
  uint64_t largest = gp_engine_largest_idle(engine, device);
  if (largest > idle) /* the two values were read at different moments */
    largest = idle;
  text_add(&text, "{");
  gp_figures_each(&stats, add_number, &text);
  add_ratio(&text, "cache_hit_rate", stats.cache_hits, stats.cache_hits + stats.cache_misses);
  add_ratio(&text, "efficiency", stats.requested_bytes.current, stats.reserved_bytes.current);
  add_ratio(&text, "fragmentation", idle - largest, idle);
  text_add(&text, "}");
  return text.length;
}

static void add_row(text_t *text, const char *name, const char *unit, const gp_gauge_t *gauge)
{
  const uint64_t values[] = {gauge->current, gauge->peak, gauge->allocated, gauge->freed};
  char formatted[GP_SIZE_TEXT_BYTES];

  text_add(text, "  %-22s", name);
  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
    if (strcmp(unit, "bytes") == 0)
      text_add(text, "%14s", gp_size_format(values[i], formatted));
    else
      text_add(text, "%14" PRIu64, values[i]);
  }
  text_add(text, "\n");
}

GP_API size_t gpupool_api_memory_summary(int device, char *bytes, size_t capacity)
{
  text_t text = {bytes, capacity, 0};
  gp_engine_t *engine;
  gp_stats_t stats;
  char formatted[GP_SIZE_TEXT_BYTES];

  if ((!bytes && capacity) || read_stats(&device, &engine, &stats) != GPUPOOL_OK)
    return 0;
  uint64_t limit = gp_engine_limit(engine, device);
  uint64_t requests = stats.cache_hits + stats.cache_misses;
  text_add(&text, "gpupool memory summary, device %d, limit %s\n", device,
      limit ? gp_size_format(limit, formatted) : "none");
  text_add(&text, "  %-22s%14s%14s%14s%14s\n", "", "current", "peak", "allocated", "freed");
#define GAUGE(name, unit, ...) add_row(&text, #name, unit, &stats.name);
#define COUNTER(name, ...)
#include "format/stats.def"
#define COUNTER(name, label, origin, what)                                                                   \
  text_add(&text, "  %-22s%14" PRIu64 "  %s\n", #name, stats.name, what);
#include "format/stats.def"
  text_add(&text, "  %-22s%13.1f%%\n", "cache_hit_rate",
      requests ? 100.0 * (double)stats.cache_hits / (double)requests : 0.0);
  return text.length;
}

GP_API gpupool_result_t gpupool_api_reset_peaks(int device)
{
  gp_engine_t *engine;
  gpupool_result_t result = gp_api_device(&engine, &device);
  if (result != GPUPOOL_OK)
    return result;
  gp_lock_take(&gp_api_lock);
  gp_scopes_reset_peaks(engine, device);
  gp_lock_release(&gp_api_lock);
  return GPUPOOL_OK;
}

GP_API gpupool_result_t gpupool_api_reset_stats(int device)
{
  gp_engine_t *engine;
  gpupool_result_t result = gp_api_device(&engine, &device);
  if (result != GPUPOOL_OK)
    return result;
  gp_lock_take(&gp_api_lock);
  gp_scopes_reset_peaks(engine, device);
  gp_engine_stats(engine, device, since(device));
  gp_lock_release(&gp_api_lock);
  return GPUPOOL_OK;
}
