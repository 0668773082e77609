// G19: what calls cost that the library sees and does not serve, and those that it does, without stacks and with: run
// without the library and under it, in turn.
#include "../common/measure.h"

#include <atomic>
#include <thread>

__global__ void nothing_to_do()
{
}

// Batches that are as long as the queue of the device allows; what is left of them ends untimed.
static void measure_submitted(const std::string &name, std::function<void()> call)
{
  std::vector<double> samples;
  for (int i = 0; i < 41; i++) {
    double begin = now_ns();
    for (int k = 0; k < 200; k++)
      call();
    samples.push_back((now_ns() - begin) / 200);
    drain();
  }
  report_samples(name, samples, "ns");
}

static void submit()
{
  cudaStream_t stream;
  cudaEvent_t event;
  char *device, *host;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaMalloc(&device, 1 << 20));
  CHECK(cudaMallocHost(&host, 1 << 20));
  measure_submitted("kernel launch", [&] { nothing_to_do<<<1, 1, 0, stream>>>(); });
  CHECK(cudaGetLastError());
  measure_submitted("cudaMemsetAsync of 4 KiB", [&] { CHECK(cudaMemsetAsync(device, 0, 4096, stream)); });
  measure_submitted("cudaMemcpyAsync of 4 KiB to the device",
      [&] { CHECK(cudaMemcpyAsync(device, host, 4096, cudaMemcpyHostToDevice, stream)); });
  measure_submitted("cudaMemcpyAsync of 4 KiB to the host",
      [&] { CHECK(cudaMemcpyAsync(host, device, 4096, cudaMemcpyDeviceToHost, stream)); });
  measure_submitted("cudaEventRecord", [&] { CHECK(cudaEventRecord(event, stream)); });
  measure_submitted("cudaStreamWaitEvent", [&] { CHECK(cudaStreamWaitEvent(stream, event, 0)); });
  measure_short("cudaEventQuery of an event that has passed", [&] { CHECK(cudaEventQuery(event)); });
  measure_short("cudaStreamQuery of an idle stream", [&] { CHECK(cudaStreamQuery(stream)); });
  measure_short("cudaStreamSynchronize of an idle stream", [&] { CHECK(cudaStreamSynchronize(stream)); });
  measure_short("cudaEventSynchronize of an event that has passed", [&] { CHECK(cudaEventSynchronize(event)); });
  measure_short("cudaDeviceSynchronize of an idle device", [&] { CHECK(cudaDeviceSynchronize()); });
  measure_short("cudaMemcpy of 64 B to the host",
      [&] { CHECK(cudaMemcpy(host, device, 64, cudaMemcpyDeviceToHost)); });
  CHECK(cudaFree(device));
  CHECK(cudaFreeHost(host));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
}

// Pairs, of which the device was done with the last one, or need not be asked.
static void allocate()
{
  auto take = DRIVER(cuMemAlloc);
  auto give = DRIVER(cuMemFree);
  CUcontext context;
  auto current = DRIVER(cuCtxGetCurrent);
  measure_short("cuCtxGetCurrent, a control", [&] { CHECK_CU(current(&context)); });
  measure_short("cudaFree of NULL", [&] { CHECK(cudaFree(NULL)); });
  for (size_t bytes : {size_t(1024), size_t(1) << 20, size_t(64) << 20}) {
    std::vector<double> samples;
    for (int i = 0; i < 15; i++) {
      double begin = now_ns();
      for (int k = 0; k < 50; k++) {
        CUdeviceptr block;
        CHECK_CU(take(&block, bytes));
        CHECK_CU(give(block));
      }
      samples.push_back((now_ns() - begin) / 50);
      drain();
    }
    report_samples("cuMemAlloc and cuMemFree of " + size_name(bytes), samples, "ns");
  }
  cudaStream_t stream;
  cudaMemPool_t pool;
  uint64_t keep = UINT64_MAX;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  for (size_t bytes : {size_t(1024), size_t(64) << 20})
    measure_submitted("cudaMallocAsync and cudaFreeAsync of " + size_name(bytes) + ", memory kept", [&] {
      void *block;
      CHECK(cudaMallocAsync(&block, bytes, stream));
      CHECK(cudaFreeAsync(block, stream));
    });
  CHECK(cudaStreamDestroy(stream));
}

static void allocate_once()
{
  void *block;
  CHECK(cudaMalloc(&block, 4096));
  CHECK(cudaFree(block));
}

// Threads that do nothing else, from the moment in which all have begun, for a fixed time: what a thread does once is left out.
static void allocate_in_threads()
{
  const double enough = 30e6; // ns
  for (int threads : {1, 2, 4, 8}) {
    std::vector<double> samples;
    for (int round = 0; round < 5; round++) {
      std::atomic<int> ready(0), pairs(0);
      std::atomic<double> end(0);
      std::vector<std::thread> running;
      for (int i = 0; i < threads; i++)
        running.emplace_back([&] {
          CHECK(cudaSetDevice(0));
          for (int k = 0; k < 100; k++)
            allocate_once();
          ready++;
          while (end == 0)
            ;
          int own = 0;
          for (; now_ns() < end; own += 10)
            for (int k = 0; k < 10; k++)
              allocate_once();
          pairs += own;
        });
      while (ready < threads)
        ;
      end = now_ns() + enough;
      for (std::thread &thread : running)
        thread.join();
      samples.push_back(enough / pairs);
    }
    report_samples("a pair of 4 KiB while " + std::to_string(threads) + " threads allocate, over their number", samples, "ns");
  }
}

int main()
{
  start("calls", 60);
  CHECK(cudaFree(0));
  measure_clock();
  submit();
  allocate();
  allocate_in_threads();
  return report_finish();
}
