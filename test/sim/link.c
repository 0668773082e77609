/*
 * The linker of device code: takes any input, and makes an image of it that cuModuleLoadData takes as any
 * other.
 */
#include "sim.h"

#include <stdlib.h>

struct CUlinkState_st {
  unsigned inputs;
  char image[64]; /* the driver's, until the state is destroyed (cuda.h, cuLinkComplete) */
  struct CUlinkState_st *next;
};

static CUlinkState states;

static CUlinkState *find(CUlinkState state)
{
  CUlinkState *at = &states;
  while (*at && *at != state)
    at = &(*at)->next;
  return at;
}

static CUresult create(CUlinkState *ret)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  CUlinkState state = calloc(1, sizeof *state);
  if (!state)
    return CUDA_ERROR_OUT_OF_MEMORY;
  state->next = states;
  *ret = states = state;
  return CUDA_SUCCESS;
}

static CUresult add(CUlinkState state, const void *input)
{
  if (!*find(state))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!input)
    return CUDA_ERROR_INVALID_VALUE;
  state->inputs++;
  return CUDA_SUCCESS;
}

static CUresult complete(CUlinkState state, void **ret_image, size_t *ret_bytes)
{
  if (!*find(state))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!ret_image || state->inputs == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *ret_image = state->image;
  if (ret_bytes)
    *ret_bytes = sizeof state->image;
  return CUDA_SUCCESS;
}

static CUresult destroy(CUlinkState state)
{
  CUlinkState *at = find(state);
  if (!*at)
    return CUDA_ERROR_INVALID_HANDLE;
  *at = state->next;
  free(state);
  return CUDA_SUCCESS;
}

SIM_FN(cuLinkCreate_v2, (unsigned int count, CUjit_option *options, void **values, CUlinkState *ret),
    create(ret), "%u %zu", count, sim_take_log_sizes(count, options, values))
SIM_FN(cuLinkAddData_v2,
    (CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name, unsigned int count,
        CUjit_option *options, void **values),
    add(state, data), "%d %zu", (int)type, bytes)
SIM_FN(cuLinkAddFile_v2,
    (CUlinkState state, CUjitInputType type, const char *path, unsigned int count, CUjit_option *options,
        void **values),
    add(state, path), "%d %s", (int)type, path ? path : "")
SIM_FN(cuLinkComplete, (CUlinkState state, void **ret_image, size_t *ret_bytes),
    complete(state, ret_image, ret_bytes), " ")
SIM_FN(cuLinkDestroy, (CUlinkState state), destroy(state), " ")
