#include "interpose/api/scopes.h"

#include <string.h>

#include "interpose/api/api.h"
#include "interpose/api/figures.h"
#include "interpose/clock.h"
#include "interpose/library.h"
#include "trace/record/recorder.h"

#define SCOPES_MAX 64

/*
 * Invariants, under gp_api_lock: open scopes have different numbers. `begin` is a copy of the device's
 * statistics from when the scope began. `highest` has the peaks since then, except those of the device's
 * current window of peaks (pool/engine.h, gp_engine_turn_peaks).
 */
typedef struct scope {
  uint64_t number; /* 0: the entry is free */
  int device;
  uint64_t begin_ns;
  gp_stats_t begin;
  gp_stats_t highest;
  char name[GP_MARK_NAME_BYTES];
} scope_t;

static scope_t scopes[SCOPES_MAX];
static uint64_t last_number;

static void raise_peaks(gp_stats_t *highest, const gp_stats_t *window)
{
#define GAUGE(name, ...)                                                                                     \
  if (highest->name.peak < window->name.peak)                                                                \
    highest->name.peak = window->name.peak;
#include "format/stats.def"
}

/* Begins a new window of peaks for the device, and adds the peaks of the last window to the device's open
 * scopes. Stores the device's statistics in *ret_now. The caller holds gp_api_lock. */
static void turn(gp_engine_t *engine, int device, bool resets, gp_stats_t *ret_now)
{
  gp_assert(gp_lock_is_held(&gp_api_lock));
  gp_engine_turn_peaks(engine, device, resets, ret_now);
  for (int i = 0; i < SCOPES_MAX; i++) {
    if (scopes[i].number && scopes[i].device == device)
      raise_peaks(&scopes[i].highest, ret_now);
  }
}

void gp_scopes_reset_peaks(gp_engine_t *engine, int device)
{
  gp_stats_t now;
  turn(engine, device, true, &now); /* in one step: two steps could lose a peak between them */
}

/* Returns the open scope with this number, or a free entry if `number` is 0; NULL if there is none. The
 * caller holds gp_api_lock. */
static scope_t *find(uint64_t number)
{
  gp_assert(gp_lock_is_held(&gp_api_lock));
  for (int i = 0; i < SCOPES_MAX; i++) {
    if (scopes[i].number == number)
      return &scopes[i];
  }
  return NULL;
}

static void open_scope(gp_engine_t *engine, scope_t *scope, int device, const char *name)
{
  turn(engine, device, false, &scope->begin);
  scope->highest = scope->begin;
#define GAUGE(name, ...) scope->highest.name.peak = scope->begin.name.current;
#include "format/stats.def"
  scope->number = ++last_number;
  scope->device = device;
  scope->begin_ns = gp_clock_now_ns();
  memset(scope->name, 0, sizeof(scope->name));
  memcpy(scope->name, name, strnlen(name, sizeof(scope->name) - 1));
}

static void mark(gp_mark_kind_t kind, int device, uint64_t number, const char *name)
{
  if (gp_library_recorder())
    gp_recorder_mark(gp_library_recorder(), kind, device, number, name);
}

GP_API gpupool_result_t gpupool_api_mark(const char *name)
{
  gp_engine_t *engine;
  if (!name)
    return GPUPOOL_INVALID;
  gpupool_result_t result = gp_api_engine(&engine);
  if (result == GPUPOOL_OK)
    mark(GP_MARK_MOMENT, -1, 0, name);
  return result;
}

GP_API gpupool_result_t gpupool_api_scope_begin(int device, const char *name, uint64_t *ret_scope)
{
  gp_engine_t *engine;
  uint64_t number = 0;

  if (!name || !ret_scope)
    return GPUPOOL_INVALID;
  gpupool_result_t result = gp_api_device(&engine, &device);
  if (result != GPUPOOL_OK)
    return result;
  gp_lock_take(&gp_api_lock);
  scope_t *scope = find(0);
  if (scope) {
    open_scope(engine, scope, device, name);
    number = scope->number;
  }
  gp_lock_release(&gp_api_lock);
  if (!number)
    return GPUPOOL_FAILED;
  mark(GP_MARK_BEGIN, device, number, name);
  *ret_scope = number;
  return GPUPOOL_OK;
}

static double ratio(uint64_t part, uint64_t whole)
{
  return whole ? (double)part / (double)whole : 0.0;
}

static gpupool_report_t report_of(const scope_t *scope, gp_stats_t now)
{
  gp_figures_since(&now, &scope->begin);
  return (gpupool_report_t){.peak_allocated = scope->highest.allocated_bytes.peak,
      .peak_reserved = scope->highest.reserved_bytes.peak,
      .peak_cached = scope->highest.cached_bytes.peak,
      .peak_requested = scope->highest.requested_bytes.peak,
      .allocated_bytes = now.allocated_bytes.allocated,
      .allocations = now.allocation.allocated,
      .freed_bytes = now.allocated_bytes.freed,
      .frees = now.allocation.freed,
      .cache_hits = now.cache_hits,
      .cache_misses = now.cache_misses,
      .driver_allocs = now.driver_allocs,
      .driver_frees = now.driver_frees,
      .num_ooms = now.num_ooms,
      .duration_ns = gp_clock_now_ns() - scope->begin_ns,
      .cache_hit_rate = ratio(now.cache_hits, now.cache_hits + now.cache_misses),
      .efficiency = ratio(scope->highest.requested_bytes.peak, scope->highest.reserved_bytes.peak)};
}

GP_API gpupool_result_t gpupool_api_scope_end(
    uint64_t number, gpupool_report_t *ret_report, size_t report_bytes)
{
  gp_engine_t *engine;
  gp_stats_t now;
  scope_t ended = {0};
  gpupool_report_t report;

  if (!number)
    return GPUPOOL_INVALID;
  gpupool_result_t result = gp_api_engine(&engine);
  if (result != GPUPOOL_OK)
    return result;
  gp_lock_take(&gp_api_lock);
  scope_t *scope = find(number);
  if (scope) {
    turn(engine, scope->device, false, &now);
    ended = *scope;
    scope->number = 0;
  }
  gp_lock_release(&gp_api_lock);
  if (!ended.number)
    return GPUPOOL_UNKNOWN;
  mark(GP_MARK_END, ended.device, number, ended.name);
  report = report_of(&ended, now);
  if (ret_report) /* a program built with another version may have a shorter report */
    memcpy(ret_report, &report, report_bytes < sizeof(report) ? report_bytes : sizeof(report));
  return GPUPOOL_OK;
}
