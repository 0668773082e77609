/*
 * The figures of `gpupool ps` as OpenMetrics text.
 */
#ifndef GP_TOOLS_MACHINE_METRICS_H
#define GP_TOOLS_MACHINE_METRICS_H

#include <stdbool.h>
#include <stdio.h>

/* How many devices of processes are written: those that hold the most. So a scrape has at most about ten
 * times as many series. */
#define GP_METRICS_ROWS 256

/* Reads the records of this machine and writes the text to stream. Returns 0 or ENOMEM, after which the text
 * is to be thrown away. */
int gp_metrics_write(FILE *stream);

/*
 * Serves the text at /metrics over HTTP until a signal ends the tool (SIGINT or SIGTERM). address: "9464",
 * "0.0.0.0:9464", "[::1]:9464"; a port alone is on loopback. Returns the exit status, after a message if it
 * is not 0.
 */
int gp_metrics_serve(const char *address);

#endif
