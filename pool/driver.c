/*
 * Checked calls of the driver table: what every call must satisfy is asserted here, once.
 *
 * A thread can be cancelled in the two calls that the program asks for (alloc, and the free of its own
 * block), and their callers see to what they leave behind. In all others, which the program did not make, it
 * cannot.
 */
#include "pool/state.h"
#include "pool/util/cancel.h"

int gp_driver_alloc(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  uint64_t address = 0;

  gp_assert(gp_locks_held() == 0);
  gp_find_origin(engine, GP_OCCASION_DRIVER, bytes);
  int code = engine->driver.ops->alloc(engine->driver.self, context, bytes, &address);
  if (code != 0) {
    gp_engine_note_result(engine, code);
    return code;
  }
  gp_assert(address > 1);
  *ret_address = address;
  return 0;
}

int gp_driver_free_for_program(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address)
{
  gp_assert(gp_locks_held() == 0);
  gp_find_origin(engine, GP_OCCASION_DRIVER, 0);
  int code = engine->driver.ops->free(engine->driver.self, context, address);
  gp_engine_note_result(engine, code);
  return code;
}

int gp_driver_free(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address)
{
  int cancel_state = gp_cancel_hold();
  int code = gp_driver_free_for_program(engine, context, address);
  gp_cancel_restore(cancel_state);
  return code;
}

int gp_driver_wait(gp_engine_t *engine, const gp_driver_context_t *context)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  int code = engine->driver.ops->wait(engine->driver.self, context);
  gp_cancel_restore(cancel_state);
  return code;
}

int gp_driver_memory_info(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  int code = engine->driver.ops->memory_info(engine->driver.self, context, ret_free, ret_total);
  gp_cancel_restore(cancel_state);
  gp_engine_note_result(engine, code);
  return code;
}

uint64_t gp_driver_available(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t free_bytes)
{
  gp_assert(gp_locks_held() == 0);
  if (!engine->driver.ops->host_available)
    return free_bytes;
  int cancel_state = gp_cancel_hold();
  uint64_t available = engine->driver.ops->host_available(engine->driver.self, context);
  gp_cancel_restore(cancel_state);
  return available > free_bytes ? available : free_bytes;
}

int gp_driver_fence_record(gp_engine_t *engine, const gp_driver_context_t *context, void **fence)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  int code = engine->driver.ops->fence_record(engine->driver.self, context, fence);
  gp_cancel_restore(cancel_state);
  return code;
}

int gp_driver_fence_query(gp_engine_t *engine, const gp_driver_context_t *context, void *fence)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  int code = engine->driver.ops->fence_query(engine->driver.self, context, fence);
  gp_cancel_restore(cancel_state);
  return code;
}

int gp_driver_stream_fence_record(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, void **fence)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  int code = engine->driver.ops->stream_fence_record(engine->driver.self, context, stream, fence);
  gp_cancel_restore(cancel_state);
  return code;
}

int gp_driver_default_query(gp_engine_t *engine, const gp_driver_context_t *context)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  int code = engine->driver.ops->default_query(engine->driver.self, context);
  gp_cancel_restore(cancel_state);
  return code;
}

int gp_driver_order(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  int code = engine->driver.ops->order(engine->driver.self, context, stream);
  gp_cancel_restore(cancel_state);
  return code;
}

int gp_driver_async_reserved(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_bytes)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  int code = engine->driver.ops->async_reserved(engine->driver.self, context, ret_bytes);
  gp_cancel_restore(cancel_state);
  return code;
}

void gp_driver_trim_async(gp_engine_t *engine, const gp_driver_context_t *context)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  engine->driver.ops->trim_async(engine->driver.self, context);
  gp_cancel_restore(cancel_state);
}
