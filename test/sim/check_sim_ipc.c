/*
 * Memory and events of another process.
 */
#include "sim_test.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SMALL 3000
#define LARGE ((size_t)5 << 20)

typedef struct {
  CUipcMemHandle memory, other, freed;
  CUipcEventHandle event;
} handles_t;

static int down[2], up[2]; /* to the exporter, and from it */

static void send(const int *pipe, const void *data, size_t bytes)
{
  ck_assert_int_eq(write(pipe[1], data, bytes), (ssize_t)bytes);
}

/* False: the other process has ended. */
static bool receive(const int *pipe, void *data, size_t bytes)
{
  ssize_t got = read(pipe[0], data, bytes);
  return got == (ssize_t)bytes;
}

static void turn(const int *to, const int *from)
{
  char token = 0;
  send(to, &token, 1);
  ck_assert(receive(from, &token, 1));
}

/* An exporter in a process of its own, which has not used CUDA before */
static pid_t start(void (*exporter)(void))
{
  ck_assert(pipe(down) == 0 && pipe(up) == 0);
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    close(down[1]);
    close(up[0]);
    exporter();
    exit(0);
  }
  close(down[0]);
  close(up[1]);
  return pid;
}

static void finish(pid_t pid)
{
  int status;
  close(down[1]);
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static unsigned char byte_at(CUdeviceptr p)
{
  unsigned char byte = 0;
  OK(cuMemcpyDtoH(&byte, p, 1));
  return byte;
}

/* Descriptors of simulated devices, here or of other processes; the last */
static unsigned count_files(int *ret_last)
{
  char path[64], target[64];
  unsigned count = 0;
  for (int file = 0; file < 1024; file++) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n < 0 ? 0 : n] = 0;
    if (!strstr(target, "simulated-gpu"))
      continue;
    *ret_last = file;
    count++;
  }
  return count;
}

/* Two blocks of which the second does not begin on a page of the host, beside one that is not exported */
static void export_memory(void)
{
  handles_t handles;
  CUdeviceptr first, beside, small, large;
  char token;
  test_start();
  OK(cuMemAlloc(&first, 512));
  OK(cuMemAlloc(&small, SMALL));
  OK(cuMemAlloc(&beside, 512));
  OK(cuMemAlloc(&large, LARGE));
  OK(cuMemsetD8(small, 1, SMALL));
  OK(cuMemsetD8(beside, 2, 512));
  OK(cuMemsetD8(large, 3, 1));
  OK(cuIpcGetMemHandle(&handles.memory, small));
  OK(cuIpcGetMemHandle(&handles.other, large));
  OK(cuCtxSynchronize());
  send(up, &handles, sizeof handles);
  ck_assert(receive(down, &token, 1)); /* the other process has written both */
  ck_assert_int_eq(byte_at(small), 4);
  ck_assert_int_eq(byte_at(small + SMALL - 1), 4);
  ck_assert_int_eq(byte_at(large + LARGE - 1), 5);
  ck_assert_int_eq(byte_at(beside), 2);
  OK(cuMemsetD8(large, 6, 1));
  OK(cuCtxSynchronize());
  turn(up, down); /* and has closed both */
  OK(cuMemFree(small));
  OK(cuMemFree(large));
  CUdeviceptr again;
  OK(cuMemAlloc(&again, LARGE));
  ck_assert_uint_eq(again, large);
  ck_assert_int_eq(byte_at(again + LARGE - 1), 0); /* what others wrote is gone, too */
}

static void use_memory(void)
{
  handles_t handles;
  CUdeviceptr small, large, same, base;
  size_t bytes, free_before, free_bytes, total;
  unsigned type;
  int file;
  test_start();
  OK(cuMemGetInfo(&free_before, &total));
  ck_assert(receive(up, &handles, sizeof handles));
  ck_assert_int_eq(cuIpcOpenMemHandle(&small, handles.memory, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuIpcOpenMemHandle(&small, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuIpcOpenMemHandle(&large, handles.other, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuIpcOpenMemHandle(&same, handles.other, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  ck_assert_uint_eq(same, large);
  ck_assert_uint_eq(count_files(&file), 1); /* its own */
  OK(cuMemGetInfo(&free_bytes, &total));
  ck_assert_uint_eq(free_bytes, free_before);
  OK(cuMemGetAddressRange(&base, &bytes, small + 100));
  ck_assert(base == small && bytes == SMALL);
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, small));
  ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
  ck_assert(byte_at(small) == 1 && byte_at(small + SMALL - 1) == 1 && byte_at(large) == 3);
  OK(cuMemsetD8(small, 4, SMALL));
  OK(cuMemsetD8(large, 5, LARGE));
  OK(cuCtxSynchronize());
  ck_assert_int_eq(cuMemsetD8(small, 0, 4096), CUDA_ERROR_INVALID_VALUE); /* it is no larger than it was */
  turn(down, up);
  ck_assert_int_eq(byte_at(large), 6);
  ck_assert_int_eq(cuMemFree(large), CUDA_ERROR_INVALID_VALUE);
  OK(cuIpcCloseMemHandle(large));
  ck_assert_int_eq(byte_at(large), 6); /* it was opened twice */
  OK(cuIpcCloseMemHandle(large));
  ck_assert_int_eq(cuIpcCloseMemHandle(large), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemsetD8(large, 0, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuIpcCloseMemHandle(small));
  void *pinned; /* where it was reads as new memory does */
  OK(cuMemAllocHost(&pinned, 8 * LARGE));
  ck_assert((uintptr_t)pinned <= small && large < (uintptr_t)pinned + 8 * LARGE);
  ck_assert_int_eq(*(const char *)(uintptr_t)small, 0);
  ck_assert_int_eq(*(const char *)(uintptr_t)large, 0);
}

START_TEST(test_memory_of_another_process)
{
  pid_t exporter = start(export_memory);
  use_memory();
  char token = 0;
  send(down, &token, 1);
  finish(exporter);
}
END_TEST

/* The statistics are the exporter's. */
static void share_memory(void)
{
  pid_t exporter = start(export_memory);
  unsetenv("SIMCUDA_STATS");
  use_memory();
  char token = 0;
  send(down, &token, 1);
  finish(exporter);
}

START_TEST(test_what_others_write_is_no_error)
{
  ck_assert_int_eq(test_stat(share_memory, "corrupt_stamps"), 0);
}
END_TEST

static void export_and_free(void)
{
  handles_t handles;
  CUdeviceptr p, again, other;
  char token;
  test_start();
  OK(cuMemAlloc(&p, LARGE));
  OK(cuMemAlloc(&other, LARGE));
  OK(cuIpcGetMemHandle(&handles.freed, other));
  OK(cuMemFree(other));
  OK(cuIpcGetMemHandle(&handles.memory, p));
  OK(cuMemFree(p));
  OK(cuMemAlloc(&again, LARGE));
  ck_assert_uint_eq(again, p);
  OK(cuIpcGetMemHandle(&handles.other, again));
  send(up, &handles, sizeof handles);
  (void)receive(down, &token, 1);
}

START_TEST(test_freed_memory_is_not_opened)
{
  handles_t handles;
  CUdeviceptr p;
  pid_t exporter = start(export_and_free);
  test_start();
  ck_assert(receive(up, &handles, sizeof handles));
  ck_assert_mem_ne(&handles.memory, &handles.other, sizeof handles.memory);
  ck_assert_int_eq(
      cuIpcOpenMemHandle(&p, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(
      cuIpcOpenMemHandle(&p, handles.freed, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE);
  OK(cuIpcOpenMemHandle(&p, handles.other, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuIpcCloseMemHandle(p));
  finish(exporter);
  ck_assert_int_eq(cuIpcOpenMemHandle(&p, handles.other, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
      CUDA_ERROR_INVALID_HANDLE); /* its process has ended */
}
END_TEST

START_TEST(test_own_handles_are_not_opened)
{
  CUdeviceptr p;
  CUevent event, opened;
  CUipcMemHandle memory;
  CUipcEventHandle handle;
  test_start();
  OK(cuMemAlloc(&p, 512));
  OK(cuIpcGetMemHandle(&memory, p));
  ck_assert_int_eq(
      cuIpcOpenMemHandle(&p, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
  ck_assert_int_eq(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ck_assert_int_eq(cuIpcGetEventHandle(&handle, event), CUDA_ERROR_INVALID_HANDLE);
  OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  OK(cuIpcGetEventHandle(&handle, event));
  ck_assert_int_eq(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_CONTEXT);
  memset(&handle, 0, sizeof handle);
  ck_assert_int_eq(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(test_a_descriptor_that_the_program_has_closed)
{
  CUdeviceptr exported, other;
  CUipcMemHandle handle;
  struct stat stat;
  test_start();
  OK(cuMemAlloc(&exported, LARGE));
  OK(cuMemAlloc(&other, LARGE));
  OK(cuIpcGetMemHandle(&handle, exported));
  int file = -1, own = memfd_create("own", 0);
  ck_assert_uint_eq(count_files(&file), 1);
  ck_assert_int_eq(dup2(own, file), file); /* now it is the program's */
  OK(cuMemFree(exported));
  ck_assert_int_eq(cuIpcGetMemHandle(&handle, other), CUDA_ERROR_MAP_FAILED);
  ck_assert_int_eq(fstat(file, &stat), 0);
  ck_assert_int_eq(stat.st_size, 0);
}
END_TEST

/* A write behind the limit would end the program by a signal. */
START_TEST(test_small_files_only)
{
  CUdeviceptr p;
  CUipcMemHandle handle;
  struct rlimit limit = {1 << 20, 1 << 20};
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  test_start();
  OK(cuMemAlloc(&p, LARGE));
  OK(cuMemsetD8(p, 1, LARGE));
  ck_assert_int_eq(byte_at(p + LARGE - 1), 1);
  ck_assert_int_eq(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_MAP_FAILED);
  OK(cuMemFree(p));
}
END_TEST

/* The exporter calls nothing after the record. */
static void record_event(void)
{
  handles_t handles;
  CUdeviceptr p;
  CUevent event;
  char token;
  test_start();
  OK(cuMemAlloc(&p, 512));
  OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  OK(cuMemsetD8Async(p, 7, 512, NULL));
  OK(cuIpcGetMemHandle(&handles.memory, p));
  OK(cuIpcGetEventHandle(&handles.event, event));
  OK(cuEventRecord(event, NULL));
  send(up, &handles, sizeof handles);
  (void)receive(down, &token, 1);
}

START_TEST(test_work_before_an_event_of_another_process_is_seen)
{
  handles_t handles;
  CUdeviceptr p, own;
  CUevent event;
  setenv("SIMCUDA_PACE", "waits", 1);
  pid_t exporter = start(record_event);
  test_start();
  ck_assert(receive(up, &handles, sizeof handles));
  OK(cuIpcOpenEventHandle(&event, handles.event));
  OK(cuIpcOpenMemHandle(&p, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuStreamWaitEvent(NULL, event, 0));
  ck_assert_int_eq(byte_at(p), 7);
  OK(cuMemAlloc(&own, 512));
  OK(cuMemcpyDtoD(own, p, 512)); /* both are memory of a device: the call does not wait */
  ck_assert_int_eq(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
  ck_assert_int_eq(byte_at(own), 7);
  OK(cuEventSynchronize(event));
  OK(cuEventRecord(event, NULL));
  OK(cuEventDestroy(event));
  finish(exporter);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_ipc");
  TCase *tests = tcase_create("ipc");
  tcase_add_test(tests, test_memory_of_another_process);
  tcase_add_test(tests, test_what_others_write_is_no_error);
  tcase_add_test(tests, test_freed_memory_is_not_opened);
  tcase_add_test(tests, test_own_handles_are_not_opened);
  tcase_add_test(tests, test_a_descriptor_that_the_program_has_closed);
  tcase_add_test(tests, test_small_files_only);
  tcase_add_test(tests, test_work_before_an_event_of_another_process_is_seen);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
