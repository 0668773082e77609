/*
 * Names of error codes.
 */
#include "sim.h"

#include <string.h>

static const struct {
  const char *name;
  int code;
} errors[] = {
#define SIM_ERROR(name, code) {#name, code},
#include "errors.def"
#undef SIM_ERROR
};

const char *sim_error_name(int code)
{
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    if (errors[i].code == code)
      return errors[i].name;
  }
  return NULL;
}

const char *sim_error_text(int code)
{
  switch (code) {
  case CUDA_SUCCESS: return "no error";
  case CUDA_ERROR_INVALID_VALUE: return "invalid argument";
  case CUDA_ERROR_OUT_OF_MEMORY: return "out of memory";
  case CUDA_ERROR_NOT_INITIALIZED: return "initialization error";
  case CUDA_ERROR_DEINITIALIZED: return "driver shutting down";
  case CUDA_ERROR_NO_DEVICE: return "no CUDA-capable device is detected";
  case CUDA_ERROR_INVALID_DEVICE: return "invalid device ordinal";
  case CUDA_ERROR_INVALID_CONTEXT: return "invalid device context";
  case CUDA_ERROR_INVALID_HANDLE: return "invalid resource handle";
  case CUDA_ERROR_NOT_READY: return "device not ready";
  case CUDA_ERROR_ILLEGAL_ADDRESS: return "an illegal memory access was encountered";
  default: return sim_error_name(code);
  }
}

int sim_error_code(const char *name)
{
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    if (strcmp(errors[i].name, name) == 0)
      return errors[i].code;
  }
  return -1;
}

/* These two work before cuInit. */
CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text)
{
  sim_call_t call;
  if (sim_call_begin(&call, SIM_API_cuGetErrorString)) {
    const char *found = sim_error_text((int)error);
    if (text)
      *text = found;
    call.result = found && text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  return sim_call_end(&call, "%d", (int)error);
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text)
{
  sim_call_t call;
  if (sim_call_begin(&call, SIM_API_cuGetErrorName)) {
    const char *found = sim_error_name((int)error);
    if (text)
      *text = found;
    call.result = found && text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  return sim_call_end(&call, "%d", (int)error);
}
