/*
 * Work on its way to the driver, for reuse mode `epoch`: what the stubs of work.def leave to C, and what C
 * hooks do in their place.
 */
#ifndef GP_INTERPOSE_SIGHT_WORK_H
#define GP_INTERPOSE_SIGHT_WORK_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/reuse/stream_calls.h"

/*
 * The record of a stream as the program names it: NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle;
 * per_thread: NULL means the calling thread's own. NULL: the stream is unknown. Any thread; the caller holds
 * no lock.
 */
gp_stream_t *gp_work_stream(gp_engine_t *engine, CUstream stream, bool per_thread);

/* Who the stream is in whose order memory is allocated and freed, named as above; NULL: it has no identity.
 */
gp_identity_t *gp_work_identity(gp_engine_t *engine, CUstream stream, bool per_thread);

/*
 * For hooks in C that submit work: sets the stream's work flag. The driver's call comes next: code of this
 * library that runs in between may take the flag for that of work which the driver has, and clear it.
 */
void gp_work_note(CUstream stream, bool per_thread);

#endif
