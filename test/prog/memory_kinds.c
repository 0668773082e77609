/*
 * Allocates every kind of memory that the driver has, by a list of commands:
 *   KIND:BYTES[:COUNT]   allocates COUNT (1) of BYTES each, until one fails; says how many it got and the
 * last result free                 frees everything of the last KIND command; free-all: of all release,
 * unmap, map, retain   what keeps memory of vmm: its handles and its mappings, of the last KIND command
 *   forget-pools         destroys the memory pools while memory from them is in use
 *   module               loads code from an image that no GPU takes
 *   context              makes another context, and leaves it
 *   info                 says what cuMemGetInfo says
 *   random:KINDS:SEED:STEPS:LIMIT  random allocations and frees of kinds with commas between them; ends with
 * 1 when the simulated device has given more than LIMIT bytes Exit status: 0 unless a command is not known or
 * something failed that must not.
 */
#include "memory_items.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 4096

static item_t items[ITEMS];
static int item_count;

static void allocate(const kind_t *kind, size_t bytes, int count, int command)
{
  int got = 0;
  CUresult result = CUDA_SUCCESS;

  for (; got < count && item_count < ITEMS; got++, item_count++) {
    item_t *item = &items[item_count];
    *item = (item_t){.bytes = bytes, .command = command, .kind = kind};
    result = kind->alloc(item);
    if (result != CUDA_SUCCESS)
      break;
  }
  printf("%s: %d of %d, %s\n", kind->name, got, count, name_of(result));
}

static void free_items(int command)
{
  while (item_count > 0 && (command == 0 || items[item_count - 1].command == command)) {
    item_t *item = &items[--item_count];
    must_succeed(item->kind->name, item->kind->release(item));
  }
  CALL(cuCtxSynchronize());
}

static int change_vmm(const char *name, int command)
{
  for (int i = item_count - 1; i >= 0 && items[i].command == command; i--) {
    item_t *item = &items[i];
    if (strcmp(name, "release") == 0) {
      CALL(cuMemRelease(item->physical));
      item->physical = 0;
    } else if (strcmp(name, "unmap") == 0) {
      CALL(cuMemUnmap(item->pointer, item->bytes));
      CALL(cuMemAddressFree(item->pointer, item->bytes));
      item->pointer = 0;
    } else if (strcmp(name, "map") == 0) { /* once more, elsewhere: the first mapping stays */
      CUdeviceptr other;
      CALL(cuMemAddressReserve(&other, item->bytes, 0, 0, 0));
      CALL(cuMemMap(other, item->bytes, 0, item->physical, 0));
      CALL(cuMemUnmap(item->pointer, item->bytes));
      item->pointer = other;
    } else if (strcmp(name, "retain") == 0) {
      CALL(cuMemRetainAllocationHandle(&item->physical, (char *)(uintptr_t)item->pointer + item->bytes / 2));
    } else {
      return 0;
    }
  }
  return 1;
}

/* A size around those at which the driver takes another page. */
static size_t random_size(const kind_t *kind)
{
  static const int around[] = {-4096, -1, 0, 1, 512, 4096, 700000};
  size_t bytes = random() % 3 == 0 ? 1 + (size_t)random() % (1 << 20)
                                   : ((size_t)1 << 20 << random() % 4) + (size_t)around[random() % 7];
  return (bytes + kind->step - 1) / kind->step * kind->step;
}

static const kind_t *random_kind(const char *names)
{
  int count = 1, at = 0;
  for (const char *c = names; *c; c++)
    count += *c == ',';
  for (int i = (int)(random() % count); i > 0; at++)
    i -= names[at] == ',';
  return find_kind(names + at, strcspn(names + at, ","));
}

/* What the simulated device has given to this process. */
static uint64_t used(void)
{
  static uint64_t (*ask)(int device);
  if (!ask)
    *(void **)&ask = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "simcuda_used");
  if (!ask) {
    printf("random: the driver is no simulated one\n");
    exit(1);
  }
  return ask(0);
}

/* One call; returns 1 if it was refused. */
static int random_step(const char *kinds, int command)
{
  if (item_count == ITEMS || (item_count > 0 && random() % 5 < 2)) {
    int i = (int)(random() % item_count);
    must_succeed(items[i].kind->name, items[i].kind->release(&items[i]));
    items[i] = items[--item_count];
    return 0;
  }
  const kind_t *kind = random() % 20 == 0 ? NULL : random_kind(kinds);
  if (!kind) {
    CALL(cuCtxSynchronize());
    return 0;
  }
  items[item_count] = (item_t){.bytes = random_size(kind), .command = command, .kind = kind};
  CUresult result = kind->alloc(&items[item_count]);
  if (result != CUDA_ERROR_OUT_OF_MEMORY)
    must_succeed(kind->name, result);
  item_count += result == CUDA_SUCCESS;
  return result != CUDA_SUCCESS;
}

static void run_random(char *words, int command)
{
  const char *kinds = strtok(words, ":"), *seed = strtok(NULL, ":"), *steps = strtok(NULL, ":"),
             *limit = strtok(NULL, ":");
  uint64_t most = 0, allowed = limit ? strtoull(limit, NULL, 10) : 0;
  int refused = 0;

  srandom(seed ? (unsigned)atoi(seed) : 0);
  for (int step = 0, count = steps ? atoi(steps) : 0; step < count; step++) {
    int before = item_count;
    refused += random_step(kinds, command);
    if (used() > most)
      most = used();
    if (most > allowed) {
      const item_t *item = &items[before < item_count ? before : item_count];
      printf("random: step %d: %llu bytes of %llu, after %s of %zu\n", step, (unsigned long long)most,
          (unsigned long long)allowed, item->kind ? item->kind->name : "a call", item->bytes);
      exit(1);
    }
  }
  printf(
      "random: %d refused, %llu of %llu\n", refused, (unsigned long long)most, (unsigned long long)allowed);
}

static int run(char *word, int command)
{
  char *end = strchr(word, ':');
  const kind_t *kind = end ? find_kind(word, (size_t)(end - word)) : NULL;

  if (kind) {
    char *rest;
    size_t bytes = strtoull(end + 1, &rest, 10);
    allocate(kind, bytes, *rest == ':' ? atoi(rest + 1) : 1, command);
  } else if (strncmp(word, "random:", strlen("random:")) == 0) {
    run_random(word + strlen("random:"), command);
  } else if (strcmp(word, "free") == 0) {
    free_items(item_count ? items[item_count - 1].command : 0);
  } else if (strcmp(word, "free-all") == 0) {
    free_items(0);
  } else if (strcmp(word, "forget-pools") == 0) {
    if (own_pool)
      CALL(cuMemPoolDestroy(own_pool));
    if (host_pool)
      CALL(cuMemPoolDestroy(host_pool));
    own_pool = host_pool = NULL;
  } else if (strcmp(word, "module") == 0) {
    CUmodule module;
    printf("module: %s\n", name_of(cuModuleLoadData(&module, "no image")));
  } else if (strcmp(word, "context") == 0) {
    CUcontext made = NULL, popped;
#if CUDA_VERSION >= 13000
    CUresult result = cuCtxCreate(&made, NULL, 0, 0);
#else
    CUresult result = cuCtxCreate(&made, 0, 0);
#endif
    printf("context: %s\n", name_of(result));
    if (result == CUDA_SUCCESS)
      CALL(cuCtxPopCurrent(&popped));
  } else if (strcmp(word, "info") == 0) {
    size_t available, total;
    CALL(cuMemGetInfo(&available, &total));
    printf("info: %zu of %zu\n", available, total);
  } else {
    return item_count > 0 && change_vmm(word, items[item_count - 1].command);
  }
  return 1;
}

int main(int argc, char **argv)
{
  CUcontext context;

  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  for (int i = 1; i < argc; i++) {
    if (!run(argv[i], i)) {
      fprintf(stderr, "memory_kinds: what is %s?\n", argv[i]);
      return 2;
    }
  }
  return 0;
}
