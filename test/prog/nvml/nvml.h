/* As much of NVML as the stand-in has and the program asks (nvml.h of CUDA 11 and later). */
#ifndef PROG_NVML_H
#define PROG_NVML_H

#define NVML_SUCCESS                0
#define NVML_ERROR_INVALID_ARGUMENT 2
#define NVML_DEVICES                2 /* the first of NVML's is the last of CUDA's */

typedef struct nvml_device *nvmlDevice_t;

typedef struct nvmlMemory_st {
  unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
  unsigned version;
  unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

#define NVML_MEMORY_V2 (sizeof(nvmlMemory_v2_t) | 2u << 24)

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned capacity);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);

#endif
