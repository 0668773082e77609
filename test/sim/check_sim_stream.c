/*
 * Streams, events, copies: what waits for what, and that work is late whenever it may be. And the oracle.
 */
#include "sim_test.h"

#include <stdbool.h>

static void set_seed(int seed)
{
  char text[16];
  snprintf(text, sizeof text, "%d", seed);
  setenv("SIMCUDA_SEED", text, 1);
}

static CUfunction find(const char *name)
{
  CUmodule module;
  CUfunction function;
  OK(cuModuleLoadData(&module, ""));
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

static void launch(CUfunction function, CUstream stream, uint64_t a, uint64_t b, uint64_t c)
{
  void *params[] = {&a, &b, &c};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

/* Some seeds leave work pending after the call; an event that is always ready would hide mistakes. */
static void pending_once(void)
{
  CUstream stream;
  CUdeviceptr p;
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 512));
  for (int i = 0; i < 20; i++)
    OK(cuMemsetD8Async(p, 1, 512, stream));
  if (cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
    exit(3);
  exit(0);
}

/* With SIMCUDA_PACE work runs by itself as soon as it can, or not at all. */
START_TEST(test_pace)
{
  CUstream stream;
  CUdeviceptr p;
  setenv("SIMCUDA_PACE", _i ? "at-once" : "waits", 1);
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 512));
  for (int i = 0; i < 1000; i++) {
    OK(cuMemsetD8Async(p, 1, 512, stream));
    ck_assert_int_eq(cuStreamQuery(stream), _i ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
  }
  OK(cuStreamSynchronize(stream));
  ck_assert_int_eq(cuStreamQuery(stream), CUDA_SUCCESS);
}
END_TEST

START_TEST(test_work_is_pending_after_a_launch)
{
  int pending = 0, status;
  for (int seed = 0; seed < 20; seed++) {
    pid_t pid = fork();
    if (pid == 0) {
      set_seed(seed);
      pending_once();
    }
    waitpid(pid, &status, 0);
    pending += WEXITSTATUS(status) == 0;
  }
  ck_assert_int_ge(pending, 10);
}
END_TEST

START_TEST(test_stream_order)
{
  CUstream stream;
  CUdeviceptr p;
  unsigned value = 0;
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4));
  for (unsigned i = 1; i <= 50; i++) {
    OK(cuMemsetD32Async(p, i, 1, stream));
    if (i % 10 == 0) {
      OK(cuMemcpyDtoHAsync(&value, p, 4, stream)); /* pageable: has arrived on return */
      ck_assert_uint_eq(value, i);
    }
  }
}
END_TEST

/* Blocking streams and the legacy stream wait for each other; the last write wins in call order. */
START_TEST(test_legacy_stream_orders_blocking_streams)
{
  CUstream a, b;
  CUdeviceptr p;
  unsigned value;
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&b, CU_STREAM_DEFAULT));
  OK(cuMemAlloc(&p, 4));
  for (unsigned i = 0; i < 30; i++) {
    OK(cuMemsetD32Async(p, 3 * i, 1, a));
    OK(cuMemsetD32Async(p, 3 * i + 1, 1, NULL));
    OK(cuMemsetD32Async(p, 3 * i + 2, 1, b));
    OK(cuMemcpyDtoH(&value, p, 4));
    ck_assert_uint_eq(value, 3 * i + 2);
  }
}
END_TEST

START_TEST(test_events_order_streams)
{
  CUstream a, b;
  CUevent event;
  CUdeviceptr p;
  unsigned value;
  float ms;
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, 0));
  OK(cuEventQuery(event)); /* never recorded: complete */
  OK(cuMemAlloc(&p, 4));
  for (unsigned i = 0; i < 30; i++) {
    OK(cuMemsetD32Async(p, i, 1, a));
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuMemcpyDtoHAsync(&value, p, 4, b));
    ck_assert_uint_eq(value, i);
    OK(cuEventQuery(event));
  }
  OK(cuEventSynchronize(event));
  OK(cuEventElapsedTime(&ms, event, event));
}
END_TEST

START_TEST(test_context_event_covers_all_streams)
{
  CUstream streams[4];
  CUevent event;
  CUdeviceptr p;
  CUcontext ctx;
  set_seed(_i);
  ctx = test_start();
  OK(cuMemAlloc(&p, 4096));
  for (int i = 0; i < 4; i++)
    OK(cuStreamCreate(&streams[i], i & 1));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (unsigned i = 0; i < 100; i++)
    OK(cuMemsetD8Async(p + 512 * (i % 4), 1, 512, streams[i % 4]));
  OK(cuCtxRecordEvent(ctx, event));
  OK(cuEventSynchronize(event));
  for (int i = 0; i < 4; i++)
    OK(cuStreamQuery(streams[i]));
}
END_TEST

START_TEST(test_free_waits)
{
  CUstream stream;
  CUdeviceptr p, q;
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4096));
  OK(cuMemAlloc(&q, 4096));
  for (int i = 0; i < 20; i++)
    OK(cuMemsetD8Async(p, i, 4096, stream));
  OK(cuMemFree(q));
  OK(cuStreamQuery(stream));
}
END_TEST

/* A kernel that waits for its host thread runs beside the free, which waits for the
 * use of its block alone. */
START_TEST(test_free_waits_for_its_block_only)
{
  CUstream waiting, other;
  CUdeviceptr p, q;
  volatile uint32_t *flag;
  setenv("SIMCUDA_FREE_WAITS", "0", 1);
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 4096));
  OK(cuMemAlloc(&q, 4096));
  OK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
  *flag = 0;
  launch(find("simcuda_wait"), waiting, (uint64_t)(uintptr_t)flag, 0, 0);
  for (int i = 0; i < 20; i++)
    OK(cuMemsetD8Async(i == 10 ? p : q, i, 4096, other));
  OK(cuMemFree(p));
  OK(cuMemFree(q));
  OK(cuStreamQuery(other));
  ck_assert_int_eq(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
  *flag = 1;
  OK(cuCtxSynchronize());
}
END_TEST

static void free_beside_uses(void)
{
  CUstream streams[2];
  CUdeviceptr p;
  test_start();
  for (int i = 0; i < 2; i++)
    OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 50; i++) {
    OK(cuMemAlloc(&p, 4096));
    for (int k = 0; k < 4; k++)
      OK(cuMemsetD8Async(p, i, 4096, streams[k % 2]));
    OK(cuMemFree(p));
  }
}

START_TEST(test_free_beside_uses_is_no_violation)
{
  setenv("SIMCUDA_FREE_WAITS", "0", 1);
  set_seed(_i);
  ck_assert_int_eq(test_stat(free_beside_uses, "violations"), 0);
}
END_TEST

START_TEST(test_destroyed_stream_still_works)
{
  CUstream stream, again;
  CUdeviceptr p;
  unsigned char byte = 0;
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 512));
  OK(cuMemsetD8Async(p, 9, 512, stream));
  OK(cuStreamDestroy(stream));
  ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  OK(cuStreamCreate(&again, 0));
  ck_assert_ptr_eq(stream, again); /* handle values are reused */
  OK(cuCtxSynchronize());
  OK(cuMemcpyDtoH(&byte, p, 1));
  ck_assert_uint_eq(byte, 9);
}
END_TEST

START_TEST(test_copies)
{
  CUdeviceptr p, q;
  unsigned char in[6][10], out[6][10], *pinned;
  CUstream stream;
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&stream, 0));
  OK(cuMemHostAlloc((void **)&pinned, 64, 0));
  OK(cuMemAlloc(&p, 1024));
  OK(cuMemAlloc(&q, 1024));
  for (int i = 0; i < 60; i++)
    in[i / 10][i % 10] = (unsigned char)i;
  memset(out, 0xee, sizeof out);
  OK(cuMemcpyHtoDAsync(p, in, 60, stream));
  memset(in, 0, sizeof in); /* pageable: taken at the call */
  CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
      .srcDevice = p,
      .srcPitch = 10,
      .srcXInBytes = 2,
      .srcY = 1,
      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
      .dstDevice = q,
      .dstPitch = 64,
      .WidthInBytes = 5,
      .Height = 3};
  OK(cuMemcpy2DAsync(&c, stream));
  c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
      .srcDevice = q,
      .srcPitch = 64,
      .dstMemoryType = CU_MEMORYTYPE_HOST,
      .dstHost = out,
      .dstPitch = 10,
      .WidthInBytes = 5,
      .Height = 3};
  OK(cuMemcpy2D(&c));
  for (int y = 0; y < 3; y++)
    for (int x = 0; x < 10; x++)
      ck_assert_uint_eq(out[y][x], x < 5 ? 10 * (y + 1) + x + 2 : 0xee);
  memset(pinned, 5, 64);
  OK(cuMemcpyAsync(p, (CUdeviceptr)(uintptr_t)pinned, 64, stream));
  OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)(pinned + 32), p, 1, stream));
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(pinned[32], 5);
}
END_TEST

static int order[3], ran;

static void CUDA_CB host_function(void *user)
{
  order[ran++] = *(int *)user;
  if (cuMemFree(0) != CUDA_ERROR_NOT_PERMITTED)
    abort();
}

START_TEST(test_host_functions)
{
  static int numbers[] = {0, 1, 2};
  CUstream stream;
  set_seed(_i);
  test_start();
  OK(cuStreamCreate(&stream, 0));
  for (int i = 0; i < 3; i++)
    OK(cuLaunchHostFunc(stream, host_function, &numbers[i]));
  while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
    ;
  ck_assert_int_eq(ran, 3);
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(order[i], i);
}
END_TEST

START_TEST(test_stand_in_kernels)
{
  CUdeviceptr p;
  uint64_t words[4];
  test_start();
  OK(cuMemAlloc(&p, 64));
  launch(find("simcuda_fill"), NULL, p, 2, 77);
  launch(find("_Z12simcuda_copyPvPKvm"), NULL, p + 16, p, 16);
  launch(find("unknown"), NULL, 1, 2, 3);
  OK(cuMemcpyDtoH(words, p, 32));
  for (int i = 0; i < 4; i++)
    ck_assert_uint_eq(words[i], 77);
}
END_TEST

START_TEST(test_arguments_in_one_buffer)
{
  CUdeviceptr p;
  uint64_t words[4], arguments[3] = {0, 4, 78};
  size_t bytes = sizeof arguments;
  void *extra[] = {
      CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  void *params[] = {&arguments[0], &arguments[1], &arguments[2]};
  test_start();
  CUfunction fill = find("simcuda_fill");
  OK(cuMemAlloc(&p, 32));
  arguments[0] = p;
  OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
  OK(cuMemcpyDtoH(words, p, sizeof words));
  ck_assert_uint_eq(words[0], 78);
  ck_assert_uint_eq(words[3], 78);
  ck_assert_int_eq(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* A kernel that waits for the host keeps its stream, and what is behind it, pending; others go on. */
START_TEST(test_stand_in_waits)
{
  CUstream waiting, other;
  CUevent behind;
  CUdeviceptr p;
  unsigned value;
  volatile uint32_t *flag;
  CUcontext ctx = test_start();
  OK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&behind, 0));
  OK(cuMemAlloc(&p, 4));
  OK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
  *flag = 0;
  launch(find("_Z12simcuda_waitPVKjm"), waiting, (uint64_t)(uintptr_t)flag, 0, 0);
  OK(cuCtxRecordEvent(ctx, behind));
  OK(cuMemsetD32Async(p, 5, 1, other));
  OK(cuStreamSynchronize(other));
  OK(cuMemcpyDtoHAsync(&value, p, 4, other));
  ck_assert_uint_eq(value, 5);
  for (int i = 0; i < 1000; i++) {
    ck_assert_int_eq(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(cuEventQuery(behind), CUDA_ERROR_NOT_READY);
  }
  *flag = 1;
  OK(cuEventSynchronize(behind));
  OK(cuStreamQuery(waiting));
}
END_TEST

/* ---- the oracle ---- */

static void ordered(void)
{
  CUstream a, b;
  CUevent event;
  CUdeviceptr p;
  uint64_t words[8];
  test_start();
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, 0));
  OK(cuMemAlloc(&p, 64));
  for (unsigned i = 0; i < 200; i++) {
    OK(cuMemsetD32Async(p, i, 16, i & 1 ? a : b));
    OK(cuEventRecord(event, i & 1 ? a : b));
    OK(cuStreamWaitEvent(i & 1 ? b : a, event, 0));
    if (i % 7 == 0)
      OK(cuMemcpyDtoHAsync(words, p, 64, i & 1 ? b : a));
  }
}

/* Two streams use the same memory and neither waits: what a pool does that reuses a block too early. */
static void unordered(void)
{
  CUstream a, b;
  CUdeviceptr p;
  uint64_t words[8];
  test_start();
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&p, 64));
  for (unsigned i = 0; i < 200; i++) {
    OK(cuMemsetD32Async(p, i, 16, i & 1 ? a : b));
    if (i % 7 == 0)
      OK(cuMemcpyDtoHAsync(words, p, 64, i & 1 ? a : b));
  }
}

/* Stream-ordered memory used after its free in another stream */
static void used_after_free(void)
{
  CUstream a, b;
  CUdeviceptr p;
  test_start();
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  for (unsigned i = 0; i < 50; i++) {
    OK(cuMemAllocAsync(&p, 4096, a));
    for (int k = 0; k < 5; k++)
      OK(cuMemsetD8Async(p, 1, 4096, b));
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamSynchronize(a));
  }
}

/* Stream-ordered memory given out again while work of the former owner is queued: ordered by its stream */
static void reused_in_stream(void)
{
  CUstream a, b;
  CUevent event;
  CUdeviceptr p;
  unsigned value;
  test_start();
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (unsigned i = 0; i < 200; i++) {
    OK(cuMemAllocAsync(&p, 4096, a));
    OK(cuMemsetD32Async(p, i, 1024, a));
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuMemsetD32Async(p, i + 1, 1, b));
    OK(cuEventRecord(event, b));
    OK(cuStreamWaitEvent(a, event, 0));
    if (i % 7 == 0) {
      OK(cuMemcpyDtoHAsync(&value, p, 4, a));
      ck_assert_uint_eq(value, i + 1);
    }
    OK(cuMemFreeAsync(p, a));
    if (i % 40 == 0)
      OK(cuStreamSynchronize(a));
  }
}

START_TEST(test_oracle)
{
  set_seed(_i);
  ck_assert_int_eq(test_stat(ordered, "corrupt_stamps"), 0);
  ck_assert_int_eq(test_stat(ordered, "violations"), 0);
  ck_assert_int_eq(test_stat(reused_in_stream, "corrupt_stamps"), 0);
  ck_assert_int_eq(test_stat(reused_in_stream, "violations"), 0);
  ck_assert_int_gt(test_stat(unordered, "corrupt_stamps"), 0);
  ck_assert_int_gt(test_stat(used_after_free, "violations"), 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_stream");
  TCase *tests = tcase_create("stream");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, test_work_is_pending_after_a_launch);
  tcase_add_loop_test(tests, test_pace, 0, 2);
  tcase_add_loop_test(tests, test_stream_order, 0, 10);
  tcase_add_loop_test(tests, test_legacy_stream_orders_blocking_streams, 0, 10);
  tcase_add_loop_test(tests, test_events_order_streams, 0, 10);
  tcase_add_loop_test(tests, test_context_event_covers_all_streams, 0, 10);
  tcase_add_loop_test(tests, test_free_waits, 0, 10);
  tcase_add_loop_test(tests, test_free_waits_for_its_block_only, 0, 10);
  tcase_add_loop_test(tests, test_free_beside_uses_is_no_violation, 0, 10);
  tcase_add_loop_test(tests, test_destroyed_stream_still_works, 0, 10);
  tcase_add_loop_test(tests, test_copies, 0, 10);
  tcase_add_loop_test(tests, test_host_functions, 0, 10);
  tcase_add_test(tests, test_stand_in_kernels);
  tcase_add_test(tests, test_arguments_in_one_buffer);
  tcase_add_test(tests, test_stand_in_waits);
  tcase_add_loop_test(tests, test_oracle, 0, 5);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
