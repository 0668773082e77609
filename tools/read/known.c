/*
 * Which statistics of a device a snapshot tells. The files of other tools have no counters.
 */
#include "tools/read/snapshot.h"

/* Where a statistic comes from if nobody counted it. */
typedef enum origin {
  ORIGIN_COUNTED,         /* the library alone knows it */
  ORIGIN_EVENTS,          /* allocations and frees */
  ORIGIN_FREES,           /* frees that are complete later, and blocks that wait for that */
  ORIGIN_SEGMENTS,        /* segments, and the events that get and give them back */
  ORIGIN_SEGMENTS_AT_END, /* segments, which are those of the end */
  ORIGIN_DRIVER_EVENTS,   /* the events that get segments and give them back */
  ORIGIN_OOMS,            /* events of requests that were refused */
} origin_t;

static const struct {
  size_t stat;
  origin_t origin;
} origins[] = {
#define GAUGE(name, unit, label, origin, what) {offsetof(gp_stats_t, name), ORIGIN_##origin},
#define COUNTER(name, label, origin, what)     {offsetof(gp_stats_t, name), ORIGIN_##origin},
#include "format/stats.def"
};

_Static_assert(sizeof(origins) / sizeof(origins[0]) <= 64, "lacked_stats has a bit for each");

static size_t row_of(size_t stat)
{
  size_t i = 0;
  while (origins[i].stat != stat)
    i++;
  return i;
}

gp_known_t gp_stats_known(const gp_snapshot_t *snapshot, const gp_snapshot_device_t *device, size_t stat)
{
  size_t row = row_of(stat);
  origin_t origin = origins[row].origin;
  bool lacks_driver_events = snapshot->lacks_history || device->lacks_reserved;
  if (device->lacked_stats >> row & 1)
    return GP_KNOWN_NOT;
  if (!snapshot->lacks_counters)
    return GP_KNOWN;
  switch (origin) {
  case ORIGIN_COUNTED: return GP_KNOWN_NOT;
  case ORIGIN_EVENTS: return snapshot->lacks_history ? GP_KNOWN_AT_END : GP_KNOWN;
  case ORIGIN_OOMS: return snapshot->lacks_history ? GP_KNOWN_NOT : GP_KNOWN;
  case ORIGIN_DRIVER_EVENTS: return lacks_driver_events ? GP_KNOWN_NOT : GP_KNOWN;
  case ORIGIN_FREES:
  case ORIGIN_SEGMENTS:
  case ORIGIN_SEGMENTS_AT_END: break;
  }
  if (snapshot->lacks_segments)
    return GP_KNOWN_NOT;
  if (origin == ORIGIN_FREES)
    return snapshot->lacks_history ? GP_KNOWN_AT_END : GP_KNOWN;
  return lacks_driver_events || origin == ORIGIN_SEGMENTS_AT_END ? GP_KNOWN_AT_END : GP_KNOWN;
}
