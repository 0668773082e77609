/*
 * Allocations: sizes, addresses, capacity, errors, attributes.
 */
#include "sim_test.h"

START_TEST(test_alignment_and_accounting)
{
  CUdeviceptr small, large;
  size_t free_bytes, total;
  test_start();
  OK(cuMemAlloc(&small, 1));
  OK(cuMemAlloc(&large, 3 << 20));
  ck_assert_uint_eq(small % 512, 0);
  ck_assert_uint_eq(large % (2 << 20), 0);
  OK(cuMemGetInfo(&free_bytes, &total));
  ck_assert_uint_eq(total, (size_t)80 << 30);
  ck_assert_uint_eq(total - free_bytes, (2 << 20) + (4 << 20)); /* whole pages */
  OK(cuMemGetInfo(NULL, &total));
  OK(cuMemFree(small));
  OK(cuMemFree(large));
  OK(cuMemGetInfo(&free_bytes, NULL));
  ck_assert_uint_eq(free_bytes, total);
}
END_TEST

START_TEST(test_errors)
{
  CUdeviceptr p;
  ck_assert_int_eq(cuMemAlloc(&p, 1), CUDA_ERROR_NOT_INITIALIZED);
  OK(cuInit(0));
  ck_assert_int_eq(cuMemAlloc(&p, 1), CUDA_ERROR_INVALID_CONTEXT);
  test_start();
  ck_assert_int_eq(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemAlloc(NULL, 8), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAlloc(&p, 4096));
  OK(cuMemFree(0));
  ck_assert_int_eq(cuMemFree(p + 512), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemFree(12345), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(p));
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemsetD8(p, 0, 1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_capacity)
{
  CUdeviceptr p, q;
  setenv("SIMCUDA_CAPACITY", "2 MiB", 1);
  test_start();
  ck_assert_int_eq(cuMemAlloc(&p, (2 << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
  ck_assert_int_eq(cuMemAlloc(&p, (size_t)-1), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&p, (1 << 20) + 1));
  ck_assert_int_eq(cuMemAlloc(&q, 1), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemFree(p));
  OK(cuMemAlloc(&q, 1));
}
END_TEST

static size_t taken(void)
{
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

/* As on an H100: two of 1 MiB in a page, thousands of 512 bytes; the page is taken while one is left. */
START_TEST(test_small_blocks_share_pages)
{
  CUdeviceptr p[4], small[8];
  test_start();
  for (int i = 0; i < 4; i++)
    OK(cuMemAlloc(&p[i], 1 << 20));
  ck_assert_uint_eq(taken(), 4 << 20);
  for (int i = 0; i < 8; i++)
    OK(cuMemAlloc(&small[i], 700 * 1024)); /* the third of a page would cross its end */
  ck_assert_uint_eq(taken(), (4 << 20) + (8 << 20));
  for (int i = 0; i < 8; i++) {
    ck_assert_uint_eq(small[i] >> 21, (small[i] + 700 * 1024 - 1) >> 21);
    if (i > 0)
      OK(cuMemFree(small[i]));
  }
  ck_assert_uint_eq(taken(), (4 << 20) + (2 << 20));
  OK(cuMemFree(small[0]));
  for (int i = 0; i < 4; i++)
    OK(cuMemFree(p[i]));
  ck_assert_uint_eq(taken(), 0);
}
END_TEST

START_TEST(test_capacity_per_device)
{
  size_t bytes;
  setenv("SIMCUDA_CAPACITY", "0=8G,1=4GiB", 1);
  setenv("SIMCUDA_DEVICES", "3", 1);
  OK(cuInit(0));
  OK(cuDeviceTotalMem(&bytes, 0));
  ck_assert_uint_eq(bytes, (size_t)8 << 30);
  OK(cuDeviceTotalMem(&bytes, 1));
  ck_assert_uint_eq(bytes, (size_t)4 << 30);
  OK(cuDeviceTotalMem(&bytes, 2));
  ck_assert_uint_eq(bytes, (size_t)80 << 30);
  ck_assert_int_eq(cuDeviceTotalMem(&bytes, 3), CUDA_ERROR_INVALID_DEVICE);
}
END_TEST

START_TEST(test_reused_memory_is_clean)
{
  CUdeviceptr p, q;
  unsigned char byte = 1;
  test_start();
  for (int i = 0; i < 2; i++) {
    size_t bytes = i ? 5 << 20 : 700;
    OK(cuMemAlloc(&p, bytes));
    OK(cuMemsetD8(p, 0xff, bytes));
    OK(cuMemFree(p));
    OK(cuMemAlloc(&q, bytes));
    ck_assert_uint_eq(p, q);
    OK(cuMemcpyDtoH(&byte, q + bytes - 1, 1));
    ck_assert_uint_eq(byte, 0);
    OK(cuMemFree(q));
  }
}
END_TEST

static unsigned long count_set_bytes(CUdeviceptr p, size_t bytes)
{
  unsigned char *copy = malloc(bytes);
  unsigned long count = 0;
  ck_assert_ptr_nonnull(copy);
  OK(cuMemcpyDtoH(copy, p, bytes));
  for (size_t i = 0; i < bytes; i++)
    count += copy[i] != 0;
  free(copy);
  return count;
}

/* Writes rows and single bytes, `count` in all, of which no two are alike. */
static void write_here_and_there(CUdeviceptr p, size_t bytes, int count)
{
  for (int i = 0; i < count; i++) {
    if (i % 2) /* also more bytes than are wiped one by one */
      OK(cuMemsetD2D8Async(p + (i == 7 ? 16 : 0), bytes / 8, 0xff, i == 5 ? 60000 : 8, i == 3 ? 8 : 4, NULL));
    else
      OK(cuMemsetD8(p + bytes - 1 - 777777 * (size_t)i, 0xff, 1));
  }
  OK(cuCtxSynchronize());
}

/* The shadow, too: a copy that reads something else than it has is a corrupt stamp. */
static void reuse_what_was_written(void)
{
  const size_t bytes = 8 << 20;
  test_start();
  for (int count = 1; count <= 8; count++) {
    CUdeviceptr p, q;
    OK(cuMemAlloc(&p, bytes));
    write_here_and_there(p, bytes, count);
    ck_assert_uint_gt(count_set_bytes(p, bytes), 0);
    OK(cuMemFree(p));
    OK(cuMemAlloc(&q, bytes));
    ck_assert_uint_eq(p, q);
    ck_assert_uint_eq(count_set_bytes(q, bytes), 0);
    OK(cuMemFree(q));
  }
}

START_TEST(test_reused_memory_is_clean_wherever_it_was_written)
{
  ck_assert_int_eq(test_stat(reuse_what_was_written, "corrupt_stamps"), 0);
}
END_TEST

/* So many pages that free memory is given back in between */
START_TEST(test_many_written_pages)
{
  const size_t pages = 4096, pitch = 4096;
  test_start();
  for (int i = 0; i < 6; i++) {
    CUdeviceptr p, before, beside;
    OK(cuMemAlloc(&p, pages * pitch));
    OK(cuMemAlloc(&before, 8));
    OK(cuMemAlloc(&beside, 8));
    OK(cuMemFree(before));
    OK(cuMemsetD8(beside, 0xff, 8));
    OK(cuMemsetD2D8Async(p, pitch, 0xff, 8, pages, NULL));
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(count_set_bytes(p, pages * pitch), 8 * pages);
    OK(cuMemFree(p));
    ck_assert_uint_eq(count_set_bytes(beside, 8), 8);
    OK(cuMemFree(beside));
    OK(cuMemAlloc(&p, pages * pitch));
    ck_assert_uint_eq(count_set_bytes(p, pages * pitch), 0);
    OK(cuMemFree(p));
  }
}
END_TEST

START_TEST(test_attributes)
{
  CUdeviceptr p, base, start;
  size_t size;
  CUcontext ctx = test_start(), owner;
  unsigned type, managed;
  int device;
  unsigned long long id, other;
  void *host;
  OK(cuMemAlloc(&p, 1000));
  OK(cuMemGetAddressRange(&base, &size, p + 999));
  ck_assert_uint_eq(base, p);
  ck_assert_uint_eq(size, 1000);
  OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
  ck_assert_ptr_eq(owner, ctx);
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 1));
  ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
  OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 1));
  ck_assert_uint_eq(start, p);
  OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
  ck_assert_int_eq(device, 0);
  OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
  OK(cuMemFree(p));
  ck_assert_int_eq(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAlloc(&p, 1000));
  OK(cuPointerGetAttribute(&other, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
  ck_assert_uint_ne(id, other);
  OK(cuMemHostAlloc(&host, 100, 0));
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
  ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
  OK(cuMemFreeHost(host));
  OK(cuMemAllocManaged(&p, 100, CU_MEM_ATTACH_GLOBAL));
  memset((void *)(uintptr_t)p, 1, 100);
  OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
  ck_assert_uint_eq(managed, 1);
  OK(cuMemFree(p));
}
END_TEST

START_TEST(test_frees_need_no_context)
{
  CUdeviceptr memory;
  CUcontext ctx = test_start(), popped;
  void *host;
  OK(cuMemAlloc(&memory, 1000));
  OK(cuMemAllocHost(&host, 1000));
  OK(cuCtxPopCurrent(&popped));
  ck_assert_ptr_eq(popped, ctx);
  ck_assert_int_eq(cuMemAlloc(&memory, 1000), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuMemFree(memory));
  OK(cuMemFreeHost(host));
  ck_assert_int_eq(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_ipc_handle_of_interior_is_that_of_base)
{
  CUdeviceptr p;
  CUipcMemHandle a, b;
  test_start();
  OK(cuMemAlloc(&p, 4096));
  OK(cuIpcGetMemHandle(&a, p));
  OK(cuIpcGetMemHandle(&b, p + 1024));
  ck_assert_mem_eq(&a, &b, sizeof a);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_memory");
  TCase *tests = tcase_create("memory");
  tcase_add_test(tests, test_alignment_and_accounting);
  tcase_add_test(tests, test_errors);
  tcase_add_test(tests, test_capacity);
  tcase_add_test(tests, test_small_blocks_share_pages);
  tcase_add_test(tests, test_capacity_per_device);
  tcase_add_test(tests, test_reused_memory_is_clean);
  tcase_add_test(tests, test_reused_memory_is_clean_wherever_it_was_written);
  tcase_add_test(tests, test_many_written_pages);
  tcase_add_test(tests, test_attributes);
  tcase_add_test(tests, test_frees_need_no_context);
  tcase_add_test(tests, test_ipc_handle_of_interior_is_that_of_base);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
