/*
 * Forwarded memory: the driver serves it, and the engine counts, limits and records it, whichever CUDA
 * function allocated it.
 *
 * For an allocation: before the driver's call, call gp_engine_forwarded_reserve, which counts the bytes
 * against the limit. After the call, call commit if it succeeded, or cancel. For a free: call take before the
 * driver's call, because the driver may return the same address or handle to another thread as soon as the
 * memory is free. After the call, call freed, or restore if the driver refused.
 *
 * Any thread may call these functions. The context determines the device: pass the current context, or the
 * result of gp_engine_device_context.
 */
#ifndef GP_POOL_FORWARDED_FORWARDED_H
#define GP_POOL_FORWARDED_FORWARDED_H

#include "pool/engine.h"
#include "pool/forwarded/forwarded_table.h"

/* gp_engine_forwarded_reserve counts bytes that the caller is about to allocate, and first releases idle
 * blocks if necessary. Returns false if the limit refuses. It has then reported out of memory, and the caller
 * returns that error to the program. gp_engine_forwarded_cancel undoes the reservation. */
bool gp_engine_forwarded_reserve(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_kind_t kind);
void gp_engine_forwarded_cancel(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_kind_t kind);

/* Reduces a reservation if the driver needed only `used` bytes. Not legal for memory of the driver's own
 * pools. */
void gp_engine_forwarded_shrink(
    gp_context_t *context, uint64_t reserved, uint64_t used, gp_forwarded_kind_t kind);

/* Records the allocation, and copies *memory. The member `size`, or `counted` if it is set, must equal the
 * reserved bytes, or the bytes left after shrink. */
void gp_engine_forwarded_commit(
    gp_engine_t *engine, gp_context_t *context, const gp_forwarded_t *memory, uint64_t duration_ns);

/* Copies the record with this key. Returns false if there is none. */
bool gp_engine_forwarded_find(
    gp_engine_t *engine, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);

/* gp_engine_forwarded_take removes the record with this key from the table, before a free. Returns false if
 * there is none. *ret_memory must not be moved until gp_engine_forwarded_freed or restore is called. */
bool gp_engine_forwarded_take(
    gp_engine_t *engine, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);
void gp_engine_forwarded_freed(
    gp_engine_t *engine, gp_forwarded_t *memory, uint64_t time_ns, uint64_t duration_ns);
void gp_engine_forwarded_restore(gp_engine_t *engine, gp_forwarded_t *memory);

/* The progress of the attempts to make room for one allocation. The caller zeroes it before the first
 * attempt. */
typedef struct gp_forwarded_retry {
  uint64_t largest_free; /* largest idle block before the first attempt, for the report */
  gp_oom_attempts_t attempts;
  bool has_begun;
} gp_forwarded_retry_t;

/* Called if the engine was suspended during the driver's call and so could not make room. Waits for threads
 * that are ending contexts. Returns true if the engine is no longer suspended, so that the caller can retry.
 */
bool gp_engine_forwarded_may_retry(gp_engine_t *engine, gp_context_t *context, gp_forwarded_retry_t *retry);

/*
 * Makes room after the driver had no memory for an allocation of `bytes`. The caller calls it after each such
 * refusal. Returns true if the caller should call the driver again. Returns false if no attempt is left; out
 * of memory has then been reported.
 */
bool gp_engine_forwarded_retry(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_retry_t *retry);

/* Called before and after the program destroys one of the driver's memory pools, which has reserved
 * `reserved` bytes of the device (0: unknown). Allocations from the pool stay valid, but the library can no
 * longer query the pool. */
gp_ending_pool_t gp_engine_mempool_ends(gp_engine_t *engine, uint64_t pool, int device, uint64_t reserved);
void gp_engine_mempool_ended(gp_engine_t *engine, const gp_ending_pool_t *ending);

/*
 * Copies the allocations of a device, in no particular order, all from the same moment. Returns their number.
 * If that is more than `capacity`, the array has only the first `capacity` allocations, and the caller
 * retries with a larger array.
 */
size_t gp_engine_forwarded_copy(gp_engine_t *engine, int device, gp_forwarded_t *array, size_t capacity);

#endif
