/*
 * The ordering oracle: memory that cuMemFreeAsync has freed in a stream that waits for a flag is used until
 * the flag is written.
 */
#include "oracle.h"
#include "sim_test.h"

#include <stdbool.h>

#define WORDS 64u
#define BYTES (WORDS * 8)

enum { FIRST = 1, SECOND }; /* owners */

static CUdeviceptr block;
static CUfunction fill, wait_kernel, expect_kernel;
static CUstream gated, other, third; /* none blocks */
static volatile uint32_t flag;

static void start(void)
{
  static char image[] = "no image";
  CUmodule module;
  setenv("SIMCUDA_ORACLE", "1", 1);
  (void)test_start();
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&fill, module, "simcuda_fill"));
  OK(cuModuleGetFunction(&expect_kernel, module, "simcuda_expect"));
  OK(cuModuleGetFunction(&wait_kernel, module, "simcuda_wait"));
  OK(cuStreamCreate(&gated, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
}

static void launch(CUfunction kernel, uint64_t value, CUstream stream)
{
  uint64_t words = WORDS;
  void *params[] = {&block, &words, &value};
  OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void use(CUstream stream)
{
  launch(fill, 1, stream);
}

static void use_late(CUstream stream)
{
  simcuda_late(FIRST);
  use(stream);
  simcuda_late(SIM_NO_OWNER);
}

static void wait_for_flag(CUstream stream)
{
  uint64_t address = (uintptr_t)&flag;
  void *params[] = {&address};
  OK(cuLaunchKernel(wait_kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void write_flag(void)
{
  simcuda_writes(&flag);
  flag = 1;
}

static void expect_errors(uint64_t early_reuse, uint64_t late_accesses)
{
  simcuda_oracle_t counts;
  OK(cuCtxSynchronize());
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.early_reuse, early_reuse);
  ck_assert_uint_eq(counts.late_accesses, late_accesses);
  ck_assert_uint_eq(counts.early_accesses, 0);
  ck_assert_uint_eq(counts.strays, 0);
  ck_assert_uint_eq(counts.corrupt_stamps, 0);
}

static uint64_t violations(void)
{
  simcuda_oracle_t counts;
  simcuda_counts(&counts);
  return counts.violations;
}

/* Memory of both kinds, used once and freed behind the kernel that waits for the flag. */
static void free_behind_gate(bool of_pool)
{
  start();
  if (of_pool)
    OK(cuMemAllocAsync(&block, BYTES, gated));
  else
    OK(cuMemAlloc(&block, BYTES));
  use(gated);
  OK(cuStreamSynchronize(gated));
  wait_for_flag(gated);
  OK(cuMemFreeAsync(block, gated));
}

/* ---- what the driver judges: its own free ---- */

START_TEST(test_use_that_the_free_waits_for)
{
  free_behind_gate(_i);
  use_late(other);
  use_late(other);
  OK(cuStreamSynchronize(other));
  use_late(third);
  OK(cuStreamSynchronize(third));
  write_flag();
  expect_errors(0, 0);
}
END_TEST

START_TEST(test_use_that_the_host_did_not_wait_for)
{
  free_behind_gate(_i);
  use_late(other);
  write_flag();
  expect_errors(0, 1);
}
END_TEST

START_TEST(test_flag_that_is_written_without_a_word)
{
  free_behind_gate(_i);
  use_late(other);
  OK(cuStreamSynchronize(other));
  flag = 1;
  expect_errors(0, 1);
}
END_TEST

START_TEST(test_use_after_the_free_was_reached)
{
  simcuda_oracle_t counts;
  free_behind_gate(_i);
  write_flag();
  OK(cuStreamSynchronize(gated));
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.violations, 0);
  use_late(other);
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.violations, 1);
}
END_TEST

START_TEST(test_gate_behind_the_free)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, gated));
  OK(cuStreamSynchronize(gated));
  wait_for_flag(other);
  OK(cuMemFreeAsync(block, gated));
  use_late(third);
  OK(cuStreamSynchronize(third));
  write_flag();
  expect_errors(0, 1);
}
END_TEST

/* The driver hands the memory out again in that stream, behind the free. */
START_TEST(test_memory_that_has_its_next_owner)
{
  CUdeviceptr before;
  unsigned char bytes[BYTES];
  free_behind_gate(true);
  before = block;
  OK(cuMemAllocAsync(&block, BYTES, gated));
  ck_assert_uint_eq(block, before);
  launch(fill, 2, gated);
  launch(expect_kernel, 2, gated);
  use_late(other);
  OK(cuStreamSynchronize(other));
  if (_i)
    use_late(third);
  write_flag();
  OK(cuMemcpyDtoHAsync(bytes, block, BYTES, gated));
  expect_errors(0, _i);
  ck_assert(_i || bytes[0] == 2);
}
END_TEST

/* ---- owners: a library below the program hands the memory on ---- */

static void reuse(void)
{
  start();
  OK(cuMemAlloc(&block, BYTES));
  simcuda_own(block, BYTES, FIRST);
  use(gated);
  OK(cuStreamSynchronize(gated));
  wait_for_flag(gated);
  simcuda_disown(block);
  simcuda_own(block, BYTES, SECOND);
}

START_TEST(test_next_owner_behind_the_free)
{
  reuse();
  if (_i)
    use(gated);
  use_late(other);
  OK(cuStreamSynchronize(other));
  use(gated);
  write_flag();
  use(third); /* whatever the host knew is behind it */
  expect_errors(0, 0);
}
END_TEST

START_TEST(test_next_owner_in_another_stream)
{
  reuse();
  if (_i) {
    use(third);
    OK(cuStreamSynchronize(third)); /* before the late use, and over */
  }
  use_late(other);
  if (!_i)
    use(third);
  OK(cuStreamSynchronize(other));
  write_flag();
  expect_errors(1, 0);
}
END_TEST

START_TEST(test_next_owner_whom_the_gate_does_not_help)
{
  reuse();
  use(gated);
  use_late(other);
  write_flag();
  expect_errors(1, 0);
}
END_TEST

/* A library that keeps the program's free to itself passes it on later, in the same order. */
START_TEST(test_free_that_comes_after_the_use)
{
  start();
  OK(cuMemAllocAsync(&block, BYTES, gated));
  use(gated);
  OK(cuStreamSynchronize(gated));
  wait_for_flag(gated);
  use_late(other);
  OK(cuMemFreeAsync(block, gated));
  if (_i)
    OK(cuStreamSynchronize(other));
  write_flag();
  expect_errors(0, !_i);
  ck_assert_uint_eq(violations(), !_i);
}
END_TEST

/* The use is the second owner's. Nothing has had the driver run the first one's free yet. */
START_TEST(test_use_of_memory_that_had_an_earlier_owner)
{
  CUdeviceptr again;
  CUevent event;

  start();
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuMemAllocAsync(&block, BYTES, other));
  use(other);
  OK(cuMemFreeAsync(block, other));
  OK(cuMemAllocAsync(&again, BYTES, other));
  ck_assert_uint_eq(again, block);
  OK(cuEventRecord(event, other));
  OK(cuStreamWaitEvent(gated, event, 0));
  wait_for_flag(gated);
  OK(cuMemFreeAsync(again, gated));
  use_late(other);
  OK(cuStreamSynchronize(other));
  write_flag();
  expect_errors(0, 0);
  ck_assert_uint_eq(violations(), 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_late");
  TCase *tests = tcase_create("late");
  tcase_add_loop_test(tests, test_use_that_the_free_waits_for, 0, 2);
  tcase_add_loop_test(tests, test_use_that_the_host_did_not_wait_for, 0, 2);
  tcase_add_loop_test(tests, test_flag_that_is_written_without_a_word, 0, 2);
  tcase_add_loop_test(tests, test_use_after_the_free_was_reached, 0, 2);
  tcase_add_test(tests, test_gate_behind_the_free);
  tcase_add_loop_test(tests, test_memory_that_has_its_next_owner, 0, 2);
  tcase_add_loop_test(tests, test_next_owner_behind_the_free, 0, 2);
  tcase_add_loop_test(tests, test_next_owner_in_another_stream, 0, 2);
  tcase_add_test(tests, test_next_owner_whom_the_gate_does_not_help);
  tcase_add_loop_test(tests, test_free_that_comes_after_the_use, 0, 2);
  tcase_add_test(tests, test_use_of_memory_that_had_an_earlier_owner);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
