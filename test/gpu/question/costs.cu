// G1, G7, G9: what the calls cost that a pool makes, or saves. Medians of repeated single calls, in
// nanoseconds.
//
// `costs` without the preload is the driver; with it, cudaMalloc and cudaFree are the pool's.
#include "../common/measure.h"

static void small_calls()
{
  CUcontext context = current_context(), got;
  auto get_current = DRIVER(cuCtxGetCurrent);
  measure_short("cuCtxGetCurrent", [&] { CHECK_CU(get_current(&got)); });
#if CUDA_VERSION >= 12000
  auto get_id = DRIVER_MAYBE(cuCtxGetId);
  unsigned long long id;
  if (get_id)
    measure_short("cuCtxGetId", [&] { CHECK_CU(get_id(context, &id)); });
#endif
  (void)context;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  auto query_stream = DRIVER(cuStreamQuery);
  auto query_event = DRIVER(cuEventQuery);
  auto record = DRIVER(cuEventRecord);
  measure_short("cuStreamQuery, idle stream", [&] { CHECK_CU(query_stream(stream)); });
  measure("cuEventRecord, idle stream", 2000, nothing, [&] { CHECK_CU(record(event, stream)); });
  drain();
  measure_short("cuEventQuery, complete event", [&] { CHECK_CU(query_event(event)); });
  measure("cuEventRecord and the query that finds it complete", 1000, drain, [&] {
    CHECK_CU(record(event, stream));
    while (query_event(event) == CUDA_ERROR_NOT_READY)
      ;
  });
  measure("cuStreamSynchronize, idle stream", 2000, drain, [&] { CHECK(cudaStreamSynchronize(stream)); });
  measure("cuCtxSynchronize, idle context", 2000, drain, [&] { CHECK(cudaDeviceSynchronize()); });
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
}

// A fence: one event for the whole context, or one for each stream.
static void fences()
{
#if CUDA_VERSION >= 12050
  auto record_context = DRIVER_MAYBE(cuCtxRecordEvent);
  if (!record_context)
    return;
  CUcontext context = current_context();
  std::vector<cudaStream_t> streams;
  std::vector<cudaEvent_t> events;
  cudaEvent_t fence;
  void *memory;
  CHECK(cudaEventCreateWithFlags(&fence, cudaEventDisableTiming));
  CHECK(cudaMalloc(&memory, 4096));
  for (size_t count : {1, 4, 16, 64, 256}) {
    while (streams.size() < count) {
      streams.push_back(NULL);
      events.push_back(NULL);
      CHECK(cudaStreamCreateWithFlags(&streams.back(), cudaStreamNonBlocking));
      CHECK(cudaEventCreateWithFlags(&events.back(), cudaEventDisableTiming));
    }
    auto busy = [&] { // something in every stream, as after a step of a program
      drain();
      for (cudaStream_t stream : streams)
        CHECK(cudaMemsetAsync(memory, 0, 4096, stream));
    };
    std::string with = " with " + std::to_string(count) + " streams";
    measure(
        "cuCtxRecordEvent" + with + " idle", 500, drain, [&] { CHECK_CU(record_context(context, fence)); });
    measure(
        "cuCtxRecordEvent" + with + " busy", 200, busy, [&] { CHECK_CU(record_context(context, fence)); });
    measure("an event for each stream" + with + " busy", 200, busy, [&] {
      for (size_t i = 0; i < count; i++)
        CHECK(cudaEventRecord(events[i], streams[i]));
    });
    measure("cuCtxRecordEvent and wait" + with + " busy", 200, busy, [&] {
      CHECK_CU(record_context(context, fence));
      CHECK(cudaEventSynchronize(fence));
    });
  }
  drain();
  for (size_t i = 0; i < streams.size(); i++) {
    CHECK(cudaStreamDestroy(streams[i]));
    CHECK(cudaEventDestroy(events[i]));
  }
  CHECK(cudaEventDestroy(fence));
  CHECK(cudaFree(memory));
#endif
}

static void allocations()
{
  static const size_t sizes[] = {
      512, 4096, 65536, 1u << 20, 2u << 20, 16u << 20, 64u << 20, 256u << 20, 1u << 30};
  size_t available, total;
  CHECK(cudaMemGetInfo(&available, &total));
  for (size_t bytes : sizes) {
    if (bytes > available / 4)
      continue;
    void *p = NULL;
    auto free_it = [&] {
      if (p)
        CHECK(cudaFree(p));
      p = NULL;
    };
    auto settle = [&] {
      free_it();
      drain();
    };
    measure("cudaMalloc of " + size_name(bytes), 1000, settle, [&] { CHECK(cudaMalloc(&p, bytes)); });
    free_it();
    measure(
        "cudaFree of " + size_name(bytes), 1000, [&] { CHECK(cudaMalloc(&p, bytes)); }, free_it);
    drain();
    measure("cudaMalloc and cudaFree of " + size_name(bytes) + ", never synchronized", 1000, nothing, [&] {
      CHECK(cudaMalloc(&p, bytes));
      free_it();
    });
  }
}

static void stream_ordered()
{
  cudaMemPool_t pool;
  int supported = 0;
  CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  if (!supported)
    return;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  for (uint64_t threshold : {uint64_t(0), UINT64_MAX}) {
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    for (size_t bytes : {size_t(4096), size_t(2u << 20), size_t(64u << 20)}) {
      void *p = NULL;
      std::string with =
          " of " + size_name(bytes) + (threshold ? ", memory kept" : ", threshold 0, after a synchronize");
      auto free_it = [&] {
        if (p)
          CHECK(cudaFreeAsync(p, 0));
        p = NULL;
        if (!threshold)
          drain(); // only then the pool gives memory back
      };
      measure("cudaMallocAsync" + with, 500, free_it, [&] { CHECK(cudaMallocAsync(&p, bytes, 0)); });
      free_it();
      measure(
          "cudaFreeAsync" + with, 500, [&] { CHECK(cudaMallocAsync(&p, bytes, 0)); },
          [&] {
            CHECK(cudaFreeAsync(p, 0));
            p = NULL;
          });
    }
  }
  uint64_t threshold = 0;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  drain();
  CHECK(cudaMemPoolTrimTo(pool, 0));
}

int main()
{
  start("costs", 60);
  measure_clock();
  small_calls();
  fences();
  allocations();
  stream_ordered();
  return report_finish();
}
