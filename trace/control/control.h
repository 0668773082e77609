/*
 * The control socket, to which `gpupool ctl` and `gpupool live` connect (GPUPOOL_CONTROL=1, doc/control.md).
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
 * open files. So the program cannot see or close its descriptors, and child processes, which serve no
 * requests, do not inherit them. The thread waits for all clients at once, gives each client one second for
 * its request, and serves one request at a time.
 *
 * Must be called at most once per process, with no lock held. All three arguments must live as long as the
 * process. On failure, logs one line, and the process cannot be controlled. Preserves errno.
 */
void gp_control_start(gp_recorder_t *recorder, gp_snapshot_writer_t *writer, gp_engine_t *engine);

/*
 * Stops serving requests, because the process ends. Removes the socket, waits at most a few seconds for the
 * request being served, and refuses further requests. So no request uses a driver that is shutting down. Does
 * nothing in a child process, or if no thread was started.
 */
void gp_control_stop(void);

/* The server of the control socket. Each client sends one line and gets one answer. The server polls all
 * clients at once, so a silent client does not delay the others. */

#define GP_CONTROL_CLIENTS_MAX 64   /* maximum number of clients; further clients wait for a free slot */
#define GP_CONTROL_REQUEST_MS  1000 /* time from the connection to the end of the request */

/* Writes the answer to fd, which the server still owns. `length` includes the request's line end. It is -1 if
 * no request arrived in time, or if the client belongs to another user (gp_control_peer_may). */
typedef void (*gp_control_answer_fn)(void *self, int fd, const char *request, ssize_t length);

typedef struct gp_control_server {
  int listening;
  gp_control_answer_fn answer;
  void *self;
  uint64_t (*now_ms)(void);  /* returns the time of a clock that never goes backwards */
  uint64_t refused_until_ms; /* accepts no client before this time, after it had no free descriptor */
  unsigned count;
  struct gp_control_peer {
    int fd;
    uint64_t until_ms;
    size_t used;
    char request[GP_CONTROL_REQUEST_BYTES + 1];
  } peers[GP_CONTROL_CLIENTS_MAX]; /* peers[0..count) are in use */
} gp_control_server_t;

/* Initializes a server for a non-blocking listening socket, which the caller still owns. */
void gp_control_server_init(gp_control_server_t *server, int listening, gp_control_answer_fn answer,
    void *self, uint64_t (*now_ms)(void));

/* Waits until a client connects, sends data, or runs out of time, and handles that event. One thread calls
 * this in a loop. */
void gp_control_server_turn(gp_control_server_t *server);

#endif
