/*
 * Keeps NVTX ranges that the program opened before the recorder exists: a program may load its model inside a
 * range, and only its first GPU memory starts the library.
 */
#ifndef GP_INTERPOSE_NVTX_EARLY_MARKS_H
#define GP_INTERPOSE_NVTX_EARLY_MARKS_H

#include <stdint.h>

#include "trace/record/recorder.h"

/* Keeps a begin or push until the recorder exists; an end or pop removes its begin. Keeps at most the 64
 * oldest. Returns false if the recorder exists. Any thread. */
bool gp_early_marks_add(gp_mark_kind_t kind, uint64_t scope, const char *name);

/* Records the ranges that are still open: begins of all threads, and pushes of this thread. Pushes of other
 * threads are lost. Calls after the first do nothing. The caller holds no lock. */
void gp_early_marks_flush(gp_recorder_t *recorder);

#endif
