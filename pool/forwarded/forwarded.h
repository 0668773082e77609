/*
 * Memory that is not pooled: counted, limited and recorded, whatever call it came from.
 *
 * Before the driver's call: gp_engine_forwarded_reserve counts it against the limit. After the call: commit
 * with the memory that the driver gave, or cancel. A free takes the record before the driver's call,
 * because the driver may give the same address or handle to another thread as soon as it gets it back. Then
 * it calls freed, or restore if the driver refused.
 *
 * All functions may be called by any thread. The context determines the device: pass the current context,
 * or the result of gp_engine_device_context.
 */
#ifndef GP_POOL_FORWARDED_FORWARDED_H
#define GP_POOL_FORWARDED_FORWARDED_H

#include "pool/engine.h"
#include "pool/forwarded/forwarded_table.h"

/* Counts bytes that the caller is about to allocate; gives idle blocks back first if necessary. False: the
 * limit refuses. The event and the report are then written, and the caller returns out of memory. */
bool gp_engine_forwarded_reserve(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_kind_t kind);
void gp_engine_forwarded_cancel(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_kind_t kind);

/* The driver needed only `used` of the reserved bytes; not for memory of the driver's own pools. */
void gp_engine_forwarded_shrink(
    gp_context_t *context, uint64_t reserved, uint64_t used, gp_forwarded_kind_t kind);

/* Copies memory. Its size, or `counted`, must be the reserved bytes, or those left after shrink. */
void gp_engine_forwarded_commit(
    gp_engine_t *engine, gp_context_t *context, const gp_forwarded_t *memory, uint64_t duration_ns);

/* Copies the record of a key. False: there is none. */
bool gp_engine_forwarded_find(
    gp_engine_t *engine, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);

/* False: the key has no record. *ret_memory stays where it is until freed or restore. */
bool gp_engine_forwarded_take(
    gp_engine_t *engine, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);
void gp_engine_forwarded_freed(
    gp_engine_t *engine, gp_forwarded_t *memory, uint64_t time_ns, uint64_t duration_ns);
void gp_engine_forwarded_restore(gp_engine_t *engine, gp_forwarded_t *memory);

/* Progress of the attempts to make room for one allocation; all zero before the first. */
typedef struct gp_forwarded_retry {
  uint64_t largest_free; /* before the first, for the report */
  gp_oom_attempts_t attempts;
  bool has_begun;
} gp_forwarded_retry_t;

/* The engine was suspended when the driver was asked. True: it is not any more, so that room can be made.
 * Waits for threads that end contexts. */
bool gp_engine_forwarded_may_retry(gp_engine_t *engine, gp_context_t *context, gp_forwarded_retry_t *retry);

/*
 * To be called after each refusal by the driver for lack of memory for an allocation of bytes: takes the
 * next step that makes room. True: the caller asks the driver again. False: no step is left, and this
 * has reported out of memory.
 */
bool gp_engine_forwarded_retry(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_retry_t *retry);

/* The program is about to end one of the driver's memory pools, which has `reserved` bytes of the device (0:
 * not known). Allocations in it live on, but the library can no longer ask the driver what that pool has.
 * ended: the driver has returned from that call. */
gp_ending_pool_t gp_engine_mempool_ends(gp_engine_t *engine, uint64_t pool, int device, uint64_t reserved);
void gp_engine_mempool_ended(gp_engine_t *engine, const gp_ending_pool_t *ending);

/*
 * Copies the allocations of a device, in no particular order, all of one moment. Returns how many
 * there are; if that is more than capacity, the array has only the first `capacity` of them:
 * retry with a larger array.
 */
size_t gp_engine_forwarded_copy(gp_engine_t *engine, int device, gp_forwarded_t *array, size_t capacity);

#endif
