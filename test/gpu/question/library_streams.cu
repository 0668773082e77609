// G11: streams that a library creates by itself: are all of them created by calls that gpupool could see? Run
// under the call trace; CUPTI, where it is installed, says how many were created in truth. One program a
// library, chosen when it is compiled: USE_CUBLAS, USE_CUBLASLT, USE_CUDNN, USE_CUFFT, USE_CUSPARSE,
// USE_NCCL.
#include "../common/calls.h"

#include <atomic>

#if __has_include(<cupti.h>)
#include <cupti.h>
#define HAVE_CUPTI 1
#else
#define HAVE_CUPTI 0
#endif

[[maybe_unused]] static void check_library(int status, const char *call, const char *file, int line)
{
  if (status != 0)
    fail(call, ("status " + std::to_string(status)).c_str(), file, line);
}
#define CHECK_LIBRARY(call) check_library((int)(call), #call, __FILE__, __LINE__)

[[maybe_unused]] static float *device_floats(size_t count)
{
  float *p;
  CHECK(cudaMalloc(&p, count * sizeof *p));
  CHECK(cudaMemset(p, 0, count * sizeof *p));
  return p;
}

#if defined(USE_CUBLAS)
#include <cublas_v2.h>
static const char *const library = "cuBLAS";
static void use()
{
  const int n = 512;
  const float one = 1, zero = 0;
  float *a = device_floats(n * n), *b = device_floats(n * n), *c = device_floats(n * n);
  cublasHandle_t handle;
  CHECK_LIBRARY(cublasCreate(&handle));
  CHECK_LIBRARY(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
  CHECK_LIBRARY(cublasSaxpy(handle, n * n, &one, a, 1, c, 1));
  CHECK(cudaDeviceSynchronize());
  CHECK_LIBRARY(cublasDestroy(handle));
}
#elif defined(USE_CUBLASLT)
#include <cublasLt.h>
static const char *const library = "cuBLASLt";
static void use()
{
  const int n = 512;
  const float one = 1, zero = 0;
  float *a = device_floats(n * n), *b = device_floats(n * n), *c = device_floats(n * n);
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t matmul;
  cublasLtMatrixLayout_t layout;
  CHECK_LIBRARY(cublasLtCreate(&handle));
  CHECK_LIBRARY(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  CHECK_LIBRARY(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, n, n, n));
  CHECK_LIBRARY(cublasLtMatmul(
      handle, matmul, &one, a, layout, b, layout, &zero, c, layout, c, layout, NULL, NULL, 0, 0));
  CHECK(cudaDeviceSynchronize());
  CHECK_LIBRARY(cublasLtDestroy(handle));
}
#elif defined(USE_CUDNN)
#include <cudnn.h>
static const char *const library = "cuDNN";
static void use()
{
  const float one = 1, zero = 0;
  float *x = device_floats(8 * 16 * 32 * 32), *w = device_floats(16 * 16 * 3 * 3),
        *y = device_floats(8 * 16 * 32 * 32);
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t tensor;
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t convolution;
  size_t bytes = 0;
  CHECK_LIBRARY(cudnnCreate(&handle));
  CHECK_LIBRARY(cudnnCreateTensorDescriptor(&tensor));
  CHECK_LIBRARY(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 8, 16, 32, 32));
  CHECK_LIBRARY(cudnnCreateFilterDescriptor(&filter));
  CHECK_LIBRARY(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 16, 16, 3, 3));
  CHECK_LIBRARY(cudnnCreateConvolutionDescriptor(&convolution));
  CHECK_LIBRARY(cudnnSetConvolution2dDescriptor(
      convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  const cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  CHECK_LIBRARY(cudnnGetConvolutionForwardWorkspaceSize(
      handle, tensor, filter, convolution, tensor, algorithm, &bytes));
  float *workspace = device_floats(bytes / sizeof(float) + 1);
  CHECK_LIBRARY(cudnnConvolutionForward(
      handle, &one, tensor, x, filter, w, convolution, algorithm, workspace, bytes, &zero, tensor, y));
  CHECK(cudaDeviceSynchronize());
  CHECK_LIBRARY(cudnnDestroy(handle));
}
#elif defined(USE_CUFFT)
#include <cufft.h>
static const char *const library = "cuFFT";
static void use()
{
  const int n = 1 << 16;
  cufftHandle plan;
  float *signal = device_floats(2 * n);
  CHECK_LIBRARY(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
  CHECK_LIBRARY(cufftExecC2C(plan, (cufftComplex *)signal, (cufftComplex *)signal, CUFFT_FORWARD));
  CHECK(cudaDeviceSynchronize());
  CHECK_LIBRARY(cufftDestroy(plan));
}
#elif defined(USE_CUSPARSE)
#include <cusparse.h>
static const char *const library = "cuSPARSE";
static void use()
{
  const int n = 1000; // the unit matrix, times a vector
  const float one = 1, zero = 0;
  float *values = device_floats(n), *x = device_floats(n), *y = device_floats(n);
  int *offsets, *columns;
  std::vector<int> host(n + 1);
  for (int i = 0; i <= n; i++)
    host[i] = i;
  CHECK(cudaMalloc(&offsets, (n + 1) * sizeof(int)));
  CHECK(cudaMalloc(&columns, n * sizeof(int)));
  CHECK(cudaMemcpy(offsets, host.data(), (n + 1) * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(columns, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  cusparseHandle_t handle;
  cusparseSpMatDescr_t matrix;
  cusparseDnVecDescr_t vx, vy;
  size_t bytes = 0;
  CHECK_LIBRARY(cusparseCreate(&handle));
  CHECK_LIBRARY(cusparseCreateCsr(&matrix, n, n, n, offsets, columns, values, CUSPARSE_INDEX_32I,
      CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  CHECK_LIBRARY(cusparseCreateDnVec(&vx, n, x, CUDA_R_32F));
  CHECK_LIBRARY(cusparseCreateDnVec(&vy, n, y, CUDA_R_32F));
  CHECK_LIBRARY(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, vx, &zero, vy,
      CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
  float *workspace = device_floats(bytes / sizeof(float) + 1);
  CHECK_LIBRARY(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, vx, &zero, vy,
      CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, workspace));
  CHECK(cudaDeviceSynchronize());
  CHECK_LIBRARY(cusparseDestroy(handle));
}
#elif defined(USE_NCCL)
#include <nccl.h>
static const char *const library = "NCCL";
static void use()
{
  ncclComm_t communicator;
  int device = 0;
  float *p = device_floats(1024);
  CHECK_LIBRARY(ncclCommInitAll(&communicator, 1, &device));
  CHECK_LIBRARY(ncclAllReduce(p, p, 1024, ncclFloat, ncclSum, communicator, 0));
  CHECK(cudaDeviceSynchronize());
  CHECK_LIBRARY(ncclCommDestroy(communicator));
}
#else
static const char *const library = "the runtime";
static void use()
{
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamDestroy(stream));
}
#endif

#if HAVE_CUPTI
static std::atomic<int> created;

static void CUPTIAPI on_resource(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *)
{
  if (domain == CUPTI_CB_DOMAIN_RESOURCE && id == CUPTI_CBID_RESOURCE_STREAM_CREATED)
    created++;
}

// Empty, or why CUPTI does not tell.
static std::string watch()
{
  void *cupti = NULL;
  for (const char *name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
    if (!cupti)
      cupti = dlopen(name, RTLD_NOW);
  }
  if (!cupti)
    return "CUPTI is not installed";
  auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(cupti, "cuptiSubscribe"));
  auto enable = reinterpret_cast<decltype(&cuptiEnableCallback)>(dlsym(cupti, "cuptiEnableCallback"));
  CUpti_SubscriberHandle subscriber;
  if (!subscribe || !enable || subscribe(&subscriber, on_resource, NULL) != CUPTI_SUCCESS ||
      enable(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED) != CUPTI_SUCCESS)
    return "CUPTI refuses";
  return "";
}
#else
static std::atomic<int> created;

static std::string watch()
{
  return "built without CUPTI's headers";
}
#endif

int main()
{
  start("library_streams", 60);
  std::string blind = is_simulated() ? "simulated" : watch();
  (void)take_calls();
  created = 0;
  use();
  int in_truth = created;
  std::string calls = take_calls();
  std::string of = std::string(library) + ": ";
  int seen = count_calls(calls, "cuStreamCreate") + count_calls(calls, "cuGreenCtxStreamCreate");
  report_number(of + "streams created by calls that were seen", seen, "");
  report_text(of + "driver calls", calls.empty() ? "none seen" : calls);
  if (blind.empty()) {
    report_number(of + "streams created in truth", in_truth, "");
    report_assumed(
        of + "every stream is seen", seen >= in_truth, true, "facts about single streams need to see each");
  } else {
    report_text(of + "streams created in truth", "cannot be told: " + blind);
  }
  return report_finish();
}
