/*
 * Contexts, threads, fork, planned failures, the log.
 */
#include "sim_test.h"

#include <pthread.h>

START_TEST(test_fork_child_of_initialised_parent)
{
  int status;
  test_start();
  pid_t pid = fork();
  if (pid == 0) {
    CUdeviceptr p;
    const char *name;
    _exit(cuMemAlloc(&p, 8) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                  cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &name) == CUDA_SUCCESS
              ? 0
              : 1);
  }
  waitpid(pid, &status, 0);
  ck_assert_int_eq(WEXITSTATUS(status), 0);
  OK(cuCtxSynchronize());
}
END_TEST

START_TEST(test_primary_context)
{
  CUcontext ctx = test_start(), again;
  unsigned long long id, id2;
  CUdeviceptr p;
  unsigned flags;
  int active;
  OK(cuCtxGetId(ctx, &id));
  OK(cuMemAlloc(&p, 512));
  OK(cuDevicePrimaryCtxReset(0));
  ck_assert_int_eq(cuMemAlloc(&p, 512), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  ck_assert_int_eq(active, 0);
  OK(cuDevicePrimaryCtxRetain(&again, 0));
  ck_assert_ptr_eq(ctx, again);
  OK(cuCtxGetId(again, &id2));
  ck_assert_uint_ne(id, id2);
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  OK(cuDevicePrimaryCtxRelease(0));
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  ck_assert_int_eq(active, 0);
  ck_assert_int_eq(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

START_TEST(test_context_stack)
{
  CUcontext a, b, current;
  OK(cuInit(0));
  OK(cuCtxCreate(&a, NULL, 0, 0));
  OK(cuCtxCreate(&b, NULL, 0, 0));
  OK(cuCtxGetCurrent(&current));
  ck_assert_ptr_eq(current, b);
  OK(cuCtxPopCurrent(&current));
  ck_assert_ptr_eq(current, b);
  OK(cuCtxGetCurrent(&current));
  ck_assert_ptr_eq(current, a);
  OK(cuCtxDestroy(a));
  OK(cuCtxGetCurrent(&current));
  ck_assert_ptr_null(current);
  OK(cuCtxSetCurrent(b));
  OK(cuCtxDestroy(b));
  ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  ck_assert_int_eq(cuCtxSetCurrent(b), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

START_TEST(test_planned_failure)
{
  CUdeviceptr p;
  setenv("SIMCUDA_FAIL", "cuMemAlloc_v2:CUDA_ERROR_OUT_OF_MEMORY@2,cuMemFree_v2:1@1,*:999@9", 1);
  test_start(); /* calls 1 to 3 */
  OK(cuMemAlloc(&p, 8));
  ck_assert_int_eq(cuMemAlloc(&p, 8), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&p, 8));
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(p));
  ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
  OK(cuCtxSynchronize());
}
END_TEST

START_TEST(test_sticky_failure)
{
  CUdeviceptr p;
  setenv("SIMCUDA_FAIL", "cuCtxSynchronize:700@1", 1);
  test_start();
  OK(cuMemAlloc(&p, 8));
  ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  ck_assert_int_eq(cuMemAlloc(&p, 8), CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(cuDevicePrimaryCtxReset(0));
}
END_TEST

static void *thread_main(void *ctx)
{
  CUdeviceptr p;
  unsigned char byte;
  OK(cuCtxSetCurrent(ctx));
  for (int i = 0; i < 300; i++) {
    OK(cuMemAlloc(&p, 1024));
    OK(cuMemsetD8Async(p, (unsigned char)i, 1024, CU_STREAM_PER_THREAD));
    OK(cuMemcpyDtoHAsync(&byte, p + 1023, 1, CU_STREAM_PER_THREAD));
    ck_assert_uint_eq(byte, (unsigned char)i);
    OK(cuMemFree(p));
  }
  return NULL;
}

static void threads(void)
{
  pthread_t all[4];
  CUcontext ctx = test_start();
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(pthread_create(&all[i], NULL, thread_main, ctx), 0);
  for (int i = 0; i < 4; i++)
    pthread_join(all[i], NULL);
}

START_TEST(test_threads)
{
  ck_assert_int_eq(test_stat(threads, "cuMemFree_v2"), 1200);
  ck_assert_int_eq(test_stat(threads, "corrupt_stamps"), 0);
  ck_assert_int_eq(test_stat(threads, "current_bytes"), 0);
}
END_TEST

static void write_log(const char *path)
{
  CUdeviceptr p;
  CUstream stream;
  int local = 0;
  setenv("SIMCUDA_LOG", path, 1);
  test_start();
  OK(cuStreamCreate(&stream, 0));
  OK(cuMemAlloc(&p, 1000));
  OK(cuMemcpyHtoDAsync(p, &local, sizeof local, stream));
  OK(cuMemFree(p));
  exit(0);
}

static void read_log(char *text, size_t room)
{
  char path[] = "/tmp/simcuda-test-XXXXXX";
  int fd = mkstemp(path), status;
  pid_t pid = fork();
  if (pid == 0)
    write_log(path);
  waitpid(pid, &status, 0);
  ssize_t n = read(fd, text, room - 1);
  ck_assert_int_gt(n, 0);
  text[n] = '\0';
  close(fd);
  unlink(path);
}

START_TEST(test_log_is_the_same_in_each_run)
{
  static char a[8192], b[8192];
  read_log(a, sizeof a);
  read_log(b, sizeof b);
#if !defined __SANITIZE_THREAD__ /* addresses vary there */
  ck_assert_str_eq(a, b);
#endif
  ck_assert_ptr_nonnull(strstr(a, "cuMemAlloc_v2 1000 -> "));
  ck_assert_ptr_nonnull(strstr(a, " host 4 s3=0\n"));
}
END_TEST

START_TEST(test_bad_knobs_leave_the_defaults)
{
  int count;
  size_t bytes;
  setenv("SIMCUDA_DEVICES", "many", 1);
  setenv("SIMCUDA_CAPACITY", "8 furlongs", 1);
  setenv("SIMCUDA_FAIL", "cuNoSuch:1@1", 1);
  OK(cuInit(0));
  OK(cuDeviceGetCount(&count));
  ck_assert_int_eq(count, 1);
  OK(cuDeviceTotalMem(&bytes, 0));
  ck_assert_uint_eq(bytes, (size_t)80 << 30);
}
END_TEST

START_TEST(test_no_device)
{
  setenv("SIMCUDA_DEVICES", "0", 1);
  ck_assert_int_eq(cuInit(0), CUDA_ERROR_NO_DEVICE);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_process");
  TCase *tests = tcase_create("process");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, test_fork_child_of_initialised_parent);
  tcase_add_test(tests, test_primary_context);
  tcase_add_test(tests, test_context_stack);
  tcase_add_test(tests, test_planned_failure);
  tcase_add_test(tests, test_sticky_failure);
  tcase_add_test(tests, test_threads);
  tcase_add_test(tests, test_log_is_the_same_in_each_run);
  tcase_add_test(tests, test_bad_knobs_leave_the_defaults);
  tcase_add_test(tests, test_no_device);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
