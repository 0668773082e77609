/*
 * The control socket, to which `gpupool ctl` and `gpupool live` connect
 * (GPUPOOL_CONTROL=1, doc/control.md).
 *
 * This folder may include all of trace/. It alone in trace/ commands the pool.
 */
#ifndef GP_TRACE_CONTROL_H
#define GP_TRACE_CONTROL_H

#include <poll.h>

#include "trace/snapshot/snapshot.h"
#include "trace/control/control_request.h"

/*
 * Starts a thread that serves requests. The thread has its own table of open files: the program sees none
 * of its descriptors, cannot close them, and passes none on to its children, which serve nothing. The
 * thread waits for all clients at once, gives each a second for its request, and works on one request after
 * another. start returns when the socket is there.
 *
 * Call it once in a process, with no lock held; all three arguments live as long as the process. A failure
 * is one line in the log, and there is no control. errno is preserved.
 */
void gp_control_start(gp_recorder_t *recorder, gp_snapshot_writer_t *writer, gp_engine_t *engine);

/*
 * The process ends: removes the socket, waits some seconds at most for the request being served, and
 * lets no other begin, so that none reaches a driver that is going away. Does nothing if no thread
 * was started, or in a child.
 */
void gp_control_stop(void);

/* The clients of the control socket: each sends one line and gets one answer. The server waits for all
 * silent clients at once, so that they hold up only themselves. */

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

/* The socket of control.h: its place, and which users may connect. */

#endif
