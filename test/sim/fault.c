/*
 * Planned failures: SIMCUDA_FAIL=NAME:CODE@N[,...]
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int api; /* -1: a call of any name */
  CUresult code;
  uint64_t at, seen;
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

bool sim_fault_hit(enum sim_api api, CUresult *ret_result)
{
  bool hit = false;
  for (unsigned i = 0; i < fault_count; i++) {
    if (faults[i].api != -1 && faults[i].api != (int)api)
      continue;
    if (++faults[i].seen == faults[i].at) {
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
