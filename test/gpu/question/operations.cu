// G14 to G16: what the driver calls cost that a pool makes by itself: giving back, mapping, fences, and asking for
// the current context. Medians of repeated single calls, in nanoseconds, with nothing pending unless said.
#include "../common/measure.h"

static const size_t MIB = 1u << 20;
static const size_t WORK = 8 * MIB; // bytes that a memset has to fill: some microseconds
static const size_t SIZES[] = {2 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB};

static bool fits(size_t bytes)
{
  size_t available, total;
  CHECK(cudaMemGetInfo(&available, &total));
  return bytes <= available / 4;
}

// G14: plain memory
static void plain(size_t bytes)
{
  auto allocate = DRIVER(cuMemAlloc);
  auto release = DRIVER(cuMemFree);
  CUdeviceptr block = 0;
  auto free_it = [&] {
    if (block)
      CHECK_CU(release(block));
    block = 0;
    drain();
  };
  measure("cuMemAlloc of " + size_name(bytes), 200, free_it, [&] { CHECK_CU(allocate(&block, bytes)); });
  auto have = [&] {
    if (!block)
      CHECK_CU(allocate(&block, bytes));
    drain();
  };
  measure("cuMemFree of " + size_name(bytes), 200, have, [&] {
    CHECK_CU(release(block));
    block = 0;
  });
  have(); // and behind work that is pending when the free begins
  auto submit = [&] {
    have();
    CHECK(cudaMemsetAsync((void *)block, 0, std::min(bytes, WORK), 0));
  };
  measure("cuMemFree of " + size_name(bytes) + ", beside a memset of it", 50, submit, [&] {
    CHECK_CU(release(block));
    block = 0;
  });
  free_it();
}

// G14: the same in its parts, as memory that is mapped into a range
struct Mapping {
  size_t bytes;
  CUmemAllocationProp properties;
  CUmemAccessDesc access;
  CUdeviceptr range;
  CUmemGenericAllocationHandle handle;
  bool is_created, is_mapped;
};

static void create(Mapping &mapping)
{
  if (!mapping.is_created)
    CHECK_CU(DRIVER(cuMemCreate)(&mapping.handle, mapping.bytes, &mapping.properties, 0));
  mapping.is_created = true;
}

static void unmap(Mapping &mapping)
{
  if (mapping.is_mapped)
    CHECK_CU(DRIVER(cuMemUnmap)(mapping.range, mapping.bytes));
  mapping.is_mapped = false;
}

static void map(Mapping &mapping)
{
  create(mapping);
  if (!mapping.is_mapped)
    CHECK_CU(DRIVER(cuMemMap)(mapping.range, mapping.bytes, 0, mapping.handle, 0));
  mapping.is_mapped = true;
}

static void release(Mapping &mapping)
{
  unmap(mapping);
  if (mapping.is_created)
    CHECK_CU(DRIVER(cuMemRelease)(mapping.handle));
  mapping.is_created = false;
}

static void mapped(size_t bytes)
{
  Mapping m = {};
  m.bytes = bytes; // a multiple of every granularity
  m.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  m.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  m.access.location = m.properties.location;
  m.access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK_CU(DRIVER(cuMemAddressReserve)(&m.range, bytes, 0, 0, 0));
  std::string of = " of " + size_name(bytes);
  auto settled = [&](void (*step)(Mapping &)) {
    return [&m, step] {
      step(m);
      drain();
    };
  };
  auto create_it = DRIVER(cuMemCreate);
  auto map_it = DRIVER(cuMemMap);
  auto set_access = DRIVER(cuMemSetAccess);
  auto unmap_it = DRIVER(cuMemUnmap);
  auto release_it = DRIVER(cuMemRelease);
  measure("cuMemCreate" + of, 200, settled(release), [&] {
    CHECK_CU(create_it(&m.handle, bytes, &m.properties, 0));
    m.is_created = true;
  });
  auto unmapped = [&] {
    create(m);
    unmap(m);
    drain();
  };
  measure("cuMemMap" + of, 200, unmapped, [&] {
    CHECK_CU(map_it(m.range, bytes, 0, m.handle, 0));
    m.is_mapped = true;
  });
  auto mapped_anew = [&] {
    unmap(m);
    map(m);
    drain();
  };
  measure("cuMemSetAccess" + of, 200, mapped_anew, [&] { CHECK_CU(set_access(m.range, bytes, &m.access, 1)); });
  auto accessible = [&] {
    mapped_anew();
    CHECK_CU(set_access(m.range, bytes, &m.access, 1));
    drain();
  };
  measure("cuMemUnmap" + of, 200, accessible, [&] {
    CHECK_CU(unmap_it(m.range, bytes));
    m.is_mapped = false;
  });
  measure("cuMemRelease" + of, 200, unmapped, [&] {
    CHECK_CU(release_it(m.handle));
    m.is_created = false;
  });
  release(m);
  CHECK_CU(DRIVER(cuMemAddressFree)(m.range, bytes));
}

// G15: a fence over a context and the question whether it has passed, which is asked more often than recorded
static void fences()
{
#if CUDA_VERSION >= 12050
  auto record = DRIVER_MAYBE(cuCtxRecordEvent);
  auto query = DRIVER(cuEventQuery);
  if (!record)
    return;
  CUcontext context = current_context();
  cudaEvent_t fence;
  cudaStream_t stream;
  void *memory;
  CHECK(cudaEventCreateWithFlags(&fence, cudaEventDisableTiming));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&memory, WORK));
  auto busy = [&] {
    drain();
    CHECK(cudaMemsetAsync(memory, 0, WORK, stream));
  };
  auto recorded = [&] {
    busy();
    CHECK_CU(record(context, fence));
  };
  measure("cuCtxRecordEvent, idle", 500, drain, [&] { CHECK_CU(record(context, fence)); });
  measure("cuCtxRecordEvent, a stream at work", 200, busy, [&] { CHECK_CU(record(context, fence)); });
  measure("cuCtxRecordEvent of an event that is pending", 200, recorded, [&] { CHECK_CU(record(context, fence)); });
  measure("cuEventQuery right after cuCtxRecordEvent, a stream at work", 200, recorded, [&] {
    CUresult result = query(fence);
    if (result != CUDA_ERROR_NOT_READY)
      CHECK_CU(result);
  });
  CHECK_CU(record(context, fence));
  drain();
  measure_short("cuEventQuery of a context's event that has passed", [&] { CHECK_CU(query(fence)); });
  CHECK(cudaFree(memory));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaEventDestroy(fence));
#endif
}

// G16: which context is current, as every allocation has to know
static void current()
{
  auto get = DRIVER(cuCtxGetCurrent);
  auto push = DRIVER(cuCtxPushCurrent);
  auto pop = DRIVER(cuCtxPopCurrent);
  CUcontext context = current_context(), got;
  measure_short("cuCtxGetCurrent", [&] { CHECK_CU(get(&got)); });
  measure_short("cuCtxPushCurrent and cuCtxPopCurrent", [&] {
    CHECK_CU(push(context));
    CHECK_CU(pop(&got));
  });
  CHECK_CU(push(context));
  measure_short("cuCtxGetCurrent, of a context that was pushed", [&] { CHECK_CU(get(&got)); });
  CHECK_CU(pop(&got));
#if CUDA_VERSION >= 12000
  auto get_id = DRIVER_MAYBE(cuCtxGetId);
  unsigned long long id;
  if (get_id)
    measure_short("cuCtxGetCurrent and cuCtxGetId", [&] {
      CHECK_CU(get(&got));
      CHECK_CU(get_id(got, &id));
    });
  if (get_id) {
    measure_short("cuCtxGetId of the current context", [&] { CHECK_CU(get_id(nullptr, &id)); });
    typedef CUresult (*create_fn)(CUcontext *, unsigned, CUdevice);
    unsigned long long own = 0, told = 0;
    CHECK_CU(reinterpret_cast<create_fn>(driver_need("cuCtxCreate_v2", __FILE__, __LINE__))(&got, 0, 0));
    CHECK_CU(get_id(nullptr, &told));
    CHECK_CU(get_id(got, &own));
    bool is_told = told == own && own != id;
    CHECK_CU(DRIVER(cuCtxDestroy)(got));
    CHECK_CU(get_id(context, &own));
    report_assumed("cuCtxGetId of NULL tells the id of the current context", is_told && id == own, true,
        "whose memory an allocation is");
  }
#endif
}

int main()
{
  int can_map = 0;
  start("operations", 60);
  measure_clock();
  CHECK_CU(DRIVER(cuDeviceGetAttribute)(&can_map, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  report_bool("memory can be mapped", can_map);
  for (size_t bytes : SIZES) {
    if (!fits(bytes))
      continue;
    plain(bytes);
    if (can_map)
      mapped(bytes);
  }
  fences();
  current();
  return report_finish();
}
