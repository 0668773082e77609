/*
 * What all hooks on memory that is not pooled have in common: limit, trim and second try, record.
 */
#ifndef GP_INTERPOSE_PASSTHROUGH_H
#define GP_INTERPOSE_PASSTHROUGH_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/* One allocation: call makes the driver's call, which on success stores to *pointer. */
typedef struct gp_passthrough_call {
  CUresult (*call)(void *arg);
  void *arg;
  CUdeviceptr *pointer;
  uint64_t bytes;
  gp_detail_t kind;
  CUstream stream;
  bool has_stream;
} gp_passthrough_call_t;

/* Makes the call within the limit; tries once more after a trim if the driver has no memory; records the result. */
CUresult gp_passthrough_alloc(const gp_passthrough_call_t *call);

/* Frees what the pool does not own by free_fn(arg), which makes the driver's call, and records it if it was known. */
CUresult gp_passthrough_free(gp_engine_t *engine, CUdeviceptr pointer, gp_free_fn free_fn, void *arg);

#endif
