/* The clients of the control socket: each sends one line and gets one answer. The server waits for all
 * silent clients at once, so that they hold up only themselves. */
#ifndef GP_TRACE_CONTROL_SERVER_H
#define GP_TRACE_CONTROL_SERVER_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/control/control_request.h"

#define GP_CONTROL_CLIENTS_MAX 64   /* at once; further clients wait until one is gone */
#define GP_CONTROL_REQUEST_MS  1000 /* from the connection to the end of the line */

/* Answers on fd, which the server still owns. length includes the request's line end; -1: no request came
 * in time, or the peer belongs to another user (gp_control_peer_may). */
typedef void (*gp_control_answer_fn)(void *self, int fd, const char *request, ssize_t length);

typedef struct gp_control_server {
  int listening;
  gp_control_answer_fn answer;
  void *self;
  uint64_t (*now_ms)(void);  /* a clock that never goes backwards */
  uint64_t refused_until_ms; /* the system had no free descriptor: accepts no client before this */
  unsigned count;
  struct gp_control_peer {
    int fd;
    uint64_t until_ms;
    size_t used;
    char request[GP_CONTROL_REQUEST_BYTES + 1];
  } peers[GP_CONTROL_CLIENTS_MAX]; /* the first count are in use */
} gp_control_server_t;

/* listening is a listening socket, non-blocking, and the caller still owns it. */
void gp_control_server_init(gp_control_server_t *server, int listening, gp_control_answer_fn answer,
    void *self, uint64_t (*now_ms)(void));

/* Waits until a client connects, sends data, or runs out of time, and handles that. One thread
 * calls it again and again. */
void gp_control_server_turn(gp_control_server_t *server);

#endif
