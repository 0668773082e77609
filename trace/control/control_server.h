/*
 * The clients of the control socket: each sends one line and gets one answer. Those that are silent are
 * waited for all at once, so that they hold up only themselves.
 */
#ifndef GP_TRACE_CONTROL_SERVER_H
#define GP_TRACE_CONTROL_SERVER_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/control/control_request.h"

#define GP_CONTROL_CLIENTS_MAX 64   /* at once; others wait until one of them has gone */
#define GP_CONTROL_REQUEST_MS  1000 /* from the connection to the end of the line */

/*
 * Answers on fd, which stays the server's. length is that of the request with its line end; -1: none came in
 * time, or the peer belongs to another user (gp_control_peer_may).
 */
typedef void (*gp_control_answer_fn)(void *self, int fd, const char *request, ssize_t length);

typedef struct gp_control_server {
  int listening;
  gp_control_answer_fn answer;
  void *self;
  uint64_t (*now_ms)(void);  /* a clock that only goes on */
  uint64_t refused_until_ms; /* the system has no descriptor to give: until then no client is accepted */
  unsigned count;
  struct gp_control_peer {
    int fd;
    uint64_t until_ms;
    size_t used;
    char request[GP_CONTROL_REQUEST_BYTES + 1];
  } peers[GP_CONTROL_CLIENTS_MAX]; /* the first count are in use */
} gp_control_server_t;

/* listening is a listening socket, non-blocking, and stays the caller's. */
void gp_control_server_init(gp_control_server_t *server, int listening, gp_control_answer_fn answer,
    void *self, uint64_t (*now_ms)(void));

/*
 * Waits until a client connects, sends something, or has let its time pass, and does what there is to do.
 * Called again and again, by one thread.
 */
void gp_control_server_turn(gp_control_server_t *server);

#endif
