/*
 * Handles of objects that are gone: refused without a look at their memory, which AddressSanitizer would see.
 */
#include "sim_test.h"

static CUgraph empty_graph(void)
{
  CUgraph graph;
  CUgraphNode node;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
  return graph;
}

START_TEST(test_graph)
{
  CUgraph graph, other;
  CUgraphNode node;
  CUgraphExec exec;
  size_t count;
  test_start();
  graph = empty_graph();
  other = empty_graph();
  OK(cuGraphDestroy(graph));
  ck_assert_int_eq(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphGetNodes(graph, NULL, &count), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphAddEmptyNode(&node, graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphAddChildGraphNode(&node, other, NULL, 0, graph), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphDestroy(other));
}
END_TEST

START_TEST(test_executable_graph)
{
  CUgraphExec exec;
  CUstream stream;
  test_start();
  CUgraph graph = empty_graph();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphExecDestroy(exec));
  ck_assert_int_eq(cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphUpload(exec, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* The graph is gone, but what was made of it still holds its one node, which has no work that could be
 * copied. */
START_TEST(test_free_node_of_a_graph_that_is_gone)
{
  CUgraph graph, captured;
  CUgraphNode node;
  CUgraphExec exec;
  CUstream stream;
  CUdeviceptr p;
  CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
      .bytesize = 4096};
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
  p = params.dptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddMemFreeNode(&node, graph, NULL, 0, p));
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_NOT_SUPPORTED);
  OK(cuStreamEndCapture(stream, &captured));
}
END_TEST

START_TEST(test_function)
{
  CUmodule module;
  CUfunction function;
  CUdeviceptr p;
  size_t bytes;
  int value;
  test_start();
  OK(cuModuleLoadData(&module, ""));
  OK(cuModuleGetFunction(&function, module, "kernel"));
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
  OK(cuModuleUnload(module));
  ck_assert_int_eq(
      cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuFuncGetModule(&module, function), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(
      cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuModuleGetFunction(&function, module, "kernel"), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuModuleGetGlobal(&p, &bytes, module, "variable"), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

/* What PTX is linked to is loaded as any other image. */
START_TEST(test_link)
{
  CUlinkState state;
  CUmodule module;
  CUfunction function;
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  char log[100] = "";
  void *values[] = {log, (void *)sizeof log};
  char ptx[] = ".version 8.0";
  void *image;
  size_t bytes;
  test_start();
  OK(cuLinkCreate(2, options, values, &state));
  ck_assert_ptr_null(values[1]); /* how much of the log is filled */
  ck_assert_int_eq(cuLinkComplete(state, &image, &bytes), CUDA_ERROR_INVALID_VALUE);
  OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, ptx, sizeof ptx, "here", 0, NULL, NULL));
  OK(cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, "libcudadevrt.a", 0, NULL, NULL));
  OK(cuLinkComplete(state, &image, &bytes));
  ck_assert_uint_gt(bytes, 0);
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&function, module, "kernel"));
  OK(cuLinkDestroy(state));
  ck_assert_int_eq(cuLinkDestroy(state), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuLinkComplete(state, &image, &bytes), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuLinkAddData(state, CU_JIT_INPUT_PTX, ptx, sizeof ptx, "here", 0, NULL, NULL),
      CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_handles");
  TCase *tests = tcase_create("handles");
  tcase_add_test(tests, test_graph);
  tcase_add_test(tests, test_executable_graph);
  tcase_add_test(tests, test_free_node_of_a_graph_that_is_gone);
  tcase_add_test(tests, test_function);
  tcase_add_test(tests, test_link);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
