/*
 * Pending stream-ordered frees (cuMemFreeAsync) of memory that is outside the driver's pools, or was in a
 * pool that the program has destroyed since. The driver returns such memory to the device only when the
 * stream reaches the free. Under a limit the memory counts until the stream is known to have reached it:
 * because every context, or the stream's own context, has completed the epoch of the free (reuse/stamps.h),
 * or because a later point of the stream is complete (reuse/stream_points.h). await_pending.h queries the
 * driver.
 *
 * Memory in the driver's pools needs no record, because the driver reports what its pools have
 * (gp_limit_settle).
 *
 * The caller holds the device's lock.
 */
#ifndef GP_POOL_REUSE_PENDING_FREES_H
#define GP_POOL_REUSE_PENDING_FREES_H

#include "pool/reuse/stamps.h"
#include "pool/space/account.h"

/* In device->pending_frees, oldest first. */
typedef struct gp_pending_free {
  gp_list_t link;
  uint64_t address, bytes;
  gp_supply_t supply;
  bool is_host;                      /* counts against the limit of page-locked memory instead */
  uint64_t epoch;                    /* current after the free */
  const gp_context_t *owner;         /* context with which the memory ends; NULL: it outlives contexts */
  const gp_context_t *context;       /* of the stream; NULL: unknown */
  gp_stream_record_t *stream_record; /* the stream's; NULL: none */
  uint64_t record_id;                /* its id at the free */
  uint64_t freed_as;                 /* number of this free among the frees in the stream */
} gp_pending_free_t;

/*
 * Adds a free after the driver's call, before the account drops the memory, which remains counted if there is
 * a limit. In `free` the caller sets address, bytes, supply, is_host and owner; GP_SUPPLY_POOLS means a
 * driver pool that was destroyed. order NULL: the stream is unknown.
 */
void gp_pending_free_add(
    gp_engine_t *engine, gp_device_t *device, const gp_pending_free_t *free, const gp_stream_order_t *order);

bool gp_pending_frees_are_none(const gp_device_t *device);

/* Stops counting memory whose frees are known to be reached. Returns true if there was such memory. */
bool gp_pending_frees_retire(gp_engine_t *engine, gp_device_t *device);

/* Stops counting memory that was freed in the stream in `epoch` or before, because the driver has since
 * reported that the stream has no pending work. id: the id of the stream record before the query. */
void gp_pending_frees_passed(gp_engine_t *engine, gp_device_t *device,
    const gp_stream_record_t *stream_record, uint64_t id, uint64_t epoch);

/* Frees all records, at the engine's end. */
void gp_pending_frees_fini(gp_device_t *device);

#endif
