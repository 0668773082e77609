/*
 * The statistics of one device (stats.def). They are plain data, guarded by the owner's lock. Invariants: for
 * every gauge, current == allocated - freed and current <= peak. In the engine's own statistics, `peak` is
 * the peak of the present window (gp_engine_turn_peaks), and `earlier_peaks` contains the highest peak of
 * earlier windows. In all other statistics, `peak` covers all windows.
 */
#ifndef GP_FORMAT_STATS_H
#define GP_FORMAT_STATS_H

#include <stdint.h>

#include "base/assert.h"

typedef struct gp_gauge {
  uint64_t current;
  uint64_t peak;
  uint64_t allocated;
  uint64_t freed;
} gp_gauge_t;

typedef struct gp_stats {
#define GAUGE(name, ...)   gp_gauge_t name;
#define COUNTER(name, ...) uint64_t name;
#include "format/stats.def"
  struct gp_earlier_peaks {
#define GAUGE(name, ...) uint64_t name;
#include "format/stats.def"
  } earlier_peaks;
} gp_stats_t;

/* Changes the peaks in a copy of the engine's statistics to the peaks of all windows. */
static inline void gp_stats_join_peaks(gp_stats_t *stats)
{
#define GAUGE(name, ...)                                                                                     \
  if (stats->name.peak < stats->earlier_peaks.name)                                                          \
    stats->name.peak = stats->earlier_peaks.name;                                                            \
  stats->earlier_peaks.name = 0;
#include "format/stats.def"
}

static inline void gp_gauge_add(gp_gauge_t *gauge, uint64_t amount)
{
  gauge->current += amount;
  gauge->allocated += amount;
  if (gauge->current > gauge->peak)
    gauge->peak = gauge->current;
}

/* Counts an amount that is added to the gauge and removed at the same moment. */
static inline void gp_gauge_pass(gp_gauge_t *gauge, uint64_t amount)
{
  gauge->allocated += amount;
  gauge->freed += amount;
  if (gauge->current + amount > gauge->peak)
    gauge->peak = gauge->current + amount;
}

static inline void gp_gauge_sub(gp_gauge_t *gauge, uint64_t amount)
{
  gp_assert_internal(gauge->current >= amount);
  gauge->current -= amount;
  gauge->freed += amount;
}

#endif
