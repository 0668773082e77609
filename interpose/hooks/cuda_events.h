/*
 * Maps each event of the program to the stream point at which it was last recorded. Any thread may call these
 * functions; none calls the driver. Uses pool/ only.
 *
 * A complete event proves that its point was passed only if no thread can have recorded the event meanwhile.
 * So each record of an event removes the stored point before the driver's call, and stores the new point
 * after the call. If two records overlapped, it stores none, because only the driver knows their order.
 */
#ifndef GP_INTERPOSE_HOOKS_CUDA_EVENTS_H
#define GP_INTERPOSE_HOOKS_CUDA_EVENTS_H

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/* Called before and after the driver records an event. *point, which is copied, is where the event was
 * recorded. Its stream_record is NULL if the event stands for no point, for example because the record
 * failed. */
void gp_event_record_begin(CUevent event);
void gp_event_record_end(CUevent event, const gp_stream_point_t *point);

/* Called when graphs or other processes may record the event from now on: the event then proves nothing any
 * more. */
void gp_event_distrust(CUevent event);

/* Called before the event is destroyed. */
void gp_event_forget(CUevent event);

/* Called around a wait for the event or a query: take before the driver's call, still_is after its success.
 * still_is returns whether the event was not recorded again meanwhile. version is 0 if the event stands for
 * no point. */
gp_stream_point_t gp_event_take(CUevent event, uint64_t *ret_version);
bool gp_event_still_is(CUevent event, uint64_t version);

#endif
