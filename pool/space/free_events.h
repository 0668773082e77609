/*
 * Events of stream-ordered frees, recorded while the device is short of memory. If nothing else serves a
 * request, it may get such memory although the device still uses it. The request's own stream then first
 * waits for these events (wait_in_stream.h). The host never waits. No event is recorded later in its stream
 * than the free, because work after the free may itself wait for the request.
 *
 * The event of a free covers the freed bytes until another owner gets them, or until the work before the free
 * is complete. Joined parts keep the event of each of their frees, with the bytes that it covers.
 *
 * Addresses and sizes are in bytes. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_FREE_EVENTS_H
#define GP_POOL_SPACE_FREE_EVENTS_H

#include "pool/space/block_record.h"

/* An event of a context. It is reused when no block and no caller uses it any more. */
typedef struct gp_free_event {
  struct gp_free_event *next; /* link in context->spare_events */
  void *event;                /* the driver's event; NULL: not created yet */
  gp_context_t *context;
  unsigned uses;
} gp_free_event_t;

/* Bytes of a block that one event covers. */
typedef struct gp_freed_bytes {
  struct gp_freed_bytes *next; /* next bytes of the same block, in no particular order */
  uint64_t address, size;
  gp_free_event_t *event;
} gp_freed_bytes_t;

/* gp_free_event_take returns an event with one use, which the caller ends with gp_free_event_drop. Returns
 * NULL if the host has no memory, or if the context already has the most events allowed. */
gp_free_event_t *gp_free_event_take(gp_context_t *context);
void gp_free_event_drop(gp_free_event_t *event);

/* Makes the event cover the whole block, which has just been freed. */
void gp_free_events_cover(gp_block_t *block, gp_free_event_t *event);

/* Returns true if events cover every byte of the block. */
bool gp_free_events_are_complete(const gp_block_t *block);

/* Moves the events of the neighbour to the block. */
void gp_free_events_join(gp_block_t *block, gp_block_t *neighbour);

/* Divides the events between the block and `rest`, which was split from its upper end. */
void gp_free_events_split(gp_block_t *block, gp_block_t *rest);

/* Drops the events of the block, because another owner gets the block, or because the work before its free is
 * complete. */
void gp_free_events_forget(gp_block_t *block);

/* Frees all event records of the context. Called when the context has ended, which ends the driver's events,
 * or when the engine ends. */
void gp_free_events_fini(gp_context_t *context);

#endif
