/*
 * The ordering oracle: memory of cuMemAllocAsync is used after its allocation, and before its free.
 */
#include "oracle.h"
#include "sim_test.h"

#define WORDS 64u
#define BYTES (WORDS * 8)

static CUdeviceptr block;
static CUfunction fill, wait_kernel;
static CUstream first, second, blocking, other_blocking; /* first and second do not block */
static CUevent event;

static void start_driver(void)
{
  static char image[] = "no image";
  CUmodule module;
  (void)test_start();
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&fill, module, "simcuda_fill"));
  OK(cuModuleGetFunction(&wait_kernel, module, "simcuda_wait"));
  OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&blocking, 0));
  OK(cuStreamCreate(&other_blocking, 0));
  OK(cuEventCreate(&event, 0));
}

static void start(void)
{
  setenv("SIMCUDA_ORACLE", "1", 1);
  start_driver();
}

static void use(CUstream stream)
{
  uint64_t words = WORDS, value = 7;
  void *params[] = {&block, &words, &value};
  OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void expect(uint64_t early, uint64_t late)
{
  simcuda_oracle_t counts;
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.early_accesses, early);
  ck_assert_uint_eq(counts.late_accesses, late);
  ck_assert_int_eq(counts.violations > 0, early + late > 0);
}

static void order(CUstream before, CUstream after)
{
  OK(cuEventRecord(event, before));
  OK(cuStreamWaitEvent(after, event, 0));
}

START_TEST(test_use_in_the_same_stream)
{
  start();
  for (int i = 0; i < 3; i++) {
    OK(cuMemAllocAsync(&block, BYTES, first));
    use(first);
    OK(cuMemFreeAsync(block, first));
  }
  expect(0, 0);
}
END_TEST

START_TEST(test_use_before_the_allocation)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  use(second);
  use(second);
  expect(2, 0);
}
END_TEST

START_TEST(test_copy_before_the_allocation)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  OK(cuMemsetD8Async(block, 1, BYTES, second));
  expect(1, 0);
}
END_TEST

START_TEST(test_event_behind_the_allocation)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  order(first, second);
  use(second);
  expect(0, 0);
}
END_TEST

START_TEST(test_event_before_the_allocation)
{
  start();
  OK(cuEventRecord(event, first));
  OK(cuMemAllocAsync(&block, BYTES, first));
  OK(cuStreamWaitEvent(second, event, 0));
  use(second);
  expect(1, 0);
}
END_TEST

START_TEST(test_synchronized_with_the_allocation)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  OK(cuStreamSynchronize(first));
  use(second);
  expect(0, 0);
}
END_TEST

/* The driver hands out memory that was freed in the same stream before: its new allocation counts. */
START_TEST(test_use_before_the_second_allocation)
{
  CUdeviceptr before;
  start();
  OK(cuMemAllocAsync(&before, BYTES, first));
  OK(cuStreamSynchronize(first));
  OK(cuMemFreeAsync(before, first));
  OK(cuMemAllocAsync(&block, BYTES, first));
  ck_assert_uint_eq(block, before);
  use(second);
  expect(1, 0);
}
END_TEST

START_TEST(test_use_after_the_free)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  order(first, second);
  use(second);
  OK(cuMemFreeAsync(block, first));
  expect(0, 1);
}
END_TEST

START_TEST(test_event_before_the_free)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  order(first, second);
  use(second);
  order(second, first);
  OK(cuMemFreeAsync(block, first));
  expect(0, 0);
}
END_TEST

START_TEST(test_plain_memory_used_after_its_free)
{
  start();
  OK(cuMemAlloc(&block, BYTES));
  use(second);
  OK(cuMemFreeAsync(block, first));
  expect(0, 1);
}
END_TEST

START_TEST(test_free_in_another_stream_before_the_allocation)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  OK(cuMemFreeAsync(block, second));
  expect(1, 0);
}
END_TEST

START_TEST(test_free_by_the_host)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  use(first);
  OK(cuStreamSynchronize(first));
  OK(cuMemFree(block));
  expect(0, 0);
}
END_TEST

START_TEST(test_free_by_the_host_too_early)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  OK(cuStreamSynchronize(first));
  use(first);
  OK(cuMemFree(block));
  expect(0, 1);
}
END_TEST

START_TEST(test_free_by_the_host_before_the_allocation)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, first));
  OK(cuMemFree(block));
  expect(1, 0);
}
END_TEST

/* ---- the default stream's rule for the allocation and the free themselves ---- */

START_TEST(test_legacy_stream_orders_blocking_ones)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, CU_STREAM_LEGACY));
  use(blocking);
  OK(cuMemFreeAsync(block, CU_STREAM_LEGACY));
  expect(0, 0);
}
END_TEST

START_TEST(test_legacy_stream_orders_no_others)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, CU_STREAM_LEGACY));
  use(first);
  OK(cuMemFreeAsync(block, CU_STREAM_LEGACY));
  expect(1, 1);
}
END_TEST

START_TEST(test_driver_whose_pools_order_nothing)
{
  setenv("SIMCUDA_POOL_ORDERS", "0", 1);
  start();
  OK(cuMemAllocAsync(&block, BYTES, CU_STREAM_LEGACY));
  use(blocking);
  expect(1, 0);
  use(CU_STREAM_LEGACY); /* in its order, and work as any */
  use(other_blocking);
  expect(1, 0);
}
END_TEST

START_TEST(test_free_that_orders_nothing)
{
  setenv("SIMCUDA_POOL_ORDERS", "0", 1);
  start();
  OK(cuMemAllocAsync(&block, BYTES, CU_STREAM_LEGACY));
  OK(cuStreamSynchronize(CU_STREAM_LEGACY));
  use(blocking);
  OK(cuMemFreeAsync(block, CU_STREAM_LEGACY));
  expect(0, 1);
}
END_TEST

/* The scheduler follows the same rule. */
START_TEST(test_scheduler_of_pools_that_order_nothing)
{
  static volatile uint32_t flag;
  uint64_t address = (uintptr_t)&flag;
  void *params[] = {&address};
  CUdeviceptr plain;
  int queries = 0;
  setenv("SIMCUDA_POOL_ORDERS", _i ? "1" : "0", 1);
  start_driver();
  OK(cuMemAlloc(&plain, BYTES));
  OK(cuLaunchKernel(wait_kernel, 1, 1, 1, 1, 1, 1, 0, other_blocking, params, NULL));
  OK(cuMemAllocAsync(&block, BYTES, CU_STREAM_LEGACY));
  OK(cuMemsetD8Async(plain, 1, BYTES, blocking));
  while (queries < 1000 && cuStreamQuery(blocking) == CUDA_ERROR_NOT_READY)
    queries++;
  ck_assert_int_eq(queries == 1000, _i); /* it waits for the allocation, which waits for the kernel */
  flag = 1;
  OK(cuCtxSynchronize());
}
END_TEST

/* ---- without the oracle: what the schedule shows ---- */

START_TEST(test_work_that_runs_before_the_allocation)
{
  static volatile uint32_t flag;
  uint64_t address = (uintptr_t)&flag;
  void *params[] = {&address};
  simcuda_oracle_t counts;
  start_driver();
  OK(cuLaunchKernel(wait_kernel, 1, 1, 1, 1, 1, 1, 0, first, params, NULL));
  OK(cuMemAllocAsync(&block, BYTES, first));
  use(second);
  OK(cuStreamSynchronize(second)); /* while first waits */
  flag = 1;
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.violations, 1);
  OK(cuStreamSynchronize(first));
  use(second);
  OK(cuStreamSynchronize(second));
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.violations, 1);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_ordered");
  TCase *tests = tcase_create("ordered");
  tcase_add_test(tests, test_use_in_the_same_stream);
  tcase_add_test(tests, test_use_before_the_allocation);
  tcase_add_test(tests, test_copy_before_the_allocation);
  tcase_add_test(tests, test_event_behind_the_allocation);
  tcase_add_test(tests, test_event_before_the_allocation);
  tcase_add_test(tests, test_synchronized_with_the_allocation);
  tcase_add_test(tests, test_use_before_the_second_allocation);
  tcase_add_test(tests, test_use_after_the_free);
  tcase_add_test(tests, test_event_before_the_free);
  tcase_add_test(tests, test_plain_memory_used_after_its_free);
  tcase_add_test(tests, test_free_in_another_stream_before_the_allocation);
  tcase_add_test(tests, test_free_by_the_host);
  tcase_add_test(tests, test_free_by_the_host_too_early);
  tcase_add_test(tests, test_free_by_the_host_before_the_allocation);
  tcase_add_test(tests, test_legacy_stream_orders_blocking_ones);
  tcase_add_test(tests, test_legacy_stream_orders_no_others);
  tcase_add_test(tests, test_driver_whose_pools_order_nothing);
  tcase_add_test(tests, test_free_that_orders_nothing);
  tcase_add_loop_test(tests, test_scheduler_of_pools_that_order_nothing, 0, 2);
  tcase_add_test(tests, test_work_that_runs_before_the_allocation);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
