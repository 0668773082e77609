// G13: which calls of the driver wait for a kernel that runs, and what do they cost beside it?
//
// gpupool makes these calls inside the program's own ones, and the program may have a kernel that runs until
// its host thread goes on: a call that waits where the program's call would not have waited hangs it. Each
// call is made idle, and beside a kernel in the same context, in another context of the device, on another
// device, and on one that is a peer. A call that has not returned after LIMIT_NS waits: then the kernel is
// let go. What a call answers is said where it is not CUDA_SUCCESS.
#include "../common/streams.h"

#include <functional>
#include <set>

static const size_t MIB = 1u << 20;
static const double LIMIT_NS = 200e6;
static const int REPEATS = 7; // of a call that does not wait

typedef std::function<void()> Step;

static void nothing()
{
}

static CUresult answer; // of the last call

static Step if_it_succeeded(Step step)
{
  return [=] {
    if (answer == CUDA_SUCCESS)
      step();
  };
}

struct Question {
  const char *call; // without its sizes: what is assumed is assumed for all
  std::string name;
  Step prepare;                   // with nothing pending
  Step beside;                    // beside the kernel, before the call
  std::function<CUresult()> make; // the call itself
  Step after;                     // with nothing pending
};

static CUdeviceptr block, range;
static CUstream side, created;
static CUevent event;
static CUmemGenericAllocationHandle handle;
static std::set<std::string> waiting; // the calls that waited

//
// The questions. The functions of the driver are looked up before anything is timed.
//
static std::string size_name(size_t bytes)
{
  return bytes >= 1024 * MIB ? std::to_string(bytes / MIB / 1024) + " GiB"
         : bytes >= MIB      ? std::to_string(bytes / MIB) + " MiB"
                             : std::to_string(bytes) + " B";
}

static void add_plain(std::vector<Question> &questions)
{
  auto allocate = DRIVER(cuMemAlloc);
  auto release = DRIVER(cuMemFree);
  auto information = DRIVER(cuMemGetInfo);
  size_t available, total;
  CHECK_CU(information(&available, &total));
  for (size_t bytes : {size_t(512), MIB, 64 * MIB, 1024 * MIB}) {
    if (bytes > available / 2)
      continue;
    Step take = [=] { CHECK_CU(allocate(&block, bytes)); };
    Step give = [=] { CHECK_CU(release(block)); };
    questions.push_back({"cuMemAlloc", "cuMemAlloc of " + size_name(bytes), nothing, nothing,
        [=] { return allocate(&block, bytes); }, if_it_succeeded(give)});
    questions.push_back({"cuMemFree", "cuMemFree of " + size_name(bytes), take, nothing,
        [=] { return release(block); }, nothing});
  }
  questions.push_back({"cuMemGetInfo", "cuMemGetInfo", nothing, nothing,
      [=] {
        size_t free_bytes, total_bytes;
        return information(&free_bytes, &total_bytes);
      },
      nothing});
}

static void add_stream_ordered(std::vector<Question> &questions)
{
  auto allocate = DRIVER(cuMemAlloc);
  auto release = DRIVER(cuMemFree);
  auto allocate_async = DRIVER(cuMemAllocAsync);
  auto release_async = DRIVER(cuMemFreeAsync);
  auto synchronize = DRIVER(cuStreamSynchronize);
  auto default_pool = DRIVER(cuDeviceGetDefaultMemPool);
  auto set_attribute = DRIVER(cuMemPoolSetAttribute);
  auto trim = DRIVER(cuMemPoolTrimTo);
  auto trim_graphs = DRIVER(cuDeviceGraphMemTrim);
  CUmemoryPool pool;
  cuuint64_t keep_all = UINT64_MAX;
  int supported = 0;
  CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  if (!supported) {
    report_text("not asked: stream-ordered memory", "the device does not support it");
    return;
  }
  CHECK_CU(default_pool(&pool, 0));
  CHECK_CU(set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));
  Step take = [=] {
    CHECK_CU(allocate_async(&block, 64 * MIB, side));
    CHECK_CU(synchronize(side));
  };
  Step give = [=] {
    CHECK_CU(release_async(block, side));
    CHECK_CU(synchronize(side));
  };
  questions.push_back({"cuMemAllocAsync", "cuMemAllocAsync of 64 MiB that the pool has", nothing, nothing,
      [=] { return allocate_async(&block, 64 * MIB, side); }, if_it_succeeded(give)});
  questions.push_back({"cuMemFreeAsync", "cuMemFreeAsync of cuMemAllocAsync memory", take, nothing,
      [=] { return release_async(block, side); }, nothing});
  questions.push_back({"cuMemFreeAsync", "cuMemFreeAsync of cuMemAlloc memory",
      [=] { CHECK_CU(allocate(&block, 64 * MIB)); }, nothing, [=] { return release_async(block, side); },
      [=] {
        if (answer != CUDA_SUCCESS)
          CHECK_CU(release(block));
      }});
  questions.push_back({"cuMemFree", "cuMemFree of cuMemAllocAsync memory", take, nothing,
      [=] { return release(block); }, nothing});
  questions.push_back({"cuMemPoolTrimTo", "cuMemPoolTrimTo, 64 MiB to give back",
      [=] {
        take();
        give();
      },
      nothing, [=] { return trim(pool, 0); }, nothing});
  questions.push_back({"cuDeviceGraphMemTrim", "cuDeviceGraphMemTrim, nothing to give back", nothing, nothing,
      [=] { return trim_graphs(0); }, nothing});
}

static void add_mapped(std::vector<Question> &questions)
{
  static CUmemAllocationProp properties;
  static CUmemAccessDesc access;
  const size_t bytes = 64 * MIB;
  auto create = DRIVER(cuMemCreate);
  auto release = DRIVER(cuMemRelease);
  auto map = DRIVER(cuMemMap);
  auto unmap = DRIVER(cuMemUnmap);
  auto set_access = DRIVER(cuMemSetAccess);
  int supported = 0;
  CHECK_CU(DRIVER(cuDeviceGetAttribute)(
      &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED, 0));
  if (!supported) {
    report_text("not asked: mapped memory", "the device does not support it");
    return;
  }
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUresult result = create(&handle, bytes, &properties, 0);
  if (result != CUDA_SUCCESS) { // as some virtual GPUs answer
    report_text("not asked: mapped memory", "cuMemCreate answers " + driver_error(result));
    return;
  }
  CHECK_CU(release(handle));
  CHECK_CU(DRIVER(cuMemAddressReserve)(&range, bytes, 0, 0, 0));
  Step make = [=] { CHECK_CU(create(&handle, bytes, &properties, 0)); };
  Step mapped = [=] {
    make();
    CHECK_CU(map(range, bytes, 0, handle, 0));
  };
  Step usable = [=] {
    mapped();
    CHECK_CU(set_access(range, bytes, &access, 1));
  };
  Step gone = [=] { CHECK_CU(release(handle)); };
  Step unmapped = [=] {
    CHECK_CU(unmap(range, bytes));
    gone();
  };
  questions.push_back({"cuMemCreate", "cuMemCreate of 64 MiB", nothing, nothing,
      [=] { return create(&handle, bytes, &properties, 0); }, gone});
  questions.push_back({"cuMemMap", "cuMemMap of 64 MiB", make, nothing,
      [=] { return map(range, bytes, 0, handle, 0); }, unmapped});
  questions.push_back({"cuMemSetAccess", "cuMemSetAccess of 64 MiB", mapped, nothing,
      [=] { return set_access(range, bytes, &access, 1); }, unmapped});
  questions.push_back({"cuMemUnmap", "cuMemUnmap of 64 MiB", usable, nothing,
      [=] { return unmap(range, bytes); }, gone});
  questions.push_back({"cuMemRelease", "cuMemRelease of 64 MiB that are not mapped", make, nothing,
      [=] { return release(handle); }, nothing});
}

static void add_streams_and_events(std::vector<Question> &questions)
{
  auto create_stream = DRIVER(cuStreamCreate);
  auto destroy_stream = DRIVER(cuStreamDestroy);
  auto create_event = DRIVER(cuEventCreate);
  auto destroy_event = DRIVER(cuEventDestroy);
  Step take = [=] { CHECK_CU(create_event(&event, CU_EVENT_DISABLE_TIMING)); };
  Step give = [=] { CHECK_CU(destroy_event(event)); };
  questions.push_back({"cuStreamCreate", "cuStreamCreate", nothing, nothing,
      [=] { return create_stream(&created, CU_STREAM_NON_BLOCKING); },
      if_it_succeeded([=] { CHECK_CU(destroy_stream(created)); })});
  questions.push_back({"cuEventCreate", "cuEventCreate", nothing, nothing,
      [=] { return create_event(&event, CU_EVENT_DISABLE_TIMING); }, if_it_succeeded(give)});
#if CUDA_VERSION >= 12050
  auto record = DRIVER_MAYBE(cuCtxRecordEvent);
  auto query = DRIVER(cuEventQuery);
  CUcontext context = current_context();
  if (!record) {
    report_text("not asked: cuCtxRecordEvent", "the driver is older than 12.5");
    return;
  }
  questions.push_back({"cuCtxRecordEvent", "cuCtxRecordEvent", take, nothing,
      [=] { return record(context, event); }, give});
  questions.push_back({"cuEventQuery", "cuEventQuery after it", take, [=] { CHECK_CU(record(context, event)); },
      [=] { return query(event); }, give});
#endif
}

//
// Where the kernel runs: in a non-blocking stream of ...
//
static StreamKind place_in_device_1()
{
  StreamKind kind = {"on another device", NULL, NULL, false, ""};
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  if (count < 2) {
    kind.missing = "there is one device";
    return kind;
  }
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamCreateWithFlags(&kind.stream, cudaStreamNonBlocking));
  kind.context = current_context();
  CHECK(cudaSetDevice(0));
  return kind;
}

static std::vector<StreamKind> all_places()
{
  std::vector<StreamKind> places;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  places.push_back({"in this context", stream, NULL, true, ""});
  places.push_back(foreign_stream());
  places.back().name = "in another context";
  places.push_back(place_in_device_1());
  return places;
}

// Both ways, since either could be what a call waits for. Why not; empty: they are peers.
static std::string become_peers(StreamKind &other)
{
  int ours = 0, theirs = 0;
  if (!other.missing.empty())
    return other.missing;
  CHECK(cudaDeviceCanAccessPeer(&ours, 0, 1));
  CHECK(cudaDeviceCanAccessPeer(&theirs, 1, 0));
  if (!ours || !theirs)
    return "the devices cannot access each other";
  CHECK(cudaDeviceEnablePeerAccess(1, 0));
  CHECK(cudaSetDevice(1));
  CHECK(cudaDeviceEnablePeerAccess(0, 0));
  CHECK(cudaSetDevice(0));
  other.name = "on a peer";
  return "";
}

//
// Asking
//
static void note_answer(const Question &question, const std::string &where)
{
  if (answer != CUDA_SUCCESS)
    report_text(question.name + where + " answers", driver_error(answer));
}

static void ask_idle(Gate &gate, const Question &question)
{
  std::vector<double> samples;
  for (int i = 0; i <= REPEATS; i++) {
    question.prepare();
    CHECK(cudaDeviceSynchronize());
    question.beside();
    Outcome outcome = call_against(
        gate, [&] { answer = question.make(); }, LIMIT_NS);
    CHECK(cudaDeviceSynchronize());
    question.after();
    if (i > 0) // the first is not like the others
      samples.push_back(outcome.seconds * 1e9);
  }
  report_samples(question.name + ", idle", samples, "ns");
  note_answer(question, ", idle");
}

static void ask_beside(Gate &gate, StreamKind &place, const Question &question)
{
  std::string where = " beside a kernel " + place.name;
  std::vector<double> samples;
  bool waited = false;
  for (int i = 0; i < REPEATS && !waited; i++) {
    question.prepare();
    CHECK(cudaDeviceSynchronize());
    if (!hold(gate, place).empty())
      fail("the kernel", place.missing.c_str(), __FILE__, __LINE__); // the first one could be launched
    usleep(1000); // the kernel may not only be pending but run
    question.beside();
    Outcome outcome = call_against(
        gate, [&] { answer = question.make(); }, LIMIT_NS);
    settle(gate, place);
    question.after();
    waited = outcome.waited;
    samples.push_back(outcome.seconds * 1e9);
  }
  if (waited) {
    waiting.insert(question.call);
    report_text(question.name + where, "waits");
  } else {
    report_samples(question.name + where, samples, "ns");
  }
  note_answer(question, where);
}

static void ask_all(Gate &gate, StreamKind &place, const std::vector<Question> &questions)
{
  for (const Question &question : questions) {
    bool is_query = std::string(question.call) == "cuEventQuery";
    if (is_query && waiting.count("cuCtxRecordEvent"))
      continue; // what it asks about cannot be recorded beside the kernel
    ask_beside(gate, place, question);
  }
}

static void report_assumptions()
{
  static const struct {
    const char *call, *matters;
  } assumed[] = {
      {"cuMemAlloc", "the pool allocates inside cudaMalloc, beside kernels that may wait for that thread"},
      {"cuStreamCreate", "programs create streams beside kernels that wait for their threads"},
      {"cuEventCreate", "the pool makes an event for its first fence inside an allocation"},
      {"cuCtxRecordEvent", "the pool records fences inside allocations and frees"},
      {"cuEventQuery", "the pool asks fences inside allocations and frees"},
      {"cuMemGetInfo", "the pool asks for the free memory inside allocations"},
  };
  for (const auto &line : assumed)
    report_assumed(
        std::string(line.call) + " waits for a kernel", waiting.count(line.call) > 0, false, line.matters);
}

int main()
{
  start("beside", 110);
  CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  Gate gate;
  std::vector<StreamKind> places = all_places();
  warm_up(gate, places);
  std::vector<Question> questions;
  add_plain(questions);
  add_stream_ordered(questions);
  add_mapped(questions);
  add_streams_and_events(questions);
  for (const Question &question : questions)
    ask_idle(gate, question);
  for (StreamKind &place : places) {
    if (place.missing.empty())
      ask_all(gate, place, questions);
    else
      report_text("not asked: a kernel " + place.name, place.missing);
  }
  std::string missing = become_peers(places.back());
  if (missing.empty())
    ask_all(gate, places.back(), questions);
  else
    report_text("not asked: a kernel on a peer", missing);
  report_assumptions();
  if (is_simulated() && !waiting.count("cuMemFree")) // as it does unless it is told otherwise
    fail("cuMemFree", "the simulated driver waits, and that was not seen", __FILE__, __LINE__);
  return report_finish();
}
