#include "tools/run/conflicts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "tools/run/elf_facts.h"
#include "tools/run/program_probe.h"
#include "tools/shorten.h"

#define ONE_OF_BOTH "use one of the two: take the other out of LD_PRELOAD, or run without gpupool"
#define BEHIND                                                                                               \
  "name libgpupool.so before it in LD_PRELOAD, as gpupool run does: then it gets what the pool takes from the driver. Should the program misbehave, use one of the two"
#define NOT_POOLED                                                                                           \
  "measure or check without gpupool; beside such a tool it limits and records, but pools nothing"

/* By the beginnings of file names, as their projects build them. */
static const struct {
  const char *prefix;
  const char *what;
  const char *remedy;
} known[] = {
    {"libvgpu.so", "HAMi-core, which limits GPU memory itself and hooks the same functions", BEHIND},
    {"libvgpu-control.so", "vgpu-controller, which limits GPU memory itself and hooks the same functions",
        ONE_OF_BOTH},
    {"libcuda-control.so", "vcuda-controller, which limits GPU memory itself and hooks the same functions",
        ONE_OF_BOTH},
    {"libnvshare.so", "nvshare, which replaces device memory by managed memory", ONE_OF_BOTH},
    {"libsanitizer-", "compute-sanitizer, which sees no free that the pool keeps", NOT_POOLED},
    {"libInterceptorInjection", "the launcher of an NVIDIA tool, which watches CUDA calls", NOT_POOLED},
    {"libTreeLauncherTargetInjection", "Nsight Systems, which watches CUDA calls", NOT_POOLED},
    {"libToolsInjection", "Nsight Systems, which watches CUDA calls", NOT_POOLED},
    {"libcuda-injection", "Nsight Compute, which watches CUDA calls", NOT_POOLED},
};

/* Functions that only a library between the program and the driver defines. */
static const char *const hooked[] = {"cuMemAlloc_v2", "cuGetProcAddress_v2", "cudaMalloc", "dlsym", NULL};

bool gp_conflict_comes_first(const char *file)
{
  const char *name = gp_base_name(file);
  return strncmp(name, "libasan.so", 10) == 0 || strncmp(name, "libclang_rt.asan", 16) == 0;
}

static void check_library(const char *path, const char *where, gp_conflict_fn report, void *arg)
{
  char what[GP_PATH_BYTES + 256];
  const char *name = gp_base_name(path);

  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    if (strncmp(name, known[i].prefix, strlen(known[i].prefix)) != 0)
      continue;
    snprintf(what, sizeof(what), "%s has %s: %s", where, path, known[i].what);
    report(arg, what, known[i].remedy);
    return;
  }
  if (strcmp(name, "libgpupool.so") == 0 || gp_conflict_comes_first(path))
    return;
  const char *function = strchr(path, '/') ? gp_elf_defines(path, hooked) : NULL;
  if (function) {
    snprintf(what, sizeof(what), "%s has %s, which defines %s as gpupool does", where, path, function);
    report(arg, what, BEHIND);
  }
}

static void check_list(
    const char *list, const char *where, const char *separators, gp_conflict_fn report, void *arg)
{
  char path[GP_PATH_BYTES];

  for (list += strspn(list, separators); *list; list += strspn(list, separators)) {
    size_t length = strcspn(list, separators);
    if (length < sizeof(path)) {
      memcpy(path, list, length);
      path[length] = '\0';
      check_library(path, where, report, arg);
    }
    list += length;
  }
}

void gp_conflicts_find(const char *list, const char *ld_so_preload, gp_conflict_fn report, void *arg)
{
  static const char injecting[] = "CUDA_INJECTION64_PATH";
  char text[4096], what[GP_PATH_BYTES + 256];

  if (list)
    check_list(list, "LD_PRELOAD", GP_PRELOAD_SEPARATORS, report, arg);
  FILE *file = fopen(ld_so_preload, "re");
  while (file && fgets(text, sizeof(text), file)) {
    text[strcspn(text, "#\n")] = '\0';
    check_list(text, ld_so_preload, GP_PRELOAD_SEPARATORS "\t", report, arg);
  }
  if (file)
    (void)fclose(file); /* only read */
  const char *path = getenv(injecting);
  if (path && path[0]) {
    snprintf(what, sizeof(what), "%s=%s: the driver loads a tool that watches CUDA calls", injecting, path);
    report(arg, what, NOT_POOLED);
  }
}
