/* Work on its way to the driver, for reuse mode `single`: the C part of the stubs of work.def, and the same
 * for C hooks. Also finds the stream that a request in stream order means. */
#ifndef GP_INTERPOSE_SIGHT_WORK_H
#define GP_INTERPOSE_SIGHT_WORK_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"
#include "pool/reuse/single.h"

/*
 * The identity of the stream in whose order memory is allocated and freed, as the program names it: NULL,
 * CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle; per_thread: NULL means the calling thread's own.
 * Returns NULL if it has no identity. Any thread; the caller holds no lock.
 */
gp_identity_t *gp_work_identity(gp_engine_t *engine, CUstream stream, bool per_thread);

void gp_work_note_single(gp_engine_t *engine, CUstream stream, bool per_thread); /* private */

/*
 * For hooks in C that submit work, before the driver's call: mode `single` ends unless the work is in
 * the legacy default stream, and if there is unordered work, this puts the stream behind the default
 * stream. engine NULL: does nothing.
 */
static inline void gp_work_note(gp_engine_t *engine, CUstream stream, bool per_thread)
{
  if (engine && !gp_single_is_over(engine))
    gp_work_note_single(engine, stream, per_thread);
}

#endif
