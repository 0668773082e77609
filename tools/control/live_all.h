/*
 * gpupool live without a process: all programs on one screen, refreshed; one of them can be opened.
 */
#ifndef GP_TOOLS_LIVE_ALL_H
#define GP_TOOLS_LIVE_ALL_H

#include <stdbool.h>

/* once: one look, as where the output is no terminal. Returns the exit status, after a message if it is not
 * 0. */
int gp_live_all(unsigned interval_ms, bool once);

#endif
