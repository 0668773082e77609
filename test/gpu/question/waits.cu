// G4, G5: which calls wait for pending work, and in which streams?
//
// For each call and each kind of stream: a kernel is made pending there, the call is made in another thread,
// and the gate is opened when it has returned or has not for a while. `waits free` asks the calls that
// allocate and free, `waits sync` those that synchronize and copy.
#include "../common/streams.h"

#include <functional>

static const size_t SMALL = 4096, LARGE = 64u << 20;

struct Call {
  const char *name;
  std::function<void()> prepare, call, after; // prepare and after with nothing pending
};

static void *block, *other;
static cudaStream_t side, blocking;
static cudaEvent_t event;
static std::string refused; // the first error that a call answered
static bool succeeded;      // the last call

static void note(cudaError_t error)
{
  succeeded = error == cudaSuccess;
  if (error != cudaSuccess && error != cudaErrorNotReady && refused.empty())
    refused = cudaGetErrorName(error);
}

static void nothing()
{
}

static std::function<void()> allocate(size_t bytes)
{
  return [bytes] { CHECK(cudaMalloc(&block, bytes)); };
}

static void free_block()
{
  CHECK(cudaFree(block));
}

static std::vector<Call> calls_that_allocate()
{
  return {
      {"cudaFree of 4 KiB", allocate(SMALL), [] { note(cudaFree(block)); }, nothing},
      {"cudaFree of 64 MiB", allocate(LARGE), [] { note(cudaFree(block)); }, nothing},
      {"cudaFree(NULL)", nothing, [] { note(cudaFree(NULL)); }, nothing},
      {"cudaMalloc of 4 KiB", nothing, [] { note(cudaMalloc(&block, SMALL)); }, free_block},
      {"cudaMalloc of 64 MiB", nothing, [] { note(cudaMalloc(&block, LARGE)); }, free_block},
      {"cudaMallocAsync in a stream of its own", nothing, [] { note(cudaMallocAsync(&block, LARGE, side)); },
          [] { CHECK(cudaFreeAsync(block, side)); }},
      {"cudaFreeAsync in a stream of its own", [] { CHECK(cudaMallocAsync(&block, LARGE, side)); },
          [] { note(cudaFreeAsync(block, side)); }, nothing},
      {"cudaFree of cudaMallocAsync memory",
          [] {
            CHECK(cudaMallocAsync(&block, LARGE, side));
            CHECK(cudaStreamSynchronize(side));
          },
          [] { note(cudaFree(block)); }, nothing},
      {"cudaMallocManaged", nothing, [] { note(cudaMallocManaged(&block, SMALL)); }, free_block},
      {"cudaFree of managed memory", [] { CHECK(cudaMallocManaged(&block, SMALL)); },
          [] { note(cudaFree(block)); }, nothing},
      {"cudaMallocHost", nothing, [] { note(cudaMallocHost(&block, SMALL)); },
          [] { CHECK(cudaFreeHost(block)); }},
      {"cudaFreeHost", [] { CHECK(cudaMallocHost(&block, SMALL)); }, [] { note(cudaFreeHost(block)); },
          nothing},
      {"cudaMemGetInfo", nothing,
          [] {
            size_t available, total;
            note(cudaMemGetInfo(&available, &total));
          },
          nothing},
  };
}

static std::vector<Call> calls_that_synchronize()
{
  static char host[64];
  return {
      {"cudaDeviceSynchronize", nothing, [] { note(cudaDeviceSynchronize()); }, nothing},
      {"cudaStreamSynchronize(legacy)", nothing, [] { note(cudaStreamSynchronize(cudaStreamLegacy)); },
          nothing},
      {"cudaStreamSynchronize(a blocking stream)", nothing, [] { note(cudaStreamSynchronize(blocking)); },
          nothing},
      {"event recorded in the legacy stream", nothing,
          [] {
            note(cudaEventRecord(event, cudaStreamLegacy));
            note(cudaEventSynchronize(event));
          },
          nothing},
      {"cudaMemcpy device to host, 64 B", allocate(SMALL),
          [] { note(cudaMemcpy(host, block, sizeof host, cudaMemcpyDeviceToHost)); }, free_block},
      {"cudaMemcpy host to device, 64 B", allocate(SMALL),
          [] { note(cudaMemcpy(block, host, sizeof host, cudaMemcpyHostToDevice)); }, free_block},
      {"cudaMemcpy device to device",
          [] {
            CHECK(cudaMalloc(&block, SMALL));
            CHECK(cudaMalloc(&other, SMALL));
          },
          [] { note(cudaMemcpy(block, other, SMALL, cudaMemcpyDeviceToDevice)); },
          [] {
            CHECK(cudaFree(block));
            CHECK(cudaFree(other));
          }},
      {"cudaMemset", allocate(SMALL), [] { note(cudaMemset(block, 0, SMALL)); }, free_block},
      {"cudaStreamCreate", nothing, [] { note(cudaStreamCreate(&side)); }, nothing},
      {"cudaStreamDestroy of an idle stream", [] { CHECK(cudaStreamCreate(&side)); },
          [] { note(cudaStreamDestroy(side)); }, nothing},
  };
}

// The answer of a query does not wait, it tells.
static void ask_query(Gate &gate, std::vector<StreamKind> &kinds)
{
  std::string busy;
  for (StreamKind &kind : kinds) {
    if (!hold(gate, kind).empty())
      continue;
    if (cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady)
      busy += (busy.empty() ? "" : ", ") + kind.name;
    settle(gate, kind);
  }
  report_text("cudaStreamQuery(legacy) says not ready for", busy.empty() ? "none" : busy);
}

static void ask(Gate &gate, std::vector<StreamKind> &kinds, const Call &call)
{
  std::string waited, passed;
  refused.clear();
  for (StreamKind &kind : kinds) {
    if (!kind.missing.empty())
      continue;
    block = other = NULL;
    call.prepare();
    CHECK(cudaDeviceSynchronize());
    if (!hold(gate, kind).empty())
      continue; // said when it was found out
    Outcome outcome = call_against(gate, call.call);
    settle(gate, kind);
    if (succeeded)
      call.after();
    std::string &list = outcome.waited ? waited : passed;
    list += (list.empty() ? "" : ", ") + kind.name;
    if (std::string(call.name) == "cudaDeviceSynchronize" && !kind.context)
      report_assumed("cudaDeviceSynchronize covers: " + kind.name, outcome.waited, true,
          "every reuse mode takes a synchronization for complete");
  }
  report_text(std::string(call.name) + " waits for", waited.empty() ? "none" : waited);
  if (!refused.empty())
    report_text(std::string(call.name) + " answered", refused);
}

int main(int argc, char **argv)
{
  start("waits", 100);
  bool sync = argc > 1 && std::string(argv[1]) == "sync";
  if (argc != 2 || (!sync && std::string(argv[1]) != "free"))
    fail("usage", "waits free|sync", __FILE__, __LINE__);
  CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&blocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Gate gate;
  std::vector<StreamKind> kinds = all_stream_kinds();
  warm_up(gate, kinds);
  for (StreamKind &kind : kinds) {
    if (!kind.missing.empty())
      report_text("not asked: " + kind.name, kind.missing);
  }
  for (const Call &call : sync ? calls_that_synchronize() : calls_that_allocate())
    ask(gate, kinds, call);
  if (sync)
    ask_query(gate, kinds);
  return report_finish();
}
