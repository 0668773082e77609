/*
 * What all hooks on memory that is not pooled have in common: limit, trim and second try, record.
 */
#ifndef GP_INTERPOSE_HOOKS_FORWARD_H
#define GP_INTERPOSE_HOOKS_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda_abi.h"
#include "pool/forwarded/forwarded.h"

#define GP_CURRENT_DEVICE (-1)

/* One allocation. */
typedef struct gp_forward_call {
  CUresult (*call)(void *arg);    /* the driver's call */
  uint64_t (*address)(void *arg); /* after its success: the address or handle that it gave */
  uint64_t (*bytes_got)(
      void *arg); /* NULL, or after success: bytes really held, if that is less than `bytes` */
  void *arg;
  uint64_t bytes; /* at most; 0: nothing to count, and arguments that are the driver's to refuse */
  uint64_t key;   /* see gp_forwarded_t */
  uint64_t pool;
  gp_forwarded_kind_t kind;
  int device; /* where the memory is, GP_CURRENT_DEVICE: that of the current context */
  CUstream stream;
  bool has_stream;
} gp_forward_call_t;

/*
 * Makes the call within the limit; tries once more after a trim if the driver has no memory; records the
 * result. ret_counted (may be NULL): true if it was counted, so that a free of it must be told.
 */
CUresult gp_forward_alloc(const gp_forward_call_t *call, bool *ret_counted);

/* Frees what the pool does not own by free_fn(arg), which makes the driver's call, and records it if it was
 * known. */
CUresult gp_forward_free(gp_space_t space, uint64_t key, gp_free_fn free_fn, void *arg);

/* The same when the library is known to be at work. */
CUresult gp_forward_free_in(
    gp_engine_t *engine, gp_space_t space, uint64_t key, gp_free_fn free_fn, void *arg);

/*
 * A call that takes memory of the device unseen: once more after everything idle has gone back, if the driver
 * has no memory. call must leave nothing behind when it fails.
 */
CUresult gp_forward_hidden(CUresult (*call)(void *arg), void *arg);

#endif
