// Stream capture and graphs: memory from before a capture, stream-ordered memory inside it, and another
// thread that allocates and frees while a capture of this thread is active. The graph is launched twice and
// its work verified.
#include "../common/pattern.h"

#include <thread>

static const size_t BYTES = 1u << 20;
static unsigned long long *mismatches;

static void other_thread()
{
  CHECK(cudaSetDevice(0));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (uint64_t i = 0; i < 50; i++) {
    void *p;
    CHECK(cudaMalloc(&p, BYTES));
    fill(p, BYTES, i, stream);
    expect(p, BYTES, i, mismatches, stream);
    CHECK(cudaFree(p));
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
}

static void run(cudaStreamCaptureMode mode, bool with_thread)
{
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  void *early, *inside, *later;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&early, BYTES));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(stream, mode));
  CHECK(cudaMallocAsync(&inside, BYTES, stream));
  fill(inside, BYTES, 5, stream);
  CHECK(cudaMemcpyAsync(early, inside, BYTES, cudaMemcpyDeviceToDevice, stream));
  if (with_thread)
    std::thread(other_thread).join();
  CHECK(cudaFreeAsync(inside, stream));
  expect(early, BYTES, 5, mismatches, stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < 2; i++) {
    CHECK(cudaMemsetAsync(early, 0, BYTES, stream));
    CHECK(cudaGraphLaunch(exec, stream));
  }
  CHECK(cudaMalloc(&later, BYTES)); // while the graph is running
  fill(later, BYTES, 6, stream);
  expect(later, BYTES, 6, mismatches, stream);
  CHECK(cudaFree(later));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(early));
  CHECK(cudaStreamDestroy(stream));
}

int main()
{
  start("graphs", 30);
  mismatches = new_counter();
  run(cudaStreamCaptureModeGlobal, false);
  run(cudaStreamCaptureModeThreadLocal, false);
  run(cudaStreamCaptureModeThreadLocal, true);
  run(cudaStreamCaptureModeRelaxed, true);
  report_bool("captures and launches succeeded", true);
  report_number("mismatches", (double)take_counter(mismatches), "words");
  return report_finish();
}
