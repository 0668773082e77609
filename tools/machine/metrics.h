/*
 * The figures of `gpupool ps` as OpenMetrics text.
 */
#ifndef GP_TOOLS_MACHINE_METRICS_H
#define GP_TOOLS_MACHINE_METRICS_H

#include <stdbool.h>
#include <stdio.h>

/* Most rows that are written, one for each device of each process; rows with the most memory come first. A
 * scrape therefore has at most about ten times as many series. */
#define GP_METRICS_ROWS 256

/* Reads the records of this machine, and writes the text to `stream`. Returns 0 or ENOMEM. After ENOMEM the
 * text is incomplete, so the caller must discard it. */
int gp_metrics_write(FILE *stream);

/*
 * Serves the text at /metrics over HTTP until SIGINT or SIGTERM ends the tool. `address` is "9464",
 * "0.0.0.0:9464" or "[::1]:9464"; with only a port, listens on loopback. Returns the exit status. If the
 * status is not 0, a message was printed.
 */
int gp_metrics_serve(const char *address);

#endif
