/*
 * The control socket, to which `gpupool ctl` and `gpupool live` connect
 * (GPUPOOL_CONTROL=1, doc/control.md).
 *
 * This folder may include all of trace/. No other folder of trace/ changes the pool's state.
 */
#ifndef GP_TRACE_CONTROL_H
#define GP_TRACE_CONTROL_H

#include <poll.h>

#include "trace/snapshot/snapshot.h"
#include "trace/control/control_request.h"

/*
 * Starts a thread that serves requests, and returns when the socket exists. The thread has its own table of
 * open files, so the program cannot see or close its descriptors, and child processes, which serve nothing,
 * do not inherit them. The thread waits for all clients at once, gives each a second for its request, and
 * serves one request after another.
 *
 * Call it once per process, with no lock held; all three arguments must live as long as the process. If it
 * fails, it logs one line and the process cannot be controlled. errno is preserved.
 */
void gp_control_start(gp_recorder_t *recorder, gp_snapshot_writer_t *writer, gp_engine_t *engine);

/*
 * Stops serving because the process ends: removes the socket, waits at most a few seconds for the request
 * being served, and refuses further ones, so that no request uses a driver that is shutting down. Does
 * nothing if no thread was started, or in a child.
 */
void gp_control_stop(void);

/* The server of the control socket. Each client sends one line and gets one answer. The server polls all
 * clients at once, so that a silent client delays no other. */

#define GP_CONTROL_CLIENTS_MAX 64   /* at once; further clients wait for a free slot */
#define GP_CONTROL_REQUEST_MS  1000 /* time for the request, from the connection on */

/* Writes the answer to fd, which the server still owns. length includes the request's line end. length is -1
 * if no request came in time or the client belongs to another user (gp_control_peer_may). */
typedef void (*gp_control_answer_fn)(void *self, int fd, const char *request, ssize_t length);

typedef struct gp_control_server {
  int listening;
  gp_control_answer_fn answer;
  void *self;
  uint64_t (*now_ms)(void);  /* a clock that never goes backwards */
  uint64_t refused_until_ms; /* accepts no client before this, because the system had no free descriptor */
  unsigned count;
  struct gp_control_peer {
    int fd;
    uint64_t until_ms;
    size_t used;
    char request[GP_CONTROL_REQUEST_BYTES + 1];
  } peers[GP_CONTROL_CLIENTS_MAX]; /* the first count are in use */
} gp_control_server_t;

/* Initializes a server for a non-blocking listening socket, which the caller still owns. */
void gp_control_server_init(gp_control_server_t *server, int listening, gp_control_answer_fn answer,
    void *self, uint64_t (*now_ms)(void));

/* Waits until a client connects, sends data, or runs out of time, and handles that. One thread calls it in a
 * loop. */
void gp_control_server_turn(gp_control_server_t *server);

#endif
