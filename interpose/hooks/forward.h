/*
 * The steps that all hooks of forwarded memory share: check the limit, call the driver, make room and retry,
 * record the result. A hook fills a gp_forward_call_t, and passes the driver's call to one of the macros
 * below. Hooks that do nothing else are rows of functions.def (forwarded.c). In all macros `result` is a
 * CUresult variable that receives the program's result.
 */
#ifndef GP_INTERPOSE_HOOKS_FORWARD_H
#define GP_INTERPOSE_HOOKS_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda_abi.h"
#include "pool/forwarded/forwarded.h"
#include "base/cancel.h"

#define GP_CURRENT_DEVICE (-1)

typedef struct gp_forward_call {
  /* Set by the hook. */
  uint64_t bytes;   /* upper bound; 0: not counted, because the driver will reject the arguments */
  uint64_t counted; /* bytes that the limit counts, for several allocations or whole pages; 0: `bytes` */
  uint64_t key;     /* see gp_forwarded_t */
  uint64_t pool;
  gp_forwarded_kind_t kind;
  int device; /* device of the memory; GP_CURRENT_DEVICE: the current context's device */
  CUstream stream;
  bool has_stream;
  const size_t *pitch; /* where the driver stores the pitch, or NULL; `height` rows of that pitch may need
                          less than `bytes` */
  size_t height;

  /* Set by forward.c. The hook may read is_counted afterwards: if the allocation was counted, its free must
   * be counted, too. */
  bool is_counted;
  bool is_suspended; /* a capture was running when the call began, so the call is not retried */
  bool has_retried;
  gp_forwarded_retry_t retry;
  gp_engine_t *engine;
  gp_context_t *context; /* context whose device the call is counted for; NULL: not counted */
  uint64_t start_ns;
} gp_forward_call_t;

/* Returns the bytes of the host pages that contain the range, because whole pages are locked. If `memory` is
 * NULL, the range begins at a page boundary. */
uint64_t gp_forward_locked_bytes(const void *memory, uint64_t bytes);

/*
 * Performs an allocation within the limit: result = driver_call. Evaluates driver_call again as long as the
 * driver is out of memory and the library can make more room. `place` is where the driver stores the address
 * or handle, 8 bytes; it is read only after success.
 */
#define GP_FORWARD_ALLOC(result, call, place, driver_call)                                                   \
  do {                                                                                                       \
    (result) = CUDA_ERROR_OUT_OF_MEMORY;                                                                     \
    if (gp_forward_begin(call)) {                                                                            \
      do                                                                                                     \
        GP_CANCEL_UNDO(result, driver_call, gp_forward_undo, call);                                          \
      while (gp_forward_retry(call, result));                                                                \
      gp_forward_end(call, result, place);                                                                   \
    }                                                                                                        \
  } while (0)

bool gp_forward_begin(gp_forward_call_t *call); /* binds the driver; returns false if over the limit */
bool gp_forward_retry(gp_forward_call_t *call, CUresult result);
void gp_forward_end(gp_forward_call_t *call, CUresult result, const void *place);
void gp_forward_undo(void *call); /* for a thread that was cancelled in the driver's call */

/* A free of memory that the pool does not own. */
typedef struct gp_forward_free {
  gp_engine_t *engine; /* NULL: nothing to record */
  uint64_t start_ns;
  bool is_known;
  gp_forwarded_t memory;
} gp_forward_free_t;

/* Performs a free of memory that the pool does not own: result = driver_call. Records the free if the key is
 * known. If `engine` is NULL, the library records nothing. */
#define GP_FORWARD_FREE(result, engine, space, key, driver_call)                                             \
  GP_FORWARD_FREE_IN(result, engine, space, key, NULL, driver_call)

/* Performs a stream-ordered free: the driver gets the memory back when the stream reaches the free. `order`
 * is that stream; its context is NULL if unknown. If `order` is NULL, the free is not stream-ordered. */
#define GP_FORWARD_FREE_IN(result, engine, space, key, order, driver_call)                                   \
  do {                                                                                                       \
    gp_forward_free_t gp_free;                                                                               \
    gp_forward_free_begin(&gp_free, engine, space, key, order);                                              \
    GP_CANCEL_UNDO(result, driver_call, gp_forward_free_undo, &gp_free);                                     \
    gp_forward_free_end(&gp_free, result);                                                                   \
  } while (0)

/* *call contains the record until the end, and must not move: other threads may wait for the record. */
void gp_forward_free_begin(gp_forward_free_t *call, gp_engine_t *engine, gp_space_t space, uint64_t key,
    const gp_stream_order_t *order);
void gp_forward_free_end(gp_forward_free_t *call, CUresult result);
void gp_forward_free_undo(void *call);

/* A driver call that allocates device memory for the driver's own use. */
typedef struct gp_forward_hidden {
  gp_engine_t *engine;
  int device; /* device of the memory; GP_CURRENT_DEVICE: the current context's device */
  bool has_retried;
  gp_context_t *context; /* the context for which room was made; NULL: none yet */
} gp_forward_hidden_t;

/* Performs a driver call that allocates hidden memory: result = driver_call. If the driver is out of memory,
 * releases all idle memory and evaluates driver_call again. A failed driver_call must have no effect. */
#define GP_FORWARD_HIDDEN(result, driver_call) GP_FORWARD_HIDDEN_ON(result, GP_CURRENT_DEVICE, driver_call)
#define GP_FORWARD_HIDDEN_ON(result, device, driver_call)                                                    \
  do {                                                                                                       \
    gp_forward_hidden_t gp_hidden = gp_forward_hidden_begin(device);                                         \
    do                                                                                                       \
      (result) = driver_call;                                                                                \
    while (gp_forward_hidden_retry(&gp_hidden, result));                                                     \
  } while (0)

gp_forward_hidden_t gp_forward_hidden_begin(int device); /* binds the driver */
bool gp_forward_hidden_retry(gp_forward_hidden_t *call, CUresult result);

#endif
