/*
 * gpupool live without a PID: shows all programs on one screen that is refreshed regularly. The user can open
 * a single program.
 */
#ifndef GP_TOOLS_LIVE_ALL_H
#define GP_TOOLS_LIVE_ALL_H

#include <stdbool.h>

/* Shows the programs until the user quits. If `once` is true or the output is not a terminal, prints the
 * programs a single time. Returns the exit status. If the status is not 0, a message was printed. */
int gp_live_all(unsigned interval_ms, bool once);

#endif
