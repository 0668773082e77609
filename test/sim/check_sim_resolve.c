/*
 * cuGetProcAddress: versions, flags, statuses.
 */
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include "sim_test.h"

static void *look_up(const char *name, int version, cuuint64_t flags, int *ret_status)
{
  void *p = (void *)1;
  CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
  OK(cuGetProcAddress(name, &p, version, flags, &status));
  if (ret_status)
    *ret_status = (int)status;
  return p;
}

static void *exported(const char *name)
{
  void *p = dlsym(RTLD_DEFAULT, name);
  ck_assert_msg(p != NULL, "%s is not exported", name);
  return p;
}

START_TEST(test_highest_variant_up_to_the_version)
{
  ck_assert_ptr_eq(look_up("cuMemAlloc", 3020, 0, NULL), exported("cuMemAlloc_v2"));
  ck_assert_ptr_eq(look_up("cuMemAlloc", 3010, 0, NULL), exported("cuMemAlloc"));
  ck_assert_ptr_eq(look_up("cuMemAlloc", 13000, 0, NULL), exported("cuMemAlloc_v2"));
  ck_assert_ptr_eq(look_up("cuDevicePrimaryCtxReset", 7000, 0, NULL), exported("cuDevicePrimaryCtxReset"));
  ck_assert_ptr_eq(
      look_up("cuDevicePrimaryCtxReset", 11000, 0, NULL), exported("cuDevicePrimaryCtxReset_v2"));
  ck_assert_ptr_eq(look_up("cuStreamBeginCapture", 10000, 0, NULL), exported("cuStreamBeginCapture"));
  ck_assert_ptr_eq(look_up("cuStreamBeginCapture", 10010, 0, NULL), exported("cuStreamBeginCapture_v2"));
  ck_assert_ptr_eq(look_up("cuCtxSynchronize", 12080, 0, NULL), exported("cuCtxSynchronize"));
  ck_assert_ptr_eq(look_up("cuCtxSynchronize", 13000, 0, NULL), exported("cuCtxSynchronize_v2"));
  ck_assert_ptr_eq(look_up("cuGetProcAddress", 11030, 0, NULL), exported("cuGetProcAddress"));
  ck_assert_ptr_eq(look_up("cuGetProcAddress", 12000, 0, NULL), exported("cuGetProcAddress_v2"));
}
END_TEST

START_TEST(test_per_thread_variant_where_there_is_one)
{
  ck_assert_ptr_eq(look_up("cuStreamSynchronize", 7000, 2, NULL), exported("cuStreamSynchronize_ptsz"));
  ck_assert_ptr_eq(look_up("cuStreamSynchronize", 7000, 1, NULL), exported("cuStreamSynchronize"));
  ck_assert_ptr_eq(look_up("cuStreamSynchronize", 2000, 2, NULL), exported("cuStreamSynchronize"));
  ck_assert_ptr_eq(look_up("cuMemcpyHtoD", 7000, 2, NULL), exported("cuMemcpyHtoD_v2_ptds"));
  ck_assert_ptr_eq(
      look_up("cuStreamGetCaptureInfo", 10010, 2, NULL), exported("cuStreamGetCaptureInfo_ptsz"));
  ck_assert_ptr_eq(
      look_up("cuStreamGetCaptureInfo", 11030, 2, NULL), exported("cuStreamGetCaptureInfo_v2_ptsz"));
  ck_assert_ptr_eq(look_up("cuMemFree", 13000, 2, NULL), exported("cuMemFree_v2"));
}
END_TEST

START_TEST(test_statuses)
{
  int status;
  ck_assert_ptr_null(look_up("cuMemAllocAsync", 11010, 0, &status));
  ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  ck_assert_ptr_null(look_up("cuNoSuchThing", 13000, 0, &status));
  ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  ck_assert_ptr_null(look_up("cuMemAlloc_v2", 13000, 0, &status)); /* base names only */
  ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  ck_assert_ptr_null(look_up("", 0, 0, &status));
  ck_assert_ptr_nonnull(look_up("cuInit", 2000, 0, &status));
  ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
  void *p;
  OK(cuGetProcAddress("cuInit", &p, 2000, 0, NULL));
  ck_assert_int_eq(cuGetProcAddress("cuInit", &p, 13010, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGetProcAddress("cuInit", &p, 13000, 3, NULL), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGetProcAddress(NULL, &p, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuGetProcAddress("cuInit", NULL, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_old_driver)
{
  int status, version;
  setenv("SIMCUDA_DRIVER", "12040", 1);
  OK(cuDriverGetVersion(&version));
  ck_assert_int_eq(version, 12040);
  ck_assert_ptr_null(look_up("cuCtxRecordEvent", 12040, 0, &status));
  ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  ck_assert_ptr_nonnull(look_up("cuGreenCtxCreate", 12040, 0, &status));
  void *p;
  ck_assert_int_eq(cuGetProcAddress("cuInit", &p, 12050, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_distinct_pointers_work)
{
  setenv("SIMCUDA_PROC_ADDRESS", "distinct", 1);
  void *p = look_up("cuDriverGetVersion", 2020, 0, NULL);
  int version = 0;
  ck_assert_ptr_nonnull(p);
  ck_assert_ptr_ne(p, exported("cuDriverGetVersion"));
  PFN_cuDriverGetVersion_v2020 get = (PFN_cuDriverGetVersion_v2020)p;
  OK(get(&version));
  ck_assert_int_eq(version, 13000);
}
END_TEST

START_TEST(test_no_export_tables)
{
  const void *table = (const void *)1;
  CUuuid id = {{0}};
  ck_assert_int_ne(cuGetExportTable(&table, &id), CUDA_SUCCESS);
  ck_assert_ptr_null(table);
}
END_TEST

/* A program that is linked to all of them starts (PyCUDA), and so does one that asks for each with dlsym
 * (FFmpeg). */
START_TEST(test_graphics_names_are_there)
{
  static const char *const names[] = {"cuGLInit", "cuGLCtxCreate_v2", "cuGLGetDevices_v2",
      "cuGLMapBufferObject_v2", "cuGLMapBufferObjectAsync_v2", "cuGLMapBufferObject_v2_ptds",
      "cuGLUnmapBufferObject", "cuGLRegisterBufferObject", "cuGraphicsGLRegisterBuffer",
      "cuGraphicsGLRegisterImage", "cuGraphicsEGLRegisterImage", "cuGraphicsResourceGetMappedEglFrame",
      "cuEGLStreamProducerConnect", "cuEGLStreamProducerPresentFrame", "cuEGLStreamConsumerAcquireFrame",
      "cuVDPAUGetDevice", "cuVDPAUCtxCreate_v2", "cuGraphicsVDPAURegisterOutputSurface",
      "cuGraphicsVDPAURegisterVideoSurface"};
  OK(cuInit(0));
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    CUresult (*function)(void) = (CUresult(*)(void))exported(names[i]);
    ck_assert_msg(function != NULL, "no %s", names[i]);
    ck_assert_int_eq(function(), CUDA_ERROR_NOT_SUPPORTED); /* no display here */
  }
  ck_assert_ptr_eq(look_up("cuGLMapBufferObject", 3020, 0, NULL), exported("cuGLMapBufferObject_v2"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_resolve");
  TCase *tests = tcase_create("resolve");
  tcase_add_test(tests, test_highest_variant_up_to_the_version);
  tcase_add_test(tests, test_per_thread_variant_where_there_is_one);
  tcase_add_test(tests, test_statuses);
  tcase_add_test(tests, test_old_driver);
  tcase_add_test(tests, test_distinct_pointers_work);
  tcase_add_test(tests, test_no_export_tables);
  tcase_add_test(tests, test_graphics_names_are_there);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
