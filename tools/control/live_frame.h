/*
 * What gpupool live shows: one screen, made from a running program's statistics and their history.
 */
#ifndef GP_TOOLS_LIVE_FRAME_H
#define GP_TOOLS_LIVE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

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

/*
 * The terminal while gpupool live has it: alternate screen, and each key arrives at once. However live
 * ends, it restores the terminal.
 */

typedef enum gp_terminal_event {
  GP_TERMINAL_TIME,   /* wait_ms are over, or the size has changed: draw */
  GP_TERMINAL_KEY,    /* *ret_key */
  GP_TERMINAL_READY,  /* fd is ready */
  GP_TERMINAL_SIGNAL, /* a signal is to end the tool: call gp_terminal_leave, which raises it again */
} gp_terminal_event_t;

/* Takes the terminal of stdin and stdout. Returns false with errno if they are not a
 * terminal. Do not nest; one thread. */
bool gp_terminal_enter(void);

/* Restores the terminal; if a signal came, ends the process by it. Does
 * nothing if the terminal is not taken. */
void gp_terminal_leave(void);

/* Waits wait_ms at most for one of the events above; fd (-1: none) as in poll(2). Stops and
 * continues the process at control-Z. */
gp_terminal_event_t gp_terminal_wait(unsigned wait_ms, int fd, short events, char *ret_key);

/* Replaces the screen's content by text, which is whole lines. */
void gp_terminal_show(const char *text, size_t length);

/* The size of the terminal at stdout; 80 by 24 if the terminal does not tell. */
void gp_terminal_size(unsigned *ret_columns, unsigned *ret_rows);

#endif
