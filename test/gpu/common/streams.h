// Every kind of stream that work can be in.
//
// gpupool relies on nothing about those with a context of their own: it asks each context that it knows, and
// stops pooling when it sees a stream of a green context created.
#ifndef GPU_STREAMS_H
#define GPU_STREAMS_H

#include "gate.h"

struct StreamKind {
  std::string name;
  cudaStream_t stream;
  CUcontext context;   // that it belongs to; NULL: the primary one
  bool own_context;    // it is the primary context's, or of a green context of that
  std::string missing; // why there is none; empty: there is one
};

// A stream of a green context of the device, or why there is none.
inline StreamKind green_stream()
{
  StreamKind kind = {"green", NULL, NULL, true, ""};
#if CUDA_VERSION >= 12050
  auto get = DRIVER_MAYBE(cuDeviceGetDevResource);
  auto split = DRIVER_MAYBE(cuDevSmResourceSplitByCount);
  auto describe = DRIVER_MAYBE(cuDevResourceGenerateDesc);
  auto create = DRIVER_MAYBE(cuGreenCtxCreate);
  auto create_stream = DRIVER_MAYBE(cuGreenCtxStreamCreate);
  auto to_context = DRIVER_MAYBE(cuCtxFromGreenCtx);
  if (!get || !split || !describe || !create || !create_stream || !to_context) {
    kind.missing = "the driver is older than 12.5";
    return kind;
  }
  CUdevResource all, part;
  CUdevResourceDesc desc;
  CUgreenCtx green;
  unsigned groups = 1;
  CUresult result = get(0, &all, CU_DEV_RESOURCE_TYPE_SM);
  if (result == CUDA_SUCCESS)
    result = split(&part, &groups, &all, NULL, 0, 8);
  if (result == CUDA_SUCCESS)
    result = describe(&desc, &part, 1);
  if (result == CUDA_SUCCESS)
    result = create(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM);
  if (result == CUDA_SUCCESS)
    result = create_stream(&kind.stream, green, CU_STREAM_NON_BLOCKING, 0);
  if (result == CUDA_SUCCESS)
    result = to_context(&kind.context, green);
  if (result != CUDA_SUCCESS)
    kind.missing = driver_error(result);
#else
  kind.missing = "the headers are older than 12.5";
#endif
  return kind;
}

// Another context of the same device, and its legacy stream.
inline StreamKind foreign_stream()
{
  StreamKind kind = {"other context", cudaStreamLegacy, NULL, false, ""};
  typedef CUresult (*create_fn)(CUcontext *, unsigned, CUdevice);
  auto create = reinterpret_cast<create_fn>(driver_need("cuCtxCreate_v2", __FILE__, __LINE__));
  CUcontext before = current_context();
  CUresult result = create(&kind.context, 0, 0);
  if (result != CUDA_SUCCESS)
    kind.missing = driver_error(result);
  CHECK_CU(DRIVER(cuCtxSetCurrent)(before));
  return kind;
}

inline std::vector<StreamKind> all_stream_kinds()
{
  std::vector<StreamKind> kinds;
  kinds.push_back({"legacy", cudaStreamLegacy, NULL, true, ""});
  kinds.push_back({"per-thread", cudaStreamPerThread, NULL, true, ""});
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  kinds.push_back({"blocking", stream, NULL, true, ""});
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  kinds.push_back({"non-blocking", stream, NULL, true, ""});
  int least, greatest;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  kinds.push_back({"high priority", stream, NULL, true, ""});
  kinds.push_back(green_stream());
  kinds.push_back(foreign_stream());
  return kinds;
}

// A stream of a green context takes launches from the primary context; where it does not, from its own.
inline cudaError_t launch_in(Gate &gate, const StreamKind &kind)
{
  cudaError_t error = cudaErrorUnknown;
  if (kind.own_context)
    error = gate.launch(kind.stream);
  if (error == cudaSuccess || !kind.context)
    return error;
  CUcontext before = current_context();
  CHECK_CU(DRIVER(cuCtxSetCurrent)(kind.context));
  error = gate.launch(kind.stream);
  CHECK_CU(DRIVER(cuCtxSetCurrent)(before));
  return error;
}

// Makes work pending in a stream of this kind. What it answers, "" if it is under way.
inline std::string hold(Gate &gate, StreamKind &kind)
{
  if (!kind.missing.empty())
    return kind.missing;
  gate.close();
  cudaError_t error = launch_in(gate, kind);
  if (error == cudaSuccess)
    return "";
  gate.open();
  kind.missing = std::string("a launch answers ") + cudaGetErrorName(error);
  return kind.missing;
}

// Lets what is pending end, wherever it is.
inline void settle(Gate &gate, StreamKind &kind)
{
  CUcontext before = current_context();
  gate.open();
  if (!kind.own_context) {
    CHECK_CU(DRIVER(cuCtxSetCurrent)(kind.context));
    CHECK_CU(DRIVER(cuCtxSynchronize)());
    CHECK_CU(DRIVER(cuCtxSetCurrent)(before));
  } else if (kind.context) { // whether the primary context's synchronization covers it is a question, not
                             // known here
    CHECK(cudaStreamSynchronize(kind.stream));
  }
  CHECK(cudaDeviceSynchronize());
}

// Kernels are loaded into a context at their first launch there, which may wait: before anything is pending.
inline void warm_up(Gate &gate, std::vector<StreamKind> &kinds)
{
  for (StreamKind &kind : kinds) {
    if (hold(gate, kind).empty())
      settle(gate, kind);
  }
}

#endif
