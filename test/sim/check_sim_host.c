/*
 * Pinned host memory: allocated and registered, by the functions of today and by their older variants.
 */
#include "sim_test.h"

static size_t used(void)
{
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

static unsigned type_of(const void *p)
{
  unsigned type = 0;
  CUresult result = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)p);
  return result == CUDA_SUCCESS ? type : 0;
}

static void *variant(const char *name, int version)
{
  void *p = NULL;
  OK(cuGetProcAddress(name, &p, version, 0, NULL));
  ck_assert_ptr_nonnull(p);
  return p;
}

START_TEST(test_allocation)
{
  void *p;
  unsigned flags;
  test_start();
  if (_i == 0)
    OK(cuMemHostAlloc(&p, 10000, CU_MEMHOSTALLOC_PORTABLE));
  else if (_i == 1)
    OK(cuMemAllocHost(&p, 10000));
  else
    OK(((CUresult(*)(void **, unsigned))variant("cuMemAllocHost", 2000))(&p, 10000));
  memset(p, 1, 10000);
  ck_assert_uint_eq(type_of(p), CU_MEMORYTYPE_HOST);
  OK(cuMemHostGetFlags(&flags, p));
  ck_assert_uint_eq(flags & CU_MEMHOSTALLOC_PORTABLE, _i == 0 ? CU_MEMHOSTALLOC_PORTABLE : 0);
  ck_assert_uint_eq(used(), 0); /* no memory of the device */
  OK(cuMemFreeHost(p));
  ck_assert_uint_eq(type_of(p), 0);
  ck_assert_int_eq(cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_registration)
{
  static char memory[3 * 4096] __attribute__((aligned(4096)));
  CUresult (*add)(void *, size_t, unsigned) = variant("cuMemHostRegister", _i ? 6050 : 4000);
  CUdeviceptr p;
  test_start();
  OK(add(memory + 4096, 4096, 0));
  ck_assert_uint_eq(type_of(memory + 4096), CU_MEMORYTYPE_HOST);
  OK(cuMemHostGetDevicePointer(&p, memory + 4096, 0));
  for (size_t from = 0; from <= 4096; from += 4096)
    ck_assert_int_eq(add(memory + from, sizeof memory - from, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(add(memory, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_READ_ONLY));
  ck_assert_int_eq(add(memory + 8192, 4096, 16), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(add(memory + 8192, 0, 0), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(add(memory + 8192, (size_t)-1, 0), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemFreeHost(memory), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemHostUnregister(memory));
  OK(cuMemHostUnregister(memory + 4096));
  ck_assert_int_eq(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  ck_assert_uint_eq(type_of(memory), 0);
}
END_TEST

START_TEST(test_goes_with_its_context)
{
  CUcontext primary = test_start(), own;
  static char memory[4096];
  void *p;
  OK(cuCtxCreate(&own, NULL, 0, 0));
  OK(cuMemAllocHost(&p, 4096));
  OK(cuMemHostRegister(memory, sizeof memory, 0));
  OK(cuCtxDestroy(own));
  OK(cuCtxSetCurrent(primary));
  ck_assert_uint_eq(type_of(p), 0);
  ck_assert_int_eq(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_host");
  TCase *tests = tcase_create("host");
  tcase_add_loop_test(tests, test_allocation, 0, 3);
  tcase_add_loop_test(tests, test_registration, 0, 2);
  tcase_add_test(tests, test_goes_with_its_context);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
