/*
 * The terminal while gpupool live has it: the alternate screen, each key at once. However live ends, the
 * terminal is as before.
 */
#ifndef GP_TOOLS_LIVE_TERMINAL_H
#define GP_TOOLS_LIVE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

typedef enum gp_terminal_event {
  GP_TERMINAL_TIME,   /* wait_ms are over, or the size has changed: draw */
  GP_TERMINAL_KEY,    /* *ret_key */
  GP_TERMINAL_READY,  /* fd is ready */
  GP_TERMINAL_SIGNAL, /* a signal that ends the tool: call gp_terminal_leave, which ends the process by it */
} gp_terminal_event_t;

/* Takes the terminal of stdin and stdout. Returns false with errno if they are none. Once at a time; one
 * thread. */
bool gp_terminal_enter(void);

/* Gives it back; ends the process by the signal if one came. Does nothing if it is not taken. */
void gp_terminal_leave(void);

/*
 * Waits wait_ms at most for one of the events above; fd (-1: none) is waited for as poll(2) does. Handles
 * being stopped (control-Z) and continued.
 */
gp_terminal_event_t gp_terminal_wait(unsigned wait_ms, int fd, short events, char *ret_key);

/* Replaces what the screen shows by text, whole lines. */
void gp_terminal_show(const char *text, size_t length);

/* The size of the terminal at stdout; 80 by 24 if it does not say. */
void gp_terminal_size(unsigned *ret_columns, unsigned *ret_rows);

#endif
