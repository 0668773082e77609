/* The CUDA driver API behind replay_api_t, loaded at run time. */
#include "replay.h"

#include "driver_table.h"

#include <dlfcn.h>
#include <stdlib.h>

static driver_table_t driver;
static CUcontext context;

static int dr_enter_thread(void)
{
  return driver.p_cuCtxSetCurrent(context);
}

static int dr_open(void)
{
  if (!driver_table_load(&driver, "replay"))
    _Exit(REPLAY_EXIT_CUDA);
  CUdevice device = 0;
  CUresult result = driver.p_cuInit(0);
  if (result == CUDA_SUCCESS)
    result = driver.p_cuDeviceGet(&device, 0);
  if (result == CUDA_SUCCESS)
    result = driver.p_cuDevicePrimaryCtxRetain(&context, device);
  return result == CUDA_SUCCESS ? dr_enter_thread() : (int)result;
}

static int dr_alloc(uint64_t *ret_address, uint64_t bytes)
{
  CUdeviceptr memory = 0;
  CUresult result = driver.p_cuMemAlloc_v2(&memory, bytes);
  *ret_address = memory;
  return result;
}

static int dr_alloc_async(uint64_t *ret_address, uint64_t bytes, void *stream)
{
  CUdeviceptr memory = 0;
  CUresult result = driver.p_cuMemAllocAsync(&memory, bytes, stream);
  *ret_address = memory;
  return result;
}

static int dr_free(uint64_t address)
{
  return driver.p_cuMemFree_v2(address);
}

static int dr_free_async(uint64_t address, void *stream)
{
  return driver.p_cuMemFreeAsync(address, stream);
}

static int dr_host_alloc(void **ret_memory, size_t bytes)
{
  return driver.p_cuMemHostAlloc(ret_memory, bytes, 0);
}

static int dr_host_free(void *memory)
{
  return driver.p_cuMemFreeHost(memory);
}

static int dr_copy_in(
    uint64_t address, size_t pitch, const void *host, size_t width, size_t rows, void *stream)
{
  if (rows == 1)
    return driver.p_cuMemcpyHtoDAsync_v2(address, host, width, stream);
  CUDA_MEMCPY2D copy = {
      .srcMemoryType = CU_MEMORYTYPE_HOST,
      .srcHost = host,
      .srcPitch = width,
      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
      .dstDevice = address,
      .dstPitch = pitch,
      .WidthInBytes = width,
      .Height = rows,
  };
  return driver.p_cuMemcpy2DAsync_v2(&copy, stream);
}

static int dr_copy_out(void *host, uint64_t address, size_t pitch, size_t width, size_t rows, void *stream)
{
  if (rows == 1)
    return driver.p_cuMemcpyDtoHAsync_v2(host, address, width, stream);
  CUDA_MEMCPY2D copy = {
      .srcMemoryType = CU_MEMORYTYPE_DEVICE,
      .srcDevice = address,
      .srcPitch = pitch,
      .dstMemoryType = CU_MEMORYTYPE_HOST,
      .dstHost = host,
      .dstPitch = width,
      .WidthInBytes = width,
      .Height = rows,
  };
  return driver.p_cuMemcpy2DAsync_v2(&copy, stream);
}

static int dr_stream_create(void **ret_stream)
{
  CUstream stream = NULL;
  CUresult result = driver.p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  *ret_stream = stream;
  return result;
}

static int dr_stream_destroy(void *stream)
{
  return driver.p_cuStreamDestroy_v2(stream);
}

static int dr_stream_sync(void *stream)
{
  return driver.p_cuStreamSynchronize(stream);
}

static int dr_device_sync(void)
{
  return driver.p_cuCtxSynchronize();
}

static int dr_event_create(void **ret_event)
{
  CUevent event = NULL;
  CUresult result = driver.p_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  *ret_event = event;
  return result;
}

static int dr_event_destroy(void *event)
{
  return driver.p_cuEventDestroy_v2(event);
}

static int dr_event_record(void *event, void *stream)
{
  return driver.p_cuEventRecord(event, stream);
}

static int dr_event_wait(void *stream, void *event)
{
  return driver.p_cuStreamWaitEvent(stream, event, 0);
}

/* By a kernel that does nothing, and by functions that not every driver of the table has. */
static int dr_launch_programmatic(void)
{
  static const char image[] =
      ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }\n";
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  PFN_cuModuleLoadData_v2000 load;
  PFN_cuModuleGetFunction_v2000 get;
  PFN_cuLaunchKernelEx_v11060 launch;
  *(void **)&load = library ? dlsym(library, "cuModuleLoadData") : NULL;
  *(void **)&get = library ? dlsym(library, "cuModuleGetFunction") : NULL;
  *(void **)&launch = library ? dlsym(library, "cuLaunchKernelEx") : NULL;
  if (!load || !get || !launch)
    return CUDA_ERROR_NOT_FOUND;
  CUmodule module;
  CUfunction function;
  CUresult result = load(&module, image);
  if (result == CUDA_SUCCESS)
    result = get(&function, module, "empty");
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, &attribute, 1};
  return result == CUDA_SUCCESS ? launch(&config, function, NULL, NULL) : result;
}

static const char *dr_error_name(int code)
{
  return driver_table_error(&driver, (CUresult)code);
}

const replay_api_t replay_api_driver = {
    .name = "driver",
    .out_of_memory = CUDA_ERROR_OUT_OF_MEMORY,
    .open = dr_open,
    .enter_thread = dr_enter_thread,
    .alloc = dr_alloc,
    .alloc_async = dr_alloc_async,
    .free = dr_free,
    .free_async = dr_free_async,
    .host_alloc = dr_host_alloc,
    .host_free = dr_host_free,
    .copy_in = dr_copy_in,
    .copy_out = dr_copy_out,
    .stream_create = dr_stream_create,
    .stream_destroy = dr_stream_destroy,
    .stream_sync = dr_stream_sync,
    .device_sync = dr_device_sync,
    .event_create = dr_event_create,
    .event_destroy = dr_event_destroy,
    .event_record = dr_event_record,
    .event_wait = dr_event_wait,
    .launch_programmatic = dr_launch_programmatic,
    .error_name = dr_error_name,
};
