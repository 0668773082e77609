/* The names of signals that may request a snapshot. */
#ifndef GP_BASE_SIGNAL_NAME_H
#define GP_BASE_SIGNAL_NAME_H

#include <stddef.h>

#define GP_SIGNAL_NAME_BYTES 16

/* The accepted syntax, for messages. */
#define GP_SIGNAL_SYNTAX                                                                                     \
  "HUP, INT, QUIT, TERM, USR1, USR2, ALRM, VTALRM, PROF, IO, URG, CONT, WINCH, XCPU, PWR, RTMIN+n or "       \
  "RTMAX-n"

/*
 * Returns the number of the signal with the name text[0..length), such as "USR1", "SIGUSR1" or "RTMIN+3",
 * ignoring case. Returns 0 if the name is unknown or if the signal cannot request snapshots. KILL and STOP
 * cannot be caught. The terminal's stop signals and CHLD have meanings of their own. A fault (SEGV, BUS ...)
 * would occur again as soon as its handler returns.
 */
int gp_signal_parse(const char *text, size_t length);

/* Writes the name of the signal, such as "SIGUSR1" or "SIGRTMIN+3", to `buffer`, which has
 * GP_SIGNAL_NAME_BYTES, and returns `buffer`. `number` must be a result of gp_signal_parse. */
char *gp_signal_name(int number, char *buffer);

#endif
