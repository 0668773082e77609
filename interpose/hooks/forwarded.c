/*
 * Hooks that only forward a call. Their bodies are generated from the FORWARD_ rows of functions.def.
 */
#include "interpose/hooks/array.h"
#include "interpose/hooks/forward.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"

#define CALL_DRIVER(symbol, arguments) (GP_REAL(symbol) ? GP_REAL(symbol) arguments : CUDA_ERROR_NOT_FOUND)

#define FORWARD_ALLOC(                                                                                       \
    symbol, base, since, per_thread, parameters, arguments, memory_kind, place, size, most)                  \
  CUresult CUDAAPI hook_##symbol parameters                                                                  \
  {                                                                                                          \
    gp_forward_call_t call = {                                                                               \
        .bytes = size, .counted = most, .kind = GP_FORWARDED_##memory_kind, .device = GP_CURRENT_DEVICE};    \
    CUresult result;                                                                                         \
    GP_FORWARD_ALLOC(result, &call, place, CALL_DRIVER(symbol, arguments));                                  \
    return result;                                                                                           \
  }

#define FORWARD_FREE(symbol, base, since, per_thread, parameters, arguments, space, key)                     \
  CUresult CUDAAPI hook_##symbol parameters                                                                  \
  {                                                                                                          \
    CUresult result;                                                                                         \
    GP_FORWARD_FREE(result, gp_library_engine(), GP_SPACE_##space, (uint64_t)(uintptr_t)(key),               \
        CALL_DRIVER(symbol, arguments));                                                                     \
    return result;                                                                                           \
  }

#define FORWARD_HIDDEN(symbol, base, since, per_thread, parameters, arguments)                               \
  CUresult CUDAAPI hook_##symbol parameters                                                                  \
  {                                                                                                          \
    CUresult result;                                                                                         \
    GP_FORWARD_HIDDEN(result, CALL_DRIVER(symbol, arguments));                                               \
    return result;                                                                                           \
  }

#include "interpose/routes/functions.def"
