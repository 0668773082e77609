/*
 * Memory and events of another process.
 */
#include "sim_test.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SMALL 3000
#define LARGE ((size_t)5 << 20)
#define PAGE  ((size_t)2 << 20)

static const CUmemAllocationProp exportable = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

typedef struct {
  CUipcMemHandle memory, other, freed;
  CUipcEventHandle event;
} handles_t;

static int down[2], up[2]; /* to the exporter, and from it */

static void put(const int *pipe, const void *data, size_t bytes)
{
  ck_assert_int_eq(write(pipe[1], data, bytes), (ssize_t)bytes);
}

/* False: the other process has ended. */
static bool take(const int *pipe, void *data, size_t bytes)
{
  ssize_t got = read(pipe[0], data, bytes);
  return got == (ssize_t)bytes;
}

static void turn(const int *to, const int *from)
{
  char token = 0;
  put(to, &token, 1);
  ck_assert(take(from, &token, 1));
}

/* An exporter in a process of its own, which has not used CUDA before */
static pid_t start(void (*exporter)(void))
{
  ck_assert(pipe(down) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, up) == 0);
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

/* Descriptors of files that stand behind memory, by name; the last */
static unsigned count_named(const char *name, int *ret_last)
{
  char path[64], target[64];
  unsigned count = 0;
  for (int file = 0; file < 1024; file++) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n < 0 ? 0 : n] = 0;
    if (!strstr(target, name))
      continue;
    *ret_last = file;
    count++;
  }
  return count;
}

/* Descriptors of simulated devices, here or of other processes; the last */
static unsigned count_files(int *ret_last)
{
  return count_named("simulated-gpu", ret_last);
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
  put(up, &handles, sizeof handles);
  ck_assert(take(down, &token, 1)); /* the other process has written both */
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
  ck_assert(take(up, &handles, sizeof handles));
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
  put(down, &token, 1);
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
  put(down, &token, 1);
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
  put(up, &handles, sizeof handles);
  (void)take(down, &token, 1);
}

START_TEST(test_freed_memory_is_not_opened)
{
  handles_t handles;
  CUdeviceptr p;
  pid_t exporter = start(export_and_free);
  test_start();
  ck_assert(take(up, &handles, sizeof handles));
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
  CUmemGenericAllocationHandle physical;
  struct rlimit limit = {1 << 20, 1 << 20};
  int file;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  test_start();
  OK(cuMemAlloc(&p, LARGE));
  OK(cuMemsetD8(p, 1, LARGE));
  ck_assert_int_eq(byte_at(p + LARGE - 1), 1);
  ck_assert_int_eq(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_MAP_FAILED);
  OK(cuMemFree(p));
  OK(cuMemCreate(&physical, PAGE, &exportable, 0));
  ck_assert_int_eq(cuMemExportToShareableHandle(&file, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_ERROR_OPERATING_SYSTEM);
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
  put(up, &handles, sizeof handles);
  (void)take(down, &token, 1);
}

START_TEST(test_work_before_an_event_of_another_process_is_seen)
{
  handles_t handles;
  CUdeviceptr p, own;
  CUevent event;
  setenv("SIMCUDA_PACE", "waits", 1);
  pid_t exporter = start(record_event);
  test_start();
  ck_assert(take(up, &handles, sizeof handles));
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

/* ---- handles of cuMemCreate ---- */

typedef union {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
} rights_t;

/* One byte, and a descriptor */
static void send_file(int file)
{
  char byte = 0;
  rights_t rights = {
      .header = {.cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
  memcpy(CMSG_DATA(&rights.header), &file, sizeof file);
  ck_assert_int_eq(sendmsg(up[1], &message, 0), 1);
}

static int receive_file(void)
{
  char byte;
  int file;
  rights_t rights;
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
  ck_assert_int_eq(recvmsg(up[0], &message, 0), 1);
  ck_assert_uint_eq(message.msg_controllen, sizeof rights);
  memcpy(&file, CMSG_DATA(&rights.header), sizeof file);
  return file;
}

static int export_handle(CUmemGenericAllocationHandle handle)
{
  int file = -1;
  OK(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return file;
}

static CUresult import_handle(CUmemGenericAllocationHandle *ret, int file)
{
  return cuMemImportFromShareableHandle(
      ret, (void *)(uintptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static void map_at(CUdeviceptr p, CUmemGenericAllocationHandle handle)
{
  CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemMap(p, PAGE, 0, handle, 0));
  OK(cuMemSetAccess(p, PAGE, &access, 1));
}

static CUdeviceptr map_new(CUmemGenericAllocationHandle handle)
{
  CUdeviceptr p;
  OK(cuMemAddressReserve(&p, PAGE, 0, 0, 0));
  map_at(p, handle);
  return p;
}

/* Other memory at the address reads as new. */
static void expect_gone(CUdeviceptr p)
{
  CUmemGenericAllocationHandle other;
  OK(cuMemUnmap(p, PAGE));
  OK(cuMemCreate(&other, PAGE, &exportable, 0));
  map_at(p, other);
  ck_assert_int_eq(byte_at(p), 0);
  OK(cuMemUnmap(p, PAGE));
  OK(cuMemRelease(other));
  OK(cuMemAddressFree(p, PAGE));
}

/* It is mapped at two addresses before it is exported, and at a third afterwards. */
static void export_physical(void)
{
  CUmemGenericAllocationHandle handle;
  int file;
  test_start();
  OK(cuMemCreate(&handle, PAGE, &exportable, 0));
  CUdeviceptr first = map_new(handle), second = map_new(handle), after;
  OK(cuMemsetD8(second, 1, PAGE));
  OK(cuCtxSynchronize());
  file = export_handle(handle);
  send_file(file);
  close(file);
  after = map_new(handle);
  turn(up, down); /* the other process has written */
  ck_assert(byte_at(first) == 2 && byte_at(second + PAGE - 1) == 2 && byte_at(after) == 2);
  OK(cuMemsetD8(after, 3, PAGE));
  OK(cuCtxSynchronize());
  OK(cuMemUnmap(first, PAGE));
  expect_gone(second);
  OK(cuMemRelease(handle));
  expect_gone(after);
  turn(up, down);
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  ck_assert_uint_eq(
      free_bytes, total - PAGE); /* the other process has the memory, and a descriptor of its own */
}

static void use_physical(void)
{
  CUmemGenericAllocationHandle handle, again;
  CUmemAllocationProp prop;
  size_t free_before, free_bytes, total;
  char token;
  int file = receive_file();
  test_start();
  OK(cuMemGetInfo(&free_before, &total));
  OK(import_handle(&handle, file));
  OK(import_handle(&again, file));
  close(file);
  OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
  ck_assert_int_eq(prop.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUdeviceptr p = map_new(handle), same = map_new(again);
  OK(cuMemRelease(handle));
  OK(cuMemGetInfo(&free_bytes, &total));
  ck_assert_uint_eq(free_bytes, free_before);
  ck_assert(byte_at(p) == 1 && byte_at(same + PAGE - 1) == 1);
  OK(cuMemsetD8(p, 2, PAGE));
  ck_assert_int_eq(byte_at(same), 2);
  ck_assert(take(up, &token, 1));
  put(down, &token, 1);
  ck_assert(take(up, &token, 1)); /* the exporter has released it */
  ck_assert_int_eq(byte_at(p), 3);
  file = export_handle(again);
  OK(cuMemUnmap(same, PAGE));
  OK(cuMemRelease(again));
  expect_gone(p);
  ck_assert_uint_eq(count_named("simulated-memory", &(int){0}), 1); /* it keeps the memory */
  OK(import_handle(&handle, file));
  ck_assert_int_eq(byte_at(map_new(handle)), 3);
  OK(cuMemGetInfo(&free_bytes, &total));
  ck_assert_uint_eq(free_bytes, free_before);
}

static void share_physical(void)
{
  pid_t exporter = start(export_physical);
  unsetenv("SIMCUDA_STATS");
  use_physical();
  put(down, "", 1);
  finish(exporter);
}

START_TEST(test_handle_of_another_process)
{
  ck_assert_int_eq(test_stat(share_physical, "corrupt_stamps"), 0);
}
END_TEST

START_TEST(test_files_that_are_no_memory)
{
  CUmemGenericAllocationHandle handle, imported;
  int file, other = memfd_create("own", 0);
  test_start();
  OK(cuMemCreate(&handle, PAGE, &exportable, 0));
  file = export_handle(handle);
  ck_assert_int_eq(import_handle(&imported, -1), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(import_handle(&imported, other), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(ftruncate(other, PAGE), 0);
  ck_assert_int_eq(import_handle(&imported, other), CUDA_ERROR_INVALID_VALUE);
  close(file);
  ck_assert_uint_eq(count_named("simulated-memory", &file), 1);
  ck_assert_int_eq(dup2(other, file), file); /* now it is the program's */
  ck_assert_int_eq(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_ERROR_OPERATING_SYSTEM);
  OK(cuMemRelease(handle));
  ck_assert_int_ge(fcntl(file, F_GETFD), 0);
}
END_TEST

/* ---- pools ---- */

typedef struct {
  CUmemPoolPtrExportData first, second, freed;
} pointers_t;

static CUmemoryPool new_pool(unsigned handle_types)
{
  CUmemoryPool pool;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
      .handleTypes = (CUmemAllocationHandleType)handle_types,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  OK(cuMemPoolCreate(&pool, &props));
  return pool;
}

static CUresult export_pool(int *ret, CUmemoryPool pool)
{
  return cuMemPoolExportToShareableHandle(ret, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static CUresult import_pool(CUmemoryPool *ret, int file)
{
  return cuMemPoolImportFromShareableHandle(
      ret, (void *)(uintptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

/* Two pools of one device, a block of each; one that is freed and handed out again */
static void export_pools(void)
{
  CUmemoryPool pools[2];
  CUdeviceptr first, second, freed, again;
  pointers_t pointers;
  CUmemPoolPtrExportData data;
  int files[2];
  char token;
  test_start();
  for (int i = 0; i < 2; i++) {
    pools[i] = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    OK(export_pool(&files[i], pools[i]));
    send_file(files[i]);
    close(files[i]);
  }
  OK(cuMemAllocFromPoolAsync(&first, SMALL, pools[0], NULL));
  OK(cuMemAllocFromPoolAsync(&second, LARGE, pools[1], NULL));
  OK(cuMemAllocFromPoolAsync(&freed, 1 << 16, pools[0], NULL));
  OK(cuMemsetD8Async(first, 1, SMALL, NULL));
  OK(cuMemsetD8Async(second, 2, LARGE, NULL));
  OK(cuMemPoolExportPointer(&pointers.first, first));
  OK(cuMemPoolExportPointer(&pointers.second, second));
  OK(cuMemPoolExportPointer(&pointers.freed, freed));
  OK(cuMemFreeAsync(freed, NULL));
  ck_assert_int_eq(cuMemPoolExportPointer(&data, freed), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAllocFromPoolAsync(&again, 1 << 16, pools[0], NULL));
  ck_assert_uint_eq(again, freed);
  OK(cuCtxSynchronize());
  put(up, &pointers, sizeof pointers);
  ck_assert(take(down, &token, 1)); /* the other process has written */
  ck_assert(byte_at(first + SMALL - 1) == 3 && byte_at(second) == 4);
  OK(cuMemFreeAsync(first, NULL));
  OK(cuMemFreeAsync(second, NULL));
  OK(cuCtxSynchronize());
  OK(cuMemPoolDestroy(pools[0]));
}

static void use_pools(void)
{
  CUmemoryPool pools[2], of;
  CUdeviceptr first, second, other;
  CUmemAccess_flags flags;
  pointers_t pointers;
  size_t free_before, free_bytes, total;
  cuuint64_t used;
  int file;
  test_start();
  OK(cuMemGetInfo(&free_before, &total));
  for (int i = 0; i < 2; i++) {
    file = receive_file();
    OK(import_pool(&pools[i], file));
    close(file);
  }
  OK(cuMemPoolGetAccess(&flags, pools[0], &(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE}));
  ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  ck_assert(take(up, &pointers, sizeof pointers));
  ck_assert_int_eq(cuMemPoolImportPointer(&first, pools[1], &pointers.first), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemPoolImportPointer(&first, pools[0], &pointers.freed), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemPoolImportPointer(&first, pools[0], &pointers.first));
  OK(cuMemPoolImportPointer(&second, pools[1], &pointers.second));
  OK(cuMemGetInfo(&free_bytes, &total));
  ck_assert_uint_eq(free_bytes, free_before);
  OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, second));
  ck_assert_ptr_eq(of, pools[1]);
  ck_assert(byte_at(first) == 1 && byte_at(second + LARGE - 1) == 2);
  OK(cuMemsetD8Async(first, 3, SMALL, NULL));
  OK(cuMemsetD8Async(second, 4, LARGE, NULL));
  OK(cuMemFreeAsync(first, NULL)); /* behind the write */
  ck_assert_int_eq(cuMemFreeAsync(first, NULL), CUDA_ERROR_INVALID_VALUE);
  OK(cuCtxSynchronize());
  ck_assert_int_eq(cuMemsetD8(first, 0, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(second));
  ck_assert_int_eq(cuMemsetD8(second, 0, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemPoolGetAttribute(pools[1], CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  ck_assert_uint_eq(used, 0);
  ck_assert_int_eq(cuMemAllocFromPoolAsync(&other, 512, pools[0], NULL), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuDeviceSetMemPool(0, pools[0]), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(export_pool(&file, pools[0]), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemPoolDestroy(pools[0]));
  ck_assert_int_eq(cuMemPoolImportPointer(&first, pools[0], &pointers.first), CUDA_ERROR_INVALID_VALUE);
}

/* The statistics are the importer's. */
static void share_pools(void)
{
  char *path = strdup(getenv("SIMCUDA_STATS"));
  unsetenv("SIMCUDA_STATS");
  pid_t exporter = start(export_pools);
  setenv("SIMCUDA_STATS", path, 1);
  free(path);
  use_pools();
  put(down, "", 1);
  finish(exporter);
}

START_TEST(test_pools_of_another_process)
{
  ck_assert_int_eq(test_stat(share_pools, _i ? "corrupt_stamps" : "violations"), 0);
}
END_TEST

START_TEST(test_pools_that_are_not_shared)
{
  CUmemoryPool pool, opened, plain;
  CUdeviceptr p;
  CUmemPoolPtrExportData data;
  int file = -1;
  test_start();
  plain = new_pool(CU_MEM_HANDLE_TYPE_NONE);
  ck_assert_int_eq(export_pool(&file, plain), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAllocFromPoolAsync(&p, 512, plain, NULL));
  ck_assert_int_eq(cuMemPoolExportPointer(&data, p), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAlloc(&p, 512));
  ck_assert_int_eq(cuMemPoolExportPointer(&data, p), CUDA_ERROR_INVALID_VALUE);
  pool = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  ck_assert_int_eq(
      cuMemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_NONE, 0), CUDA_ERROR_INVALID_VALUE);
  OK(export_pool(&file, pool));
  ck_assert_int_eq(import_pool(&opened, file), CUDA_ERROR_INVALID_VALUE); /* it is of this process */
  ck_assert_int_eq(import_pool(&opened, -1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAllocFromPoolAsync(&p, 1024, pool, NULL));
  ck_assert_int_eq(cuMemPoolExportPointer(&data, p + 512), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemPoolExportPointer(&data, p));
  ck_assert_int_eq(cuMemPoolImportPointer(&p, pool, &data), CUDA_ERROR_INVALID_VALUE);
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
  tcase_add_test(tests, test_handle_of_another_process);
  tcase_add_test(tests, test_files_that_are_no_memory);
  tcase_add_loop_test(tests, test_pools_of_another_process, 0, 2);
  tcase_add_test(tests, test_pools_that_are_not_shared);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
