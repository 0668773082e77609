// G20: what operations of the driver's own pool do to streams, and what they cost beside cudaMalloc. A gate in one
// blocking stream, a call in another one or in the legacy stream, then an event in a second blocking stream: if that
// is not reached while the gate is closed, the call has put it behind the first.
//
// `pool_order` without the preload is the driver; with it, cudaMallocAsync is the pool's.
#include "../common/gate.h"
#include "../common/measure.h"

static cudaStream_t held, watched, apart; // blocking, blocking, not blocking
static const size_t BYTES = 1u << 20;

static void *take(cudaStream_t stream)
{
  void *p = NULL;
  CHECK(cudaMallocAsync(&p, BYTES, stream));
  return p;
}

// Whether work in `watched` that comes after the call comes after the work in `held` that came before it.
template <class Call> static bool orders(Gate &gate, Call call)
{
  CHECK(cudaDeviceSynchronize());
  gate.close();
  CHECK(gate.launch(held));
  Outcome outcome = call_against(gate, [&] {
    call();
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(event, watched));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaEventDestroy(event));
  });
  CHECK(cudaDeviceSynchronize());
  return outcome.waited;
}

static void order()
{
  Gate gate;
  const char *matters = "then the pool need not take the place of such calls";
  void *before = take(NULL), *p = NULL;
  bool control = orders(gate, [] {
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(event, cudaStreamLegacy));
    CHECK(cudaEventDestroy(event));
  });
  report_assumed("control: an event in the legacy stream orders blocking streams", control, true,
      "then the question is not answered");
  report_assumed(
      "cudaMallocAsync in the legacy stream orders blocking streams", orders(gate, [&] { p = take(NULL); }), true, matters);
  report_assumed("cudaFreeAsync in the legacy stream orders blocking streams",
      orders(gate, [&] { CHECK(cudaFreeAsync(before, NULL)); }), true, matters);
  CHECK(cudaFreeAsync(p, NULL));
  report_bool("cudaMallocAsync in a stream that does not block orders blocking streams",
      orders(gate, [&] { p = take(apart); }));
  CHECK(cudaFreeAsync(p, apart));
  CHECK(cudaDeviceSynchronize());
}

static void costs(const std::string &where, cudaStream_t stream)
{
  void *p = NULL;
  measure("cudaMallocAsync, " + where, 1000, nothing, [&] {
    CHECK(cudaMallocAsync(&p, BYTES, stream));
    CHECK(cudaFreeAsync(p, stream));
  });
  measure("the same after a synchronization, " + where, 200, drain, [&] {
    CHECK(cudaMallocAsync(&p, BYTES, stream));
    CHECK(cudaFreeAsync(p, stream));
  });
}

int main()
{
  start("pool_order", 50);
  int supported = 0;
  CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  if (!supported)
    report_skip("the device has no pools of stream-ordered memory");
  measure_clock();
  CHECK(cudaStreamCreate(&held));
  CHECK(cudaStreamCreate(&watched));
  CHECK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  order();
  costs("threshold 0, in a stream", apart);
  costs("threshold 0, in the legacy stream", NULL);
  cudaMemPool_t pool;
  uint64_t all = UINT64_MAX;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  costs("all kept, in a stream", apart);
  costs("all kept, in the legacy stream", NULL);
  void *p = NULL;
  measure("cudaMalloc and cudaFree", 500, drain, [&] {
    CHECK(cudaMalloc(&p, BYTES));
    CHECK(cudaFree(p));
  });
  CHECK(cudaDeviceSynchronize());
  return report_finish();
}
