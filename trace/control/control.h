/*
 * The control socket, to which `gpupool ctl` and `gpupool live` connect
 * (GPUPOOL_CONTROL=1, doc/control.md).
 *
 * This folder may include all of trace/. It alone in trace/ commands the pool.
 */
#ifndef GP_TRACE_CONTROL_H
#define GP_TRACE_CONTROL_H

#include "trace/snapshot/snapshot.h"

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

#endif
