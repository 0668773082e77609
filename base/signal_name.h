/* The names of signals that may ask for a snapshot. */
#ifndef GP_BASE_SIGNAL_NAME_H
#define GP_BASE_SIGNAL_NAME_H

#include <stddef.h>

#define GP_SIGNAL_NAME_BYTES 16

/* The accepted syntax, for messages. */
#define GP_SIGNAL_SYNTAX                                                                                     \
  "HUP, INT, QUIT, TERM, USR1, USR2, ALRM, VTALRM, PROF, IO, URG, CONT, WINCH, XCPU, PWR, RTMIN+n or "       \
  "RTMAX-n"

/*
 * The number of the signal that text[0..length) names: "USR1", "SIGUSR1", "RTMIN+3", case ignored. 0:
 * unknown, or none that can ask for snapshots: KILL and STOP cannot be caught, stops of the
 * terminal and CHLD have their own, and a fault (SEGV, BUS ...) would occur again as soon as its handler
 * returns.
 */
int gp_signal_parse(const char *text, size_t length);

/* "SIGUSR1", "SIGRTMIN+3"; returns buffer, which holds GP_SIGNAL_NAME_BYTES. number: of gp_signal_parse. */
char *gp_signal_name(int number, char *buffer);

#endif
