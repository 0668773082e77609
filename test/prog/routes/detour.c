/*
 * A library that patches functions of the driver or of the runtime in place, as ComfyUI's aimdo does, and
 * counts what passes. A patch is a jump of 14 bytes; the function's own bytes are back while it runs.
 *
 * DETOUR says which functions, and how they are found:
 *   driver   the driver's by cuGetProcAddress, asked for by the driver's handle
 *   scope    the driver's by the order of look-up
 *   runtime  the runtime's by the order of look-up
 * With DETOUR_EARLY they are patched when the library is loaded, else by tool_main.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PATCH_BYTES 14

typedef struct patch {
  unsigned char *place;
  unsigned char own[PATCH_BYTES];
  unsigned char jump[PATCH_BYTES];
} patch_t;

static patch_t of_alloc, of_free;
static int allocs, frees;

static void install(patch_t *patch, void *function, void *replacement)
{
  static const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* to the address that follows */
  uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t page = (uintptr_t)function & ~(page_bytes - 1);

  if (!function || mprotect((void *)page, 2 * page_bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    fprintf(stderr, "detour: a function cannot be patched\n");
    exit(9);
  }
  patch->place = function;
  memcpy(patch->own, function, sizeof(patch->own));
  memcpy(patch->jump, jump, sizeof(jump));
  memcpy(patch->jump + sizeof(jump), &replacement, sizeof(replacement));
  memcpy(patch->place, patch->jump, sizeof(patch->jump));
}

/* Functions of the driver and of the runtime take the same arguments. */
static int take(void **ret, size_t bytes)
{
  allocs++;
  memcpy(of_alloc.place, of_alloc.own, sizeof(of_alloc.own));
  int result = ((int (*)(void **, size_t))(uintptr_t)of_alloc.place)(ret, bytes);
  memcpy(of_alloc.place, of_alloc.jump, sizeof(of_alloc.jump));
  return result;
}

static int give(void *block)
{
  frees++;
  memcpy(of_free.place, of_free.own, sizeof(of_free.own));
  int result = ((int (*)(void *))(uintptr_t)of_free.place)(block);
  memcpy(of_free.place, of_free.jump, sizeof(of_free.jump));
  return result;
}

static void *by_proc_address(const char *name)
{
  void *function = NULL;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  CUresult (*ask)(const char *, void **, int, cuuint64_t) =
      driver ? (CUresult(*)(const char *, void **, int, cuuint64_t))dlsym(driver, "cuGetProcAddress") : NULL;
  return ask && ask(name, &function, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM) == CUDA_SUCCESS ? function
                                                                                               : NULL;
}

int tool_main(void);
int tool_main(void)
{
  const char *how = getenv("DETOUR");
  void *alloc, *free_it;

  if (strcmp(how, "driver") == 0) {
    alloc = by_proc_address("cuMemAlloc");
    free_it = by_proc_address("cuMemFree");
  } else if (strcmp(how, "scope") == 0) {
    alloc = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    free_it = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
  } else {
    alloc = dlsym(RTLD_DEFAULT, "cudaMalloc");
    free_it = dlsym(RTLD_DEFAULT, "cudaFree");
  }
  install(&of_alloc, alloc, (void *)(uintptr_t)take);
  install(&of_free, free_it, (void *)(uintptr_t)give);
  return 0;
}

__attribute__((constructor)) static void begin(void)
{
  if (getenv("DETOUR_EARLY"))
    (void)tool_main();
}

__attribute__((destructor)) static void tell(void)
{
  fprintf(stderr, "detour: %d allocations, %d frees\n", allocs, frees);
}
