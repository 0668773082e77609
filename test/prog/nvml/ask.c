/*
 * Asks NVML for the memory of all devices, and CUDA for that of device 0 where it uses it:
 *   ask linked|PATH [cuda]   PATH: of the NVML to load
 *   ask absent               says whether a process without NVML finds its function
 *   ask wrong PATH           with arguments that NVML refuses
 */
#include "nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "../calls.h"

static int (*get_handle)(unsigned index, nvmlDevice_t *device);
static int (*get_memory)(nvmlDevice_t device, nvmlMemory_t *memory);
static int (*get_memory_v2)(nvmlDevice_t device, nvmlMemory_v2_t *memory);

static void load(const char *path)
{
  void *nvml = dlopen(path, RTLD_NOW);
  if (!nvml) {
    puts(dlerror());
    exit(1);
  }
  *(void **)&get_handle = dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
  *(void **)&get_memory = dlsym(nvml, "nvmlDeviceGetMemoryInfo");
  *(void **)&get_memory_v2 = dlsym(nvml, "nvmlDeviceGetMemoryInfo_v2");
  if (dlsym(nvml, "nvmlDeviceGetMemoryInfo_v3"))
    puts("there is no such function");
}

/* The program is linked to NVML. */
static void use_linked(void)
{
#ifdef LINKED
  get_handle = nvmlDeviceGetHandleByIndex_v2;
  get_memory = nvmlDeviceGetMemoryInfo;
  get_memory_v2 = nvmlDeviceGetMemoryInfo_v2;
#endif
}

static void use_cuda(void)
{
  CUcontext context;
  CUdeviceptr memory;
  size_t free_bytes, total;

  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  CALL(cuMemAlloc(&memory, 1 << 30));
  CALL(cuMemGetInfo(&free_bytes, &total));
  printf("cuda 0: total=%zu free=%zu\n", total, free_bytes);
}

static void ask(void)
{
  for (unsigned i = 0; i < NVML_DEVICES; i++) {
    nvmlDevice_t device;
    nvmlMemory_t memory;
    nvmlMemory_v2_t more = {.version = NVML_MEMORY_V2};

    CALL(get_handle(i, &device));
    CALL(get_memory(device, &memory));
    printf("nvml %u: total=%llu free=%llu used=%llu\n", i, memory.total, memory.free, memory.used);
    CALL(get_memory_v2(device, &more));
    printf("nvml_v2 %u: total=%llu reserved=%llu free=%llu used=%llu\n", i, more.total, more.reserved,
        more.free, more.used);
  }
}

int main(int count, char **arguments)
{
  const char *which = count > 1 ? arguments[1] : "";

  if (strcmp(which, "absent") == 0) {
    printf("absent: %s, %s\n", dlsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo") ? "found" : "not found",
        dlsym(dlopen(NULL, RTLD_NOW), "nvmlDeviceGetMemoryInfo_v2") ? "found" : "not found");
    return 0;
  }
  bool is_wrong = strcmp(which, "wrong") == 0;
  if (strcmp(which, "linked") == 0)
    use_linked();
  else
    load(is_wrong ? arguments[2] : which);
  if (is_wrong || count > 2)
    use_cuda();
  if (is_wrong)
    printf("wrong: %d %d %d\n", get_memory((nvmlDevice_t)1, NULL), get_memory(NULL, &(nvmlMemory_t){0}),
        get_memory_v2((nvmlDevice_t)1, &(nvmlMemory_v2_t){.version = 1}));
  else
    ask();
  return 0;
}
