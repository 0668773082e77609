/*
 * What gpupool live shows: one screen, made from a running program's statistics and their history.
 */
#ifndef GP_TOOLS_LIVE_FRAME_H
#define GP_TOOLS_LIVE_FRAME_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/output.h"
#include "format/device.h"

#define GP_MONITOR_HISTORY 256

typedef struct gp_monitor_device {
  bool is_there;
  uint64_t limit; /* bytes, like all that follow; 0: none */
  uint64_t total; /* of the device; 0: unknown */
  uint64_t device_free;
  uint64_t allocated, deferred, cached, forwarded, reserved;
  uint64_t peak_allocated, peak_reserved;
  uint64_t hits, misses, driver_calls, ooms;
  double allocations_per_second, calls_per_second; /* since the last statistics; negative: unknown */
  uint64_t history[GP_MONITOR_HISTORY];            /* held from the driver: reserved and forwarded */
} gp_monitor_device_t;

typedef struct gp_monitor {
  int pid;
  char program[64]; /* printable */
  char trace[16];
  uint64_t time_ns; /* since the program's first memory */
  uint64_t samples; /* statistics received; the newest is history[(samples - 1) % GP_MONITOR_HISTORY] */
  gp_monitor_device_t devices[GP_MAX_DEVICES];
} gp_monitor_t;

/* Adds an answer to `stats`. A missing member counts as 0. The caller zeroes
 * monitor before the first call. */
void gp_monitor_update(gp_monitor_t *monitor, const cJSON *stats);

typedef struct gp_monitor_layout {
  unsigned columns, rows; /* of the screen; rows 0: no bound */
  bool unicode;
  bool shows_keys;
  const char *message; /* the last line but the keys; NULL: none */
} gp_monitor_layout_t;

/* Writes one frame, each line ended by a line end. No line is wider than the screen,
 * and there are at most rows lines. */
void gp_monitor_print(
    const gp_monitor_t *monitor, const gp_monitor_layout_t *layout, const gp_output_t *output);

#endif
