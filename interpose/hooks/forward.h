/*
 * The steps that all hooks of forwarded memory share: check the limit, call the driver, make room and retry,
 * record. A hook fills a gp_forward_call_t, and passes the driver's call to one of the macros below. Hooks
 * that do nothing else are rows of functions.def (forwarded.c). In all macros `result` is a variable of type
 * CUresult that gets the result for the program.
 */
#ifndef GP_INTERPOSE_HOOKS_FORWARD_H
#define GP_INTERPOSE_HOOKS_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda_abi.h"
#include "pool/forwarded/forwarded.h"
#include "base/cancel.h"

#define GP_CURRENT_DEVICE (-1)

/* One allocation. */
typedef struct gp_forward_call {
  /* From the hook. */
  uint64_t bytes; /* upper bound; 0: nothing to count, because the driver will reject the arguments */
  uint64_t
      counted;  /* what the limit counts, if not bytes: for several allocations, for whole pages; 0: bytes */
  uint64_t key; /* see gp_forwarded_t */
  uint64_t pool;
  gp_forwarded_kind_t kind;
  int device; /* has the memory; GP_CURRENT_DEVICE: the current context's device */
  CUstream stream;
  bool has_stream;
  const size_t *pitch; /* NULL, or where the driver stores the pitch of `height` rows, which may be less than
                          `bytes` */
  size_t height;

  /* Set by forward.c. The hook may read is_counted afterwards: if the memory counts, its free must, too. */
  bool is_counted;
  bool is_suspended; /* a capture was running when the call began, so it is not retried */
  bool has_retried;
  gp_forwarded_retry_t retry;
  gp_engine_t *engine;
  gp_context_t *context; /* NULL: does not count */
  uint64_t start_ns;
} gp_forward_call_t;

/* Returns the bytes of the host pages in which the range lies, since a page is locked as a whole. memory
 * NULL: the range begins with a page. */
uint64_t gp_forward_locked_bytes(const void *memory, uint64_t bytes);

/*
 * Performs an allocation: result = driver_call, within the limit. Repeats the call while the driver has no
 * memory and more room can be made; each try evaluates driver_call. place: where the driver stores the
 * address or handle, 8 bytes; read only after success.
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

bool gp_forward_begin(gp_forward_call_t *call); /* binds; false: the limit refuses */
bool gp_forward_retry(gp_forward_call_t *call, CUresult result);
void gp_forward_end(gp_forward_call_t *call, CUresult result, const void *place);
void gp_forward_undo(void *call); /* the thread ended in the driver's call */

/* A free of memory that the pool does not own. */
typedef struct gp_forward_free {
  gp_engine_t *engine; /* NULL: nothing to record */
  uint64_t start_ns;
  bool is_known;
  gp_forwarded_t memory;
} gp_forward_free_t;

/* Performs a free: result = driver_call, which frees memory that the pool does not own. It is recorded if the
 * key is known. engine NULL: the library does nothing. */
#define GP_FORWARD_FREE(result, engine, space, key, driver_call)                                             \
  GP_FORWARD_FREE_IN(result, engine, space, key, NULL, driver_call)

/* Performs a stream-ordered free: the driver has the memory back once the stream reaches it. order: that
 * stream, with a context of NULL if it is not known; NULL: no stream. */
#define GP_FORWARD_FREE_IN(result, engine, space, key, order, driver_call)                                   \
  do {                                                                                                       \
    gp_forward_free_t gp_free;                                                                               \
    gp_forward_free_begin(&gp_free, engine, space, key, order);                                              \
    GP_CANCEL_UNDO(result, driver_call, gp_forward_free_undo, &gp_free);                                     \
    gp_forward_free_end(&gp_free, result);                                                                   \
  } while (0)

/* The record is in *call until the end: *call must not move, because other threads may wait for it. */
void gp_forward_free_begin(
    gp_forward_free_t *call, gp_engine_t *engine, gp_space_t space, uint64_t key, const gp_order_t *order);
void gp_forward_free_end(gp_forward_free_t *call, CUresult result);
void gp_forward_free_undo(void *call);

/* A driver call that takes device memory for itself. */
typedef struct gp_forward_hidden {
  gp_engine_t *engine;
  int device; /* has the memory; GP_CURRENT_DEVICE: the current context's device */
  bool has_retried;
  gp_context_t *context; /* for which room was made; NULL: none was */
} gp_forward_hidden_t;

/* Performs such a call: result = driver_call. If the driver has no memory, releases all idle memory and calls
 * it again. A failed driver_call must have no effect. */
#define GP_FORWARD_HIDDEN(result, driver_call) GP_FORWARD_HIDDEN_ON(result, GP_CURRENT_DEVICE, driver_call)
#define GP_FORWARD_HIDDEN_ON(result, device, driver_call)                                                    \
  do {                                                                                                       \
    gp_forward_hidden_t gp_hidden = gp_forward_hidden_begin(device);                                         \
    do                                                                                                       \
      (result) = driver_call;                                                                                \
    while (gp_forward_hidden_retry(&gp_hidden, result));                                                     \
  } while (0)

gp_forward_hidden_t gp_forward_hidden_begin(int device); /* binds */
bool gp_forward_hidden_retry(gp_forward_hidden_t *call, CUresult result);

#endif
