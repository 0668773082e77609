/*
 * The screen of gpupool live, made from a running program's statistics and their history.
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
  uint64_t limit; /* limit in bytes; 0: none. All sizes below are in bytes, too. */
  uint64_t total; /* memory of the device; 0: unknown */
  uint64_t device_free;
  uint64_t allocated, deferred, cached, forwarded, reserved;
  uint64_t peak_allocated, peak_reserved;
  uint64_t hits, misses, driver_calls, ooms;
  double allocations_per_second, calls_per_second; /* since the previous sample; negative: unknown */
  uint64_t history[GP_MONITOR_HISTORY];            /* sum of reserved and forwarded bytes, by sample */
} gp_monitor_device_t;

typedef struct gp_monitor {
  int pid;
  char program[64]; /* printable */
  char trace[16];
  uint64_t time_ns; /* time since the program first allocated GPU memory */
  uint64_t samples; /* number of samples; the newest is history[(samples - 1) % GP_MONITOR_HISTORY] */
  gp_monitor_device_t devices[GP_MAX_DEVICES];
} gp_monitor_t;

/* Updates `monitor` from an answer to the request `stats`. A missing member counts as 0. The caller zeroes
 * `monitor` before the first call. */
void gp_monitor_update(gp_monitor_t *monitor, const cJSON *stats);

typedef struct gp_monitor_layout {
  unsigned columns, rows; /* size of the screen; rows 0: no limit */
  bool unicode;
  bool shows_keys;
  const char *message; /* printed above the keys; NULL: none */
} gp_monitor_layout_t;

/* Writes one frame of at most rows lines, each with a line end. No line is wider than the screen. */
void gp_monitor_print(
    const gp_monitor_t *monitor, const gp_monitor_layout_t *layout, const gp_output_t *output);

/*
 * Controls the terminal while gpupool live uses it. live switches to the alternate screen, and the terminal
 * delivers each key immediately. The terminal is restored however live ends.
 */

typedef enum gp_terminal_event {
  GP_TERMINAL_TIME,   /* `wait_ms` have passed, or the window was resized: draw again */
  GP_TERMINAL_KEY,    /* a key was pressed; it is in *ret_key */
  GP_TERMINAL_READY,  /* fd is ready */
  GP_TERMINAL_SIGNAL, /* a signal asks live to end: call gp_terminal_leave, which raises the signal again */
} gp_terminal_event_t;

/* Switches the terminal at stdin and stdout to the alternate screen. Returns false with errno if stdin or
 * stdout is not a terminal. Calls must not nest; call it from one thread only. */
bool gp_terminal_enter(void);

/* Restores the terminal. If a signal asked live to end, raises that signal again, which ends the process.
 * Does nothing if gp_terminal_enter was not called. */
void gp_terminal_leave(void);

/* Waits at most `wait_ms` for one of the events above, and returns it. `fd` (-1: none) and `events` are those
 * of poll(2). Control-Z suspends the process during the wait. */
gp_terminal_event_t gp_terminal_wait(unsigned wait_ms, int fd, short events, char *ret_key);

/* Replaces the screen's content by `text`, which consists of whole lines. */
void gp_terminal_show(const char *text, size_t length);

/* Returns the size of the terminal at stdout, or 80 by 24 if the terminal does not report it. */
void gp_terminal_size(unsigned *ret_columns, unsigned *ret_rows);

#endif
