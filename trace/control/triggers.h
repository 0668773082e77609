/*
 * What makes a running program write a snapshot, beside running out of memory (snapshot.h): a signal, and the
 * highest use of a device.
 */
#ifndef GP_TRACE_TRIGGERS_H
#define GP_TRACE_TRIGGERS_H

#include "trace/snapshot/snapshot.h"

/*
 * Gets ready for the signals of GPUPOOL_SNAPSHOT_AT, if it has any: a handler for each, and one thread that
 * writes. The handler only wakes that thread, and then calls the handler that was there before. A signal that
 * would have ended the program, or was ignored, now does nothing else. A program that sets a handler of its
 * own later takes the signal from us. In children nothing is written. With `peak`, asks the engine for
 * peaks.
 *
 * Once in a process, with no lock held; all three live as long as the process. A failure is one line in the
 * log, and the signals stay as they are. errno is preserved.
 */
void gp_triggers_start(gp_snapshot_writer_t *writer, gp_engine_t *engine, const gp_options_t *options);

/*
 * For gp_observer_t peak: writes a snapshot of reason "peak", and removes that of the device's last peak. The
 * next comes when a tenth more is in use, and GP_PEAK_STEP bytes at least.
 */
#define GP_PEAK_STEP (16 * GP_MIB)
void gp_triggers_peak(gp_snapshot_writer_t *writer, gp_engine_t *engine, int device, uint64_t bytes);

#endif
