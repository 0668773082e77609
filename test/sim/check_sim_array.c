/*
 * CUDA arrays: the memory they hold, their arguments, what they tell of themselves, whose they are.
 */
#include "sim_test.h"

#define FULL(format, channels, w, h, d, flags)                                                               \
  (CUDA_ARRAY3D_DESCRIPTOR)                                                                                  \
  {                                                                                                          \
    .Width = (w), .Height = (h), .Depth = (d), .Format = CU_AD_FORMAT_##format, .NumChannels = (channels),   \
    .Flags = (flags)                                                                                         \
  }
#define DESC(w, h, d, flags) FULL(FLOAT, 1, w, h, d, flags)

static size_t used(void)
{
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

static CUresult create(CUarray *array, CUDA_ARRAY3D_DESCRIPTOR desc)
{
  return cuArray3DCreate(array, &desc);
}

START_TEST(test_array_holds_its_elements)
{
  CUarray array;
  CUDA_ARRAY_DESCRIPTOR desc = {.Width = 100, .Height = 7, .Format = CU_AD_FORMAT_HALF, .NumChannels = 4};
  CUDA_ARRAY_DESCRIPTOR got;
  CUDA_ARRAY3D_DESCRIPTOR full;
  test_start();
  OK(cuArrayCreate(&array, &desc));
  ck_assert_uint_eq(used(), 11 * 512); /* 100 * 7 elements of 8 bytes, in units of 512 */
  OK(cuArrayGetDescriptor(&got, array));
  ck_assert_mem_eq(&got, &desc, sizeof got);
  OK(cuArray3DGetDescriptor(&full, array));
  ck_assert_uint_eq(full.Height, 7);
  ck_assert_uint_eq(full.Depth, 0);
  ck_assert_uint_eq(full.Flags, 0);
  OK(cuArrayDestroy(array));
  ck_assert_uint_eq(used(), 0);
  ck_assert_int_eq(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuArrayGetDescriptor(&got, array), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

static const struct {
  CUDA_ARRAY3D_DESCRIPTOR desc;
  size_t bytes; /* 0: refused */
} shapes[] = {
    {DESC(1024, 0, 0, 0), 4096},
    {DESC(1024, 4, 0, 0), 4 * 4096},
    {DESC(1024, 4, 3, 0), 12 * 4096},
    {DESC(1024, 0, 3, CUDA_ARRAY3D_LAYERED), 3 * 4096},
    {DESC(1024, 4, 3, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST), 12 * 4096},
    {DESC(1024, 1024, 6, CUDA_ARRAY3D_CUBEMAP), (size_t)6 << 22},
    {DESC(1024, 1024, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED), (size_t)12 << 22},
    {DESC(1024, 4, 0, CUDA_ARRAY3D_TEXTURE_GATHER), 4 * 4096},
    {DESC(1024, 4, 0, CUDA_ARRAY3D_DEPTH_TEXTURE), 4 * 4096},
    {FULL(UNSIGNED_INT8, 1, 1024, 4, 0, 0), 4096},
    {FULL(UNORM_INT16X4, 4, 1024, 4, 0, 0), 8 * 4096},
    {FULL(BC1_UNORM, 4, 1022, 8, 0, 0), 256 * 2 * 8},
    {FULL(BC7_UNORM, 4, 1024, 8, 0, 0), 256 * 2 * 16},
    {DESC(0, 0, 0, 0), 0},
    {DESC(0, 4, 0, 0), 0},
    {DESC(1024, 0, 3, 0), 0},
    {DESC(1024, 4, 0, CUDA_ARRAY3D_LAYERED), 0},
    {DESC(1024, 512, 6, CUDA_ARRAY3D_CUBEMAP), 0},
    {DESC(1024, 1024, 7, CUDA_ARRAY3D_CUBEMAP), 0},
    {DESC(1024, 1024, 8, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED), 0},
    {DESC(1024, 4, 3, CUDA_ARRAY3D_TEXTURE_GATHER), 0},
    {DESC(1024, 4, 0, 0x8000), 0},
    {FULL(FLOAT, 3, 1024, 4, 0, 0), 0},
    {FULL(FLOAT, 0, 1024, 4, 0, 0), 0},
    {DESC(1024, 4, 16385, 0), 16385 * 16384},
    {DESC(8193, 4, 16385, 0), 0}, /* within neither of the two limits */
    {DESC(1024, 4, 2049, CUDA_ARRAY3D_LAYERED), 0},
};

/* Above 1 MiB the device gives whole pages. */
static size_t in_pages(size_t bytes)
{
  const size_t page = 2 << 20;
  return bytes > page / 2 ? (bytes + page - 1) / page * page : bytes;
}

START_TEST(test_shapes)
{
  CUarray array;
  test_start();
  ck_assert_int_eq(
      create(&array, shapes[_i].desc), shapes[_i].bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
  ck_assert_uint_eq(used(), in_pages(shapes[_i].bytes));
}
END_TEST

START_TEST(test_widest_array_is_what_the_device_says)
{
  static const struct {
    CUdevice_attribute limit;
    size_t height;
    unsigned flags;
  } widths[] = {
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 0, 0},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 0, CUDA_ARRAY3D_SURFACE_LDST},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 1, 0},
      {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 1, CUDA_ARRAY3D_TEXTURE_GATHER},
  };
  CUarray array;
  int limit;
  test_start();
  OK(cuDeviceGetAttribute(&limit, widths[_i].limit, 0));
  OK(create(&array, DESC((size_t)limit, widths[_i].height, 0, widths[_i].flags)));
  ck_assert_int_eq(create(&array, DESC((size_t)limit + 1, widths[_i].height, 0, widths[_i].flags)),
      CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_unbacked_arrays_hold_nothing)
{
  CUarray sparse, deferred, array;
  CUmipmappedArray mipmapped;
  CUDA_ARRAY3D_DESCRIPTOR desc = DESC(1024, 1024, 0, CUDA_ARRAY3D_DEFERRED_MAPPING);
  CUDA_ARRAY_MEMORY_REQUIREMENTS need;
  test_start();
  OK(create(&sparse, DESC(1024, 1024, 0, CUDA_ARRAY3D_SPARSE)));
  OK(create(&deferred, desc));
  OK(cuMipmappedArrayCreate(&mipmapped, &desc, 2));
  ck_assert_uint_eq(used(), 0);
  OK(cuArrayGetMemoryRequirements(&need, deferred, 0));
  ck_assert_uint_eq(need.size, 4 << 20);
  ck_assert_uint_gt(need.alignment, 0);
  OK(cuMipmappedArrayGetMemoryRequirements(&need, mipmapped, 0));
  ck_assert_uint_eq(need.size, 6 << 20); /* 4 MiB and 1 MiB, in pages of 2 MiB */
  ck_assert_int_eq(cuArrayGetMemoryRequirements(&need, deferred, 1), CUDA_ERROR_INVALID_DEVICE);
  ck_assert_int_eq(cuArrayGetMemoryRequirements(&need, sparse, 0), CUDA_ERROR_INVALID_VALUE);
  OK(create(&array, DESC(16, 0, 0, 0)));
  ck_assert_int_eq(cuArrayGetMemoryRequirements(&need, array, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuArrayDestroy(sparse));
  OK(cuArrayDestroy(deferred));
  OK(cuMipmappedArrayDestroy(mipmapped));
  ck_assert_uint_eq(used(), 512);
}
END_TEST

START_TEST(test_mipmapped_array_holds_all_levels)
{
  CUmipmappedArray mipmapped;
  CUarray level;
  CUDA_ARRAY3D_DESCRIPTOR desc = DESC(64, 16, 0, 0), got;
  test_start();
  OK(cuMipmappedArrayCreate(&mipmapped, &desc, 100)); /* 64x16 32x8 16x4 8x2 4x1 2x1 1x1: clamped to 7 */
  ck_assert_uint_eq(used(), 11 * 512);                /* 1367 elements of 4 bytes, in units of 512 */
  OK(cuMipmappedArrayGetLevel(&level, mipmapped, 6));
  OK(cuArray3DGetDescriptor(&got, level));
  ck_assert_uint_eq(got.Width, 1);
  ck_assert_uint_eq(got.Height, 1);
  OK(cuMipmappedArrayGetLevel(&level, mipmapped, 3));
  OK(cuArray3DGetDescriptor(&got, level));
  ck_assert_uint_eq(got.Width, 8);
  ck_assert_uint_eq(got.Height, 2);
  ck_assert_int_eq(cuMipmappedArrayGetLevel(&level, mipmapped, 7), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE); /* it goes with its mipmapped array */
  ck_assert_int_eq(cuMipmappedArrayDestroy((CUmipmappedArray)level), CUDA_ERROR_INVALID_HANDLE);
  OK(cuMipmappedArrayDestroy(mipmapped));
  ck_assert_uint_eq(used(), 0);
  ck_assert_int_eq(cuArray3DGetDescriptor(&got, level), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuMipmappedArrayGetLevel(&level, mipmapped, 0), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuMipmappedArrayDestroy(mipmapped), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(test_layers_are_not_halved)
{
  CUmipmappedArray mipmapped;
  CUDA_ARRAY3D_DESCRIPTOR desc = DESC(64, 64, 8, CUDA_ARRAY3D_LAYERED);
  test_start();
  OK(cuMipmappedArrayCreate(&mipmapped, &desc, 2));
  ck_assert_uint_eq(used(), 8 * (64 * 64 + 32 * 32) * 4);
  desc.Flags = 0;
  OK(cuMipmappedArrayCreate(&mipmapped, &desc, 2));
  ck_assert_uint_eq(used(), 8 * (64 * 64 + 32 * 32) * 4 + (8 * 64 * 64 + 4 * 32 * 32) * 4);
}
END_TEST

START_TEST(test_capacity)
{
  CUarray array, other;
  CUmipmappedArray mipmapped;
  CUDA_ARRAY3D_DESCRIPTOR desc = DESC(1024, 512, 0, 0); /* a page */
  CUdeviceptr p;
  setenv("SIMCUDA_CAPACITY", "2 MiB", 1);
  test_start();
  ck_assert_int_eq(cuMipmappedArrayCreate(&mipmapped, &desc, 2), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuArray3DCreate(&array, &desc));
  ck_assert_int_eq(cuMemAlloc(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
  ck_assert_int_eq(create(&other, DESC(1, 0, 0, 0)), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuArrayDestroy(array));
  OK(cuMemAlloc(&p, 2 << 20));
}
END_TEST

START_TEST(test_arrays_go_with_their_context)
{
  CUcontext primary = test_start(), own;
  CUarray array, kept;
  CUmipmappedArray mipmapped;
  CUDA_ARRAY3D_DESCRIPTOR desc = DESC(1024, 0, 0, 0);
  OK(cuArray3DCreate(&kept, &desc));
  OK(cuCtxCreate(&own, NULL, 0, 0));
  OK(cuArray3DCreate(&array, &desc));
  OK(cuMipmappedArrayCreate(&mipmapped, &desc, 3));
  OK(cuCtxDestroy(own));
  OK(cuCtxSetCurrent(primary));
  ck_assert_uint_eq(used(), 4096);
  ck_assert_int_eq(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuMipmappedArrayDestroy(mipmapped), CUDA_ERROR_INVALID_HANDLE);
  OK(cuArrayDestroy(kept));
}
END_TEST

static void leave_an_array(void)
{
  CUarray array;
  test_start();
  OK(create(&array, DESC(1024, 0, 0, 0)));
  OK(cuArrayDestroy(array));
  OK(create(&array, DESC(512, 0, 0, 0)));
}

START_TEST(test_statistics)
{
  ck_assert_int_eq(test_stat(leave_an_array, "current_bytes"), 2048);
  ck_assert_int_eq(test_stat(leave_an_array, "peak_bytes"), 4096);
}
END_TEST

START_TEST(test_errors)
{
  CUarray array;
  CUDA_ARRAY3D_DESCRIPTOR desc = DESC(16, 0, 0, 0);
  OK(cuInit(0));
  ck_assert_int_eq(cuArray3DCreate(&array, &desc), CUDA_ERROR_INVALID_CONTEXT);
  test_start();
  ck_assert_int_eq(cuArray3DCreate(NULL, &desc), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuArray3DCreate(&array, NULL), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuArrayCreate(&array, NULL), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMipmappedArrayCreate(NULL, &desc, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuArray3DCreate(&array, &desc));
  ck_assert_int_eq(cuArray3DGetDescriptor(NULL, array), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuArrayGetDescriptor(NULL, array), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_array");
  TCase *tests = tcase_create("array");
  tcase_add_test(tests, test_array_holds_its_elements);
  tcase_add_loop_test(tests, test_shapes, 0, (int)(sizeof shapes / sizeof shapes[0]));
  tcase_add_loop_test(tests, test_widest_array_is_what_the_device_says, 0, 4);
  tcase_add_test(tests, test_unbacked_arrays_hold_nothing);
  tcase_add_test(tests, test_mipmapped_array_holds_all_levels);
  tcase_add_test(tests, test_layers_are_not_halved);
  tcase_add_test(tests, test_capacity);
  tcase_add_test(tests, test_arrays_go_with_their_context);
  tcase_add_test(tests, test_statistics);
  tcase_add_test(tests, test_errors);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
