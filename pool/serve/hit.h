/*
 * Hits: these functions serve a request from memory that the pool has, with one lock and no driver call. They
 * return false, with nothing changed, if no such memory fits. Any thread may call them, with no lock held.
 */
#ifndef GP_POOL_SERVE_HIT_H
#define GP_POOL_SERVE_HIT_H

#include "pool/events.h"
#include "pool/serve/heaps.h"
#include "pool/reuse/drain.h"
#include "pool/space/block_life.h"
#include "pool/space/budget.h"
#include "pool/space/account.h"

/* A request while it is served: alloc.c begins it, hit.c and miss.c serve it. */

typedef struct gp_request {
  gp_engine_t *engine;
  gp_context_t *context;
  gp_context_t *arena; /* has the blocks that may serve the request: the context, or device->async_context */
  const gp_stream_order_t *order; /* the stream of a stream-ordered request, in `context`; NULL: no stream */
  uint64_t requested;
  uint64_t needed; /* bytes that the block must have: `requested`, and a red zone (damage.h) */
  gp_fit_t fit;    /* which idle blocks may serve the request */
  uint64_t size;   /* size of a new block: the size of its class */
  uint64_t ret_address;
  bool is_cut; /* the block is a part of a segment or of mapped memory */
} gp_request_t;

/* See look_for_escapes in driver.h. */
static inline void gp_request_look_for_escapes(const gp_request_t *request)
{
  const gp_driver_t *driver = &request->engine->driver;
  if (driver->ops->look_for_escapes)
    driver->ops->look_for_escapes(driver->self);
}

/* Serves the request from memory of the pool, without new memory from the driver. */
bool gp_hit(gp_request_t *request);

/* Serves the request from blocks that are known to be complete, but are still queued as deferred. */
bool gp_hit_after_drain(gp_request_t *request);

/* Serves a request during a capture, in a stream that is not capturing, and submits nothing to that
 * stream. */
bool gp_hit_during_capture(gp_request_t *request);

/* Serves a request without a stream. Inline, since most allocations call only this. */
static inline __attribute__((always_inline)) bool gp_hit_plain(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  gp_block_t *block = NULL;

  gp_heap_prepare(engine, device);
  uint64_t clock_ns = gp_request_clock(engine);
  gp_lock_take(&device->lock);
  gp_heap_fold_own(engine, device, true);
  uint64_t now_ns = gp_request_time(engine, device, clock_ns);
  /* Over a lowered limit idle memory has to be released: the miss that follows releases it. */
  bool may_serve = !gp_device_is_over_limit(device);
  if (may_serve)
    block = gp_drain_for(engine, request->context, &request->fit, request->is_cut, now_ns);
  if (!block) {
    gp_drain_some(engine, request->context, now_ns);
    block = may_serve ? gp_block_take_idle(engine, request->context, &request->fit, request->is_cut) : NULL;
  }
  if (block) {
    gp_block_set_stream(block, 0);
    if (__builtin_expect(request->fit.borrow != 0, 0))
      gp_budget_borrow(device, block, &request->fit);
    gp_block_allocate(engine, block, request->requested, now_ns, 0, true);
    request->ret_address = block->address;
    gp_heap_adopt(engine, block);
  }
  gp_lock_release(&device->lock);
  return block != NULL;
}

/* Serves a miss: no memory of the pool fits, so gp_miss queries which work the device has completed, and
 * allocates from the driver. Returns 0, with request->ret_address set, or the driver's code. Any thread
 * may call it, with no lock held. */
int gp_miss(gp_request_t *request);

#endif
