// G1: does an event recorded for the whole context (cuCtxRecordEvent) wait for the work of every kind of
// stream?
//
// For each kind: a kernel is made pending there, the event is recorded, and asked while the kernel certainly
// runs. Controls: with nothing pending the event completes, and work submitted after the record does not hold
// it.
#include "../common/streams.h"

#if CUDA_VERSION >= 12050
static const int ASKED = 2000; // queries while the work is pending
static const double SOON_NS = 2e9;

static CUevent event;
static std::vector<double> record_ns;

static void record()
{
  double begin = now_ns();
  CHECK_CU(DRIVER(cuCtxRecordEvent)(current_context(), event));
  record_ns.push_back(now_ns() - begin);
}

static bool stays_pending()
{
  for (int i = 0; i < ASKED; i++) {
    CUresult result = DRIVER(cuEventQuery)(event);
    if (result == CUDA_SUCCESS)
      return false;
    if (result != CUDA_ERROR_NOT_READY)
      CHECK_CU(result);
  }
  return true;
}

static bool completes_soon()
{
  double begin = now_ns();
  while (now_ns() - begin < SOON_NS) {
    CUresult result = DRIVER(cuEventQuery)(event);
    if (result == CUDA_SUCCESS)
      return true;
    if (result != CUDA_ERROR_NOT_READY)
      CHECK_CU(result);
  }
  return false;
}

static void ask(Gate &gate, StreamKind &kind, const std::string &name)
{
  record();
  bool covered = stays_pending(), expired = gate.has_expired();
  gate.open();
  bool completed = completes_soon();
  if (expired) {
    report_text("not asked: " + name, "a call before waited until the work had ended");
    settle(gate, kind);
    return;
  }
  if (kind.context) // green, or another context's: nothing rests on it
    report_bool("covers: " + name, covered);
  else
    report_assumed("covers: " + name, covered, true, "GPUPOOL_REUSE=context reuses memory after this event");
  report_assumed("completes after: " + name, completed, true, "else deferred memory never comes back");
  settle(gate, kind);
}

// The stream is gone when the event is recorded, its work is not.
static void ask_destroyed(Gate &gate)
{
  StreamKind kind = {"destroyed stream", NULL, NULL, true, ""};
  CHECK(cudaStreamCreateWithFlags(&kind.stream, cudaStreamNonBlocking));
  hold(gate, kind);
  CHECK(cudaStreamDestroy(kind.stream));
  ask(gate, kind, kind.name);
}

// A per-thread stream of a thread that has no part in the record, and one of a thread that has ended.
static void ask_other_thread(Gate &gate)
{
  StreamKind kind = {"per-thread stream of another thread", cudaStreamPerThread, NULL, true, ""};
  std::atomic<int> step{0};
  std::thread thread([&] {
    CHECK(cudaSetDevice(0));
    gate.close();
    CHECK(gate.launch(cudaStreamPerThread));
    step = 1;
    while (step != 2)
      std::this_thread::yield();
  });
  while (step != 1)
    std::this_thread::yield();
  ask(gate, kind, kind.name);
  step = 2;
  thread.join();

  std::thread brief([&] {
    CHECK(cudaSetDevice(0));
    gate.close();
    CHECK(gate.launch(cudaStreamPerThread));
  });
  brief.join();
  ask(gate, kind, "per-thread stream of a thread that ended");
}

static void ask_graph(Gate &gate)
{
  StreamKind kind = {"launched graph", NULL, NULL, true, ""};
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamCreateWithFlags(&kind.stream, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(kind.stream, cudaStreamCaptureModeThreadLocal));
  CHECK(gate.launch(kind.stream));
  CHECK(cudaStreamEndCapture(kind.stream, &graph));
  CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, kind.stream)); // the gate is open: what it needs is there before anything waits
  CHECK(cudaStreamSynchronize(kind.stream));
  gate.close();
  CHECK(cudaGraphLaunch(exec, kind.stream));
  ask(gate, kind, kind.name);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(kind.stream));
}

static void ask_later_work(Gate &gate, StreamKind &kind)
{
  record();
  if (!hold(gate, kind).empty())
    return;
  report_bool("completes while later work is pending in: " + kind.name, completes_soon());
  settle(gate, kind);
}

int main()
{
  start("coverage", 60);
  if (!DRIVER_MAYBE(cuCtxRecordEvent))
    report_skip("the driver has no cuCtxRecordEvent (it came with 12.5)");
  CHECK_CU(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  Gate gate;
  std::vector<StreamKind> kinds = all_stream_kinds();
  warm_up(gate, kinds);

  record();
  report_assumed(
      "control: completes with nothing pending", completes_soon(), true, "the event means nothing else");
  for (StreamKind &kind : kinds) {
    std::string why = hold(gate, kind);
    if (why.empty())
      ask(gate, kind, kind.name);
    else
      report_text("not asked: " + kind.name, why);
  }
  ask_destroyed(gate);
  ask_other_thread(gate);
  ask_graph(gate);
  for (StreamKind &kind : kinds)
    ask_later_work(gate, kind);
  report_samples("cuCtxRecordEvent while work is pending", record_ns, "ns");
  return report_finish();
}
#else
int main()
{
  report_program = "coverage";
  report_skip("the headers are older than 12.5 (cuCtxRecordEvent)");
}
#endif
