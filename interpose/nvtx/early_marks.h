/*
 * Ranges that the program opened before the recorder began: a program loads its model inside a range, and the
 * first GPU memory starts the library.
 */
#ifndef GP_INTERPOSE_NVTX_EARLY_MARKS_H
#define GP_INTERPOSE_NVTX_EARLY_MARKS_H

#include <stdint.h>

#include "trace/record/recorder.h"

/* Keeps a begin or push until the recorder is there; an end or pop takes its begin away. The oldest 64 are
 * kept. False: the recorder is there. Any thread. */
bool gp_early_marks_add(gp_mark_kind_t kind, uint64_t scope, const char *name);

/* Records what is still open: begins, and the pushes of this thread. Pushes of other threads are lost. Calls
 * after the first do nothing. The caller holds no lock. */
void gp_early_marks_flush(gp_recorder_t *recorder);

#endif
