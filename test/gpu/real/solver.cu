// A conjugate gradient solver that allocates its temporaries anew in each iteration, in plain CUDA. The
// reductions are in a fixed order, so that the result is the same each time.
#include "../common/gpu.h"

static const int SIDE = 512, N = SIDE * SIDE, PARTS = 256;

__global__ void apply(const double *x, double *y) // the five-point Laplacian
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N)
    return;
  int column = i % SIDE, row = i / SIDE;
  double sum = 4 * x[i];
  if (column > 0)
    sum -= x[i - 1];
  if (column < SIDE - 1)
    sum -= x[i + 1];
  if (row > 0)
    sum -= x[i - SIDE];
  if (row < SIDE - 1)
    sum -= x[i + SIDE];
  y[i] = sum;
}

__global__ void dot(const double *a, const double *b, double *parts)
{
  __shared__ double sums[256];
  double sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
    sum += a[i] * b[i];
  sums[threadIdx.x] = sum;
  for (int step = 128; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step)
      sums[threadIdx.x] += sums[threadIdx.x + step];
  }
  if (threadIdx.x == 0)
    parts[blockIdx.x] = sums[0];
}

__global__ void combine(double *out, const double *a, double factor, const double *b)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N)
    out[i] = a[i] + factor * b[i];
}

__global__ void set(double *out, double value)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N)
    out[i] = value;
}

static double *vector()
{
  double *p;
  CHECK(cudaMalloc(&p, N * sizeof *p));
  return p;
}

static double product(const double *a, const double *b)
{
  double *parts, host[PARTS], sum = 0;
  CHECK(cudaMalloc(&parts, sizeof host));
  dot<<<PARTS, 256>>>(a, b, parts);
  CHECK(cudaMemcpy(host, parts, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(parts));
  for (double part : host)
    sum += part;
  return sum;
}

static double *combined(const double *a, double factor, const double *b)
{
  double *out = vector();
  combine<<<(N + 255) / 256, 256>>>(out, a, factor, b);
  CHECK(cudaGetLastError());
  return out;
}

int main(int argc, char **argv)
{
  int iterations = argc > 1 ? std::atoi(argv[1]) : 1500;
  start("solver", 60);
  double *x = vector(), *r = vector(), *p = vector();
  set<<<(N + 255) / 256, 256>>>(x, 0);
  set<<<(N + 255) / 256, 256>>>(r, 1);
  set<<<(N + 255) / 256, 256>>>(p, 1);
  CHECK(cudaDeviceSynchronize());
  double begin = now_ns(), rr = product(r, r);
  for (int i = 0; i < iterations; i++) {
    double *y = vector();
    apply<<<(N + 255) / 256, 256>>>(p, y);
    double alpha = rr / product(p, y);
    double *next_x = combined(x, alpha, p), *next_r = combined(r, -alpha, y);
    double next_rr = product(next_r, next_r);
    double *next_p = combined(next_r, next_rr / rr, p);
    for (double *old : {x, r, p, y})
      CHECK(cudaFree(old));
    x = next_x;
    r = next_r;
    p = next_p;
    rr = next_rr;
  }
  double norm = product(x, x);
  report_number("seconds", (now_ns() - begin) / 1e9, "s");
  report_number("iterations", iterations, "");
  char text[40];
  std::snprintf(text, sizeof text, "%.15g", rr);
  report_text("result: residual", text);
  std::snprintf(text, sizeof text, "%.15g", norm);
  report_text("result: norm of the solution", text);
  for (double *old : {x, r, p})
    CHECK(cudaFree(old));
  return report_finish();
}
