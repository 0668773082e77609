/*
 * Pending stream-ordered frees (cuMemFreeAsync) of memory that is outside the driver's pools, or was in a
 * pool that the program has since destroyed. The driver returns such memory to the device only when the
 * stream reaches the free. Under a limit the memory counts until the stream is known to have reached it. That
 * is known once every context, or the stream's own context, has completed the epoch of the free
 * (reuse/stamps.h), or once a later point of the stream is complete (reuse/stream_points.h). await_pending.h
 * queries the driver.
 *
 * Memory in the driver's pools needs no record, because the driver reports the bytes that its pools have
 * reserved (gp_limit_settle).
 *
 * The caller holds the device's lock.
 */
#ifndef GP_POOL_REUSE_PENDING_FREES_H
#define GP_POOL_REUSE_PENDING_FREES_H

#include "pool/reuse/stamps.h"
#include "pool/space/account.h"

/* A record in device->pending_frees, which is ordered oldest first. */
typedef struct gp_pending_free {
  gp_list_t link;
  uint64_t address, bytes;
  gp_supply_t supply;
  bool is_host;                      /* the bytes count against the limit of page-locked memory instead */
  uint64_t epoch;                    /* the current epoch right after the free */
  const gp_context_t *owner;         /* context with which the memory ends; NULL: it outlives contexts */
  const gp_context_t *context;       /* context of the stream of the free; NULL: unknown */
  gp_stream_record_t *stream_record; /* record of that stream; NULL: none */
  uint64_t record_id;                /* id of stream_record at the free */
  uint64_t freed_as;                 /* number of this free among the stream's frees */
} gp_pending_free_t;

/*
 * Adds a free. Called after the driver's call, before the account drops the memory; under a limit the memory
 * remains counted. In `free` the caller sets address, bytes, supply, is_host and owner. GP_SUPPLY_POOLS
 * stands for memory of a driver pool that was destroyed. `order` is NULL if the stream is unknown.
 */
void gp_pending_free_add(
    gp_engine_t *engine, gp_device_t *device, const gp_pending_free_t *free, const gp_stream_order_t *order);

bool gp_pending_frees_are_none(const gp_device_t *device);

/* Stops counting memory whose frees are known to have been reached. Returns true if there was such memory. */
bool gp_pending_frees_retire(gp_engine_t *engine, gp_device_t *device);

/* Stops counting memory that was freed in the stream in `epoch` or before. Called after the driver has
 * reported that the stream has no pending work. `id` is the id of the stream record before that query. */
void gp_pending_frees_passed(gp_engine_t *engine, gp_device_t *device,
    const gp_stream_record_t *stream_record, uint64_t id, uint64_t epoch);

/* Frees all records when the engine ends. */
void gp_pending_frees_fini(gp_device_t *device);

#endif
