/* Writes snapshots of a running program when a signal arrives, or when a device's memory use reaches a new
 * peak. snapshot.h writes snapshots at an out-of-memory error. */
#ifndef GP_TRACE_TRIGGERS_H
#define GP_TRACE_TRIGGERS_H

#include "trace/snapshot/snapshot.h"

/*
 * Installs a handler for each signal in GPUPOOL_SNAPSHOT_AT and starts one thread that writes the snapshots.
 * The handler only wakes that thread and then calls the previous handler. A signal that would have ended the
 * program, or was ignored, now only writes a snapshot. If the program later sets a handler of its own, the
 * signal no longer reaches the library. Child processes write no snapshots. If GPUPOOL_SNAPSHOT_AT includes
 * `peak`, the engine is asked to report peaks.
 *
 * Must be called at most once per process, with no lock held. All three arguments must live as long as the
 * process. On failure, logs one line and leaves the signals unchanged. Preserves errno.
 */
void gp_triggers_start(gp_snapshot_writer_t *writer, gp_engine_t *engine, const gp_options_t *options);

/* Writes a snapshot with the reason "peak", and removes the snapshot of the device's previous peak.
 * Implements `peak` of gp_observer_t. The next peak is reported when memory use has grown by a tenth, but at
 * least by GP_PEAK_STEP bytes. */
#define GP_PEAK_STEP (16 * GP_MIB)
void gp_triggers_peak(gp_snapshot_writer_t *writer, gp_engine_t *engine, int device, uint64_t bytes);

#endif
