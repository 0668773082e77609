// cuBLAS and cuFFT as programs use them that keep nothing: a handle, a plan and the matrices anew each time.
#include "../common/gpu.h"

#include <cublas_v2.h>
#include <cufft.h>

static void check_library(int status, const char *call, const char *file, int line)
{
  if (status != 0)
    fail(call, ("status " + std::to_string(status)).c_str(), file, line);
}
#define CHECK_LIBRARY(call) check_library((int)(call), #call, __FILE__, __LINE__)

__global__ void set(float *p, size_t n, unsigned seed)
{
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    p[i] = (float)((unsigned)(i * 2654435761u + seed) >> 20) / 4096.0f - 0.5f;
}

static float *floats(size_t n, unsigned seed)
{
  float *p;
  CHECK(cudaMalloc(&p, n * sizeof *p));
  set<<<128, 256>>>(p, n, seed);
  CHECK(cudaGetLastError());
  return p;
}

static double total(const float *p, size_t n)
{
  std::vector<float> host(n);
  double sum = 0;
  CHECK(cudaMemcpy(host.data(), p, n * sizeof *p, cudaMemcpyDeviceToHost));
  for (float value : host)
    sum += value;
  return sum;
}

static double multiply(int n, unsigned seed)
{
  const float one = 1, zero = 0;
  float *a = floats((size_t)n * n, seed), *b = floats((size_t)n * n, seed + 1), *c = floats((size_t)n * n, 0);
  cublasHandle_t handle;
  CHECK_LIBRARY(cublasCreate(&handle));
  CHECK_LIBRARY(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
  double sum = total(c, (size_t)n * n);
  CHECK_LIBRARY(cublasDestroy(handle));
  for (float *p : {a, b, c})
    CHECK(cudaFree(p));
  return sum;
}

static double transform(int n, unsigned seed)
{
  float *signal = floats(2 * (size_t)n, seed);
  cufftHandle plan;
  CHECK_LIBRARY(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
  CHECK_LIBRARY(cufftExecC2C(plan, (cufftComplex *)signal, (cufftComplex *)signal, CUFFT_FORWARD));
  CHECK_LIBRARY(cufftExecC2C(plan, (cufftComplex *)signal, (cufftComplex *)signal, CUFFT_INVERSE));
  double sum = total(signal, 2 * (size_t)n) / n;
  CHECK_LIBRARY(cufftDestroy(plan));
  CHECK(cudaFree(signal));
  return sum;
}

int main(int argc, char **argv)
{
  int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  start("blas_fft", 90);
  double products = 0, transforms = 0, begin = 0;
  for (int round = 0; round < rounds; round++) {
    if (round == 2)
      begin = now_ns(); // without what happens once
    products += multiply(256 + 64 * (round % 5), (unsigned)round);
    transforms += transform((1 << 14) * (1 + round % 7), (unsigned)round);
  }
  report_number("seconds", (now_ns() - begin) / 1e9, "s");
  report_number("rounds", rounds, "");
  report_number("result: sum of the products", products, "");
  report_number("result: sum of the transforms", transforms, "");
  return report_finish();
}
