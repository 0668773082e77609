/*
 * The simulated runtime: which driver functions its allocations arrive at, and what it makes of the
 * arguments.
 */
#include "sim_test.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#define RT_OK(call) ck_assert_int_eq((call), cudaSuccess)

static size_t used(void)
{
  size_t free_bytes, total;
  RT_OK(cudaMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

static const struct cudaChannelFormatDesc float4_desc = {32, 32, 32, 32, cudaChannelFormatKindFloat};

START_TEST(test_array)
{
  cudaArray_t array;
  struct cudaChannelFormatDesc desc;
  struct cudaExtent extent;
  unsigned flags = 1;
  RT_OK(cudaMallocArray(&array, &float4_desc, 32, 8, cudaArrayDefault));
  ck_assert_uint_eq(used(), 32 * 8 * 16);
  RT_OK(cudaArrayGetInfo(&desc, &extent, &flags, array));
  ck_assert_mem_eq(&desc, &float4_desc, sizeof desc);
  ck_assert_uint_eq(extent.width, 32);
  ck_assert_uint_eq(extent.height, 8);
  ck_assert_uint_eq(extent.depth, 0);
  ck_assert_uint_eq(flags, 0);
  RT_OK(cudaArrayGetInfo(NULL, NULL, NULL, array));
  RT_OK(cudaFreeArray(array));
  RT_OK(cudaFreeArray(NULL));
  ck_assert_uint_eq(used(), 0);
  extent = (struct cudaExtent){32, 0, 4};
  RT_OK(cudaMalloc3DArray(&array, &float4_desc, extent, cudaArrayLayered));
  ck_assert_uint_eq(used(), 32 * 4 * 16);
  RT_OK(cudaArrayGetInfo(NULL, NULL, &flags, array));
  ck_assert_uint_eq(flags, cudaArrayLayered);
}
END_TEST

START_TEST(test_mipmapped_array)
{
  cudaMipmappedArray_t mipmapped;
  cudaArray_t level;
  struct cudaExtent extent = {64, 64, 0};
  RT_OK(cudaMallocMipmappedArray(&mipmapped, &float4_desc, extent, 2, cudaArrayDefault));
  ck_assert_uint_eq(used(), (64 * 64 + 32 * 32) * 16);
  RT_OK(cudaGetMipmappedArrayLevel(&level, mipmapped, 1));
  RT_OK(cudaArrayGetInfo(NULL, &extent, NULL, level));
  ck_assert_uint_eq(extent.width, 32);
  RT_OK(cudaFreeMipmappedArray(mipmapped));
  RT_OK(cudaFreeMipmappedArray(NULL));
  ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(test_channel_formats)
{
  static const struct {
    struct cudaChannelFormatDesc desc;
    size_t bytes; /* of 64 x 64 elements; 0: refused */
  } formats[] = {
      {{8, 0, 0, 0, cudaChannelFormatKindUnsigned}, 64 * 64},
      {{16, 16, 0, 0, cudaChannelFormatKindSigned}, 64 * 64 * 4},
      {{16, 0, 0, 0, cudaChannelFormatKindFloat}, 64 * 64 * 2},
      {{8, 8, 8, 8, cudaChannelFormatKindUnsignedNormalized8X4}, 64 * 64 * 4},
      {{16, 16, 0, 0, cudaChannelFormatKindSignedNormalized16X2}, 64 * 64 * 4},
      {{8, 8, 8, 8, cudaChannelFormatKindUnsignedBlockCompressed1}, 16 * 16 * 8},
      {{8, 8, 8, 8, cudaChannelFormatKindUnsignedBlockCompressed7SRGB}, 16 * 16 * 16},
      {{16, 16, 16, 0, cudaChannelFormatKindSignedBlockCompressed6H}, 16 * 16 * 16},
      {{8, 8, 8, 0, cudaChannelFormatKindUnsigned}, 0},
      {{8, 16, 0, 0, cudaChannelFormatKindUnsigned}, 0},
      {{8, 0, 8, 0, cudaChannelFormatKindUnsigned}, 0},
      {{8, 0, 0, 0, cudaChannelFormatKindFloat}, 0},
      {{12, 0, 0, 0, cudaChannelFormatKindSigned}, 0},
      {{0, 0, 0, 0, cudaChannelFormatKindNone}, 0},
  };
  cudaArray_t array;
  struct cudaChannelFormatDesc got;
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    cudaError_t error = cudaMallocArray(&array, &formats[i].desc, 64, 64, cudaArrayDefault);
    ck_assert_int_eq(error, formats[i].bytes ? cudaSuccess : cudaErrorInvalidChannelDescriptor);
    ck_assert_uint_eq(used(), formats[i].bytes);
    if (error != cudaSuccess)
      continue;
    RT_OK(cudaArrayGetInfo(&got, NULL, NULL, array));
    ck_assert_mem_eq(&got, &formats[i].desc, sizeof got);
    RT_OK(cudaFreeArray(array));
  }
}
END_TEST

START_TEST(test_external_memory)
{
  struct cudaExternalMemoryHandleDesc desc = {.type = cudaExternalMemoryHandleTypeOpaqueFd, .size = 4096};
  struct cudaExternalMemoryBufferDesc part = {.offset = 512, .size = 1024};
  cudaExternalMemory_t memory;
  void *p;
  desc.handle.fd = memfd_create("external", MFD_CLOEXEC);
  RT_OK(cudaImportExternalMemory(&memory, &desc));
  ck_assert_uint_eq(used(), 4096);
  RT_OK(cudaExternalMemoryGetMappedBuffer(&p, memory, &part));
  RT_OK(cudaMemset(p, 1, 1024));
  RT_OK(cudaFree(p));
  RT_OK(cudaDestroyExternalMemory(memory));
  ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(test_graph_memory)
{
  struct cudaMemAllocNodeParams params = {.bytesize = 4096}, got;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t alloc, release;
  void *p = NULL;
  unsigned long long bytes = 0;
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location.type = cudaMemLocationTypeDevice;
  ck_assert_uint_eq(used(), 0);
  RT_OK(cudaGraphCreate(&graph, 0));
  RT_OK(cudaGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
  RT_OK(cudaGraphMemAllocNodeGetParams(alloc, &got));
  ck_assert_uint_eq(got.bytesize, 4096);
  ck_assert_ptr_eq(got.dptr, params.dptr);
  RT_OK(cudaGraphAddMemFreeNode(&release, graph, &alloc, 1, params.dptr));
  RT_OK(cudaGraphMemFreeNodeGetParams(release, &p));
  ck_assert_ptr_eq(p, params.dptr);
  RT_OK(cudaGraphInstantiate(&exec, graph, 0));
  RT_OK(cudaGraphLaunch(exec, NULL));
  RT_OK(cudaDeviceSynchronize());
  RT_OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &bytes));
  ck_assert_uint_eq(bytes, 4096);
  ck_assert_uint_eq(used(), 4096);
  RT_OK(cudaDeviceGraphMemTrim(0));
  ck_assert_uint_eq(used(), 0);
  bytes = 0;
  RT_OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &bytes));
  RT_OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &bytes));
  ck_assert_uint_eq(bytes, 0);
}
END_TEST

static void allocate_arrays(void)
{
  cudaArray_t array;
  cudaMipmappedArray_t mipmapped;
  struct cudaExtent extent = {16, 16, 16};
  struct cudaPitchedPtr pitched;
  RT_OK(cudaMallocArray(&array, &float4_desc, 16, 16, cudaArrayDefault));
  RT_OK(cudaMallocArray(&array, &float4_desc, 16, 16, cudaArraySurfaceLoadStore));
  RT_OK(cudaMalloc3DArray(&array, &float4_desc, extent, cudaArrayDefault));
  RT_OK(cudaMallocMipmappedArray(&mipmapped, &float4_desc, extent, 1, cudaArrayDefault));
  RT_OK(cudaMalloc3D(&pitched, extent));
}

START_TEST(test_driver_calls)
{
  ck_assert_int_eq(test_stat(allocate_arrays, "cuArrayCreate_v2"), 1);
  ck_assert_int_eq(test_stat(allocate_arrays, "cuArray3DCreate_v2"), 2);
  ck_assert_int_eq(test_stat(allocate_arrays, "cuMipmappedArrayCreate"), 1);
  ck_assert_int_eq(test_stat(allocate_arrays, "cuMemAllocPitch_v2"), 1);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_runtime");
  TCase *tests = tcase_create("runtime");
  tcase_add_test(tests, test_array);
  tcase_add_test(tests, test_mipmapped_array);
  tcase_add_test(tests, test_channel_formats);
  tcase_add_test(tests, test_external_memory);
  tcase_add_test(tests, test_graph_memory);
  tcase_add_test(tests, test_driver_calls);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
