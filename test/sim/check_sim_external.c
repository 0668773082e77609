/*
 * External memory: what it costs, its buffers, its end.
 */
#include "sim_test.h"

#include <fcntl.h>
#include <sys/mman.h>

static size_t used(void)
{
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

static CUresult import(CUexternalMemory *memory, unsigned long long size)
{
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = size};
  desc.handle.fd = memfd_create("external", MFD_CLOEXEC);
  ck_assert_int_ge(desc.handle.fd, 0);
  return cuImportExternalMemory(memory, &desc);
}

START_TEST(test_buffer_of_imported_memory)
{
  CUexternalMemory memory;
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole = {.size = 10000}, part = {.offset = 4096, .size = 512};
  CUdeviceptr p, q, base;
  size_t size;
  char byte = 0;
  test_start();
  OK(import(&memory, 10000));
  ck_assert_uint_eq(used(), 20 * 512);
  OK(cuExternalMemoryGetMappedBuffer(&p, memory, &whole));
  OK(cuExternalMemoryGetMappedBuffer(&q, memory, &part));
  ck_assert_uint_eq(used(), 20 * 512); /* the buffers are the same memory */
  OK(cuMemGetAddressRange(&base, &size, p + 9999));
  ck_assert_uint_eq(base, p);
  ck_assert_uint_eq(size, 10000);
  OK(cuMemsetD8(p, 5, 10000));
  OK(cuMemcpyDtoH(&byte, p + 9999, 1));
  ck_assert_int_eq(byte, 5);
  OK(cuMemFree(p));
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  ck_assert_uint_eq(used(), 20 * 512);
  OK(cuDestroyExternalMemory(memory));
  ck_assert_uint_eq(used(), 0);
  OK(cuMemFree(q)); /* "must be explicitly freed" also then */
  ck_assert_int_eq(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuExternalMemoryGetMappedBuffer(&p, memory, &whole), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(test_descriptor_becomes_the_drivers)
{
  CUexternalMemory memory;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 4096};
  test_start();
  desc.handle.fd = memfd_create("external", MFD_CLOEXEC);
  OK(cuImportExternalMemory(&memory, &desc));
  ck_assert_int_ge(fcntl(desc.handle.fd, F_GETFD), 0);
  OK(cuDestroyExternalMemory(memory));
  ck_assert_int_lt(fcntl(desc.handle.fd, F_GETFD), 0);
  ck_assert_int_eq(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(test_errors)
{
  CUexternalMemory memory;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .flags = 2};
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffers[] = {{.size = 0}, {.size = 4097}, {.size = 4096, .offset = 512},
      {.size = 512, .flags = 1}, {.size = 512, .offset = ~0ull - 100}};
  CUdeviceptr p;
  setenv("SIMCUDA_CAPACITY", "1 MiB", 1);
  test_start();
  ck_assert_int_eq(import(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(import(&memory, (1 << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
  ck_assert_int_eq(import(&memory, ~0ull), CUDA_ERROR_OUT_OF_MEMORY);
  ck_assert_int_eq(import(NULL, 4096), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuImportExternalMemory(&memory, NULL), CUDA_ERROR_INVALID_VALUE);
  desc.size = 4096;
  ck_assert_int_eq(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_VALUE);
  desc.flags = 0;
  desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
  ck_assert_int_eq(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_NOT_SUPPORTED);
  OK(import(&memory, 4096));
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
    ck_assert_int_eq(cuExternalMemoryGetMappedBuffer(&p, memory, &buffers[i]), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_goes_with_its_context)
{
  CUcontext primary = test_start(), own;
  CUexternalMemory memory;
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole = {.size = 4096};
  CUdeviceptr p;
  OK(cuCtxCreate(&own, NULL, 0, 0));
  OK(import(&memory, 4096));
  OK(cuExternalMemoryGetMappedBuffer(&p, memory, &whole));
  OK(cuCtxDestroy(own));
  OK(cuCtxSetCurrent(primary));
  ck_assert_uint_eq(used(), 0);
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_external");
  TCase *tests = tcase_create("external");
  tcase_add_test(tests, test_buffer_of_imported_memory);
  tcase_add_test(tests, test_descriptor_becomes_the_drivers);
  tcase_add_test(tests, test_errors);
  tcase_add_test(tests, test_goes_with_its_context);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
