// Work that is certainly pending: a kernel that runs until the host opens the gate. It gives up after
// LIMIT_NS, so that a call that waits for it cannot hang for ever; how long a call took tells which it was.
// The simulated GPU knows the kernel by its name.
#ifndef GPU_GATE_H
#define GPU_GATE_H

#include "gpu.h"

#include <atomic>
#include <thread>

constexpr unsigned long long GATE_LIMIT_NS = 5000000000ull;

__device__ inline unsigned long long device_ns()
{
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void simcuda_wait(const volatile uint32_t *open, unsigned long long limit_ns)
{
  unsigned long long begin = device_ns();
  while (!*open && device_ns() - begin < limit_ns)
    __nanosleep(2000);
}

class Gate
{
public:
  Gate()
  {
    CHECK(cudaHostAlloc((void **)&open_, sizeof *open_, cudaHostAllocMapped | cudaHostAllocPortable));
    *open_ = 1;
    simcuda_wait<<<1, 1>>>(open_, GATE_LIMIT_NS); // loaded before anything waits
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  ~Gate()
  {
    open();
  }

  void close()
  {
    *open_ = 0;
    closed_ns_ = now_ns();
  }
  void open()
  {
    *open_ = 1;
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  cudaError_t launch(cudaStream_t stream)
  {
    simcuda_wait<<<1, 1, 0, stream>>>(open_, GATE_LIMIT_NS);
    return cudaGetLastError();
  }

  // Whether a kernel launched after the last close() may have given up by now.
  bool has_expired() const
  {
    return now_ns() - closed_ns_ > GATE_LIMIT_NS / 2;
  }

private:
  volatile uint32_t *open_;
  double closed_ns_ = 0;
};

// Whether a call, made in a thread of its own while the gate is closed, returns before the gate is opened.
struct Outcome {
  bool waited;
  double seconds; // that the call took
};

constexpr double PATIENCE_NS = 40e6; // a call that has not returned by then waits

template <class Call> Outcome call_against(Gate &gate, Call call, double patience_ns = PATIENCE_NS)
{
  std::atomic<bool> begun{false}, done{false};
  double took = 0;
  std::thread thread([&] {
    (void)cudaSetDevice(0);
    begun = true;
    double begin = now_ns();
    call();
    took = now_ns() - begin;
    done = true;
  });
  double begin = now_ns();
  while (!done && (now_ns() - begin < patience_ns || !begun)) {
    if (!begun)
      begin = now_ns();
    std::this_thread::yield();
  }
  bool waited = !done;
  gate.open();
  thread.join();
  return {waited, took / 1e9};
}

#endif
