/* What makes a running program write a snapshot, apart from an out of memory (snapshot.h): a signal, or the
 * highest use of a device. */
#ifndef GP_TRACE_TRIGGERS_H
#define GP_TRACE_TRIGGERS_H

#include "trace/snapshot/snapshot.h"

/*
 * Prepares for the signals of GPUPOOL_SNAPSHOT_AT, if any: installs a handler for each, and starts one
 * thread that writes. The handler only wakes that thread, and then calls the previous handler. A signal
 * that would have ended the program, or was ignored, now does nothing else. If the program later sets a
 * handler of its own, the signal no longer reaches the library. Children write no snapshots. With `peak`,
 * asks the engine for peaks.
 *
 * Call it once in a process, with no lock held; all three arguments live as long as the process. A failure
 * is one line in the log, and the signals stay as they are. errno is preserved.
 */
void gp_triggers_start(gp_snapshot_writer_t *writer, gp_engine_t *engine, const gp_options_t *options);

/* For gp_observer_t peak: writes a snapshot of reason "peak", and removes the snapshot of the device's last
 * peak. The next one comes when a tenth more is in use, at least GP_PEAK_STEP bytes. */
#define GP_PEAK_STEP (16 * GP_MIB)
void gp_triggers_peak(gp_snapshot_writer_t *writer, gp_engine_t *engine, int device, uint64_t bytes);

#endif
