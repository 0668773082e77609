/*
 * Hooks of events. They record at which point of a stream an event was recorded, and that the program or a
 * stream has waited for the event (cuda_events.h). Such waits prove when memory freed in stream order may be
 * reused.
 */
#include "interpose/hooks/cuda_events.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/stream_place.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/stream_points.h"

/* From cuda.h: CU_EVENT_RECORD_EXTERNAL, CU_GRAPH_NODE_TYPE_EVENT_RECORD, and offsets in CUgraphNodeParams
 * (12.2). */
#define RECORD_EXTERNAL   1u
#define NODE_EVENT_RECORD 7
#define NODE_EVENT_OFFSET 16

/* Returns the engine if the library tracks events now, else NULL. */
static gp_engine_t *followed(gp_engine_t *engine)
{
  bool is_wanted = engine && gp_stream_points_are_wanted(engine) && gp_stream_points_trust_events(engine);
  return is_wanted ? engine : NULL;
}

/* Returns true if the library tracks events or may do so later. Even while it does not track events, it notes
 * which events may be recorded without a hook seeing it. */
static bool may_follow(void)
{
  const gp_engine_t *engine = gp_library_engine();
  return engine && gp_stream_points_trust_events(engine);
}

typedef struct recording {
  gp_engine_t *engine; /* NULL: the event is not tracked, and `asked` and `point` are undefined */
  CUevent event;
  uint64_t asked;
  gp_stream_point_t point;
} recording_t;

/* Begins to record an event. Takes the stream's point before the driver's call, because the event does not
 * cover work that is submitted to the stream later. */
static void begin(recording_t *recording, CUevent event, CUstream stream, bool per_thread)
{
  gp_engine_t *engine = gp_library_engine();

  recording->engine = followed(engine);
  recording->event = event;
  if (recording->engine) {
    gp_event_record_begin(event);
    recording->asked = gp_engine_ask_begin(engine);
    recording->point = gp_stream_record_point(gp_stream_record_find(engine, stream, per_thread), true);
  }
}

static CUresult end(recording_t *recording, CUresult result)
{
  if (!recording->engine)
    return result;
  /* During a capture the event may stand for a node of a graph, and then has no point. */
  if (result != CUDA_SUCCESS || !gp_engine_may_conclude(recording->engine, recording->asked))
    recording->point = (gp_stream_point_t){.stream_record = NULL};
  gp_event_record_end(recording->event, &recording->point);
  return result;
}

CUresult CUDAAPI hook_cuEventRecord(CUevent event, CUstream stream)
{
  recording_t recording;
  begin(&recording, event, stream, false);
  return end(&recording, GP_REAL_CALL(cuEventRecord, event, stream));
}

CUresult CUDAAPI hook_cuEventRecord_ptsz(CUevent event, CUstream stream)
{
  recording_t recording;
  begin(&recording, event, stream, true);
  return end(&recording, GP_REAL_CALL(cuEventRecord_ptsz, event, stream));
}

/* Distrusts the event if `flags` has RECORD_EXTERNAL: a graph then records the event at each launch. */
static void look_at_flags(CUevent event, unsigned flags)
{
  if (flags & RECORD_EXTERNAL && may_follow())
    gp_event_distrust(event);
}

CUresult CUDAAPI hook_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
  look_at_flags(event, flags);
  recording_t recording;
  begin(&recording, event, stream, false);
  return end(&recording, GP_REAL_CALL(cuEventRecordWithFlags, event, stream, flags));
}

CUresult CUDAAPI hook_cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags)
{
  look_at_flags(event, flags);
  recording_t recording;
  begin(&recording, event, stream, true);
  return end(&recording, GP_REAL_CALL(cuEventRecordWithFlags_ptsz, event, stream, flags));
}

typedef struct asking {
  gp_engine_t *engine; /* NULL: the event is not tracked, and the members below are undefined */
  CUevent event;
  uint64_t version;
  uint64_t asked;
  gp_stream_point_t point;
} asking_t;

static void ask(asking_t *asking, gp_engine_t *engine, CUevent event)
{
  asking->engine = followed(engine);
  if (!asking->engine)
    return;
  asking->event = event;
  asking->asked = gp_engine_ask_begin(engine);
  asking->point = gp_event_take(event, &asking->version);
}

static CUresult answered(const asking_t *asking, CUresult result)
{
  if (!asking->engine)
    return result;
  if (result == CUDA_SUCCESS && gp_engine_may_conclude(asking->engine, asking->asked) &&
      gp_event_still_is(asking->event, asking->version)) {
    gp_stream_point_passed(&asking->point);
  } else if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
    gp_engine_note_result(asking->engine, (int)result);
  return result;
}

CUresult CUDAAPI hook_cuEventSynchronize(CUevent event)
{
  asking_t asking;
  ask(&asking, gp_library_engine(), event);
  return answered(&asking, GP_REAL_CALL(cuEventSynchronize, event));
}

CUresult CUDAAPI hook_cuEventQuery(CUevent event)
{
  asking_t asking;
  ask(&asking, gp_library_engine(), event);
  return answered(&asking, GP_REAL_CALL(cuEventQuery, event));
}

CUresult CUDAAPI hook_cuEventDestroy(CUevent event)
{
  if (may_follow())
    gp_event_forget(event);
  return GP_REAL_CALL(cuEventDestroy, event);
}

CUresult CUDAAPI hook_cuEventDestroy_v2(CUevent event)
{
  if (may_follow())
    gp_event_forget(event);
  return GP_REAL_CALL(cuEventDestroy_v2, event);
}

/* Takes the event's point before the driver's call that makes a stream wait for the event. */
static void ask_to_wait(asking_t *asking, CUevent event, CUstream stream, bool per_thread)
{
  gp_engine_t *engine = gp_library_engine();

  ask(asking, engine, event);
}

/* Notes that a stream waits for an event. The stream's later work runs after the event's point, and so does
 * work on memory that the stream allocates later. */
static CUresult waits(const asking_t *asking, CUstream stream, bool per_thread, CUresult result)
{
  if (asking->engine && result == CUDA_SUCCESS && gp_engine_may_conclude(asking->engine, asking->asked) &&
      gp_event_still_is(asking->event, asking->version))
    gp_stream_point_awaited(gp_stream_record_find(asking->engine, stream, per_thread), &asking->point);
  return result;
}

CUresult CUDAAPI hook_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
  asking_t asking;
  ask_to_wait(&asking, event, stream, false);
  return waits(&asking, stream, false, GP_REAL_CALL(cuStreamWaitEvent, stream, event, flags));
}

CUresult CUDAAPI hook_cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags)
{
  asking_t asking;
  ask_to_wait(&asking, event, stream, true);
  return waits(&asking, stream, true, GP_REAL_CALL(cuStreamWaitEvent_ptsz, stream, event, flags));
}

/* Records an event that covers a whole context, and so proves nothing about a single stream. */
CUresult CUDAAPI hook_cuCtxRecordEvent(CUcontext context, CUevent event)
{
  recording_t recording = {.engine = followed(gp_library_engine()), .event = event};
  if (recording.engine)
    gp_event_record_begin(event);
  return end(&recording, GP_REAL_CALL(cuCtxRecordEvent, context, event));
}

CUresult CUDAAPI hook_cuGreenCtxRecordEvent(void *green, CUevent event)
{
  recording_t recording = {.engine = followed(gp_library_engine()), .event = event};
  if (recording.engine)
    gp_event_record_begin(event);
  return end(&recording, GP_REAL_CALL(cuGreenCtxRecordEvent, green, event));
}

/*
 * Events that graphs and other processes may record
 */

static void distrust(CUevent event)
{
  if (may_follow())
    gp_event_distrust(event);
}

CUresult CUDAAPI hook_cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
  distrust(event);
  return GP_REAL_CALL(cuIpcGetEventHandle, handle, event);
}

CUresult CUDAAPI hook_cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
  bool may = may_follow();
  CUresult result = GP_REAL_CALL(cuIpcOpenEventHandle, event, handle);
  if (may && result == CUDA_SUCCESS)
    gp_event_distrust(*event);
  return result;
}

CUresult CUDAAPI hook_cuGraphAddEventRecordNode(
    CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUevent event)
{
  distrust(event);
  return GP_REAL_CALL(cuGraphAddEventRecordNode, node, graph, nodes, count, event);
}

CUresult CUDAAPI hook_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
  distrust(event);
  return GP_REAL_CALL(cuGraphEventRecordNodeSetEvent, node, event);
}

CUresult CUDAAPI hook_cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
  distrust(event);
  return GP_REAL_CALL(cuGraphExecEventRecordNodeSetEvent, exec, node, event);
}

/* Distrusts the event of a record node. The parameters are CUgraphNodeParams, which headers before 12.2
 * lack. */
static void look_at_node(const void *parameters)
{
  if (parameters && *(const int *)parameters == NODE_EVENT_RECORD)
    distrust(*(const CUevent *)(const void *)((const char *)parameters + NODE_EVENT_OFFSET));
}

#if CUDA_VERSION >= 12020
_Static_assert(offsetof(CUgraphNodeParams, eventRecord) == NODE_EVENT_OFFSET, "CUgraphNodeParams");
_Static_assert(CU_GRAPH_NODE_TYPE_EVENT_RECORD == NODE_EVENT_RECORD, "CUgraphNodeType");
#endif

CUresult CUDAAPI hook_cuGraphAddNode(
    CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, void *parameters)
{
  (void)gp_library_engine(); /* binds the driver */
  look_at_node(parameters);
  return GP_REAL_CALL(cuGraphAddNode, node, graph, nodes, count, parameters);
}

CUresult CUDAAPI hook_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes,
    const void *edges, size_t count, void *parameters)
{
  (void)gp_library_engine();
  look_at_node(parameters);
  return GP_REAL_CALL(cuGraphAddNode_v2, node, graph, nodes, edges, count, parameters);
}

CUresult CUDAAPI hook_cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes,
    const void *edges, size_t count, void *parameters)
{
  (void)gp_library_engine();
  look_at_node(parameters);
  return GP_REAL_CALL(cuGraphAddNode_v3, node, graph, nodes, edges, count, parameters);
}

CUresult CUDAAPI hook_cuGraphNodeSetParams(CUgraphNode node, void *parameters)
{
  (void)gp_library_engine();
  look_at_node(parameters);
  return GP_REAL_CALL(cuGraphNodeSetParams, node, parameters);
}

CUresult CUDAAPI hook_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, void *parameters)
{
  (void)gp_library_engine();
  look_at_node(parameters);
  return GP_REAL_CALL(cuGraphExecNodeSetParams, exec, node, parameters);
}
