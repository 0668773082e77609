/* Makes a running program write snapshots when a signal arrives or a device's memory use reaches a new peak.
 * Snapshots at an out of memory are in snapshot.h. */
#ifndef GP_TRACE_TRIGGERS_H
#define GP_TRACE_TRIGGERS_H

#include "trace/snapshot/snapshot.h"

/*
 * Installs a handler for each signal in GPUPOOL_SNAPSHOT_AT and starts one thread that writes the snapshots.
 * The handler only wakes that thread and then calls the previous handler. A signal that would have ended the
 * program, or was ignored, now only writes a snapshot. If the program later sets a handler of its own, the
 * signal no longer reaches the library. Children write no snapshots. If GPUPOOL_SNAPSHOT_AT has `peak`, asks
 * the engine to report peaks.
 *
 * Call it once per process, with no lock held; all three arguments must live as long as the process. If it
 * fails, it logs one line and leaves the signals unchanged. errno is preserved.
 */
void gp_triggers_start(gp_snapshot_writer_t *writer, gp_engine_t *engine, const gp_options_t *options);

/* Implements gp_observer_t peak: writes a snapshot with the reason "peak" and removes the snapshot of the
 * device's previous peak. The next peak is reported when use has grown by a tenth, and at least by
 * GP_PEAK_STEP bytes. */
#define GP_PEAK_STEP (16 * GP_MIB)
void gp_triggers_peak(gp_snapshot_writer_t *writer, gp_engine_t *engine, int device, uint64_t bytes);

#endif
