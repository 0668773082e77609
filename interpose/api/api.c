#include "interpose/api/api.h"

#include <stdatomic.h>

#include "interpose/hooks/current_context.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "interpose/routes/real_dlsym.h"
#include "base/loader_walk.h"
#include "base/log.h"

gp_lock_t gp_api_lock = GP_LOCK_INIT(GP_RANK_CONTROL);

typedef struct order {
  uintptr_t library; /* an address in this library */
  uintptr_t system;  /* an address in the C library */
} order_t;

static bool holds(const struct dl_phdr_info *object, uintptr_t address)
{
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    if (header->p_type == PT_LOAD && address - object->dlpi_addr - header->p_vaddr < header->p_memsz)
      return true;
  }
  return false;
}

/* Returns 1 if this library comes first, 2 if the C library does. */
static int which_is_first(struct dl_phdr_info *object, size_t size, void *arg)
{
  const order_t *order = arg;
  (void)size;
  return holds(object, order->library) ? 1 : holds(object, order->system) ? 2 : 0;
}

bool gp_api_is_preloaded(void)
{
  static _Atomic int known; /* the result of which_is_first; 0: not known yet */
  int first = atomic_load_explicit(&known, memory_order_relaxed);

  if (first == 0) {
    order_t order = {(uintptr_t)&known, (uintptr_t)gp_real_dlsym_address()};
    first = gp_loader_walk(which_is_first, &order);
    atomic_store_explicit(&known, first, memory_order_relaxed);
  }
  return first == 1;
}

gpupool_result_t gp_api_engine(gp_engine_t **ret_engine)
{
  if (!gp_api_is_preloaded())
    return GPUPOOL_NOT_LOADED;
  gp_engine_t *engine = gp_library_engine();
  if (!engine)
    return GPUPOOL_INACTIVE;
  *ret_engine = engine;
  return GPUPOOL_OK;
}

/* Returns the number of devices, which never changes; GP_MAX_DEVICES before the driver is initialized. */
static int device_count(void)
{
  int count;
  if (!gp_real_bind() || GP_REAL_CALL(cuDeviceGetCount, &count) != CUDA_SUCCESS || count > GP_MAX_DEVICES)
    return GP_MAX_DEVICES;
  return count;
}

gpupool_result_t gp_api_device(gp_engine_t **ret_engine, int *device)
{
  if (*device < GPUPOOL_CURRENT || *device >= GP_MAX_DEVICES)
    return GPUPOOL_INVALID;
  gpupool_result_t result = gp_api_engine(ret_engine);
  if (result != GPUPOOL_OK)
    return result;
  if (*device == GPUPOOL_CURRENT) {
    const gp_context_t *context = gp_current_context(*ret_engine);
    *device = context ? gp_context_device(context) : 0;
  }
  return *device < device_count() ? GPUPOOL_OK : GPUPOOL_INVALID;
}

GP_API const char *gpupool_api_version(void)
{
  return gp_api_is_preloaded() ? GP_VERSION : NULL;
}

GP_API gpupool_result_t gpupool_api_set_verbose(int level)
{
  gp_engine_t *engine;
  if (level < 0 || level > 2)
    return GPUPOOL_INVALID;
  gpupool_result_t result = gp_api_engine(&engine); /* first: starting the engine also sets the level */
  if (result == GPUPOOL_OK)
    gp_log_init(level, gp_log_fd());
  return result;
}
