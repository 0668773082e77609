/*
 * The socket of control.h: where it lies, and which users may connect.
 */
#ifndef GP_TRACE_CONTROL_SOCKET_H
#define GP_TRACE_CONTROL_SOCKET_H

#include <stdbool.h>

/*
 * Makes the folder of the user if there is none, removes sockets of processes that have gone, and listens.
 * path holds GP_CONTROL_PATH_BYTES and becomes the socket's. The folder must be ours and closed to others,
 * for otherwise another user could put a socket in the place of this one. Returns the descriptor, or -1 after
 * one line in the log.
 */
int gp_control_listen(char *path);

/* Whether the other end of a connection is the same user, or root. */
bool gp_control_peer_may(int fd);

#endif
