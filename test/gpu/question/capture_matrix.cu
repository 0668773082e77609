// G6: which calls may be made while a stream is captured, and which end the capture?
//
// A capture is begun in each mode, one call is made by the capturing thread or by another one, and the
// capture is ended. What gpupool calls by itself must not be in the list of those that end captures, or must
// not be called then.
#include "../common/gpu.h"

#include <functional>
#include <thread>

static cudaStream_t captured, other;
static cudaEvent_t event, fresh;
static void *block, *made;

struct Call {
  const char *name;
  std::function<CUresult()> call;
  std::function<void()> undo; // if it succeeded
};

static void nothing()
{
}

static std::vector<Call> all_calls()
{
  CUcontext context = current_context();
  return
  {
    {"cuMemAlloc", [] { return DRIVER(cuMemAlloc)((CUdeviceptr *)&made, 4096); },
        [] { CHECK(cudaFree(made)); }},
        {"cuMemFree",
            [] {
              CUresult result = DRIVER(cuMemFree)((CUdeviceptr)block);
              if (result == CUDA_SUCCESS)
                block = NULL;
              return result;
            },
            nothing},
        {"cuMemAllocManaged",
            [] { return DRIVER(cuMemAllocManaged)((CUdeviceptr *)&made, 4096, CU_MEM_ATTACH_GLOBAL); },
            [] { CHECK(cudaFree(made)); }},
        {"cuMemAllocAsync in another stream",
            [] { return DRIVER(cuMemAllocAsync)((CUdeviceptr *)&made, 4096, other); },
            [] { CHECK(cudaFree(made)); }},
        {"cuMemGetInfo",
            [] {
              size_t available, total;
              return DRIVER(cuMemGetInfo)(&available, &total);
            },
            nothing},
        {"cuMemGetAddressRange",
            [] {
              CUdeviceptr base;
              size_t size;
              return DRIVER(cuMemGetAddressRange)(&base, &size, (CUdeviceptr)block);
            },
            nothing},
        {"cuMemPoolGetAttribute",
            [] {
              CUmemoryPool pool;
              cuuint64_t value;
              CUresult result = DRIVER(cuDeviceGetDefaultMemPool)(&pool, 0);
              return result
                         ? result
                         : DRIVER(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
            },
            nothing},
        {"cuMemPoolTrimTo",
            [] {
              CUmemoryPool pool;
              CUresult result = DRIVER(cuDeviceGetDefaultMemPool)(&pool, 0);
              return result ? result : DRIVER(cuMemPoolTrimTo)(pool, 0);
            },
            nothing},
        {"cuDeviceGraphMemTrim", [] { return DRIVER(cuDeviceGraphMemTrim)(0); }, nothing},
        {"cuCtxGetCurrent",
            [] {
              CUcontext current;
              return DRIVER(cuCtxGetCurrent)(&current);
            },
            nothing},
#if CUDA_VERSION >= 12000
        {"cuCtxGetId",
            [context] {
              unsigned long long id;
              return DRIVER(cuCtxGetId)(context, &id);
            },
            nothing},
#endif
        {"cuCtxSynchronize", [] { return DRIVER(cuCtxSynchronize)(); }, nothing},
#if CUDA_VERSION >= 12050
        {"cuCtxRecordEvent", [context] { return DRIVER(cuCtxRecordEvent)(context, event); }, nothing},
#endif
        {"cuEventCreate", [] { return DRIVER(cuEventCreate)(&fresh, CU_EVENT_DISABLE_TIMING); },
            [] { CHECK(cudaEventDestroy(fresh)); }},
        {"cuEventQuery", [] { return DRIVER(cuEventQuery)(event); }, nothing},
        {"cuEventRecord in another stream", [] { return DRIVER(cuEventRecord)(event, other); }, nothing},
        {"cuEventSynchronize", [] { return DRIVER(cuEventSynchronize)(event); }, nothing},
        {"cuStreamQuery of another stream", [] { return DRIVER(cuStreamQuery)(other); }, nothing},
        {"cuStreamQuery of the captured stream", [] { return DRIVER(cuStreamQuery)(captured); }, nothing},
        {"cuStreamSynchronize of another stream", [] { return DRIVER(cuStreamSynchronize)(other); }, nothing},
        {"cuStreamSynchronize of the legacy stream", [] { return DRIVER(cuStreamSynchronize)(NULL); },
            nothing},
        {"cuStreamIsCapturing",
            [] {
              CUstreamCaptureStatus status;
              return DRIVER(cuStreamIsCapturing)(captured, &status);
            },
            nothing},
        {"cuStreamCreate", [] { return DRIVER(cuStreamCreate)((CUstream *)&made, CU_STREAM_NON_BLOCKING); },
            [] { CHECK(cudaStreamDestroy((cudaStream_t)made)); }},
        {"cuIpcGetMemHandle",
            [] {
              CUipcMemHandle handle;
              return DRIVER(cuIpcGetMemHandle)(&handle, (CUdeviceptr)block);
            },
            nothing},
  };
}

// "ok", or what the call answered, and whether the capture lives.
static std::string ask(const Call &call, cudaStreamCaptureMode mode, bool same_thread)
{
  cudaGraph_t graph = NULL;
  CUresult result = CUDA_SUCCESS;
  if (!block)
    CHECK(cudaMalloc(&block, 4096));
  CHECK(cudaStreamBeginCapture(captured, mode));
  if (same_thread) {
    result = call.call();
  } else {
    std::thread thread([&] {
      (void)cudaSetDevice(0);
      result = call.call();
    });
    thread.join();
  }
  cudaError_t ended = cudaStreamEndCapture(captured, &graph);
  if (graph)
    CHECK(cudaGraphDestroy(graph));
  (void)cudaGetLastError();
  if (result == CUDA_SUCCESS)
    call.undo();
  std::string answer = result == CUDA_SUCCESS ? "ok" : driver_error(result);
  return ended == cudaSuccess ? answer : answer + ", and the capture ends: " + cudaGetErrorName(ended);
}

int main()
{
  start("capture_matrix", 60);
  CHECK(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaEventRecord(event, other));
  CHECK(cudaDeviceSynchronize());
  static const struct {
    const char *name;
    cudaStreamCaptureMode mode;
  } modes[] = {{"global", cudaStreamCaptureModeGlobal}, {"thread-local", cudaStreamCaptureModeThreadLocal},
      {"relaxed", cudaStreamCaptureModeRelaxed}};
  for (const Call &call : all_calls()) {
    std::string same[3], others[3];
    for (int i = 0; i < 3; i++) {
      same[i] = ask(call, modes[i].mode, true);
      others[i] = ask(call, modes[i].mode, false);
    }
    for (int i = 0; i < 3; i++) {
      std::string answer = same[i] == others[i] ? same[i] : same[i] + "; from another thread: " + others[i];
      report_text(std::string(call.name) + ", " + modes[i].name, answer);
    }
  }
  return report_finish();
}
