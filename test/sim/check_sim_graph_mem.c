/*
 * Memory of graphs: nodes, when physical memory is taken and given back, who may free, child graphs.
 */
#include "sim_test.h"

#define MIB ((size_t)1 << 20)

static CUstream stream;
static CUgraph graph;
static CUgraphNode node;

static void start(void)
{
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuGraphCreate(&graph, 0));
}

static size_t used(void)
{
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

static size_t attribute(CUgraphMem_attribute which)
{
  cuuint64_t value;
  OK(cuDeviceGetGraphMemAttribute(0, which, &value));
  return value;
}

static CUDA_MEM_ALLOC_NODE_PARAMS params_of(size_t bytes)
{
  return (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
      .bytesize = bytes};
}

static CUdeviceptr add_alloc(CUgraph to, size_t bytes)
{
  CUDA_MEM_ALLOC_NODE_PARAMS params = params_of(bytes);
  OK(cuGraphAddMemAllocNode(&node, to, NULL, 0, &params));
  ck_assert_uint_ne(params.dptr, 0);
  return params.dptr;
}

static CUgraphExec instantiate(CUgraph from)
{
  CUgraphExec exec;
  OK(cuGraphInstantiate(&exec, from, 0));
  return exec;
}

START_TEST(test_nodes_tell_their_parameters)
{
  CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUDA_MEM_ALLOC_NODE_PARAMS params = params_of(5000), got;
  CUgraphNode free_node, nodes[2];
  CUgraphNodeType type;
  CUdeviceptr address;
  size_t count = 2;
  start();
  params.accessDescs = &access;
  params.accessDescCount = 1;
  OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
  OK(cuGraphAddMemFreeNode(&free_node, graph, &node, 1, params.dptr));
  OK(cuGraphGetNodes(graph, nodes, &count));
  ck_assert_uint_eq(count, 2);
  ck_assert_ptr_eq(nodes[0], node);
  OK(cuGraphNodeGetType(node, &type));
  ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  OK(cuGraphMemAllocNodeGetParams(node, &got));
  ck_assert_uint_eq(got.bytesize, 5000);
  ck_assert_uint_eq(got.dptr, params.dptr);
  ck_assert_int_eq(got.poolProps.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  ck_assert_ptr_ne(got.accessDescs, &access); /* "owned by the node" */
  ck_assert_mem_eq(got.accessDescs, &access, sizeof access);
  OK(cuGraphNodeGetType(free_node, &type));
  ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEM_FREE);
  OK(cuGraphMemFreeNodeGetParams(free_node, &address));
  ck_assert_uint_eq(address, params.dptr);
  ck_assert_int_eq(cuGraphMemAllocNodeGetParams(free_node, &got), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphMemFreeNodeGetParams(node, &address), CUDA_ERROR_INVALID_VALUE);
  ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(test_alloc_node_errors)
{
  CUDA_MEM_ALLOC_NODE_PARAMS params = params_of(0);
  start();
  ck_assert_int_eq(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphAddMemAllocNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  params = params_of(4096);
  ck_assert_int_eq(cuGraphAddMemAllocNode(NULL, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
  params.accessDescCount = 1;
  ck_assert_int_eq(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
  params = params_of(4096);
  params.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  ck_assert_int_eq(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
  params = params_of(4096);
  params.poolProps.location.id = 1;
  ck_assert_int_eq(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static CUgraphExec captured(CUdeviceptr *p)
{
  OK(cuGraphDestroy(graph));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemAllocAsync(p, 4 * MIB, stream));
  OK(cuMemsetD8Async(*p, 1, 4 * MIB, stream));
  OK(cuMemFreeAsync(*p, stream));
  OK(cuStreamEndCapture(stream, &graph));
  return instantiate(graph);
}

START_TEST(test_memory_comes_with_the_first_launch_and_stays)
{
  CUdeviceptr p;
  CUgraphExec exec;
  CUgraphNode nodes[3];
  CUDA_MEM_ALLOC_NODE_PARAMS got;
  char byte;
  size_t count = 3;
  start();
  exec = captured(&p);
  OK(cuGraphGetNodes(graph, nodes, &count));
  ck_assert_uint_eq(count, 3);
  OK(cuGraphMemAllocNodeGetParams(nodes[0], &got));
  ck_assert_uint_eq(got.bytesize, 4 * MIB);
  ck_assert_uint_eq(got.dptr, p);
  ck_assert_uint_eq(used(), 0);
  for (int i = 0; i < 2; i++) {
    if (_i == 0)
      OK(cuGraphLaunch(exec, stream));
    else
      OK(cuGraphUpload(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(used(), 4 * MIB);
    ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4 * MIB);
    ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 4 * MIB);
    ck_assert_int_eq(cuMemcpyDtoH(&byte, p, 1), CUDA_ERROR_INVALID_VALUE); /* freed by the graph */
  }
  OK(cuGraphDestroy(graph)); /* the executable graph keeps it */
  ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4 * MIB);
  OK(cuGraphExecDestroy(exec));
  ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
  ck_assert_uint_eq(used(), 4 * MIB);
  OK(cuGraphCreate(&graph, 0));
  (void)add_alloc(graph, 6 * MIB);
  OK(cuGraphUpload(instantiate(graph), stream)); /* takes what is left first */
  ck_assert_uint_eq(used(), 6 * MIB);
}
END_TEST

START_TEST(test_trim_spares_what_is_in_use)
{
  CUdeviceptr p;
  CUgraphExec exec;
  cuuint64_t zero = 0, one = 1;
  start();
  exec = captured(&p);
  OK(cuGraphLaunch(exec, stream));
  OK(cuDeviceGraphMemTrim(0));
  OK(cuStreamSynchronize(stream));
  OK(cuDeviceGraphMemTrim(0));
  ck_assert_uint_eq(used(), 0);
  ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
  ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 4 * MIB);
  ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 4 * MIB);
  ck_assert_int_eq(
      cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
  OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0);
  OK(cuGraphLaunch(exec, stream)); /* memory comes back */
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(used(), 4 * MIB);
  ck_assert_int_eq(cuDeviceGraphMemTrim(1), CUDA_ERROR_INVALID_DEVICE);
  ck_assert_int_eq(
      cuDeviceGetGraphMemAttribute(1, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero), CUDA_ERROR_INVALID_DEVICE);
}
END_TEST

/* The host function holds the launch back until the trim has been seen to spare it. */
static void hold(void *unused)
{
}

START_TEST(test_trim_spares_pending_and_allocated_memory)
{
  CUdeviceptr p;
  CUgraphExec exec;
  start();
  p = add_alloc(graph, 4 * MIB);
  exec = instantiate(graph);
  OK(cuLaunchHostFunc(stream, hold, NULL)); /* runs only in calls that wait */
  OK(cuGraphLaunch(exec, stream));
  OK(cuMemFreeAsync(p, stream));
  OK(cuDeviceGraphMemTrim(0));
  ck_assert_uint_eq(used(), 4 * MIB);
  OK(cuStreamSynchronize(stream));
  OK(cuDeviceGraphMemTrim(0));
  ck_assert_uint_eq(used(), 0);
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuDeviceGraphMemTrim(0)); /* allocated */
  ck_assert_uint_eq(used(), 4 * MIB);
}
END_TEST

START_TEST(test_allocation_is_freed_outside)
{
  CUdeviceptr p;
  CUgraphExec exec;
  char byte = 0;
  start();
  p = add_alloc(graph, 4096);
  exec = instantiate(graph);
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE); /* not allocated yet */
  OK(cuGraphLaunch(exec, stream));
  OK(cuMemsetD8Async(p, 3, 4096, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(&byte, p, 1));
  ck_assert_int_eq(byte, 3);
  ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE); /* "remain unfreed" */
  if (_i)
    OK(cuMemFreeAsync(p, stream));
  else
    OK(cuMemFree(p));
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuMemsetD8Async(p, 4, 4096, stream)); /* it outlives both */
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuDeviceGraphMemTrim(0));
  ck_assert_uint_eq(used(), 0);
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_auto_free_on_launch)
{
  CUgraphExec exec;
  start();
  (void)add_alloc(graph, 4096);
  OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphLaunch(exec, stream));
  ck_assert_uint_eq(used(), 4096);
}
END_TEST

START_TEST(test_who_may_free)
{
  CUdeviceptr inside, outside, plain;
  CUgraph other;
  CUgraphExec exec, freeing;
  start();
  OK(cuGraphCreate(&other, 0));
  OK(cuMemAlloc(&plain, 4096));
  inside = add_alloc(graph, 4096);
  outside = add_alloc(graph, 4096);
  OK(cuGraphAddMemFreeNode(&node, graph, NULL, 0, inside));
  ck_assert_int_eq(cuGraphAddMemFreeNode(&node, graph, NULL, 0, inside), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphAddMemFreeNode(&node, other, NULL, 0, inside), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphAddMemFreeNode(&node, graph, NULL, 0, plain), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphAddMemFreeNode(&node, graph, NULL, 0, outside + 8), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphAddMemFreeNode(&node, other, NULL, 0, outside));
  ck_assert_int_eq(cuGraphAddMemFreeNode(&node, graph, NULL, 0, outside), CUDA_ERROR_INVALID_VALUE);
  exec = instantiate(graph);
  freeing = instantiate(other);
  ck_assert_int_eq(cuGraphLaunch(freeing, stream), CUDA_ERROR_INVALID_VALUE); /* nothing to free yet */
  OK(cuGraphLaunch(exec, stream));
  ck_assert_int_eq(cuMemFree(inside), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphLaunch(freeing, stream));
  ck_assert_int_eq(cuMemFree(outside), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphLaunch(freeing, stream));
}
END_TEST

START_TEST(test_launch_without_memory)
{
  CUgraph small;
  CUgraphExec exec, first;
  CUdeviceptr p, q;
  setenv("SIMCUDA_CAPACITY", "8 MiB", 1);
  start();
  (void)add_alloc(graph, 4 * MIB);
  (void)add_alloc(graph, 4 * MIB);
  exec = instantiate(graph);
  OK(cuMemAlloc(&p, 2 * MIB));
  ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
  ck_assert_int_eq(cuGraphUpload(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
  ck_assert_uint_eq(used(), 2 * MIB); /* all or nothing */
  ck_assert_uint_eq(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
  OK(cuMemFree(p));
  OK(cuGraphCreate(&small, 0));
  q = add_alloc(small, 2 * MIB);
  first = instantiate(small);
  OK(cuGraphLaunch(first, stream));
  ck_assert_int_eq(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY); /* q is allocated */
  OK(cuMemFree(q));
  OK(cuStreamSynchronize(stream));
  OK(cuGraphLaunch(exec, stream)); /* the idle memory of the other graph makes room */
  ck_assert_uint_eq(used(), 8 * MIB);
}
END_TEST

/* "Each launch is ordered behind [...] any previous launches", in whatever streams they are. */
START_TEST(test_launches_follow_each_other)
{
  CUstream other;
  CUgraphExec exec;
  CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 1, .width = 16, .height = 1};
  unsigned *gate;
  start();
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuMemHostAlloc((void **)&gate, sizeof *gate, 0));
  *gate = 0;
  OK(cuMemAlloc(&fill.dst, 16));
  OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, NULL));
  exec = instantiate(graph);
  OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphLaunch(exec, other));
  for (int i = 0; i < 1000; i++)
    ck_assert_int_eq(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
  *gate = 1;
  OK(cuStreamSynchronize(other));
  OK(cuStreamQuery(stream));
  OK(cuGraphExecDestroy(exec));
}
END_TEST

START_TEST(test_one_executable_graph_at_a_time)
{
  CUgraphExec exec, second;
  start();
  (void)add_alloc(graph, 4096);
  exec = instantiate(graph);
  ck_assert_int_eq(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphExecDestroy(exec));
  (void)instantiate(graph);
}
END_TEST

START_TEST(test_upload_at_instantiation)
{
  CUgraphExec exec;
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
  start();
  (void)add_alloc(graph, 4096);
  ck_assert_int_eq(
      cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), CUDA_ERROR_INVALID_VALUE);
  params.hUploadStream = stream;
  OK(cuGraphInstantiateWithParams(&exec, graph, &params));
  ck_assert_uint_eq(used(), 4096);
}
END_TEST

START_TEST(test_child_graph)
{
  CUgraph child, got;
  CUgraphNodeType type;
  CUdeviceptr p;
  CUDA_MEMSET_NODE_PARAMS fill = {.value = 9, .elementSize = 1, .width = 16, .height = 1};
  CUDA_MEM_ALLOC_NODE_PARAMS params = params_of(4096);
  size_t count = 0;
  char byte = 0;
  start();
  OK(cuMemAlloc(&p, 16));
  OK(cuGraphCreate(&child, 0));
  fill.dst = p;
  OK(cuGraphAddMemsetNode(&node, child, NULL, 0, &fill, NULL));
  OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
  OK(cuGraphNodeGetType(node, &type));
  ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_GRAPH);
  OK(cuGraphChildGraphNodeGetGraph(node, &got));
  ck_assert_ptr_ne(got, child); /* a clone */
  OK(cuGraphGetNodes(got, NULL, &count));
  ck_assert_uint_eq(count, 1);
  ck_assert_int_eq(cuGraphAddMemAllocNode(&node, got, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGraphDestroy(got), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphDestroy(child));
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(&byte, p + 15, 1));
  ck_assert_int_eq(byte, 9);
  OK(cuGraphExecDestroy(exec));
}
END_TEST

START_TEST(test_child_graph_with_memory_is_moved)
{
#if CUDA_VERSION >= 13000
  CUgraph child, got;
  CUgraphExec exec;
  CUdeviceptr p;
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
  start();
  OK(cuGraphCreate(&child, 0));
  p = add_alloc(child, 4096);
  ck_assert_int_eq(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child), CUDA_ERROR_INVALID_VALUE);
  params.graph.graph = child;
  params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
  OK(cuGraphChildGraphNodeGetGraph(node, &got));
  ck_assert_ptr_eq(got, child);
  exec = instantiate(graph);
  OK(cuGraphLaunch(exec, stream));
  ck_assert_uint_eq(used(), 4096);
  OK(cuMemFree(p));
  OK(cuGraphDestroy(graph));
  OK(cuGraphExecDestroy(exec));
  OK(cuStreamSynchronize(stream));
  OK(cuDeviceGraphMemTrim(0));
  ck_assert_uint_eq(used(), 0);
#endif
}
END_TEST

START_TEST(test_add_node)
{
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
  CUDA_MEM_ALLOC_NODE_PARAMS alloc = params_of(4096);
  CUdeviceptr p;
  start();
  memcpy(&params.alloc, &alloc, sizeof alloc);
#if CUDA_VERSION >= 13000
  OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
#else
  OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
#endif
  p = params.alloc.dptr;
  OK(cuGraphMemAllocNodeGetParams(node, &alloc));
  ck_assert_uint_eq(alloc.dptr, p);
  params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
  params.free.dptr = p;
#if CUDA_VERSION >= 13000
  OK(cuGraphAddNode(&node, graph, &node, NULL, 1, &params));
#else
  OK(cuGraphAddNode(&node, graph, &node, 1, &params));
#endif
  OK(cuGraphLaunch(instantiate(graph), stream));
  ck_assert_uint_eq(used(), 4096);
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_graph_mem");
  TCase *tests = tcase_create("graph_mem");
  tcase_add_test(tests, test_nodes_tell_their_parameters);
  tcase_add_test(tests, test_alloc_node_errors);
  tcase_add_loop_test(tests, test_memory_comes_with_the_first_launch_and_stays, 0, 2);
  tcase_add_test(tests, test_trim_spares_what_is_in_use);
  tcase_add_test(tests, test_trim_spares_pending_and_allocated_memory);
  tcase_add_loop_test(tests, test_allocation_is_freed_outside, 0, 2);
  tcase_add_test(tests, test_auto_free_on_launch);
  tcase_add_test(tests, test_who_may_free);
  tcase_add_test(tests, test_launch_without_memory);
  tcase_add_test(tests, test_launches_follow_each_other);
  tcase_add_test(tests, test_one_executable_graph_at_a_time);
  tcase_add_test(tests, test_upload_at_instantiation);
  tcase_add_test(tests, test_child_graph);
  tcase_add_test(tests, test_child_graph_with_memory_is_moved);
  tcase_add_test(tests, test_add_node);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
