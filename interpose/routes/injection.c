#include "interpose/routes/injection.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * File names begin so. Not libcupti: programs link it to measure themselves (PyTorch's profiler), without
 * being watched.
 */
static const char *const tools[] = {
    "libsanitizer-",                                       /* compute-sanitizer */
    "libInterceptorInjection",                             /* its launcher, and Nsight Compute's */
    "libTreeLauncherTargetInjection", "libToolsInjection", /* Nsight Systems */
    "libcuda-injection",                                   /* Nsight Compute */
    "libcuinj64",                                          /* nvprof */
};

typedef struct search {
  char *text;
  size_t capacity;
} search_t;

static int look_at(struct dl_phdr_info *object, size_t size, void *arg)
{
  const search_t *search = arg;
  const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
  (void)size;
  if (!slash)
    return 0; /* the program, the vdso */
  for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
    if (strncmp(slash + 1, tools[i], strlen(tools[i])) == 0) {
      (void)snprintf(search->text, search->capacity, "%s is loaded", slash + 1); /* cut off is good enough */
      return 1;
    }
  }
  return 0;
}

bool gp_injection_find(char *text, size_t capacity)
{
  search_t search = {text, capacity};
  const char *path = secure_getenv("CUDA_INJECTION64_PATH"); /* what cuInit loads, if it has not yet */

  if (path && path[0]) {
    (void)snprintf(text, capacity, "CUDA_INJECTION64_PATH=%s", path); /* cut off is good enough */
    return true;
  }
  return dl_iterate_phdr(look_at, &search) != 0;
}

static int is_cupti(struct dl_phdr_info *object, size_t size, void *arg)
{
  const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
  (void)size;
  (void)arg;
  return slash && strncmp(slash + 1, "libcupti", 8) == 0;
}

bool gp_injection_watches_calls(void)
{
  return dl_iterate_phdr(is_cupti, NULL) != 0;
}
