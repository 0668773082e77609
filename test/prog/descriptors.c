/*
 * One process exports memory to a descriptor, and another imports it, beside memory of their own.
 *
 * descriptors WAY
 *   handle  memory of cuMemCreate, which is mapped in both
 *   pool    a pool, and memory of it, which the other process frees in the order of its stream
 */
#include "sharing.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef union {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
} rights_t;

static const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
static int ends[2]; /* the exporter's, and the importer's */

static int transfer(CUmemPoolPtrExportData *data, rights_t *rights, int is_sent)
{
  struct iovec part = {data, sizeof(*data)};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = rights, .msg_controllen = sizeof(*rights)};
  return (is_sent ? sendmsg(ends[0], &message, 0) : recvmsg(ends[1], &message, 0)) == (ssize_t)sizeof(*data);
}

/* Both processes have memory of their own, too. */
static CUdeviceptr start(void)
{
  CUdeviceptr own;

  start_driver();
  CALL(cuMemAlloc(&own, BYTES));
  CALL(cuMemsetD8(own, 9, BYTES));
  return own;
}

static void finish(CUdeviceptr own)
{
  unsigned char byte = 0;

  CALL(cuMemcpyDtoH(&byte, own, 1));
  printf("its own holds %d\n", byte);
  CALL(cuMemFree(own));
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
  CUdeviceptr memory;
  CUmemAccessDesc access = {.location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

  CALL(cuMemAddressReserve(&memory, BYTES, 0, 0, 0));
  CALL(cuMemMap(memory, BYTES, 0, handle, 0));
  CALL(cuMemSetAccess(memory, BYTES, &access, 1));
  return memory;
}

static void unmap(CUdeviceptr memory)
{
  SAY(cuMemFree(memory));
  SAY(cuMemUnmap(memory, BYTES));
  SAY(cuMemAddressFree(memory, BYTES));
}

static CUdeviceptr import(int is_pool, int file, CUmemPoolPtrExportData *data)
{
  CUmemGenericAllocationHandle handle;
  CUmemoryPool pool;
  CUdeviceptr memory;
  void *os_handle = (void *)(uintptr_t)file;

  if (is_pool) {
    CALL(cuMemPoolImportFromShareableHandle(&pool, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CALL(cuMemPoolImportPointer(&memory, pool, data));
    SAY(cuMemAllocFromPoolAsync(&(CUdeviceptr){0}, BYTES, pool, NULL));
    return memory;
  }
  CALL(cuMemImportFromShareableHandle(&handle, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  memory = map(handle);
  CALL(cuMemRelease(handle));
  return memory;
}

static int use(int is_pool)
{
  CUmemPoolPtrExportData data;
  rights_t rights;
  int file;

  if (!transfer(&data, &rights, 0))
    return 1;
  memcpy(&file, CMSG_DATA(&rights.header), sizeof(file));
  CUdeviceptr own = start(), memory = import(is_pool, file, &data);
  close(file);
  say_last_byte("the other process", memory);
  CALL(cuMemsetD8Async(memory, 2, BYTES, NULL));
  if (is_pool)
    SAY(cuMemFreeAsync(memory, NULL));
  CALL(cuCtxSynchronize());
  if (is_pool)
    SAY(cuMemFreeAsync(memory, NULL));
  else
    unmap(memory);
  finish(own);
  return 0;
}

static CUdeviceptr export(int is_pool, int *ret_file, CUmemPoolPtrExportData *ret_data)
{
  CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
      .location = device};
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
      .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
      .location = device};
  CUmemGenericAllocationHandle handle;
  CUmemoryPool pool;
  CUdeviceptr memory;

  if (is_pool) {
    CALL(cuMemPoolCreate(&pool, &props));
    CALL(cuMemPoolExportToShareableHandle(ret_file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CALL(cuMemAllocFromPoolAsync(&memory, BYTES, pool, NULL));
    CALL(cuMemPoolExportPointer(ret_data, memory));
  } else {
    CALL(cuMemCreate(&handle, BYTES, &prop, 0));
    memory = map(handle);
    CALL(cuMemExportToShareableHandle(ret_file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CALL(cuMemRelease(handle));
  }
  CALL(cuMemsetD8(memory, 1, BYTES));
  CALL(cuCtxSynchronize());
  return memory;
}

int main(int argc, char **argv)
{
  CUmemPoolPtrExportData data = {{0}};
  rights_t rights = {
      .header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  int is_pool = argc > 1 && strcmp(argv[1], "pool") == 0, file = -1, status;

  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
    return 1;
  pid_t other = fork(); /* before CUDA is used */
  if (other == 0)
    return use(is_pool);
  CUdeviceptr own = start(), memory = export(is_pool, &file, &data);
  memcpy(CMSG_DATA(&rights.header), &file, sizeof(file));
  if (!transfer(&data, &rights, 1) || waitpid(other, &status, 0) != other || status != 0)
    return 1;
  close(file);
  say_last_byte("the exporter", memory);
  if (is_pool)
    SAY(cuMemFreeAsync(memory, NULL));
  else
    unmap(memory);
  CALL(cuCtxSynchronize());
  finish(own);
  return 0;
}
