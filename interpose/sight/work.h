/*
 * Work on its way to the driver, for reuse mode `epoch`: the stubs of work.def and what C hooks do in their
 * place.
 */
#ifndef GP_INTERPOSE_SIGHT_WORK_H
#define GP_INTERPOSE_SIGHT_WORK_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/reuse/epoch/streams.h"

/* The stubs, by address: not to be called from C. Absent on processors that they are not written for. */
#if defined(__x86_64__)
#define GP_HAS_WORK_STUBS                            1
#define WORK(symbol, base, since, per_thread, where) extern const char gp_work_##symbol[];
#include "interpose/sight/work.def"
#else
#define GP_HAS_WORK_STUBS 0
#endif

/*
 * The record of a stream as the program names it: NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle;
 * per_thread: NULL means the calling thread's own. NULL if it is not known.
 */
gp_stream_t *gp_work_stream(gp_engine_t *engine, CUstream stream, bool per_thread);

/*
 * False if another library stands between the stubs and the driver: it may call into this one in the middle
 * of a launch, between the mark and the submission, as tools that watch launches do. Takes the loader's lock.
 */
bool gp_work_goes_to_driver(void);

/*
 * For hooks in C that submit work: marks the stream. The driver's call comes next: whatever of this library
 * runs in between may take the mark for that of work which the driver has, and clear it.
 */
void gp_work_note(CUstream stream, bool per_thread);

#endif
