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
 * Returns the number of the signal with the name text[0..length): "USR1", "SIGUSR1", "RTMIN+3", ignoring
 * case. Returns 0 if it is unknown or cannot request snapshots: KILL and STOP cannot be caught, the
 * terminal's stop signals and CHLD have meanings of their own, and a fault (SEGV, BUS ...) would occur again
 * as soon as its handler returns.
 */
int gp_signal_parse(const char *text, size_t length);

/* Writes "SIGUSR1" or "SIGRTMIN+3". Returns buffer, which has GP_SIGNAL_NAME_BYTES. number is a result of
 * gp_signal_parse. */
char *gp_signal_name(int number, char *buffer);

#endif
