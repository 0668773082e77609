/*
 * Planned failures: SIMCUDA_FAIL=NAME:CODE@N[,...]; random ones: NAME:*@1/N
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int api; /* -1: a call of any name */
  CUresult code;
  uint64_t at, seen;
  bool is_random; /* one call in `at`, with any code */
} fault_t;

static fault_t faults[64];
static unsigned fault_count;

static bool parse_one(char *text)
{
  char *colon = strchr(text, ':'), *at = strrchr(text, '@');
  if (!colon || !at || at < colon || fault_count == sizeof faults / sizeof faults[0])
    return false;
  *colon = *at = '\0';
  fault_t fault = {.api = -1};
  if (strcmp(text, "*") != 0) {
    for (int i = 0; i < SIM_API_COUNT && fault.api < 0; i++) {
      if (strcmp(sim_api_table[i].name, text) == 0)
        fault.api = i;
    }
    if (fault.api < 0)
      return false;
  }
  char *end;
  fault.is_random = strcmp(colon + 1, "*") == 0 && strncmp(at + 1, "1/", 2) == 0;
  if (fault.is_random) {
    fault.at = strtoull(at + 3, &end, 10);
    if (end == at + 3 || *end || fault.at == 0)
      return false;
    faults[fault_count++] = fault;
    return true;
  }
  long code = strtol(colon + 1, &end, 10);
  if (end == colon + 1 || *end)
    code = sim_error_code(colon + 1);
  fault.at = strtoull(at + 1, &end, 10);
  if (code <= 0 || end == at + 1 || *end || fault.at == 0)
    return false;
  fault.code = (CUresult)code;
  faults[fault_count++] = fault;
  return true;
}

void sim_fault_parse(const char *text)
{
  char *copy = strdup(text), *save = NULL;
  if (!copy)
    abort();
  for (char *part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
    char shown[128];
    snprintf(shown, sizeof shown, "%s", part);
    if (!parse_one(part))
      fprintf(stderr,
          "simcuda: SIMCUDA_FAIL=%s is not understood: NAME:CODE@N with an exported name or *; ignored\n",
          shown);
  }
  free(copy);
}

/*
 * Half of them are codes by which a library may be misled. Of the errors that stay one in eight is drawn:
 * else most programs would soon have no context in which anything works.
 */
static CUresult random_code(uint64_t number)
{
  static const CUresult likely[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
      CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_HANDLE,
      CUDA_ERROR_NOT_READY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_NOT_PERMITTED};
  static const CUresult all[] = {
#define SIM_ERROR(name, code) (CUresult)(code),
#include "errors.def"
#undef SIM_ERROR
  };
  uint64_t which = number / 16;
  CUresult code = all[1 + which % (sizeof all / sizeof *all - 1)]; /* the first is none */
  if (number % 2 || (sim_error_is_sticky(code) && number / 2 % 8))
    return likely[which % (sizeof likely / sizeof *likely)];
  return code;
}

/* splitmix64, apart from the scheduler's sequence */
static uint64_t draw(void)
{
  static uint64_t drawn;
  uint64_t z = (sim_knobs.seed << 32) + ++drawn * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

bool sim_fault_hit(enum sim_api api, CUresult *ret_result)
{
  bool hit = false;
  for (unsigned i = 0; i < fault_count; i++) {
    if (faults[i].api != -1 && faults[i].api != (int)api)
      continue;
    if (faults[i].is_random) {
      uint64_t number = draw();
      if (number % faults[i].at == 0) {
        *ret_result = random_code(number / faults[i].at);
        hit = true;
      }
    } else if (++faults[i].seen == faults[i].at) {
      *ret_result = faults[i].code;
      hit = true;
    }
  }
  return hit;
}

/* Errors after which "the process must be terminated and relaunched" or the context is unusable (cuda.h,
 * CUresult) */
bool sim_error_is_sticky(CUresult result)
{
  switch ((int)result) {
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED: return true;
  default: return false;
  }
}
