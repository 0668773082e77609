#include "interpose/routes/unknown_frees.h"

#include <stdatomic.h>

#include "interpose/hooks/hooks.h"
#include "pool/forwarded/forwarded.h"
#include "base/assert.h"
#include "base/log.h"

/* Answers in place of a function with any parameters. */
static CUresult CUDAAPI answer_success(void)
{
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI answer_invalid_value(void)
{
  return CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI answer_not_supported(void)
{
  return CUDA_ERROR_NOT_SUPPORTED;
}

static void tell_refused(const char *name)
{
  static atomic_flag told = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&told))
    gp_log(GP_LOG_ERROR,
        "the program frees memory of the pool with %s, which this version of gpupool does not know: refused, since that memory is a part of a larger allocation; set GPUPOOL_TYPE=round, or use a newer gpupool",
        name);
}

/* The address is memory that cuMemFree accepts, so the pool's own free can serve the program's call. */
static bool is_known(gp_engine_t *engine, uint64_t address)
{
  gp_forwarded_t memory;
  return gp_engine_owner(engine, address) != GP_OWNER_UNKNOWN ||
         gp_engine_forwarded_find(engine, GP_SPACE_POINTER, address, &memory);
}

/* The block leaves the pool: the program's driver call comes next, and even if the driver refuses, it will
 * answer later calls about that address. */
static int leave(void *arg, bool is_cut)
{
  *(bool *)arg = true;
  gp_assert(!is_cut);
  return CUDA_SUCCESS;
}

void *gp_unknown_free_answer(gp_engine_t *engine, gp_frees_t frees, uint64_t address, const char *name)
{
  gp_part_t part;
  bool has_left = false;
  int code = CUDA_SUCCESS;

  if (frees == GP_FREES_NOTHING)
    return NULL;
  if (frees == GP_FREES_POINTER)
    return is_known(engine, address) ? (void *)hook_cuMemFree_v2 : NULL;
  switch (gp_engine_owner(engine, address)) {
  case GP_OWNER_UNKNOWN: return NULL;
  case GP_OWNER_POOL: return (void *)answer_invalid_value;
  case GP_OWNER_PROGRAM: break;
  }
  if (gp_engine_part(engine, address, &part)) {
    tell_refused(name);
    return (void *)answer_not_supported;
  }
  if (gp_engine_free_with(engine, address, leave, &has_left, &code) == GP_FREE_UNKNOWN || has_left)
    return NULL;
  return code == CUDA_SUCCESS ? (void *)answer_success
                              : (void *)answer_invalid_value; /* another holder has the block */
}
