#include "interpose/hooks/copies.h"

#include <stdatomic.h>

#include "interpose/routes/real.h"
#include "pool/forwarded/forwarded.h"

/* Once there is such memory no registered memory counts as the host's: the driver does not tell them apart.
 */
static atomic_bool has_io_memory;

void gp_copies_note_io_memory(void)
{
  atomic_store(&has_io_memory, true);
}

typedef struct place {
  unsigned type;       /* CUmemorytype; 0: the driver does not know the address */
  unsigned is_managed; /* a boolean, for which the driver may store one byte or four */
  CUdeviceptr base;
} place_t;

static bool look_up(CUdeviceptr address, place_t *ret_place)
{
  static const CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
      CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  void *data[] = {&ret_place->type, &ret_place->is_managed, &ret_place->base};

  *ret_place = (place_t){0, 0, 0};
  return GP_REAL_CALL(cuPointerGetAttributes, 3, (CUpointer_attribute *)(void *)(uintptr_t)attributes, data,
             address) == CUDA_SUCCESS;
}

/* Memory of cuMemAllocHost, cuMemHostAlloc or cuMemHostRegister, and not of a pool or of cuMemCreate that is
 * on the host. */
static bool is_page_locked(gp_engine_t *engine, CUdeviceptr base)
{
  gp_forwarded_t memory;
  return !atomic_load(&has_io_memory) &&
         gp_engine_forwarded_find(engine, GP_SPACE_POINTER, (uint64_t)base, &memory) &&
         memory.kind == GP_FORWARDED_HOST && !memory.has_stream;
}

bool gp_copy_returns_when_done(gp_engine_t *engine, const void *target, CUdeviceptr source)
{
  place_t from;
  place_t to;

  if (gp_engine_is_suspended(engine) || !look_up(source, &from) ||
      !look_up((CUdeviceptr)(uintptr_t)target, &to))
    return false;
  if (from.type != CU_MEMORYTYPE_DEVICE || from.is_managed || to.is_managed)
    return false;
  return to.type == 0 || (to.type == CU_MEMORYTYPE_HOST && is_page_locked(engine, to.base));
}

bool gp_copy_is_of_context(CUdeviceptr address)
{
  static const CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  CUcontext current = NULL;
  CUcontext owner = NULL;
  unsigned type = 0;
  unsigned is_managed = 0;
  void *data[] = {&owner, &type, &is_managed};

  return GP_REAL_CALL(cuCtxGetCurrent, &current) == CUDA_SUCCESS && current &&
         GP_REAL_CALL(cuPointerGetAttributes, 3, (CUpointer_attribute *)(void *)(uintptr_t)attributes, data,
             address) == CUDA_SUCCESS &&
         owner == current && type == CU_MEMORYTYPE_DEVICE && !is_managed;
}
