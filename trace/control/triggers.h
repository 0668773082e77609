/*
 * What makes a running program write a snapshot, beside running out of memory (snapshot.h): a signal, and the
 * highest use of a device.
 */
#ifndef GP_TRACE_TRIGGERS_H
#define GP_TRACE_TRIGGERS_H

#include "trace/record/recorder.h"

/*
 * Gets ready for the signals of GPUPOOL_SNAPSHOT_AT, if it has any: a handler for each, and one thread that
 * writes. The handler only wakes that thread, and then calls the handler that was there before. A signal that
 * would have ended the program, or was ignored, now does nothing else. A program that sets a handler of its
 * own later takes the signal from us. In children nothing is written. With `peak`, asks the engine that the
 * recorder is attached to for peaks.
 *
 * Once in a process, with no lock held; recorder lives as long as the process. A failure is one line in the
 * log, and the signals stay as they are. errno is preserved.
 */
void gp_triggers_start(gp_recorder_t *recorder);

/*
 * gp_observer_t peak, self being the recorder: writes a snapshot of reason "peak", and removes that of the
 * device's last peak. The next comes when a tenth more is in use, and GP_PEAK_STEP bytes at least.
 */
#define GP_PEAK_STEP (16 * GP_MIB)
void gp_triggers_peak(void *self, int device, uint64_t bytes);

#endif
