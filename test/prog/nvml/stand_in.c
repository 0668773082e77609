/* A stand-in for NVML: the devices of the simulated GPU in reverse order, 11 of 81 GiB of each in use. */
#include "nvml.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GIB (1ull << 30)

static int number_of(nvmlDevice_t device) /* in CUDA */
{
  return NVML_DEVICES - (int)(uintptr_t)device;
}

int nvmlInit_v2(void)
{
  return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
  *device = (nvmlDevice_t)(uintptr_t)(index + 1);
  return index < NVML_DEVICES ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* As test/sim/device.c has it. */
int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned capacity)
{
  unsigned char bytes[16] = "simulated-gpu";
  int used = snprintf(text, capacity, "GPU-");

  bytes[15] = (unsigned char)(number_of(device) + 1);
  for (int i = 0; i < 16; i++)
    used += snprintf(text + used, capacity - (unsigned)used, "%s%02x",
        i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
  if (!device || !memory)
    return NVML_ERROR_INVALID_ARGUMENT;
  *memory = (nvmlMemory_t){81 * GIB, 70 * GIB, 11 * GIB};
  return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
  if (!device || !memory || memory->version != NVML_MEMORY_V2)
    return NVML_ERROR_INVALID_ARGUMENT;
  *memory = (nvmlMemory_v2_t){NVML_MEMORY_V2, 81 * GIB, GIB, 70 * GIB, 10 * GIB};
  return NVML_SUCCESS;
}
