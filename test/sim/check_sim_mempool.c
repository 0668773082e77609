/*
 * Memory pools: when they give back, where their memory lies, how long they live.
 */
#include "sim_test.h"

#include <stdbool.h>

static CUstream stream;

static void start(void)
{
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static size_t used(void)
{
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

static CUmemoryPool create(int type, int id)
{
  CUmemPoolProps props = {
      .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = (CUmemLocationType)type, .id = id}};
  CUmemoryPool pool;
  OK(cuMemPoolCreate(&pool, &props));
  return pool;
}

START_TEST(test_gives_back_at_synchronization)
{
  CUmemoryPool pool;
  CUdeviceptr p, q;
  cuuint64_t reserved, used, threshold = UINT64_MAX;
  start();
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemAllocAsync(&p, 4 << 20, stream));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  ck_assert_uint_eq(used, 4 << 20);
  OK(cuMemFreeAsync(p, stream));
  ck_assert_int_eq(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAllocAsync(&q, 4 << 20, stream)); /* same stream: at once */
  ck_assert_uint_eq(p, q);
  OK(cuMemFreeAsync(q, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
  ck_assert_uint_eq(reserved, 0);
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  OK(cuMemAllocAsync(&p, 4 << 20, stream));
  OK(cuMemFree(p));
  OK(cuStreamSynchronize(stream));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
  ck_assert_uint_eq(reserved, 4 << 20);
  OK(cuMemPoolTrimTo(pool, 0));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
  ck_assert_uint_eq(reserved, 0);
}
END_TEST

START_TEST(test_grows_by_pieces)
{
  CUmemoryPool pool;
  CUdeviceptr p, q;
  cuuint64_t reserved, threshold = UINT64_MAX;
  setenv("SIMCUDA_POOL_PIECE", "48MiB", 1);
  start();
  pool = create(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  OK(cuMemAllocFromPoolAsync(&p, 4 << 20, pool, stream));
  ck_assert_uint_eq(used(), 48 << 20);
  OK(cuMemAllocFromPoolAsync(&q, 44 << 20, pool, stream)); /* what the piece has left */
  ck_assert_uint_eq(used(), 48 << 20);
  OK(cuMemFreeAsync(p, stream));
  OK(cuMemAllocFromPoolAsync(&p, 50 << 20, pool, stream));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
  ck_assert_uint_eq(reserved, used());
  ck_assert_uint_eq(reserved % (48 << 20), 0);
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(used(), 48 << 20);
  OK(cuMemFreeAsync(q, stream));
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(used(), 0);
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  OK(cuMemAllocFromPoolAsync(&p, 50 << 20, pool, stream));
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(used(), 96 << 20);
  OK(cuMemPoolTrimTo(pool, 1));
  ck_assert_uint_eq(used(), 48 << 20);
  OK(cuMemPoolDestroy(pool));
  ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(test_host_pool_is_not_charged)
{
  CUmemoryPool pool, of_block;
  CUdeviceptr p;
  unsigned type;
  char byte = 0;
  start();
  pool = create(_i, 0);
  OK(cuMemAllocFromPoolAsync(&p, 4 << 20, pool, stream));
  ck_assert_uint_eq(used(), 0);
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
  ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
  OK(cuPointerGetAttribute(&of_block, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
  ck_assert_ptr_eq(of_block, pool);
  OK(cuMemsetD8Async(p, 3, 4 << 20, stream));
  OK(cuStreamSynchronize(stream));
  memcpy(&byte, (const void *)(uintptr_t)(p + 5), 1);
  ck_assert_int_eq(byte, 3);
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemPoolDestroy(pool));
}
END_TEST

START_TEST(test_pools_of_locations)
{
  CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST}, device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
  CUmemoryPool of_host, of_device, pool, got;
  start();
  OK(cuMemGetDefaultMemPool(&of_host, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
  OK(cuMemGetDefaultMemPool(&of_device, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
  ck_assert_ptr_ne(of_host, of_device);
  OK(cuDeviceGetDefaultMemPool(&got, 0));
  ck_assert_ptr_eq(got, of_device);
  OK(cuMemGetMemPool(&got, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
  ck_assert_ptr_eq(got, of_host);
  pool = create(CU_MEM_LOCATION_TYPE_HOST, 0);
  OK(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
  OK(cuMemGetMemPool(&got, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
  ck_assert_ptr_eq(got, pool);
  ck_assert_int_eq(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemPoolDestroy(pool)); /* "sets the default mempool as the current mempool" */
  OK(cuMemGetMemPool(&got, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
  ck_assert_ptr_eq(got, of_host);
  ck_assert_int_eq(cuMemPoolDestroy(of_host), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemPoolDestroy(of_device), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
  pool = create(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  OK(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
  OK(cuDeviceGetMemPool(&got, 0));
  ck_assert_ptr_eq(got, pool);
  device.id = 1;
  ck_assert_int_eq(cuMemGetMemPool(&got, &device, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_DEVICE);
  host.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  ck_assert_int_eq(cuMemGetMemPool(&got, &host, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_create_errors)
{
  CUmemoryPool pool;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT}};
  start();
  ck_assert_int_eq(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
  props.location.type = CU_MEM_LOCATION_TYPE_HOST;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  ck_assert_int_eq(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
  props.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
  ck_assert_int_eq(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_DEVICE);
  props.location.id = 0;
  props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  ck_assert_int_eq(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* A pool that is destroyed lives until its last allocation is freed. */
START_TEST(test_destroyed_with_live_allocations)
{
  CUmemoryPool pool;
  CUdeviceptr p, q, r;
  cuuint64_t bytes;
  start();
  pool = create(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  OK(cuMemAllocFromPoolAsync(&p, 4 << 20, pool, stream));
  OK(cuMemAllocFromPoolAsync(&q, 2 << 20, pool, stream));
  OK(cuMemPoolDestroy(pool));
  ck_assert_uint_eq(used(), 6 << 20);
  ck_assert_int_eq(cuMemAllocFromPoolAsync(&r, 512, pool, stream), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(
      cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemsetD8Async(p, 1, 4 << 20, stream));
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(used(), 2 << 20);
  OK(cuMemFree(q));
  ck_assert_uint_eq(used(), 0);
  OK(cuCtxSynchronize());
  ck_assert_int_eq(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(test_pool_of_another_device)
{
  CUmemoryPool pool;
  CUdeviceptr p;
  CUcontext other;
  int device = -1;
  setenv("SIMCUDA_DEVICES", "2", 1);
  start();
  pool = create(CU_MEM_LOCATION_TYPE_DEVICE, 1);
  OK(cuMemAllocFromPoolAsync(&p, 4 << 20, pool, stream));
  ck_assert_uint_eq(used(), 0);
  OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
  ck_assert_int_eq(device, 1);
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxPushCurrent(other));
  ck_assert_uint_eq(used(), 4 << 20);
  OK(cuCtxPopCurrent(NULL));
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuCtxPushCurrent(other));
  ck_assert_uint_eq(used(), 0);
}
END_TEST

/* "The allocation comes from the memory pool current to the stream's device." */
START_TEST(test_device_of_the_stream)
{
  CUcontext other;
  CUstream there;
  CUdeviceptr p;
  int device = -1;
  setenv("SIMCUDA_DEVICES", "2", 1);
  start();
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxPushCurrent(other));
  OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
  OK(cuCtxPopCurrent(NULL));
  OK(cuMemAllocAsync(&p, 4 << 20, there));
  OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
  ck_assert_int_eq(device, 1);
  ck_assert_uint_eq(used(), 0);
}
END_TEST

/* "CUDA_ERROR_INVALID_CONTEXT (default stream specified with no current context)" */
START_TEST(test_without_a_context)
{
  CUcontext ctx;
  CUdeviceptr p, q;
  start();
  OK(cuMemAllocAsync(&q, 512, NULL));
  OK(cuCtxPopCurrent(&ctx));
  OK(cuMemAllocAsync(&p, 512, stream));
  OK(cuMemFreeAsync(p, stream));
  ck_assert_int_eq(cuMemAllocAsync(&p, 512, NULL), CUDA_ERROR_INVALID_CONTEXT);
  ck_assert_int_eq(cuMemAllocAsync(&p, 512, CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_CONTEXT);
  ck_assert_int_eq(cuMemFreeAsync(q, CU_STREAM_LEGACY), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxPushCurrent(ctx));
  OK(cuMemFreeAsync(q, NULL));
}
END_TEST

static cuuint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
  cuuint64_t value = 0;
  OK(cuMemPoolGetAttribute(pool, which, &value));
  return value;
}

static CUmemoryPool keep_everything(void)
{
  CUmemoryPool pool;
  cuuint64_t threshold = UINT64_MAX;
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  return pool;
}

START_TEST(test_survives_contexts)
{
  CUcontext own;
  CUstream in_own;
  CUdeviceptr p, cached;
  start();
  CUmemoryPool pool = keep_everything();
#if CUDA_VERSION >= 13000
  OK(cuCtxCreate(&own, NULL, 0, 0));
#else
  OK(cuCtxCreate(&own, 0, 0));
#endif
  OK(cuStreamCreate(&in_own, CU_STREAM_NON_BLOCKING));
  OK(cuMemAllocAsync(&p, 4 << 20, in_own));
  OK(cuMemAllocAsync(&cached, 2 << 20, in_own));
  OK(cuMemsetD8Async(p, 3, 4 << 20, in_own));
  OK(cuMemFreeAsync(cached, in_own));
  OK(cuCtxDestroy(own));
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 4 << 20);
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 6 << 20);
  char byte = 0;
  OK(cuMemcpyDtoH(&byte, p + 5, 1));
  ck_assert_int_eq(byte, 3);
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemPoolTrimTo(pool, 0));
  ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(test_high_marks)
{
  cuuint64_t zero = 0, one = 1;
  CUdeviceptr p, q;
  start();
  CUmemoryPool pool = keep_everything();
  OK(cuMemAllocAsync(&p, 4 << 20, stream));
  OK(cuMemAllocAsync(&q, 2 << 20, stream));
  OK(cuMemFreeAsync(q, stream));
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 6 << 20);
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 6 << 20);
  ck_assert_int_eq(
      cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(
      cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 4 << 20);
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 6 << 20);
  OK(cuMemPoolTrimTo(pool, 5 << 20)); /* would leave less */
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 6 << 20);
  OK(cuMemPoolTrimTo(pool, 4 << 20));
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4 << 20);
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 4 << 20);
}
END_TEST

/* "Reuse of already completed frees when there is no dependency" can be turned off. What the host has
 * synchronized with is reused still. */
START_TEST(test_reuse_that_is_turned_off)
{
  CUmemPool_attribute off = CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC;
  CUstream other;
  CUdeviceptr p, q;
  int value = 0;
  start();
  CUmemoryPool pool = keep_everything();
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  if (_i)
    OK(cuMemPoolSetAttribute(pool, off, &value));
  OK(cuMemPoolGetAttribute(pool, off, &value));
  ck_assert_int_eq(value, !_i);
  OK(cuMemAllocAsync(&p, 4 << 20, stream));
  OK(cuMemFreeAsync(p, stream));
  while (cuStreamQuery(stream) != CUDA_SUCCESS)
    ;
  OK(cuMemAllocAsync(&q, 4 << 20, other));
  ck_assert_int_eq(q == p, !_i);
  OK(cuMemFreeAsync(q, other));
  OK(cuStreamSynchronize(other));
  OK(cuMemAllocAsync(&p, 4 << 20, stream));
  OK(cuMemAllocAsync(&q, 4 << 20, stream));
  ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8 << 20);
}
END_TEST

START_TEST(test_access_of_other_devices)
{
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemLocation home = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  CUmemoryPool pool;
  CUmemAccess_flags flags;
  setenv("SIMCUDA_DEVICES", "2", 1);
  start();
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemPoolGetAccess(&flags, pool, &access.location));
  ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  OK(cuMemPoolSetAccess(pool, &access, 1));
  OK(cuMemPoolGetAccess(&flags, pool, &access.location));
  ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  OK(cuMemPoolGetAccess(&flags, pool, &home));
  ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  OK(cuMemPoolSetAccess(pool, &access, 1));
  OK(cuMemPoolGetAccess(&flags, pool, &access.location));
  ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  access.location.id = 0;
  ck_assert_int_eq(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_VALUE);
  access.location.id = 2;
  ck_assert_int_eq(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* By a kernel, of memory of a device: which way it was allocated, and whether the other device has access. */
static int access_way;
static bool has_access;

static void use_on_the_other_device(void)
{
  CUcontext contexts[2];
  CUdeviceptr p;
  CUmodule module;
  CUfunction fill;
  uint64_t words = 8, value = 1;
  void *params[] = {&p, &words, &value};
  CUmemAccessDesc peer = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemPoolProps props = {
      .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  CUmemoryPool pool;
  setenv("SIMCUDA_DEVICES", "2", 1);
  setenv("SIMCUDA_ACCESS", "1", 1);
  OK(cuInit(0));
  for (int i = 1; i >= 0; i--) {
    OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    OK(cuCtxSetCurrent(contexts[i]));
  }
  if (access_way == 0) {
    OK(cuMemAlloc(&p, 64));
  } else {
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&p, 64, pool, NULL));
    OK(cuCtxSynchronize());
  }
  OK(cuCtxSetCurrent(contexts[1]));
  if (has_access && access_way == 0)
    OK(cuCtxEnablePeerAccess(contexts[0], 0));
  if (has_access && access_way == 1)
    OK(cuMemPoolSetAccess(pool, &peer, 1));
  OK(cuModuleLoadData(&module, "any"));
  OK(cuModuleGetFunction(&fill, module, "simcuda_fill"));
  OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
  OK(cuCtxSynchronize());
}

START_TEST(test_kernels_need_access)
{
  for (access_way = 0; access_way < 2; access_way++) {
    has_access = false;
    ck_assert_int_eq(test_stat(use_on_the_other_device, "violations"), 1);
    has_access = true;
    ck_assert_int_eq(test_stat(use_on_the_other_device, "violations"), 0);
  }
}
END_TEST

START_TEST(test_frees_that_fail)
{
  CUstream gone;
  CUdeviceptr p, plain;
  CUgraph graph;
  start();
  OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
  OK(cuStreamDestroy(gone));
  OK(cuMemAllocAsync(&p, 4 << 20, stream));
  OK(cuMemAlloc(&plain, 4 << 20));
  ck_assert_int_eq(cuMemFreeAsync(p, gone), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuMemAllocAsync(&p, 512, gone), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_int_eq(cuMemFreeAsync(p + 512, stream), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemFreeAsync(0, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  ck_assert_int_eq(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE); /* no graph's */
  ck_assert_int_eq(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuMemFreeAsync(p, stream));
  ck_assert_int_eq(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFreeAsync(plain, stream)); /* of cuMemAlloc: gone when the stream gets there */
  ck_assert_int_eq(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);
  ck_assert_int_eq(cuMemFree(plain), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_eq(used(), 0);
}
END_TEST

/* "Callers must ensure that all accesses have completed": it does not wait, as that of other memory does. */
START_TEST(test_free_by_the_host_does_not_wait)
{
  static char image[] = "no image";
  static volatile uint32_t flag;
  uint64_t address = (uintptr_t)&flag;
  void *params[] = {&address};
  CUmodule module;
  CUfunction wait_kernel;
  CUdeviceptr p;
  start();
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&wait_kernel, module, "simcuda_wait"));
  OK(cuMemAllocAsync(&p, 4 << 20, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuLaunchKernel(wait_kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
  OK(cuMemFree(p));
  ck_assert_uint_eq(used(), 0);
  flag = 1;
  OK(cuCtxSynchronize());
}
END_TEST

START_TEST(test_largest_size_of_a_pool)
{
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
      .maxSize = 6 << 20};
  CUmemoryPool pool;
  CUdeviceptr p, q;
  start();
  OK(cuMemPoolCreate(&pool, &props));
  OK(cuMemAllocFromPoolAsync(&p, 4 << 20, pool, stream));
  ck_assert_int_eq(cuMemAllocFromPoolAsync(&q, 4 << 20, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAllocFromPoolAsync(&q, 2 << 20, pool, stream));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_mempool");
  TCase *tests = tcase_create("mempool");
  tcase_add_test(tests, test_gives_back_at_synchronization);
  tcase_add_test(tests, test_grows_by_pieces);
  tcase_add_loop_test(
      tests, test_host_pool_is_not_charged, CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA + 1);
  tcase_add_test(tests, test_pools_of_locations);
  tcase_add_test(tests, test_create_errors);
  tcase_add_test(tests, test_destroyed_with_live_allocations);
  tcase_add_test(tests, test_pool_of_another_device);
  tcase_add_test(tests, test_device_of_the_stream);
  tcase_add_test(tests, test_without_a_context);
  tcase_add_test(tests, test_survives_contexts);
  tcase_add_test(tests, test_high_marks);
  tcase_add_loop_test(tests, test_reuse_that_is_turned_off, 0, 2);
  tcase_add_test(tests, test_access_of_other_devices);
  tcase_add_test(tests, test_kernels_need_access);
  tcase_add_test(tests, test_frees_that_fail);
  tcase_add_test(tests, test_free_by_the_host_does_not_wait);
  tcase_add_test(tests, test_largest_size_of_a_pool);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
