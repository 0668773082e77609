/*
 * The ordering oracle: one block changes hands; what is and what is not between the two uses decides.
 */
#include "oracle.h"
#include "sim_test.h"

#include <stdbool.h>

#define WORDS 64u
#define BYTES (WORDS * 8)

static CUdeviceptr block;
static CUfunction fill;
static CUstream first, second, blocking; /* first and second do not block */
static CUevent event;
static uint64_t owners;

static void start(void)
{
  static char image[] = "no image";
  CUmodule module;
  setenv("SIMCUDA_ORACLE", "1", 1);
  (void)test_start();
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&fill, module, "simcuda_fill"));
  OK(cuMemAlloc(&block, BYTES));
  OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&blocking, 0));
  OK(cuEventCreate(&event, 0));
}

static void new_owner(void)
{
  simcuda_disown(block);
  simcuda_own(block, BYTES, ++owners);
}

static void use_in(CUstream stream, bool programmatic)
{
  uint64_t words = WORDS, value = 7;
  void *params[] = {&block, &words, &value};
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, programmatic};
  OK(cuLaunchKernelEx(&config, fill, params, NULL));
}

static void use(CUstream stream)
{
  use_in(stream, false);
}

static long early(void)
{
  simcuda_oracle_t counts;
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.strays, 0);
  return (long)counts.early_reuse;
}

/* ---- cases: what happens between the first owner's use in `first` and the second owner's ---- */

static void nothing(void)
{
}

static void wait_event(void)
{
  OK(cuEventRecord(event, first));
  OK(cuStreamWaitEvent(second, event, 0));
}

static void wait_then_record_again(void)
{
  wait_event();
  OK(cuEventRecord(event, blocking)); /* what was waited for stays waited for */
}

static void record_again_then_wait(void)
{
  OK(cuEventRecord(event, first));
  OK(cuEventRecord(event, blocking));
  OK(cuStreamWaitEvent(second, event, 0));
}

static void wait_elsewhere(void)
{
  OK(cuEventRecord(event, first));
  OK(cuStreamWaitEvent(blocking, event, 0));
}

static void wait_by_a_third(void)
{
  CUevent other;
  wait_elsewhere();
  OK(cuEventCreate(&other, 0));
  OK(cuEventRecord(other, blocking));
  OK(cuStreamWaitEvent(second, other, 0));
}

static void synchronize_stream(void)
{
  OK(cuStreamSynchronize(first));
}

static void synchronize_wrong_stream(void)
{
  use(second);
  new_owner();
  OK(cuStreamSynchronize(second));
}

static void synchronize_context(void)
{
  OK(cuCtxSynchronize());
}

static void synchronize_event(void)
{
  OK(cuEventRecord(event, first));
  OK(cuEventSynchronize(event));
}

static void query_stream(void)
{
  while (cuStreamQuery(first) != CUDA_SUCCESS)
    ;
}

static void query_event(void)
{
  OK(cuEventRecord(event, first));
  while (cuEventQuery(event) != CUDA_SUCCESS)
    ;
}

static void old_event(void)
{
  new_owner(); /* the use so far is the first of two */
  OK(cuStreamSynchronize(first));
  OK(cuEventRecord(event, first));
  use(first);
  OK(cuEventSynchronize(event));
}

static void record_context(void)
{
  OK(cuCtxRecordEvent(NULL, event));
  OK(cuStreamWaitEvent(second, event, 0));
}

static void wait_context(void)
{
  OK(cuEventRecord(event, first));
  OK(cuCtxWaitEvent(NULL, event));
}

static void complete_but_not_known(void)
{
  OK(cuStreamSynchronize(blocking)); /* runs perhaps what is in `first`, too; the host does not know */
  OK(cuStreamDestroy(first));
}

static void same_handle(void)
{
  CUstream again;
  OK(cuStreamDestroy(first));
  OK(cuStreamCreate(&again, CU_STREAM_NON_BLOCKING));
  ck_assert_ptr_eq(again, first);
  OK(cuStreamSynchronize(again)); /* not the work of the one before */
}

static void destroyed_then_context(void)
{
  OK(cuStreamDestroy(first));
  OK(cuCtxSynchronize());
}

static const struct {
  const char *name;
  void (*between)(void);
  long early;
} cases[] = {
    {"nothing", nothing, 1},
    {"an event is waited for", wait_event, 0},
    {"an event is waited for, then recorded again", wait_then_record_again, 0},
    {"an event is recorded again, then waited for", record_again_then_wait, 1},
    {"another stream waits", wait_elsewhere, 1},
    {"the order goes through a third stream", wait_by_a_third, 0},
    {"the stream is synchronized", synchronize_stream, 0},
    {"another stream is synchronized", synchronize_wrong_stream, 1},
    {"the context is synchronized", synchronize_context, 0},
    {"an event is synchronized", synchronize_event, 0},
    {"the stream is found idle", query_stream, 0},
    {"an event is found complete", query_event, 0},
    {"an event from before the use", old_event, 1},
    {"an event of the context is waited for", record_context, 0},
    {"the context waits for an event", wait_context, 0},
    {"complete, but the host was not told", complete_but_not_known, 1},
    {"a stream with the same handle is synchronized", same_handle, 1},
    {"the stream is gone, the context synchronized", destroyed_then_context, 0},
};

START_TEST(test_between_two_uses)
{
  static char seed[16];
  snprintf(seed, sizeof seed, "%d", _i / (int)(sizeof cases / sizeof *cases) + 1);
  setenv("SIMCUDA_SEED", seed, 1);
  start();
  unsigned number = (unsigned)_i % (sizeof cases / sizeof *cases);
  new_owner();
  use(first);
  if (cases[number].between != old_event && cases[number].between != synchronize_wrong_stream)
    new_owner();
  cases[number].between();
  if (cases[number].between == old_event)
    new_owner();
  use(second);
  ck_assert_msg(early() == cases[number].early, "%s, seed %s: %ld", cases[number].name, seed, early());
}
END_TEST

/* Default streams: `from` uses it, then `to` does. */
static const struct {
  CUstream *from, *to;
  long early;
} orders[] = {
    {&blocking, NULL, 0}, {NULL, &blocking, 0}, {&first, NULL, 1}, {NULL, &first, 1}, {&first, &first, 0}};

START_TEST(test_default_streams)
{
  start();
  new_owner();
  use(orders[_i].from ? *orders[_i].from : NULL);
  new_owner();
  use(orders[_i].to ? *orders[_i].to : NULL);
  ck_assert_int_eq(early(), orders[_i].early);
}
END_TEST

START_TEST(test_a_blocking_stream_is_ordered_behind_another_by_the_legacy_stream)
{
  CUstream other;
  start();
  OK(cuStreamCreate(&other, 0));
  new_owner();
  use(blocking);
  new_owner();
  use(other);
  ck_assert_int_eq(early(), 1);
  OK(cuMemsetD8Async(block, 0, 8, NULL));
  new_owner();
  use(other);
  ck_assert_int_eq(early(), 1);
}
END_TEST

START_TEST(test_copies)
{
  unsigned char host[BYTES] = {0};
  CUdeviceptr device;
  start();
  OK(cuMemAlloc(&device, BYTES));
  new_owner();
  use(blocking);
  new_owner();
  OK(cuMemcpyHtoD(device, host, BYTES)); /* no fact, however it happens to wait */
  use(first);
  ck_assert_int_eq(early(), 1);
  OK(cuCtxSynchronize());
  use(blocking);
  OK(cuMemcpyDtoH(host, device, BYTES)); /* a fact on the legacy stream, which waits for `blocking` */
  new_owner();
  use(second);
  ck_assert_int_eq(early(), 1);
  new_owner();
  OK(cuMemcpyHtoD(block, host, BYTES)); /* the copies themselves are uses */
  ck_assert_int_eq(early(), 2);
  new_owner();
  OK(cuMemcpyDtoH(host, block, BYTES));
  ck_assert_int_eq(early(), 2 + 1); /* against `second`, again */
}
END_TEST

enum { PAGEABLE, PINNED, REGISTERED, LAST_HOST = REGISTERED, MANAGED, DEVICE, IO_MEMORY, PLACES };

static void *place(int where)
{
  static char own[BYTES];
  void *host;
  CUdeviceptr device;
  switch (where) {
  case PAGEABLE: return own;
  case PINNED: OK(cuMemHostAlloc(&host, BYTES, 0)); return host;
  case REGISTERED:
  case IO_MEMORY:
    OK(cuMemHostRegister(own, BYTES, where == IO_MEMORY ? CU_MEMHOSTREGISTER_IOMEMORY : 0));
    return own;
  case MANAGED: OK(cuMemAllocManaged(&device, BYTES, CU_MEM_ATTACH_GLOBAL)); return (void *)(uintptr_t)device;
  default: OK(cuMemAlloc(&device, BYTES)); return (void *)(uintptr_t)device;
  }
}

/* What cuMemcpyDtoH tells of the legacy stream: something only if it goes from a device to memory of the
 * host. */
START_TEST(test_copies_to_and_from_all_places)
{
  CUdeviceptr device;
  start();
  OK(cuMemAlloc(&device, BYTES));
  bool backwards = _i >= PLACES;
  void *other = place(_i % PLACES);
  new_owner();
  use(NULL);
  new_owner();
  if (backwards) {
    char own[BYTES];
    OK(cuMemcpyDtoH(own, (CUdeviceptr)(uintptr_t)other, BYTES));
  } else {
    OK(cuMemcpyDtoH(other, device, BYTES));
  }
  use(first);
  ck_assert_int_eq(early() == 0, backwards ? _i % PLACES == DEVICE : _i <= LAST_HOST);
}
END_TEST

/* Inside a graph such a launch does not wait for the kernel before it there; the graph
 * waits for the stream. */
START_TEST(test_a_programmatic_launch_in_a_graph)
{
  CUgraph graph;
  CUgraphExec exec;
  start();
  OK(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
  if (_i)
    OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, second, NULL, NULL));
  use_in(second, true);
  OK(cuStreamEndCapture(second, &graph));
  OK(cuGraphInstantiate(&exec, graph, 0));
  new_owner();
  use(second);
  new_owner();
  OK(cuGraphLaunch(exec, second));
  ck_assert_int_eq(early(), 0);
}
END_TEST

START_TEST(test_a_programmatic_launch_does_not_wait_for_the_kernel_before_it)
{
  start();
  new_owner();
  use(first);
  new_owner();
  use_in(first, true);
  ck_assert_int_eq(early(), 1);
  use(first); /* the stream goes on when both are complete */
  new_owner();
  use(first);
  ck_assert_int_eq(early(), 1);
}
END_TEST

START_TEST(test_a_graph_is_in_the_stream_that_launches_it)
{
  CUgraph graph;
  CUgraphExec exec;
  start();
  new_owner();
  OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
  use(first);
  OK(cuStreamEndCapture(first, &graph));
  OK(cuGraphInstantiate(&exec, graph, 0));
  ck_assert_int_eq(early(), 0);
  OK(cuGraphLaunch(exec, second));
  new_owner();
  use(second);
  ck_assert_int_eq(early(), 0);
  use(first);
  ck_assert_int_eq(early(), 1);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}
END_TEST

static void CUDA_CB touch(void *user)
{
  simcuda_touch(block, 1);
}

START_TEST(test_host_functions)
{
  start();
  new_owner();
  use(first);
  new_owner();
  OK(cuLaunchHostFunc(first, touch, NULL)); /* after the use, in its stream */
  OK(cuStreamSynchronize(first));
  ck_assert_int_eq(early(), 0);
  use(first);
  new_owner();
  OK(cuLaunchHostFunc(second, touch, NULL));
  OK(cuStreamSynchronize(second));
  ck_assert_int_eq(early(), 1);
  new_owner();
  simcuda_touch(block, 1); /* the host itself knows only what calls returned */
  ck_assert_int_eq(early(), 2);
  OK(cuCtxSynchronize());
  simcuda_touch(block, 1);
  ck_assert_int_eq(early(), 2);
}
END_TEST

START_TEST(test_the_driver_may_give_memory_again)
{
  CUdeviceptr again;
  start();
  new_owner();
  use(first);
  simcuda_disown(block);
  OK(cuMemFree(block));
  OK(cuMemAlloc(&again, BYTES));
  ck_assert_uint_eq(again, block);
  simcuda_own(again, BYTES, 100);
  use(second);
  ck_assert_int_eq(early(), 0);
}
END_TEST

START_TEST(test_strays)
{
  simcuda_oracle_t counts;
  start();
  new_owner();
  simcuda_own(block + 8, 8, 100);
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.strays, 1);
  simcuda_disown(block + 8);
  simcuda_disown(block);
  OK(cuMemsetD8Async(block, 0, 8, first));
  simcuda_own(block + 256, 8, 101); /* beside it */
  OK(cuMemsetD8Async(block, 0, 8, first));
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.strays, 3);
  ck_assert_uint_eq(counts.early_reuse, 0);
}
END_TEST

/* A library fills memory between two owners, and one of the two orders is missing, or none. */
START_TEST(test_fills_of_a_library)
{
  setenv("SIMCUDA_FILLS", "1", 1);
  start();
  new_owner();
  use(first);
  simcuda_disown(block);
  if (_i != 1)
    OK(cuStreamSynchronize(first));
  OK(cuMemsetD8Async(block, 0, BYTES, second));
  if (_i == 2)
    OK(cuEventRecord(event, second)); /* of which no call asks */
  else
    OK(cuStreamSynchronize(second));
  simcuda_own(block, BYTES, ++owners);
  use(first);
  ck_assert_int_eq(early(), _i > 0);
  simcuda_oracle_t counts;
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.reuses, 1);
  ck_assert_uint_eq(counts.pending_reuses, _i == 1);
}
END_TEST

START_TEST(test_more_streams_than_slots)
{
  start();
  for (int i = 0; i < 1000; i++) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    new_owner();
    use(stream);
    OK(cuStreamDestroy(stream));
    if (i % 100 == 99)
      OK(cuCtxSynchronize());
  }
  simcuda_oracle_t counts;
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.violations, 0);
  ck_assert_uint_ge(counts.early_reuse, 900);
  ck_assert_uint_eq(counts.reuses, 999);
  ck_assert_uint_eq(counts.pending_reuses, 999 - 9);
}
END_TEST

#define MIB ((uint64_t)1 << 20)

/* A library below the program has the whole device, and the program owns a little of it here and there. */
START_TEST(test_room_without_what_a_library_keeps)
{
  const CUmemAllocationProp prop = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  CUmemGenericAllocationHandle handle;
  CUdeviceptr small[4], large, mapped;

  setenv("SIMCUDA_CAPACITY", "16MiB", 1);
  start(); /* `block` is the library's, in a page of its own */
  ck_assert(simcuda_fits(0, 16 * MIB, UINT64_MAX));
  for (int i = 0; i < 4; i++)
    OK(cuMemAlloc(&small[i], MIB)); /* two pages */
  OK(cuMemAlloc(&large, 4 * MIB));
  OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
  OK(cuMemAddressReserve(&mapped, 4 * MIB, 0, 0, 0));
  OK(cuMemMap(mapped, 4 * MIB, 0, handle, 0));
  ck_assert_int_ne(cuMemAlloc(&block, 16 * MIB), CUDA_SUCCESS);
  ck_assert(simcuda_fits(0, 16 * MIB, UINT64_MAX));
  ck_assert(!simcuda_fits(0, 16 * MIB + 1, UINT64_MAX));
  ck_assert(!simcuda_fits(0, 16 * MIB, 15 * MIB));
  simcuda_own(large, 4096, 1);
  ck_assert(simcuda_fits(0, 12 * MIB, UINT64_MAX));
  ck_assert(!simcuda_fits(0, 13 * MIB, UINT64_MAX));
  simcuda_own(mapped + 3 * MIB, 4096, 2);
  ck_assert(simcuda_fits(0, 8 * MIB, UINT64_MAX));
  ck_assert(!simcuda_fits(0, 9 * MIB, UINT64_MAX));
  simcuda_own(small[0], 4096, 3); /* its page */
  ck_assert(simcuda_fits(0, 6 * MIB, UINT64_MAX));
  ck_assert(!simcuda_fits(0, 7 * MIB, UINT64_MAX));
  simcuda_disown(large);
  ck_assert(simcuda_fits(0, 10 * MIB, UINT64_MAX));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("oracle");
  TCase *tcase = tcase_create("oracle");
  const int case_count = sizeof cases / sizeof *cases;
  tcase_add_loop_test(tcase, test_between_two_uses, 0, 8 * case_count);
  tcase_add_loop_test(tcase, test_default_streams, 0, sizeof orders / sizeof *orders);
  tcase_add_test(tcase, test_a_blocking_stream_is_ordered_behind_another_by_the_legacy_stream);
  tcase_add_test(tcase, test_copies);
  tcase_add_loop_test(tcase, test_copies_to_and_from_all_places, 0, PLACES);
  tcase_add_loop_test(tcase, test_copies_to_and_from_all_places, PLACES + PINNED, 2 * PLACES);
  tcase_add_loop_test(tcase, test_a_programmatic_launch_in_a_graph, 0, 2);
  tcase_add_test(tcase, test_a_programmatic_launch_does_not_wait_for_the_kernel_before_it);
  tcase_add_test(tcase, test_a_graph_is_in_the_stream_that_launches_it);
  tcase_add_test(tcase, test_host_functions);
  tcase_add_test(tcase, test_the_driver_may_give_memory_again);
  tcase_add_test(tcase, test_strays);
  tcase_add_loop_test(tcase, test_fills_of_a_library, 0, 3);
  tcase_add_test(tcase, test_more_streams_than_slots);
  tcase_add_test(tcase, test_room_without_what_a_library_keeps);
  suite_add_tcase(suite, tcase);
  return gp_check_main_apart(suite);
}
