/*
 * Virtual memory management: physical memory, handles, mappings, sharing.
 */
#include "sim_test.h"

#define STEP ((size_t)2 << 20)

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

static size_t used(void)
{
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

static CUdeviceptr reserve(size_t steps)
{
  CUdeviceptr p;
  test_start();
  OK(cuMemAddressReserve(&p, steps * STEP, 0, 0, 0));
  return p;
}

START_TEST(test_mapping)
{
  CUmemGenericAllocationHandle handle;
  CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr p = reserve(4);
  size_t step;
  OK(cuMemGetAllocationGranularity(&step, &on_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  ck_assert_uint_eq(step, STEP);
  OK(cuMemCreate(&handle, step, &on_device, 0));
  ck_assert_uint_eq(used(), step);
  ck_assert_int_eq(cuMemsetD8(p, 1, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemMap(p + step, step, 0, handle, 0));
  OK(cuMemSetAccess(p + step, step, &access, 1));
  OK(cuMemsetD8(p + step, 1, step));
  OK(cuMemRelease(handle));
  ck_assert_uint_eq(used(), step);
  OK(cuMemUnmap(p + step, step));
  ck_assert_uint_eq(used(), 0);
  OK(cuMemAddressFree(p, 4 * step));
}
END_TEST

START_TEST(test_host_memory_is_not_charged)
{
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp prop = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = (CUmemLocationType)_i, .id = 0}};
  CUdeviceptr p;
  unsigned type;
  setenv("SIMCUDA_CAPACITY", "1 MiB", 1);
  p = reserve(1);
  OK(cuMemCreate(&handle, STEP, &prop, 0));
  OK(cuMemMap(p, STEP, 0, handle, 0));
  ck_assert_uint_eq(used(), 0);
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
  ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
  OK(cuMemUnmap(p, STEP));
  OK(cuMemRelease(handle));
  ck_assert_uint_eq(used(), 0);
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  ck_assert_int_eq(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

/* One operation over two pieces, and no mapping of both in one. */
START_TEST(test_operation_over_two_mappings)
{
  CUmemGenericAllocationHandle handles[2];
  const CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr p = reserve(3);
  unsigned char bytes[8] = {0};
  for (size_t i = 0; i < 2; i++) {
    OK(cuMemCreate(&handles[i], STEP, &on_device, 0));
    OK(cuMemMap(p + i * STEP, STEP, 0, handles[i], 0));
  }
  ck_assert_int_eq(cuMemSetAccess(p, 3 * STEP, &access, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemSetAccess(p, 2 * STEP, &access, 1));
  OK(cuMemsetD8(p + STEP - 4, 9, 8));
  OK(cuMemcpyDtoH(bytes, p + STEP - 4, 8));
  for (int i = 0; i < 8; i++)
    ck_assert_uint_eq(bytes[i], 9);
  ck_assert_int_eq(cuMemsetD8(p + 2 * STEP - 4, 9, 8), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* Work that is queued finds other memory at its address, or none. */
static void unmap_under_work(void)
{
  CUmemGenericAllocationHandle handle;
  const CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr p = reserve(1);
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemCreate(&handle, STEP, &on_device, 0));
  OK(cuMemMap(p, STEP, 0, handle, 0));
  OK(cuMemSetAccess(p, STEP, &access, 1));
  OK(cuMemsetD8Async(p, 1, 8, stream));
  OK(cuMemUnmap(p, STEP));
  OK(cuMemMap(p, STEP, 0, handle, 0));
  OK(cuMemSetAccess(p, STEP, &access, 1));
  (void)cuStreamSynchronize(stream);
}

START_TEST(test_unmapping_under_work_is_seen)
{
  ck_assert_int_gt(test_stat(unmap_under_work, "violations"), 0);
}
END_TEST

/* The program writes the memory without the driver's knowledge: not a stamp that went wrong. */
static void touch_host_memory(void)
{
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp prop = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
  const CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_HOST}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr p = reserve(1);
  char byte = 0;
  OK(cuMemCreate(&handle, STEP, &prop, 0));
  OK(cuMemMap(p, STEP, 0, handle, 0));
  ck_assert_int_eq(cuMemcpyDtoH(&byte, p, 1), CUDA_ERROR_INVALID_VALUE); /* no device may use it yet */
  OK(cuMemSetAccess(p, STEP, &access, 1));
  *(char *)(uintptr_t)p = 7;
  OK(cuMemcpyDtoH(&byte, p, 1));
  ck_assert_int_eq(byte, 7);
}

START_TEST(test_program_may_touch_host_memory)
{
  ck_assert_int_eq(test_stat(touch_host_memory, "corrupt_stamps"), 0);
}
END_TEST

START_TEST(test_create_errors)
{
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp prop = on_device;
  test_start();
  ck_assert_int_eq(cuMemCreate(&handle, STEP + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemCreate(&handle, STEP, &prop, 1), CUDA_ERROR_INVALID_VALUE);
  prop.location.id = 1;
  ck_assert_int_eq(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA; /* there is no node 1 */
  ck_assert_int_eq(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  ck_assert_int_eq(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST; /* "not IPC capable" */
  ck_assert_int_eq(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemRelease(1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_retained_handle_is_that_of_the_mapping)
{
  CUmemGenericAllocationHandle handle, again;
  CUdeviceptr p = reserve(1);
  OK(cuMemCreate(&handle, STEP, &on_device, 0));
  OK(cuMemMap(p, STEP, 0, handle, 0));
  OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 5)));
  ck_assert_uint_eq(again, handle);
  OK(cuMemRelease(handle));
  OK(cuMemRelease(handle));
  ck_assert_int_eq(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p)); /* the mapping brings it back */
  ck_assert_uint_eq(again, handle);
  OK(cuMemUnmap(p, STEP));
  ck_assert_uint_eq(used(), STEP);
  OK(cuMemRelease(again));
  ck_assert_uint_eq(used(), 0);
  ck_assert_int_eq(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_handle_value_is_used_again)
{
  CUmemGenericAllocationHandle first, second, again;
  CUdeviceptr p = reserve(1);
  OK(cuMemCreate(&first, STEP, &on_device, 0));
  OK(cuMemMap(p, STEP, 0, first, 0));
  OK(cuMemRelease(first));
  OK(cuMemCreate(&second, 3 * STEP, &on_device, 0));
  ck_assert_uint_eq(second, first);
  ck_assert_uint_eq(used(), 4 * STEP);
  OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p)); /* must not be the memory of another */
  ck_assert_uint_ne(again, second);
  OK(cuMemRelease(second));
  ck_assert_uint_eq(used(), STEP);
  OK(cuMemUnmap(p, STEP));
  OK(cuMemRelease(again));
  ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(test_imported_handle_shares_the_memory)
{
  CUmemGenericAllocationHandle handle, imported;
  CUmemAllocationProp prop;
  CUdeviceptr p = reserve(2);
  int fd = -1, other[2];
  OK(cuMemCreate(&handle, STEP, &on_device, 0));
  OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  OK(cuMemImportFromShareableHandle(
      &imported, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  ck_assert_uint_ne(imported, handle);
  ck_assert_uint_eq(used(), STEP);
  OK(cuMemGetAllocationPropertiesFromHandle(&prop, imported));
  ck_assert_int_eq(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  OK(cuMemMap(p, STEP, 0, handle, 0));
  OK(cuMemMap(p + STEP, STEP, 0, imported, 0));
  OK(cuMemRelease(handle));
  OK(cuMemUnmap(p, 2 * STEP));
  ck_assert_uint_eq(used(), STEP);
  OK(cuMemRelease(imported));
  int copy = dup(fd);
  ck_assert_int_eq(close(fd), 0);
  ck_assert_uint_eq(used(), STEP); /* the copy keeps the memory */
  OK(cuMemImportFromShareableHandle(
      &imported, (void *)(uintptr_t)copy, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  ck_assert_int_eq(close(copy), 0);
  ck_assert_uint_eq(used(), STEP);
  OK(cuMemRelease(imported));
  ck_assert_uint_eq(used(), 0);
  ck_assert_int_eq(pipe(other), 0);
  ck_assert_int_eq(cuMemImportFromShareableHandle(
                       &imported, (void *)(uintptr_t)other[0], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_export_must_have_been_requested)
{
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp prop = on_device;
  int fd;
  test_start();
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  OK(cuMemCreate(&handle, STEP, &prop, 0));
  ck_assert_int_eq(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(
      cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_NONE, 0), CUDA_ERROR_INVALID_VALUE);
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
  ck_assert_int_eq(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_vmm");
  TCase *tests = tcase_create("vmm");
  tcase_add_test(tests, test_mapping);
  tcase_add_loop_test(
      tests, test_host_memory_is_not_charged, CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA + 1);
  tcase_add_test(tests, test_operation_over_two_mappings);
  tcase_add_test(tests, test_unmapping_under_work_is_seen);
  tcase_add_test(tests, test_program_may_touch_host_memory);
  tcase_add_test(tests, test_create_errors);
  tcase_add_test(tests, test_retained_handle_is_that_of_the_mapping);
  tcase_add_test(tests, test_handle_value_is_used_again);
  tcase_add_test(tests, test_imported_handle_shares_the_memory);
  tcase_add_test(tests, test_export_must_have_been_requested);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
