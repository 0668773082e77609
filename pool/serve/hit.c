#include "pool/serve/hit.h"

#include "pool/reuse/stream_records.h"
#include "pool/reuse/stream_points.h"

/* Takes an idle block for the request and returns it, or returns NULL. The caller holds the device's lock. */
static gp_block_t *take_complete(const gp_request_t *request)
{
  return gp_block_take_idle(request->engine, request->arena, &request->fit, request->is_cut);
}

/*
 * Takes a block that was freed in the same stream, even if the device may still use it. If there is none,
 * takes a block whose free every context has completed. *ret_entry is that of gp_stream_record_take. The
 * caller holds the device's lock.
 */
static gp_block_t *take_async(const gp_request_t *request, uint64_t now_ns, bool *ret_entry)
{
  gp_engine_t *engine = request->engine;
  gp_block_t *block = gp_stream_record_take(engine, request->order->stream_record, request->arena,
      &request->fit, request->is_cut, now_ns, ret_entry);

  if (!block)
    block = take_complete(request);
  if (!block && gp_stream_points_drain(engine, request->context->device, now_ns, GP_DRAIN_AT_ONCE) > 0)
    block = take_complete(request);
  if (block)
    gp_block_set_stream(block, request->order->stream);
  return block;
}

/* Makes one attempt to serve a stream-ordered request from existing blocks. */
static bool serve_async(gp_request_t *request, bool *ret_entry)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  gp_block_t *block = NULL;

  *ret_entry = false;
  uint64_t clock_ns = gp_request_clock(engine);
  gp_lock_take(&device->lock);
  gp_heap_fold_own(engine, device, false);
  uint64_t now_ns = gp_request_time(engine, device, clock_ns);
  gp_drain_some(engine, request->arena, now_ns);
  if (!gp_device_is_over_limit(device))
    block = take_async(request, now_ns, ret_entry);
  if (block) {
    if (request->fit.borrow != 0)
      gp_budget_borrow(device, block, &request->fit);
    gp_block_allocate(engine, block, request->requested, now_ns, 0, true);
    request->ret_address = block->address;
  }
  gp_lock_release(&device->lock);
  return block != NULL;
}

bool gp_hit(gp_request_t *request)
{
  bool may_enter;

  if (!request->order)
    return gp_hit_plain(request);
  (void)gp_stream_record_replace_call(request->engine, request->order->stream_record);
  return serve_async(request, &may_enter) ||
         (may_enter && gp_stream_record_add_event(request->engine, request->order->stream_record) &&
             serve_async(request, &may_enter));
}

bool gp_hit_after_drain(gp_request_t *request)
{
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  gp_heaps_collect(request->engine, device);
  bool has_deferred = gp_device_pending(device) > 0;
  gp_lock_release(&device->lock);
  if (!has_deferred)
    return false;
  gp_drain_device(request->engine, device);
  return gp_hit(request) ||
         (gp_drain_by_own_context(request->engine, device, GP_DRAIN_AT_ONCE) && gp_hit(request));
}

bool gp_hit_during_capture(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  bool may_enter;

  if (!gp_stream_record_needs_no_call(request->order->stream_record))
    return false;
  if (serve_async(request, &may_enter))
    return true;
  gp_drain_device(engine, request->context->device);
  return serve_async(request, &may_enter);
}
