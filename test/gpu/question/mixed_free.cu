// G12: memory of one kind freed by the call for another: cudaFreeAsync of cudaMalloc memory, and so on; and
// the errors of pointers that are not a block.
#include "../common/gpu.h"

static cudaStream_t stream;

static void *allocate(const std::string &kind)
{
  void *p = NULL;
  if (kind == "cudaMalloc")
    CHECK(cudaMalloc(&p, 1u << 20));
  else if (kind == "cudaMallocAsync")
    CHECK(cudaMallocAsync(&p, 1u << 20, stream));
  else if (kind == "cudaMallocManaged")
    CHECK(cudaMallocManaged(&p, 1u << 20));
  else
    CHECK(cudaMallocHost(&p, 1u << 20));
  return p;
}

static cudaError_t release(const std::string &kind, void *p)
{
  cudaError_t error = kind == "cudaFreeAsync" ? cudaFreeAsync(p, stream)
                      : kind == "cudaFree"    ? cudaFree(p)
                                              : cudaFreeHost(p);
  (void)cudaGetLastError();
  return error;
}

static std::string proper(const std::string &kind)
{
  return kind == "cudaMallocHost" ? "cudaFreeHost" : "cudaFree";
}

int main()
{
  start("mixed_free", 30);
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const char *kind : {"cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocHost"}) {
    for (const char *call : {"cudaFree", "cudaFreeAsync", "cudaFreeHost"}) {
      void *p = allocate(kind);
      CHECK(cudaStreamSynchronize(stream));
      cudaError_t error = release(call, p);
      report_text(std::string(call) + " of " + kind + " memory", cudaGetErrorName(error));
      if (error != cudaSuccess)
        CHECK(release(proper(kind), p)); // still there, and freed by its own call
      CHECK(cudaStreamSynchronize(stream));
    }
  }
  void *p = allocate("cudaMalloc");
  report_text("cudaFree of an interior pointer", cudaGetErrorName(release("cudaFree", (char *)p + 512)));
  CHECK(cudaFree(p));
  report_text("cudaFree of a freed block", cudaGetErrorName(release("cudaFree", p)));
  report_text("cudaFreeAsync of a freed block", cudaGetErrorName(release("cudaFreeAsync", p)));
  report_text("cudaFree of a host pointer", cudaGetErrorName(release("cudaFree", &p)));
  report_text("cudaFree(NULL)", cudaGetErrorName(release("cudaFree", NULL)));
  report_text("cuMemFree(0)", driver_error(DRIVER(cuMemFree)(0)));
  p = &p;
  report_text("cudaMalloc of 0 bytes", cudaGetErrorName(cudaMalloc(&p, 0)));
  report_bool("and it gives NULL", p == NULL);
  CHECK(cudaDeviceSynchronize());
  return report_finish();
}
