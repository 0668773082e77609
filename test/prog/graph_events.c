/*
 * Shows what an event still tells when a graph may record it, too: graph_events WAY. In each round memory is
 * freed behind work in a stream, an event of that stream is waited for, and the same is asked for again. In
 * between, WAY names the event to a node of a graph; the call may be refused. none: no graph knows it.
 *
 * again: how often the same memory came back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES  (1u << 16)
#define ROUNDS 20

#define CALL(call)                                                                                           \
  do {                                                                                                       \
    CUresult result_ = (call);                                                                               \
    if (result_ != CUDA_SUCCESS) {                                                                           \
      printf("%s: %d\n", #call, (int)result_);                                                               \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

static CUgraph graph;
static CUgraphNode node;
static CUgraphExec exec;

static void none(CUevent event)
{
  (void)event;
}

static void add(CUevent event)
{
  (void)cuGraphAddEventRecordNode(&node, graph, NULL, 0, event);
}

/* What a whole context has done is no fact about one of its streams. */
static void of_context(CUevent event)
{
  CUcontext context;
  CALL(cuCtxGetCurrent(&context));
  CALL(cuCtxRecordEvent(context, event));
}

/* Refused for a context that is none; the event is not asked after. */
static void of_green_context(CUevent event)
{
  (void)cuGreenCtxRecordEvent(NULL, event);
}

/* Another process may record it, too. */
static void lend(CUevent event)
{
  CUipcEventHandle handle;
  (void)cuIpcGetEventHandle(&handle, event);
}

static void set(CUevent event)
{
  (void)cuGraphEventRecordNodeSetEvent(node, event);
}

static void exec_set(CUevent event)
{
  (void)cuGraphExecEventRecordNodeSetEvent(exec, node, event);
}

static CUgraphNodeParams *parameters_of(CUevent event)
{
  static CUgraphNodeParams parameters;
  parameters.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  parameters.eventRecord.event = event;
  return &parameters;
}

static void any_add(CUevent event)
{
  (void)cuGraphAddNode(&node, graph, NULL, 0, parameters_of(event));
}

static void any_add_v2(CUevent event)
{
  (void)cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, parameters_of(event));
}

static void any_set(CUevent event)
{
  (void)cuGraphNodeSetParams(node, parameters_of(event));
}

static void any_exec_set(CUevent event)
{
  (void)cuGraphExecNodeSetParams(exec, node, parameters_of(event));
}

/* A node that waits for it leaves it as it is. */
static void wait_for(CUevent event)
{
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {event}};
  (void)cuGraphAddNode(&node, graph, NULL, 0, &parameters);
}

static const struct {
  const char *name;
  void (*tell)(CUevent event);
} ways[] = {{"none", none}, {"wait_for", wait_for}, {"add", add}, {"set", set}, {"of_context", of_context},
    {"of_green_context", of_green_context}, {"lend", lend}, {"exec_set", exec_set}, {"any_add", any_add},
    {"any_add_v2", any_add_v2}, {"any_set", any_set}, {"any_exec_set", any_exec_set}};

int main(int argc, char **argv)
{
  size_t way = 0, count = sizeof(ways) / sizeof(ways[0]);
  int again = 0;
  CUcontext context;
  CUstream stream;

  while (argc == 2 && way < count && strcmp(ways[way].name, argv[1]) != 0)
    way++;
  if (argc != 2 || way == count) {
    fputs("usage: graph_events WAY\n", stderr);
    for (size_t i = 0; i < count; i++)
      puts(ways[i].name);
    return 2;
  }
  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&context, 0, 0));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuGraphCreate(&graph, 0));
  for (int i = 0; i < ROUNDS; i++) {
    CUevent event;
    CUdeviceptr used, next;
    CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CALL(cuMemAlloc_v2(&used, BYTES));
    CALL(cuMemsetD8Async(used, 1, BYTES, stream));
    CALL(cuEventRecord(event, stream));
    CALL(cuMemFree_v2(used));
    ways[way].tell(event);
    CALL(cuEventSynchronize(event));
    CALL(cuMemAlloc_v2(&next, BYTES));
    again += next == used;
    CALL(cuCtxSynchronize());
    CALL(cuMemFree_v2(next));
    CALL(cuEventDestroy_v2(event));
    CALL(cuCtxSynchronize());
  }
  printf("again=%d\n", again);
  return 0;
}
