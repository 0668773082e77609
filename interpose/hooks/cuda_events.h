/*
 * What the program's events stand for: how far a stream was at the last record of the event. All functions
 * may be called by any thread; none calls the driver. Uses pool/ only.
 *
 * An event gives a fact only if no thread can have recorded it meanwhile. Each record removes the
 * fact before the driver's call and stores the new one after it, unless records overlapped, whose
 * order only the driver knows.
 */
#ifndef GP_INTERPOSE_HOOKS_CUDA_EVENTS_H
#define GP_INTERPOSE_HOOKS_CUDA_EVENTS_H

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/* Around a record. point: how far the stream was, for which the event then stands; copied. Its identity is
 * NULL if the event stands for nothing, say because the record failed. */
void gp_event_record_begin(CUevent event);
void gp_event_record_end(CUevent event, const gp_stream_point_t *point);

/* From now on graphs or other processes may record the event unseen: it gives no more facts. */
void gp_event_distrust(CUevent event);

/* The event is about to be destroyed. */
void gp_event_forget(CUevent event);

/* Around a wait or a query: call take before. After success still_is tells whether the event had that
 * record all the time. version is 0 if the event stands for nothing. */
gp_stream_point_t gp_event_take(CUevent event, uint64_t *ret_version);
bool gp_event_still_is(CUevent event, uint64_t version);

#endif
