/*
 * gpupool live without a PID: shows all programs on one refreshed screen, and lets the user open one of
 * them.
 */
#ifndef GP_TOOLS_LIVE_ALL_H
#define GP_TOOLS_LIVE_ALL_H

#include <stdbool.h>

/* Shows the programs until the user quits. With once, or if the output is not a terminal, prints them a
 * single time. Returns the exit status, after a message if it is not 0. */
int gp_live_all(unsigned interval_ms, bool once);

#endif
