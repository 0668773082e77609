/*
 * The terminal while gpupool live has it: the other screen, keys as they are pressed, and as it was before at
 * every end.
 */
#ifndef GP_TOOLS_LIVE_TERMINAL_H
#define GP_TOOLS_LIVE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

typedef enum gp_terminal_event {
  GP_TERMINAL_TIME,   /* the time is over, or the size has changed: draw */
  GP_TERMINAL_KEY,    /* *ret_key */
  GP_TERMINAL_READY,  /* fd is */
  GP_TERMINAL_SIGNAL, /* a signal that ends the tool: go, and gp_terminal_leave ends it as the signal would
                         have */
} gp_terminal_event_t;

/* Takes the terminal of stdin and stdout. One at a time. Returns false with errno if that is none. */
bool gp_terminal_enter(void);

/* Gives it back; ends the process by the signal if one came. Does nothing if it is not taken. */
void gp_terminal_leave(void);

/*
 * Waits for something, at most wait_ms; also until fd is ready for events (poll(2)), unless it is -1. Being
 * stopped (control-Z) and going on happens inside.
 */
gp_terminal_event_t gp_terminal_wait(unsigned wait_ms, int fd, short events, char *ret_key);

/* Puts text, lines with line ends, in place of what is shown. */
void gp_terminal_show(const char *text, size_t length);

/* Of stdout; 80 by 24 where it does not say. */
void gp_terminal_size(unsigned *ret_columns, unsigned *ret_rows);

#endif
