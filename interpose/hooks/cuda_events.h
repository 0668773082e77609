/*
 * Maps each event of the program to the stream point at which it was last recorded. Any thread may call these
 * functions; none calls the driver. Uses pool/ only.
 *
 * A completed event proves that its stream point was passed only if no thread can have recorded the event
 * meanwhile. So the library removes the stored point before each driver call that records the event, and
 * stores the new point after the call. If two such calls overlapped, it stores no point, because only the
 * driver knows their order.
 */
#ifndef GP_INTERPOSE_HOOKS_CUDA_EVENTS_H
#define GP_INTERPOSE_HOOKS_CUDA_EVENTS_H

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/* Begin and end a record of an event, before and after the driver's call. *point is the stream point at which
 * the event was recorded, and is copied. Its stream_record is NULL if the event has no stream point, for
 * example because the driver's call failed. */
void gp_event_record_begin(CUevent event);
void gp_event_record_end(CUevent event, const gp_stream_point_t *point);

/* Notes that graphs or other processes may record the event from now on: the event then proves nothing any
 * more. */
void gp_event_distrust(CUevent event);

/* Removes the event's record. Called before the event is destroyed. */
void gp_event_forget(CUevent event);

/* gp_event_take returns the event's point before the driver waits for the event or queries it. The version is
 * 0 if the event has no point. After the driver's success, gp_event_still_is returns true if the event was
 * not recorded again in between. */
gp_stream_point_t gp_event_take(CUevent event, uint64_t *ret_version);
bool gp_event_still_is(CUevent event, uint64_t version);

#endif
