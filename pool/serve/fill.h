/*
 * GPUPOOL_FILL: fills memory before the program gets it, so that its content is either the same in each run
 * (zero), or a value that no computation mistakes for a result (poison). doc/fill.md explains why. Any thread
 * may call these functions; the caller holds no lock.
 */
#ifndef GP_POOL_SERVE_FILL_H
#define GP_POOL_SERVE_FILL_H

#include "pool/records.h"

/* All bits set: not a number in every floating-point format from FP8 to FP64, -1 in integers, and an
 * invalid address on every device. */
#define GP_FILL_POISON_BYTE UINT8_C(0xff)

/* How long an allocation waits for its memory to be filled. */
#define GP_FILL_PATIENCE_NS UINT64_C(10000000000)

void gp_fill_init(gp_engine_t *engine, const gp_options_t *options);

typedef enum gp_fill_result {
  GP_FILL_DONE,
  GP_FILL_OMITTED, /* the memory is unchanged, and the library has printed a message */
  GP_FILL_LATE,    /* the fill may run at any later time: the program must not get the memory */
} gp_fill_result_t;

/* What to fill of the block at address: its contents, or its red zone (damage.h) at offset > 0. */
typedef struct gp_filling {
  uint64_t address;
  uint64_t offset;
  uint64_t bytes;
  uint8_t value;
} gp_filling_t;

/*
 * Fills memory of a request without a stream. Polls until the fill is complete, for GP_FILL_PATIENCE_NS at
 * most. If the fill is late, the caller must not use or free the memory: the record of the fill owns the
 * block until the fill is complete.
 */
gp_fill_result_t gp_fill_now(gp_engine_t *engine, gp_context_t *context, const gp_filling_t *filling);

/* Fills memory of a stream-ordered request, in that stream. Never waits. Returns false if it did not. */
bool gp_fill_in_order(gp_engine_t *engine, const gp_stream_order_t *order, const gp_filling_t *filling);

/* Returns true if a stream of gp_driver_fill_stream has no pending work. gp_fill_await polls for
 * GP_FILL_PATIENCE_NS at most. Both return false if the context has ended, or during a capture. */
bool gp_fill_is_done(gp_engine_t *engine, gp_context_t *context, uint64_t stream);
bool gp_fill_await(gp_engine_t *engine, gp_context_t *context, uint64_t stream);

/* Returns true if the context has ended, with its streams and its page-locked memory. Between
 * gp_engine_enter_question and gp_engine_leave, no context ends. */
bool gp_fill_has_ended(const gp_context_t *context);

/* For gp_engine_check: returns true if every block with a late fill in the context is still in use,
 * because other modules must treat it as the program's. The caller holds the device's lock. */
bool gp_fill_check(gp_engine_t *engine, const gp_context_t *context);

/* Frees the context's records of fills when the engine ends. */
void gp_fill_fini(gp_context_t *context);

#endif
