// G24: what each kind of memory takes from the device, by cuMemGetInfo. The limit counts all but cuMemAlloc as asked,
// above 1 MiB in whole pages of 2 MiB.
#include "../common/gpu.h"

static const size_t PAGE = 2u << 20;
static const size_t COUNT = 16;

static size_t available()
{
  size_t bytes, total;
  CHECK_CU(DRIVER(cuMemGetInfo)(&bytes, &total));
  return bytes;
}

static size_t counted(size_t bytes)
{
  return bytes > PAGE / 2 ? (bytes + PAGE - 1) / PAGE * PAGE : bytes;
}

// make(i) makes one of the allocations, free(i) frees it; a kind that the device lacks is left out.
template <class Make, class Free> static void ask(const std::string &kind, size_t bytes, Make make, Free free)
{
  std::string of = kind + " of " + std::to_string(bytes) + " B: ";
  size_t before = available(), made = 0;
  while (made < COUNT && make(made) == CUDA_SUCCESS)
    made++;
  CHECK(cudaDeviceSynchronize());
  size_t now = available(), taken = before > now ? before - now : 0;
  if (made == COUNT)
    report_number(of + "taken from the device, each", (double)taken / COUNT, "B");
  if (made == COUNT && bytes > PAGE / 2)
    report_assumed(of + "no more than is counted", taken <= COUNT * counted(bytes), true, "the limit may be exceeded");
  while (made > 0)
    CHECK_CU(free(--made));
  CHECK(cudaDeviceSynchronize());
}

static CUDA_ARRAY3D_DESCRIPTOR shape(size_t bytes)
{
  CUDA_ARRAY3D_DESCRIPTOR array = {};
  array.Width = 1024;
  array.Height = (bytes + 1023) / 1024;
  array.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  array.NumChannels = 1;
  return array;
}

static void ask_addresses(size_t bytes)
{
  static CUdeviceptr p[COUNT];
  auto free = [](size_t i) { return DRIVER(cuMemFree)(p[i]); };
  ask("cuMemAlloc", bytes, [=](size_t i) { return DRIVER(cuMemAlloc)(&p[i], bytes); }, free);
  ask("cuMemAllocPitch", (bytes + 511) / 512 * 512,
      [=](size_t i) {
        size_t pitch;
        return DRIVER(cuMemAllocPitch)(&p[i], &pitch, 512, (bytes + 511) / 512, 4);
      },
      free);
  ask("cuMemAllocManaged, touched by the device", bytes,
      [=](size_t i) {
        CUresult result = DRIVER(cuMemAllocManaged)(&p[i], bytes, CU_MEM_ATTACH_GLOBAL);
        return result == CUDA_SUCCESS ? DRIVER(cuMemsetD8)(p[i], 0, bytes) : result;
      },
      free);
  ask("cuMemAllocAsync", bytes, [=](size_t i) { return DRIVER(cuMemAllocAsync)(&p[i], bytes, NULL); },
      [](size_t i) { return DRIVER(cuMemFreeAsync)(p[i], NULL); });
}

static void ask_handles(size_t bytes)
{
  static CUarray arrays[COUNT];
  static CUmipmappedArray mipmaps[COUNT];
  CUDA_ARRAY3D_DESCRIPTOR array = shape(bytes);
  size_t size = array.Width * array.Height, levels = 0;
  for (size_t width = array.Width, height = array.Height, level = 0; level < 4; level++, width /= 2, height /= 2)
    levels += std::max<size_t>(1, width) * std::max<size_t>(1, height);
  ask("cuArray3DCreate", size, [=](size_t i) { return DRIVER(cuArray3DCreate)(&arrays[i], &array); },
      [](size_t i) { return DRIVER(cuArrayDestroy)(arrays[i]); });
  ask("cuMipmappedArrayCreate, four levels", levels,
      [=](size_t i) { return DRIVER(cuMipmappedArrayCreate)(&mipmaps[i], &array, 4); },
      [](size_t i) { return DRIVER(cuMipmappedArrayDestroy)(mipmaps[i]); });
}

static void ask_physical(size_t bytes)
{
  static CUmemGenericAllocationHandle handles[COUNT];
  CUmemAllocationProp properties = {};
  size_t unit;
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK_CU(DRIVER(cuMemGetAllocationGranularity)(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  size_t size = (bytes + unit - 1) / unit * unit;
  ask("cuMemCreate", size, [=](size_t i) { return DRIVER(cuMemCreate)(&handles[i], size, &properties, 0); },
      [](size_t i) { return DRIVER(cuMemRelease)(handles[i]); });
}

int main()
{
  start("kinds", 30);
  for (size_t bytes : {size_t(1), size_t(4096), size_t(65536), PAGE / 2, PAGE / 2 + 1, 3 * PAGE / 2 - 1, 3 * PAGE / 2 + 1}) {
    ask_addresses(bytes);
    ask_handles(bytes);
    ask_physical(bytes);
  }
  return report_finish();
}
