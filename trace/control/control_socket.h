/* The socket of control.h: its place, and which users may connect. */
#ifndef GP_TRACE_CONTROL_SOCKET_H
#define GP_TRACE_CONTROL_SOCKET_H

#include <stdbool.h>

/*
 * Makes the folder of the user if there is none, removes the sockets of ended processes, and listens.
 * path holds GP_CONTROL_PATH_BYTES and becomes the socket's path. The folder must belong to this user
 * and be closed to others, or another user could replace the socket. Returns the descriptor, or -1
 * after one line in the log.
 */
int gp_control_listen(char *path);

/* True if the other end of a connection is the same user, or root. */
bool gp_control_peer_may(int fd);

#endif
