#include "interpose/routes/loaded.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loader_walk.h"

typedef struct search {
  const char *const *prefixes; /* prefixes of file names */
  size_t count;
  unsigned long long seen_loads; /* number of loads at the last look; 0: look in any case */
  unsigned long long loads;      /* number of loads so far */
  char file[256];                /* the first match, without its folder; "": no match */
} search_t;

static int look_at(struct dl_phdr_info *object, size_t size, void *arg)
{
  search_t *search = arg;
  const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
  (void)size;

  search->loads = object->dlpi_adds;
  if (search->loads == search->seen_loads)
    return 1;
  for (size_t i = 0; slash && i < search->count; i++) /* a name without a slash is the program or the vdso */
    if (strncmp(slash + 1, search->prefixes[i], strlen(search->prefixes[i])) == 0) {
      (void)snprintf(search->file, sizeof(search->file), "%s", slash + 1); /* may be truncated */
      return 1;
    }
  return 0;
}

static bool find(search_t *search)
{
  (void)gp_loader_walk(look_at, search);
  return search->file[0] != '\0';
}

/* Prefixes of the file names of tools. libcupti is not among them: programs link it to measure themselves
 * (PyTorch's profiler), without a tool that watches them. */
static const char *const tools[] = {
    "libsanitizer-",                                       /* compute-sanitizer */
    "libInterceptorInjection",                             /* its launcher, and Nsight Compute's */
    "libTreeLauncherTargetInjection", "libToolsInjection", /* Nsight Systems */
    "libcuda-injection",                                   /* Nsight Compute */
    "libcuinj64",                                          /* nvprof */
};

bool gp_loaded_find_tool(char *text, size_t capacity)
{
  search_t search = {.prefixes = tools, .count = sizeof(tools) / sizeof(tools[0])};
  const char *path = secure_getenv("CUDA_INJECTION64_PATH"); /* cuInit loads this library */

  if (path && path[0]) {
    (void)snprintf(text, capacity, "CUDA_INJECTION64_PATH=%s", path); /* may be truncated */
    return true;
  }
  if (!find(&search))
    return false;
  (void)snprintf(text, capacity, "%s is loaded", search.file);
  return true;
}

static const char *const cupti[] = {"libcupti"};

bool gp_loaded_is_cupti(const void *address)
{
  Dl_info info;
  const char *slash = dladdr(address, &info) != 0 ? strrchr(info.dli_fname, '/') : NULL;
  return slash && strncmp(slash + 1, cupti[0], strlen(cupti[0])) == 0;
}

bool gp_loaded_look_for_cupti(void)
{
  static _Atomic unsigned long long seen_loads; /* number of loads at the last look */
  static atomic_bool is_there;
  search_t search = {
      .prefixes = cupti, .count = 1, .seen_loads = atomic_load_explicit(&seen_loads, memory_order_relaxed)};

  if (find(&search))
    atomic_store(&is_there, true);
  atomic_store_explicit(&seen_loads, search.loads, memory_order_relaxed);
  return atomic_load(&is_there);
}
