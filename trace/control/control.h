/*
 * The control socket: what `gpupool ctl` and `gpupool live` talk to (GPUPOOL_CONTROL=1, doc/control.md).
 *
 * This folder includes all of trace/, and is the only one in it that commands the pool.
 */
#ifndef GP_TRACE_CONTROL_H
#define GP_TRACE_CONTROL_H

#include "trace/snapshot/snapshot.h"

/*
 * Serves requests, in a thread of its own with a table of open files of its own: the program sees no
 * descriptor of it, cannot close one, and passes none on to its children, which serve nothing. It waits for
 * all clients at once, each with a second for its request, and works on one request after another. Returns
 * when the socket is there.
 *
 * Once in a process, with no lock held; all three live as long as the process. A failure is one line in the
 * log, and there is no control. errno is preserved.
 */
void gp_control_start(gp_recorder_t *recorder, gp_snapshot_writer_t *writer, gp_engine_t *engine);

/*
 * The process ends: removes the socket, waits some seconds at most for a request that is being served, and
 * lets no other begin, so that none of them reaches a driver that is going away. Does nothing if nothing was
 * started, or in a child.
 */
void gp_control_stop(void);

#endif
