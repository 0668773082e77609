/*
 * Stream capture: work submitted to a capturing stream becomes nodes of a graph.
 */
#include "sim.h"

#include <stdlib.h>

sim_capture_t *sim_captures;
static uint64_t last_id;

void sim_capture_invalidate(sim_capture_t *capture)
{
  capture->invalidated = true;
}

/* The rules are those of cuThreadExchangeStreamCaptureMode (cuda.h). "If the local thread has an ongoing
 * capture sequence that was not initiated with RELAXED, or if any other thread has a concurrent one initiated
 * with GLOBAL" a thread in GLOBAL mode must not; in THREAD_LOCAL mode the captures of others do not matter;
 * in RELAXED mode none. */
bool sim_capture_forbids(const sim_thread_t *thread)
{
  bool forbidden = false;
  if (thread->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  for (sim_capture_t *capture = sim_captures; capture; capture = capture->next) {
    bool conflict = capture->thread == thread->serial
                        ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                        : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                              thread->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (conflict) {
      sim_capture_invalidate(capture);
      forbidden = true;
    }
  }
  return forbidden;
}

/* The legacy stream would have to wait for a blocking stream that captures, which it cannot. Non-blocking
 * ones are nothing to it. */
CUresult sim_capture_legacy(const sim_stream_t *stream)
{
  bool blocking = false;
  if (stream->kind != SIM_STREAM_LEGACY || !stream->ctx->captures)
    return CUDA_SUCCESS;
  for (sim_capture_t *capture = sim_captures; capture; capture = capture->next) {
    for (unsigned i = 0; capture->ctx == stream->ctx && i < capture->member_count; i++) {
      if (!capture->members[i].stream->nonblocking) {
        sim_capture_invalidate(capture);
        blocking = true;
      }
    }
  }
  return blocking ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

/*
 * "It is invalid to synchronize or query the execution status of a stream which is being captured" (CUDA C++
 * Programming Guide, stream capture), and the legacy stream cannot be used beside a blocking one that
 * captures. "When an invalid operation is attempted during stream capture, any associated capture graphs are
 * invalidated."
 */
CUresult sim_capture_refuses(sim_stream_t *stream)
{
  if (stream->capture) {
    sim_capture_invalidate(stream->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return sim_capture_legacy(stream);
}

/* "... or synchronize a broader handle which encompasses an active stream capture, such as a device or
 * context handle" */
CUresult sim_capture_refuses_ctx(sim_ctx_t *ctx)
{
  if (!ctx->captures)
    return CUDA_SUCCESS;
  for (sim_capture_t *capture = sim_captures; capture; capture = capture->next) {
    if (capture->ctx == ctx)
      sim_capture_invalidate(capture);
  }
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static unsigned member(sim_capture_t *capture, sim_stream_t *stream)
{
  unsigned i = 0;
  while (i < capture->member_count && capture->members[i].stream != stream)
    i++;
  if (i == capture->member_count) {
    capture->members = realloc(capture->members, (i + 1) * sizeof *capture->members);
    if (!capture->members)
      abort();
    capture->members[i].stream = stream;
    capture->members[i].last = NULL;
    capture->members[i].joined = false;
    capture->member_count++;
    stream->capture = capture;
  }
  return i;
}

/* Ends the capture without giving its graph away. */
static void drop(sim_capture_t *capture)
{
  sim_capture_t **link = &sim_captures;
  while (*link != capture)
    link = &(*link)->next;
  *link = capture->next;
  for (unsigned i = 0; i < capture->member_count; i++)
    capture->members[i].stream->capture = NULL;
  capture->ctx->captures--;
  free(capture->members);
  free(capture);
}

void sim_capture_forget_stream(sim_stream_t *stream)
{
  sim_capture_t *capture = stream->capture;
  if (capture->origin == stream) {
    if (capture->owns_graph)
      sim_graph_delete(capture->graph);
    drop(capture);
    return;
  }
  unsigned i = member(capture, stream);
  capture->invalidated |= !capture->members[i].joined; /* its work could not be joined any more */
  capture->members[i] = capture->members[--capture->member_count];
  stream->capture = NULL;
}

static struct CUgraphNode_st *add(sim_stream_t *stream, CUgraphNodeType type, sim_op_t *op)
{
  sim_capture_t *capture = stream->capture;
  unsigned i = member(capture, stream);
  struct CUgraphNode_st *last = capture->members[i].last;
  capture->members[i].last = sim_graph_add(capture->graph, type, op, &last, last ? 1 : 0);
  capture->members[i].joined = false;
  return capture->members[i].last;
}

bool sim_capture_take(sim_stream_t *stream, sim_op_t *op, CUresult *ret_result)
{
  *ret_result = CUDA_SUCCESS;
  if (!stream->capture) {
    *ret_result = sim_capture_legacy(stream);
    if (*ret_result == CUDA_SUCCESS)
      return false;
  } else if (stream->capture->invalidated)
    *ret_result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else {
    static const CUgraphNodeType types[] = {
        [SIM_OP_NOP] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SIM_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [SIM_OP_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,
        [SIM_OP_EXPECT] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SIM_OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [SIM_OP_CALLBACK] = CU_GRAPH_NODE_TYPE_HOST,
        [SIM_OP_WRITE_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SIM_OP_WAIT_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SIM_OP_BUSY] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SIM_OP_MEET] = CU_GRAPH_NODE_TYPE_KERNEL,
    };
    add(stream, types[op->kind], op);
    return true;
  }
  if (*ret_result == CUDA_SUCCESS)
    return false;
  sim_op_delete(op);
  return true;
}

struct CUgraphNode_st *sim_capture_memory_node(sim_stream_t *stream, CUgraphNodeType type)
{
  return add(stream, type, NULL);
}

CUresult sim_capture_record(sim_stream_t *stream, sim_event_t *event)
{
  sim_capture_t *capture = stream->capture;
  if (capture->invalidated)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->capture = capture;
  event->capture_id = capture->id;
  event->capture_node = capture->members[member(capture, stream)].last;
  event->capture_stream = stream;
  return CUDA_SUCCESS;
}

static bool is_active(const sim_capture_t *capture, uint64_t id)
{
  for (const sim_capture_t *other = sim_captures; other; other = other->next) {
    if (other == capture && other->id == id)
      return true;
  }
  return false;
}

/* True when the wait has to do with a capture: a captured event brings the waiting
 * stream into its capture. */
bool sim_capture_wait(sim_stream_t *stream, sim_event_t *event, CUresult *ret_result)
{
  sim_capture_t *source =
      event->capture && is_active(event->capture, event->capture_id) ? event->capture : NULL;
  *ret_result = CUDA_SUCCESS;
  if (!source && !stream->capture)
    return false;
  if (!source) { /* an event from outside: "dependency created on uncaptured work in another stream" (cuda.h,
                    905) */
    sim_capture_invalidate(stream->capture);
    *ret_result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    return true;
  }
  if (stream->capture && stream->capture != source) {
    sim_capture_invalidate(stream->capture);
    sim_capture_invalidate(source);
    *ret_result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    return true;
  }
  if (stream->kind == SIM_STREAM_LEGACY) { /* it would become part of the capture, which it cannot */
    sim_capture_invalidate(source);
    *ret_result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return true;
  }
  if (source->invalidated) {
    *ret_result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return true;
  }
  unsigned mine = member(source, stream), theirs = member(source, event->capture_stream);
  if (event->capture_node == source->members[theirs].last)
    source->members[theirs].joined = true;
  struct CUgraphNode_st *deps[2];
  unsigned count = 0;
  if (source->members[mine].last)
    deps[count++] = source->members[mine].last;
  if (event->capture_node)
    deps[count++] = event->capture_node;
  if (count == 1)
    source->members[mine].last = deps[0];
  else if (count == 2)
    source->members[mine].last = sim_graph_add(source->graph, CU_GRAPH_NODE_TYPE_EMPTY, NULL, deps, count);
  source->members[mine].joined = false;
  return true;
}

static CUresult begin(sim_call_t *call, CUstream handle, CUstreamCaptureMode mode, sim_graph_t *graph)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->kind == SIM_STREAM_LEGACY)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  sim_capture_t *capture = calloc(1, sizeof *capture);
  if (!capture)
    return CUDA_ERROR_OUT_OF_MEMORY;
  capture->id = ++last_id;
  capture->ctx = stream->ctx;
  capture->origin = stream;
  capture->owns_graph = !graph;
  capture->graph = graph ? graph : sim_graph_new();
  capture->mode = mode;
  capture->thread = sim_thread_self()->serial;
  capture->next = sim_captures;
  sim_captures = capture;
  stream->ctx->captures++;
  (void)member(capture, stream);
  return CUDA_SUCCESS;
}

SIM_FN2(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream stream),
    begin(&call, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL), "%s", sim_str_stream(stream))
SIM_FN2(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
    begin(&call, stream, mode, NULL), "%s %d", sim_str_stream(stream), (int)mode)
SIM_FN2(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
    (CUstream stream, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count,
        CUstreamCaptureMode mode),
    graph ? begin(&call, stream, mode, graph) : CUDA_ERROR_INVALID_VALUE, "%s %d", sim_str_stream(stream),
    (int)mode)

static CUresult end(sim_call_t *call, CUstream handle, CUgraph *ret_graph)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  sim_capture_t *capture = stream->capture;
  if (!ret_graph)
    return CUDA_ERROR_INVALID_VALUE;
  *ret_graph = NULL;
  if (!capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_thread_self()->serial)
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  for (unsigned i = 0; result == CUDA_SUCCESS && i < capture->member_count; i++) {
    if (capture->members[i].stream != stream && !capture->members[i].joined)
      result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (result == CUDA_SUCCESS)
    *ret_graph = capture->graph;
  else if (capture->owns_graph)
    sim_graph_delete(capture->graph);
  drop(capture);
  return result;
}

SIM_FN2(cuStreamEndCapture, cuStreamEndCapture_ptsz, (CUstream stream, CUgraph *graph),
    end(&call, stream, graph), "%s", sim_str_stream(stream))

static CUstreamCaptureStatus status(const sim_capture_t *capture)
{
  return !capture               ? CU_STREAM_CAPTURE_STATUS_NONE
         : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static CUresult info(sim_call_t *call, CUstream handle, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id,
    CUgraph *ret_graph, const CUgraphNode **ret_deps, size_t *ret_count)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  if (!ret_status)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->kind == SIM_STREAM_LEGACY && stream->ctx->captures) {
    for (const sim_capture_t *capture = sim_captures; capture; capture = capture->next) {
      for (unsigned i = 0; capture->ctx == stream->ctx && i < capture->member_count; i++) {
        if (!capture->members[i].stream->nonblocking)
          return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; /* "but does not invalidate the capture" (cuda.h) */
      }
    }
  }
  sim_capture_t *capture = stream->capture;
  *ret_status = status(capture);
  if (*ret_status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_SUCCESS;
  if (ret_id)
    *ret_id = capture->id;
  if (ret_graph)
    *ret_graph = capture->graph;
  capture->deps_out[0] = capture->members[member(capture, stream)].last;
  if (ret_deps)
    *ret_deps = capture->deps_out;
  if (ret_count)
    *ret_count = capture->deps_out[0] != NULL;
  return CUDA_SUCCESS;
}

SIM_FN2(cuStreamIsCapturing, cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus *ret),
    info(&call, stream, ret, NULL, NULL, NULL, NULL), "%s", sim_str_stream(stream))
SIM_FN2(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz,
    (CUstream stream, CUstreamCaptureStatus *ret, cuuint64_t *id),
    info(&call, stream, ret, id, NULL, NULL, NULL), "%s", sim_str_stream(stream))
SIM_FN2(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz,
    (CUstream stream, CUstreamCaptureStatus *ret, cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
        size_t *count),
    info(&call, stream, ret, id, graph, deps, count), "%s", sim_str_stream(stream))

static CUresult info_v3(sim_call_t *call, CUstream stream, CUstreamCaptureStatus *ret, cuuint64_t *id,
    CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges, size_t *count)
{
  if (edges)
    *edges = NULL; /* all edges are plain */
  return info(call, stream, ret, id, graph, deps, count);
}

SIM_FN2(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz,
    (CUstream stream, CUstreamCaptureStatus *ret, cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
        const CUgraphEdgeData **edges, size_t *count),
    info_v3(&call, stream, ret, id, graph, deps, edges, count), "%s", sim_str_stream(stream))

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
  sim_thread_t *thread = sim_thread_self();
  if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  CUstreamCaptureMode old = thread->capture_mode;
  thread->capture_mode = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}

SIM_FN(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), exchange_mode(mode), "%d",
    mode ? (int)*mode : -1)
