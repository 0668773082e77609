/*
 * The terminal while gpupool live has it: alternate screen, and each key arrives at once. However live
 * ends, it restores the terminal.
 */
#ifndef GP_TOOLS_LIVE_TERMINAL_H
#define GP_TOOLS_LIVE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

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
