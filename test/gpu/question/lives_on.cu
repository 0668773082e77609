// G28: memory that lives on after the program has given it up, by cuMemGetInfo. Memory of cuMemCreate that was exported to a
// descriptor, after its handle and its mapping are gone, while the descriptor, a copy of it or an import is left: the limit
// counts such memory until the process ends, because the library cannot see when the last descriptor is closed. And what a
// destroyed memory pool keeps beyond its last allocation: the limit counts all that the pool had reserved.
#include "../common/gpu.h"

#include <unistd.h>

static const size_t BYTES = 64u << 20;

static size_t available()
{
  size_t bytes, total;
  CHECK_CU(DRIVER(cuMemGetInfo)(&bytes, &total));
  return bytes;
}

// At least half of the bytes are not free.
static bool is_taken(size_t before, size_t bytes)
{
  return available() + bytes / 2 <= before;
}

static CUmemAllocationProp properties()
{
  CUmemAllocationProp made = {};
  CUdevice device;
  CHECK_CU(DRIVER(cuCtxGetDevice)(&device));
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  made.location.id = device;
  made.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return made;
}

static void ask_exported()
{
  CUmemAllocationProp made = properties();
  CUmemGenericAllocationHandle handle, imported;
  CUdeviceptr address;
  int descriptor = -1;
  const std::string of = "exported memory of cuMemCreate: ";

  size_t before = available();
  CHECK_CU(DRIVER(cuMemCreate)(&handle, BYTES, &made, 0));
  report_bool(of + "taken from the device when it is made", is_taken(before, BYTES));
  CUresult result = DRIVER(cuMemExportToShareableHandle)(
      &descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) {
    report_text(of + "cuMemExportToShareableHandle", driver_error(result));
    CHECK_CU(DRIVER(cuMemRelease)(handle));
    return;
  }
  CHECK_CU(DRIVER(cuMemAddressReserve)(&address, BYTES, 0, 0, 0));
  CHECK_CU(DRIVER(cuMemMap)(address, BYTES, 0, handle, 0));
  CHECK_CU(DRIVER(cuMemRelease)(handle));
  CHECK_CU(DRIVER(cuMemUnmap)(address, BYTES));
  CHECK_CU(DRIVER(cuMemAddressFree)(address, BYTES));
  report_assumed(of + "taken while only the descriptor is left", is_taken(before, BYTES), true,
      "if it is not, the limit counts memory that the device has back");
  int copy = dup(descriptor);
  close(descriptor);
  report_bool(of + "taken while only a copy of the descriptor is left", is_taken(before, BYTES));
  CHECK_CU(DRIVER(cuMemImportFromShareableHandle)(
      &imported, (void *)(uintptr_t)copy, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(copy);
  report_bool(of + "taken while only an imported handle is left", is_taken(before, BYTES));
  CHECK_CU(DRIVER(cuMemRelease)(imported));
  report_bool(of + "taken when nothing is left", is_taken(before, BYTES));
}

static void ask_destroyed_pool()
{
  CUmemPoolProps made = {};
  CUmemoryPool pool;
  CUstream stream;
  CUdeviceptr blocks[4];
  CUdevice device;
  cuuint64_t keep = UINT64_MAX;
  const std::string of = "a destroyed memory pool: ";

  CHECK_CU(DRIVER(cuCtxGetDevice)(&device));
  made.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  made.location.id = device;
  CHECK_CU(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  size_t before = available();
  CHECK_CU(DRIVER(cuMemPoolCreate)(&pool, &made));
  CHECK_CU(DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  for (CUdeviceptr &block : blocks)
    CHECK_CU(DRIVER(cuMemAllocFromPoolAsync)(&block, BYTES, pool, stream));
  for (int i = 1; i < 4; i++)
    CHECK_CU(DRIVER(cuMemFreeAsync)(blocks[i], stream));
  CHECK_CU(DRIVER(cuStreamSynchronize)(stream));
  report_bool(of + "before, it keeps what is freed", is_taken(before, 4 * BYTES));
  CHECK_CU(DRIVER(cuMemPoolDestroy)(pool));
  report_number(of + "taken while one of four blocks is left", (double)(before - available()) / BYTES, "blocks");
  CHECK_CU(DRIVER(cuMemFreeAsync)(blocks[0], stream));
  CHECK_CU(DRIVER(cuStreamSynchronize)(stream));
  report_number(of + "taken when the last one is free", (double)(before - available()) / BYTES, "blocks");
  CHECK_CU(DRIVER(cuCtxSynchronize)());
  report_assumed(of + "gives all back then", !is_taken(before, BYTES), true, "the limit may be exceeded");
  CHECK_CU(DRIVER(cuStreamDestroy)(stream));
}

int main()
{
  start("lives_on", 60);
  ask_exported();
  ask_destroyed_pool();
  return report_finish();
}
