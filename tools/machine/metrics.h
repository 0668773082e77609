/*
 * The figures of `gpupool ps` as OpenMetrics text.
 */
#ifndef GP_TOOLS_MACHINE_METRICS_H
#define GP_TOOLS_MACHINE_METRICS_H

#include <stdbool.h>
#include <stdio.h>

/* The most rows (a device of a process) that are written; those with the most memory come first. This
 * bounds a scrape to about ten times as many series. */
#define GP_METRICS_ROWS 256

/* Reads the records of this machine and writes the text to stream. Returns 0 or ENOMEM; after ENOMEM the
 * text is incomplete and must be discarded. */
int gp_metrics_write(FILE *stream);

/*
 * Serves the text at /metrics over HTTP until SIGINT or SIGTERM ends the tool. address is "9464",
 * "0.0.0.0:9464" or "[::1]:9464"; a port alone listens on loopback. Returns the exit status, after a message
 * if it is not 0.
 */
int gp_metrics_serve(const char *address);

#endif
