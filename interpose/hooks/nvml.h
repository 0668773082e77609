/*
 * Hooks of nvmlDeviceGetMemoryInfo. With GPUPOOL_NVML=limit, a process that uses a device under a limit gets
 * the values of cudaMemGetInfo. With other settings, and in programs that do not use the device through CUDA,
 * such as nvidia-smi, the process gets NVML's own values. The functions are hooked through dlsym (lookup.c),
 * and through exported names (exports.c) for programs that are linked to NVML.
 */
#ifndef GP_INTERPOSE_HOOKS_NVML_H
#define GP_INTERPOSE_HOOKS_NVML_H

#include <stdbool.h>

/* Types of nvml.h, declared here because a build may lack that header. */
typedef int gp_nvml_result_t; /* nvmlReturn_t */

typedef struct gp_nvml_memory { /* nvmlMemory_t */
  unsigned long long total, free, used;
} gp_nvml_memory_t;

typedef struct gp_nvml_memory_v2 { /* nvmlMemory_v2_t */
  unsigned version;
  unsigned long long total, reserved, free, used;
} gp_nvml_memory_v2_t;

#define NVML(symbol, type) gp_nvml_result_t hook_##symbol(void *device, type *memory);
#include "interpose/hooks/nvml.def"

/*
 * Returns the hook for a function that a look-up of `name` found. Returns NULL if the function is not hooked,
 * or is in a second copy of NVML. Keeps NVML loaded, because the hook calls it.
 */
void *gp_nvml_hook(const char *name, void *function);

/* Finds NVML's functions for the hooks. Returns false if the process has not loaded NVML. */
bool gp_nvml_bind(void);

/* Returns true for the names of nvml.def. */
bool gp_nvml_is_name(const char *name);

#endif
