#include "memory_items.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int device_of_vmm;
CUmemoryPool own_pool, host_pool;

const char *name_of(CUresult result)
{
  const char *name = NULL;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "unknown";
}

/*
 * Memory with an address
 */

static CUresult alloc_plain(item_t *item)
{
  return cuMemAlloc(&item->pointer, item->bytes);
}

/* Rows of 3,585 to 4,096 bytes take 4,096. Each width is new, so that no earlier answer gives the pitch. */
static CUresult alloc_pitch(item_t *item)
{
  static size_t next;
  size_t pitch, width = 4096 - next++ % 512;
  return cuMemAllocPitch(&item->pointer, &pitch, width, item->bytes / 4096, 4);
}

static CUresult alloc_managed(item_t *item)
{
  return cuMemAllocManaged(&item->pointer, item->bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult free_pointer(item_t *item)
{
  return cuMemFree(item->pointer);
}

static CUresult alloc_async(item_t *item)
{
  return cuMemAllocAsync(&item->pointer, item->bytes, NULL);
}

static CUresult alloc_from_pool(item_t *item, CUmemoryPool *pool, CUmemLocationType type)
{
  if (!*pool) {
    CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = type, .id = 0}};
    CALL(cuMemPoolCreate(pool, &properties));
  }
  return cuMemAllocFromPoolAsync(&item->pointer, item->bytes, *pool, NULL);
}

static CUresult alloc_mempool(item_t *item)
{
  return alloc_from_pool(item, &own_pool, CU_MEM_LOCATION_TYPE_DEVICE);
}

static CUresult alloc_host_pool(item_t *item)
{
  return alloc_from_pool(item, &host_pool, CU_MEM_LOCATION_TYPE_HOST);
}

/* The driver's own pool of host memory, which nothing makes: CUDA 13.0. */
static CUresult alloc_host_default(item_t *item)
{
  CUresult (*get)(CUmemoryPool *, CUmemLocation *, CUmemAllocationType) = NULL;
  CUmemLocation location = {
      .type = (CUmemLocationType)2, .id = 0}; /* CU_MEM_LOCATION_TYPE_HOST, since CUDA 12.2 */
  static CUmemoryPool pool;

  if (!pool) {
    CALL(cuGetProcAddress("cuMemGetDefaultMemPool", (void **)&get, 13000, 0, NULL));
    must_succeed("cuMemGetDefaultMemPool", get(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
  }
  return cuMemAllocFromPoolAsync(&item->pointer, item->bytes, pool, NULL);
}

/* cuMemAllocAsync takes from the pool that the program has made the device's current one. */
static CUresult alloc_current_pool(item_t *item)
{
  if (!own_pool) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CALL(cuMemPoolCreate(&own_pool, &properties));
  }
  CALL(cuDeviceSetMemPool(0, own_pool));
  return cuMemAllocAsync(&item->pointer, item->bytes, NULL);
}

static CUresult free_async(item_t *item)
{
  return cuMemFreeAsync(item->pointer, NULL);
}

/*
 * Memory with a handle
 */

static CUresult alloc_array(item_t *item)
{
  CUDA_ARRAY_DESCRIPTOR descriptor = {
      .Width = 1024, .Height = item->bytes / 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  return cuArrayCreate((CUarray *)&item->handle, &descriptor);
}

static CUresult alloc_array3d(item_t *item)
{
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = 256,
      .Height = 4,
      .Depth = item->bytes / 8192,
      .Format = CU_AD_FORMAT_HALF,
      .NumChannels = 4,
      .Flags = CUDA_ARRAY3D_SURFACE_LDST};
  return cuArray3DCreate((CUarray *)&item->handle, &descriptor);
}

/* A sparse array holds nothing. */
static CUresult alloc_sparse(item_t *item)
{
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = 1024,
      .Height = item->bytes / 4096,
      .Format = CU_AD_FORMAT_FLOAT,
      .NumChannels = 1,
      .Flags = CUDA_ARRAY3D_SPARSE};
  return cuArray3DCreate((CUarray *)&item->handle, &descriptor);
}

static CUresult free_array(item_t *item)
{
  return cuArrayDestroy(item->handle);
}

/* One level: the bytes of all levels are no round number. */
static CUresult alloc_mipmap(item_t *item)
{
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {
      .Width = 4096, .Height = item->bytes / 4096, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
  return cuMipmappedArrayCreate((CUmipmappedArray *)&item->handle, &descriptor, 1);
}

/* All levels: a third more than the first. */
static CUresult alloc_mipmaps(item_t *item)
{
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {
      .Width = 4096, .Height = item->bytes / 4096, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
  return cuMipmappedArrayCreate((CUmipmappedArray *)&item->handle, &descriptor, 13);
}

static CUresult free_mipmap(item_t *item)
{
  return cuMipmappedArrayDestroy(item->handle);
}

static CUresult alloc_external(item_t *item)
{
  /* The simulated driver takes any file; on success it is the driver's (cuda.h, cuImportExternalMemory). */
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC descriptor = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
      .handle = {.fd = open("/dev/null", O_RDWR | O_CLOEXEC)},
      .size = item->bytes};
  CUresult result = cuImportExternalMemory((CUexternalMemory *)&item->handle, &descriptor);
  if (result != CUDA_SUCCESS)
    close(descriptor.handle.fd);
  return result;
}

static CUresult free_external(item_t *item)
{
  return cuDestroyExternalMemory(item->handle);
}

/*
 * Virtual memory management
 */

static CUresult create_physical(item_t *item, CUmemLocationType type)
{
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = type, .id = device_of_vmm}};
  return cuMemCreate(&item->physical, item->bytes, &properties, 0);
}

static CUresult alloc_vmm(item_t *item)
{
  CUresult result = create_physical(item, CU_MEM_LOCATION_TYPE_DEVICE);
  if (result == CUDA_SUCCESS) {
    CALL(cuMemAddressReserve(&item->pointer, item->bytes, 0, 0, 0));
    CALL(cuMemMap(item->pointer, item->bytes, 0, item->physical, 0));
  }
  return result;
}

/* Of device 1, in which the program has no context. */
static CUresult alloc_vmm_elsewhere(item_t *item)
{
  device_of_vmm = 1;
  CUresult result = create_physical(item, CU_MEM_LOCATION_TYPE_DEVICE);
  device_of_vmm = 0;
  return result;
}

/* The descriptor stays open. */
static CUresult alloc_vmm_exported(item_t *item)
{
  CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  int descriptor;
  CUresult result = cuMemCreate(&item->physical, item->bytes, &properties, 0);
  if (result == CUDA_SUCCESS)
    CALL(cuMemExportToShareableHandle(
        &descriptor, item->physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return result;
}

static CUresult alloc_vmm_host(item_t *item)
{
  return create_physical(item, CU_MEM_LOCATION_TYPE_HOST);
}

static CUresult free_vmm(item_t *item)
{
  if (item->pointer) {
    CALL(cuMemUnmap(item->pointer, item->bytes));
    CALL(cuMemAddressFree(item->pointer, item->bytes));
  }
  return item->physical ? cuMemRelease(item->physical) : CUDA_SUCCESS;
}

/*
 * Graphs
 */

/* An allocation node, and a node that frees it. */
static CUresult alloc_graph(item_t *item)
{
  CUgraph graph;
  CUgraphNode alloc, node;
  CUgraphExec exec;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
      .bytesize = item->bytes};
  CALL(cuGraphCreate(&graph, 0));
  CALL(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &parameters));
  CALL(cuGraphAddMemFreeNode(&node, graph, &alloc, 1, parameters.dptr));
  CALL(cuGraphInstantiate(&exec, graph, 0));
  CUresult result = cuGraphLaunch(exec, NULL);
  if (result == CUDA_SUCCESS) {
    CALL(cuGraphLaunch(exec, NULL)); /* needs nothing more */
    CALL(cuCtxSynchronize());
    item->handle = exec;
    item->more = graph;
  } else {
    CALL(cuGraphExecDestroy(exec));
    CALL(cuGraphDestroy(graph));
  }
  return result;
}

/* The same by capturing cuMemAllocAsync and cuMemFreeAsync. */
static CUresult alloc_captured(item_t *item)
{
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  CUdeviceptr pointer;
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CALL(cuMemAllocAsync(&pointer, item->bytes, stream));
  CALL(cuMemFreeAsync(pointer, stream));
  CALL(cuStreamEndCapture(stream, &graph));
  CALL(cuGraphInstantiate(&exec, graph, 0));
  CUresult result = cuGraphLaunch(exec, stream);
  CALL(cuStreamSynchronize(stream));
  CALL(cuStreamDestroy(stream));
  item->handle = exec;
  item->more = graph;
  if (result != CUDA_SUCCESS) {
    CALL(cuGraphExecDestroy(exec));
    CALL(cuGraphDestroy(graph));
  }
  return result;
}

static CUresult free_graph(item_t *item)
{
  CALL(cuGraphExecDestroy(item->handle));
  CALL(cuGraphDestroy(item->more));
  return cuDeviceGraphMemTrim(0);
}

/*
 * Memory of the host
 */

static CUresult alloc_host(item_t *item)
{
  return cuMemHostAlloc(&item->handle, item->bytes, 0);
}

static CUresult free_host(item_t *item)
{
  return cuMemFreeHost(item->handle);
}

static CUresult register_host(item_t *item)
{
  item->handle = aligned_alloc(4096, item->bytes);
  return item->handle ? cuMemHostRegister(item->handle, item->bytes, 0) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A page more than aligned memory of that size takes. */
static CUresult register_across(item_t *item)
{
  char *memory = aligned_alloc(4096, item->bytes + 4096);
  item->handle = memory;
  return memory ? cuMemHostRegister(memory + 4095, item->bytes, 0) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult unregister_across(item_t *item)
{
  CUresult result = cuMemHostUnregister((char *)item->handle + 4095);
  free(item->handle);
  return result;
}

static CUresult unregister_host(item_t *item)
{
  CUresult result = cuMemHostUnregister(item->handle);
  free(item->handle);
  return result;
}

#define STEP_OF_VMM (2 << 20)

static const kind_t kinds[] = {
    {"plain", alloc_plain, free_pointer, 1},
    {"pitch", alloc_pitch, free_pointer, 4096},
    {"managed", alloc_managed, free_pointer, 1},
    {"async", alloc_async, free_async, 1},
    {"mempool", alloc_mempool, free_async, 1},
    {"current_pool", alloc_current_pool, free_async, 1},
    {"array", alloc_array, free_array, 4096},
    {"array3d", alloc_array3d, free_array, 8192},
    {"sparse", alloc_sparse, free_array, 4096},
    {"mipmap", alloc_mipmap, free_mipmap, 4096},
    {"mipmaps", alloc_mipmaps, free_mipmap, 4096},
    {"external", alloc_external, free_external, 1},
    {"vmm", alloc_vmm, free_vmm, STEP_OF_VMM},
    {"vmm_elsewhere", alloc_vmm_elsewhere, free_vmm, STEP_OF_VMM},
    {"vmm_exported", alloc_vmm_exported, free_vmm, STEP_OF_VMM},
    {"graph", alloc_graph, free_graph, 1},
    {"captured", alloc_captured, free_graph, 1},
    {"host", alloc_host, free_host, 1},
    {"registered", register_host, unregister_host, 4096},
    {"across", register_across, unregister_across, 4096},
    {"host_pool", alloc_host_pool, free_async, 1},
    {"host_default", alloc_host_default, free_async, 1},
    {"vmm_host", alloc_vmm_host, free_vmm, STEP_OF_VMM},
};

const kind_t *find_kind(const char *name, size_t length)
{
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    if (strlen(kinds[i].name) == length && memcmp(kinds[i].name, name, length) == 0)
      return &kinds[i];
  return NULL;
}
