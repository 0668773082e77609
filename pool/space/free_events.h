/*
 * Events behind stream-ordered frees, recorded while the device is short of memory. A request that nothing
 * else serves may get such memory although the device still uses it: the request's own stream first waits
 * for these events (wait_in_stream.h). The host never waits, and no event lies later in its stream than the
 * free: work behind the free may itself wait for the request.
 *
 * A free's event covers the freed bytes until another owner gets them, or until they are complete. Joined
 * parts keep the event of each of their frees, with the bytes that it covers.
 *
 * Addresses and sizes in bytes. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_FREE_EVENTS_H
#define GP_POOL_SPACE_FREE_EVENTS_H

#include "pool/space/block_record.h"

/* An event of a context's. Used again once nothing refers to it. */
typedef struct gp_free_event {
  struct gp_free_event *next; /* in context->spare_events */
  void *event;                /* the driver's; NULL: not made yet */
  gp_context_t *context;
  unsigned uses;
} gp_free_event_t;

/* Bytes of a block that are covered by one event. */
typedef struct gp_freed_bytes {
  struct gp_freed_bytes *next; /* of the same block, in no particular order */
  uint64_t address, size;
  gp_free_event_t *event;
} gp_freed_bytes_t;

/* An event with one use, the caller's. NULL: the host has no memory, or the context has enough of them. */
gp_free_event_t *gp_free_event_take(gp_context_t *context);
void gp_free_event_drop(gp_free_event_t *event);

/* The event covers the whole block, which has just been freed. */
void gp_free_events_cover(gp_block_t *block, gp_free_event_t *event);

/* Each byte of the block is covered. */
bool gp_free_events_are_complete(const gp_block_t *block);

/* The block takes over the neighbour's. */
void gp_free_events_join(gp_block_t *block, gp_block_t *neighbour);

/* After `rest` was split from the block's upper end: each keeps what covers its own bytes. */
void gp_free_events_split(gp_block_t *block, gp_block_t *rest);

/* Another owner gets the block, or its work is complete. */
void gp_free_events_forget(gp_block_t *block);

/* The driver's events have ended with the context, or the engine ends: frees all records of the context. */
void gp_free_events_fini(gp_context_t *context);

#endif
