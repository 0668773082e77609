// What the programs of the hardware check share. Each is one translation unit that includes this first. They
// are ordinary CUDA programs: documented API only, and nothing in them knows of gpupool.
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "report.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

[[noreturn]] inline void fail(const char *what, const char *why, const char *file, int line)
{
  const char *slash = std::strrchr(file, '/');
  std::fprintf(stderr, "%s: %s:%d: %s: %s\n", report_program, slash ? slash + 1 : file, line, what, why);
  std::fflush(stderr);
  _exit(1); // other threads may be inside CUDA, and kernels may be running
}

inline void check_runtime(cudaError_t error, const char *call, const char *file, int line)
{
  if (error != cudaSuccess)
    fail(call, cudaGetErrorName(error), file, line);
}
#define CHECK(call) check_runtime((call), #call, __FILE__, __LINE__)

//
// The driver, as a program gets it that loads it itself. DRIVER(cuMemAlloc) is the function that the headers
// mean by cuMemAlloc, cuMemAlloc_v2 for instance; it must exist. DRIVER_MAYBE gives NULL where this driver
// lacks it.
//
inline void *driver_symbol(const char *name)
{
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? dlsym(library, name) : NULL;
}

inline void *driver_need(const char *name, const char *file, int line)
{
  void *symbol = driver_symbol(name);
  if (!symbol)
    fail(name, "the driver does not have it", file, line);
  return symbol;
}
#define DRIVER_NAME_(name) #name
#define DRIVER_NAME(name)  DRIVER_NAME_(name)
#define DRIVER(name)       (reinterpret_cast<decltype(&name)>(driver_need(DRIVER_NAME(name), __FILE__, __LINE__)))
#define DRIVER_MAYBE(name) (reinterpret_cast<decltype(&name)>(driver_symbol(DRIVER_NAME(name))))

inline std::string driver_error(CUresult result)
{
  const char *name = NULL;
  if (DRIVER(cuGetErrorName)(result, &name) != CUDA_SUCCESS || !name)
    return "CUresult " + std::to_string((int)result);
  return name;
}

inline void check_driver(CUresult result, const char *call, const char *file, int line)
{
  if (result != CUDA_SUCCESS)
    fail(call, driver_error(result).c_str(), file, line);
}
#define CHECK_CU(call) check_driver((call), #call, __FILE__, __LINE__)

inline double now_ns()
{
  using namespace std::chrono;
  return (double)duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// The name for the report, a limit after which the process ends whatever it hangs in, and the first device.
// That there is one is known before: none is an error, perhaps of what is preloaded. Kernels are loaded at
// once: loading one later may wait for running ones, which would then wait for us.
inline void start(const char *program, unsigned limit_seconds)
{
  report_program = program;
  alarm(limit_seconds);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(0));
}

inline CUcontext current_context()
{
  CUcontext context = NULL;
  CHECK_CU(DRIVER(cuCtxGetCurrent)(&context));
  return context;
}

inline int driver_version()
{
  int version = 0;
  CHECK_CU(DRIVER(cuDriverGetVersion)(&version));
  return version;
}

inline bool is_simulated()
{
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  return std::strstr(properties.name, "imulated") != NULL;
}

#endif
