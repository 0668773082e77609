/*
 * Stream capture and graphs.
 */
#include "sim_test.h"

#include <pthread.h>

static CUstream stream;
static CUdeviceptr memory;

static void begin(CUstreamCaptureMode mode)
{
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&memory, 4096));
  OK(cuStreamBeginCapture(stream, mode));
}

START_TEST(test_captured_work_runs_at_launch)
{
  CUgraph graph;
  CUgraphExec exec;
  CUstreamCaptureStatus status;
  unsigned value = 1;
  size_t count = 0;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  OK(cuStreamIsCapturing(stream, &status));
  ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(cuMemsetD32Async(memory, 5, 1, stream));
  OK(cuMemcpyDtoDAsync(memory + 4, memory, 4, stream));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphGetNodes(graph, NULL, &count));
  ck_assert_uint_eq(count, 2);
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  OK(cuMemcpyDtoH(&value, memory + 4, 4));
  ck_assert_uint_eq(value, 0);
  for (int i = 0; i < 3; i++) {
    OK(cuMemsetD32(memory + 4, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(&value, memory + 4, 4));
    ck_assert_uint_eq(value, 5);
  }
  OK(cuGraphExecDestroy(exec));
}
END_TEST

static CUresult add_kernel(CUgraphNode *ret, CUgraph graph, void **params, void **extra)
{
  static char image[] = "no image";
  CUmodule module;
  CUDA_KERNEL_NODE_PARAMS plan = {.gridDimX = 1,
      .gridDimY = 1,
      .gridDimZ = 1,
      .blockDimX = 1,
      .blockDimY = 1,
      .blockDimZ = 1,
      .kernelParams = params,
      .extra = extra};
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&plan.func, module, "simcuda_fill"));
  return cuGraphAddKernelNode(ret, graph, NULL, 0, &plan);
}

START_TEST(test_graph_of_a_kernel_and_a_copy)
{
  uint64_t words = 4, value = 9, result = 0;
  void *params[] = {&memory, &words, &value};
  CUDA_MEMCPY3D plan = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
      .dstMemoryType = CU_MEMORYTYPE_HOST,
      .dstHost = &result,
      .WidthInBytes = sizeof result,
      .Height = 1,
      .Depth = 1};
  CUcontext ctx = test_start();
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode kernel, copy;
  CUgraphNodeType type;
  OK(cuMemAlloc(&memory, 4096));
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuGraphCreate(&graph, 0));
  ck_assert_int_eq(add_kernel(&kernel, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(add_kernel(&kernel, graph, params, params), CUDA_ERROR_INVALID_VALUE);
  OK(add_kernel(&kernel, graph, params, NULL));
  ck_assert_int_eq(
      cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &plan, ctx), CUDA_ERROR_INVALID_VALUE); /* no source */
  plan.srcDevice = memory + 24;
  OK(cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &plan, ctx));
  OK(cuGraphNodeGetType(copy, &type));
  ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEMCPY);
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(result, 9);
}
END_TEST

/* "All streams must have been joined"; one that has may end before the capture. */
static CUgraph capture_fills(unsigned value, unsigned count)
{
  CUgraph graph;
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (unsigned i = 0; i < count; i++)
    OK(cuMemsetD32Async(memory + 4 * i, value, 1, stream));
  OK(cuStreamEndCapture(stream, &graph));
  return graph;
}

START_TEST(test_executable_graph_is_updated)
{
  CUgraphExec exec;
  CUgraphExecUpdateResultInfo info;
  unsigned value = 0;
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&memory, 4096));
  OK(cuGraphInstantiate(&exec, capture_fills(1, 2), 0));
  OK(cuGraphExecUpdate(exec, capture_fills(2, 2), &info));
  ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  ck_assert_int_eq(cuGraphExecUpdate(exec, capture_fills(3, 3), &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(&value, memory, 4));
  ck_assert_uint_eq(value, 2);
  OK(cuGraphExecDestroy(exec));
}
END_TEST

START_TEST(test_joined_stream_that_ends)
{
  CUgraph graph;
  CUstream other;
  CUevent event;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, 0));
  OK(cuEventRecord(event, stream));
  OK(cuStreamWaitEvent(other, event, 0));
  OK(cuMemsetD32Async(memory, 5, 1, other));
  OK(cuEventRecord(event, other));
  if (_i)
    OK(cuStreamWaitEvent(stream, event, 0));
  OK(cuStreamDestroy(other));
  ck_assert_int_eq(
      cuStreamEndCapture(stream, &graph), _i ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

static CUresult unsafe_call(int which)
{
  CUdeviceptr p;
  CUevent event;
  OK(cuEventCreate(&event, 0)); /* creating one is not unsafe */
  switch (which) {
  case 0: return cuMemAlloc(&p, 512);
  case 1: return cuMemFree(memory);
  case 2: return cuStreamSynchronize(stream);
  case 3: return cuStreamQuery(stream);
  case 4: return cuCtxSynchronize();
  case 5: return cuEventQuery(event);
  case 6: return cuCtxRecordEvent(NULL, event);
  default: return CUDA_SUCCESS;
  }
}

START_TEST(test_unsafe_calls_invalidate)
{
  CUgraph graph;
  CUstreamCaptureStatus status;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  ck_assert_int_eq(unsafe_call(_i), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  OK(cuStreamIsCapturing(stream, &status));
  ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  ck_assert_int_eq(cuMemsetD8Async(memory, 0, 1, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ck_assert_ptr_null(graph);
  OK(unsafe_call(0));
}
END_TEST

START_TEST(test_relaxed_allows_allocation)
{
  CUdeviceptr p;
  CUgraph graph;
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  OK(cuMemAlloc(&p, 512));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphDestroy(graph));
}
END_TEST

START_TEST(test_exchanged_mode_allows_allocation)
{
  CUdeviceptr p;
  CUgraph graph;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  OK(cuMemAlloc(&p, 512));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphDestroy(graph));
}
END_TEST

static void *allocate(void *ctx)
{
  CUdeviceptr p;
  OK(cuCtxSetCurrent(ctx));
  return (void *)(uintptr_t)cuMemAlloc(&p, 512);
}

/* GLOBAL forbids other threads too, THREAD_LOCAL only its own. */
START_TEST(test_other_thread)
{
  pthread_t thread;
  CUcontext ctx;
  void *result;
  begin((CUstreamCaptureMode)_i);
  OK(cuCtxGetCurrent(&ctx));
  ck_assert_int_eq(pthread_create(&thread, NULL, allocate, ctx), 0);
  pthread_join(thread, &result);
  ck_assert_int_eq((int)(uintptr_t)result,
      _i == CU_STREAM_CAPTURE_MODE_GLOBAL ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
}
END_TEST

START_TEST(test_forked_stream_must_join)
{
  CUstream other;
  CUevent event;
  CUgraph graph;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuMemsetD8Async(memory, 1, 8, stream));
  OK(cuEventRecord(event, stream));
  OK(cuStreamWaitEvent(other, event, 0));
  OK(cuMemsetD8Async(memory + 8, 1, 8, other));
  ck_assert_int_eq(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (_i) {
    OK(cuEventRecord(event, other));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
  } else {
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  }
}
END_TEST

START_TEST(test_legacy_stream_is_unusable_while_a_blocking_one_captures)
{
  CUgraph graph;
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  OK(cuMemAlloc(&memory, 4096));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  ck_assert_int_eq(cuMemsetD8Async(memory, 1, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ck_assert_int_eq(
      cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}
END_TEST

/* What encompasses a stream that captures cannot be asked or waited for, in whatever mode; the others can. */
static CUresult broad_call(int which, CUevent event)
{
  switch (which) {
  case 0: return cuCtxSynchronize();
  case 1: return cuCtxRecordEvent(NULL, event);
  case 2: return cuCtxWaitEvent(NULL, event);
  case 3: return cuStreamSynchronize(stream);
  default: return cuStreamQuery(stream);
  }
}

START_TEST(test_contexts_are_not_asked_while_a_stream_captures)
{
  CUgraph graph;
  CUevent event;
  test_start();
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  ck_assert_int_eq(broad_call(_i, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

/* A non-blocking stream that captures is nothing to the legacy stream, which then works as ever. */
START_TEST(test_legacy_stream_beside_a_non_blocking_capture)
{
  CUgraph graph;
  CUdeviceptr pooled;
  CUevent event;
  unsigned value = 0;
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuMemsetD32Async(memory, 7, 1, NULL));
  OK(cuEventRecord(event, NULL));
  OK(cuMemcpyDtoH(&value, memory, sizeof value));
  ck_assert_uint_eq(value, 7);
  OK(cuEventQuery(event));
  OK(cuStreamSynchronize(NULL));
  OK(cuStreamQuery(NULL));
  OK(cuMemAllocAsync(&pooled, 512, NULL));
  ck_assert_uint_ne(pooled, 0);
  OK(cuMemFreeAsync(pooled, NULL));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphDestroy(graph));
}
END_TEST

static CUresult legacy_call(int which, CUevent event)
{
  unsigned value;
  switch (which) {
  case 0: return cuStreamSynchronize(NULL);
  case 1: return cuStreamQuery(NULL);
  case 2: return cuEventRecord(event, NULL);
  case 3: return cuMemcpyDtoH(&value, memory, sizeof value);
  default: return cuStreamWaitEvent(NULL, event, 0);
  }
}

START_TEST(test_legacy_calls_beside_a_blocking_capture)
{
  CUgraph graph;
  CUevent event;
  test_start();
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  OK(cuMemAlloc(&memory, 4096));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  if (_i == 4)
    OK(cuEventRecord(event, stream));
  ck_assert_int_eq(legacy_call(_i, event), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(test_captured_events_are_not_asked)
{
  CUgraph graph;
  CUevent event;
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuEventRecord(event, stream));
  ck_assert_int_eq(_i ? cuEventQuery(event) : cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
  ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_capture");
  TCase *tests = tcase_create("capture");
  tcase_add_test(tests, test_captured_work_runs_at_launch);
  tcase_add_test(tests, test_graph_of_a_kernel_and_a_copy);
  tcase_add_test(tests, test_executable_graph_is_updated);
  tcase_add_loop_test(tests, test_joined_stream_that_ends, 0, 2);
  tcase_add_loop_test(tests, test_unsafe_calls_invalidate, 0, 7);
  tcase_add_test(tests, test_relaxed_allows_allocation);
  tcase_add_test(tests, test_exchanged_mode_allows_allocation);
  tcase_add_loop_test(tests, test_other_thread, 0, 2);
  tcase_add_loop_test(tests, test_forked_stream_must_join, 0, 2);
  tcase_add_test(tests, test_legacy_stream_is_unusable_while_a_blocking_one_captures);
  tcase_add_loop_test(tests, test_contexts_are_not_asked_while_a_stream_captures, 0, 5);
  tcase_add_test(tests, test_legacy_stream_beside_a_non_blocking_capture);
  tcase_add_loop_test(tests, test_legacy_calls_beside_a_blocking_capture, 0, 5);
  tcase_add_loop_test(tests, test_captured_events_are_not_asked, 0, 2);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
