#include "pool/space/driver_calls.h"

#include "pool/events.h"
#include "pool/reuse/mode.h"
#include "base/cancel.h"

/* Calls a function of the driver table and stores its code in `result`. `...` are the arguments after the
 * table's own. The program did not request this call, or not in this form. So the thread cannot be cancelled
 * in it, because nothing would clean up afterwards. */
#define OWN_CALL(result, engine, function, ...)                                                              \
  do {                                                                                                       \
    gp_assert(gp_locks_held() == 0);                                                                         \
    int cancel_state = gp_cancel_hold();                                                                     \
    result = (engine)->driver.ops->function((engine)->driver.self, __VA_ARGS__);                             \
    gp_cancel_restore(cancel_state);                                                                         \
  } while (0)

/* Makes an OWN_CALL and returns its code from the calling function. */
#define RETURN_OWN_CALL(engine, function, ...)                                                               \
  do {                                                                                                       \
    int code;                                                                                                \
    OWN_CALL(code, engine, function, __VA_ARGS__);                                                           \
    return code;                                                                                             \
  } while (0)

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

int gp_driver_alloc_in(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  uint64_t address = 0;
  int code;

  gp_find_origin(engine, GP_OCCASION_DRIVER, bytes);
  OWN_CALL(code, engine, alloc_in, context, bytes, &address);
  if (code != 0) {
    gp_engine_note_result(engine, code);
    return code;
  }
  gp_assert(address > 1);
  *ret_address = address;
  return 0;
}

int gp_driver_enter_stream(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, void **event)
{
  RETURN_OWN_CALL(engine, enter_stream, context, stream, event);
}

int gp_driver_stream_wait(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, void *event)
{
  int code;
  OWN_CALL(code, engine, stream_wait, context, stream, event);
  gp_engine_note_result(engine, code);
  return code;
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
  RETURN_OWN_CALL(engine, wait, context);
}

int gp_driver_wait_as_free(gp_engine_t *engine, const gp_driver_context_t *context)
{
  RETURN_OWN_CALL(engine, wait_as_free, context);
}

int gp_driver_reserve(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  int code;
  OWN_CALL(code, engine, reserve, context, bytes, ret_address);
  gp_engine_note_result(engine, code);
  return code;
}

int gp_driver_unreserve(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address, uint64_t bytes)
{
  RETURN_OWN_CALL(engine, unreserve, context, address, bytes);
}

int gp_driver_create(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_handle)
{
  int code;
  gp_find_origin(engine, GP_OCCASION_DRIVER, bytes);
  OWN_CALL(code, engine, create, context, bytes, ret_handle);
  gp_engine_note_result(engine, code);
  return code;
}

int gp_driver_destroy(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t handle)
{
  int code;
  OWN_CALL(code, engine, destroy, context, handle);
  gp_engine_note_result(engine, code);
  return code;
}

int gp_driver_map(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address, uint64_t bytes,
    uint64_t handle)
{
  int code;
  OWN_CALL(code, engine, map, context, address, bytes, handle);
  gp_engine_note_result(engine, code);
  return code;
}

int gp_driver_unmap(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address, uint64_t bytes)
{
  int code;
  OWN_CALL(code, engine, unmap, context, address, bytes);
  gp_engine_note_result(engine, code);
  return code;
}

int gp_driver_allow(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, int device)
{
  int code;
  OWN_CALL(code, engine, allow, context, address, bytes, device);
  gp_engine_note_result(engine, code);
  return code;
}

int gp_driver_fill_stream(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_stream)
{
  RETURN_OWN_CALL(engine, fill_stream, context, ret_stream);
}

int gp_driver_fill(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, uint64_t address,
    uint64_t bytes, uint8_t value)
{
  RETURN_OWN_CALL(engine, fill, context, stream, address, bytes, value);
}

int gp_driver_fill_query(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream)
{
  RETURN_OWN_CALL(engine, fill_query, context, stream);
}

int gp_driver_host_alloc(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, void **ret_host)
{
  RETURN_OWN_CALL(engine, host_alloc, context, bytes, ret_host);
}

int gp_driver_copy_out(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, void *host,
    uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch)
{
  RETURN_OWN_CALL(engine, copy_out, context, stream, host, address, bytes, rows, pitch);
}

int gp_driver_memory_info(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  int code;
  OWN_CALL(code, engine, memory_info, context, ret_free, ret_total);
  gp_engine_note_result(engine, code);
  return code;
}

uint64_t gp_driver_host_available(gp_engine_t *engine, const gp_driver_context_t *context)
{
  uint64_t available = 0;

  if (engine->driver.ops->host_available)
    OWN_CALL(available, engine, host_available, context);
  return available;
}

uint64_t gp_driver_available(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t free_bytes)
{
  uint64_t available = gp_driver_host_available(engine, context);

  return available > free_bytes ? available : free_bytes;
}

int gp_driver_fence_record(gp_engine_t *engine, const gp_driver_context_t *context, void **fence)
{
  RETURN_OWN_CALL(engine, fence_record, context, fence);
}

int gp_driver_fence_query(gp_engine_t *engine, const gp_driver_context_t *context, void *fence)
{
  RETURN_OWN_CALL(engine, fence_query, context, fence);
}

int gp_driver_stream_query(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream)
{
  RETURN_OWN_CALL(engine, stream_query, context, stream);
}

int gp_driver_default_query(gp_engine_t *engine, const gp_driver_context_t *context)
{
  RETURN_OWN_CALL(engine, default_query, context);
}

int gp_driver_async_reserved(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_bytes, uint64_t *ret_used)
{
  RETURN_OWN_CALL(engine, async_reserved, context, ret_bytes, ret_used);
}

void gp_driver_trim_async(gp_engine_t *engine, const gp_driver_context_t *context)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold();
  engine->driver.ops->trim_async(engine->driver.self, context);
  gp_cancel_restore(cancel_state);
}

void gp_driver_pause(gp_engine_t *engine, uint64_t ns)
{
  gp_assert(gp_locks_held() == 0);
  int cancel_state = gp_cancel_hold(); /* sleeping is a cancellation point */
  engine->driver.ops->pause(engine->driver.self, ns);
  gp_cancel_restore(cancel_state);
}

void gp_driver_note(gp_engine_t *engine, gp_context_t *context, int code)
{
  const gp_driver_ops_t *ops = engine->driver.ops;

  bool has_ended = code != 0 && ops->code_is_context_gone && ops->code_is_context_gone(code);
  if (has_ended && ops->context_has_ended) /* one wrong code must not drop all memory of the context */
    OWN_CALL(has_ended, engine, context_has_ended, &context->driver);
  if (!has_ended) {
    gp_engine_note_result(engine, code);
    return;
  }
  atomic_store(&context->gone, true);
  atomic_store(&engine->has_gone_contexts, true);
}

void gp_driver_count(gp_context_t *context, gp_count_t what)
{
  gp_device_t *device = context->device;

  gp_lock_take(&device->lock);
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (what == GP_COUNT_HOST_WAIT)
    gp_device_stats(device)->host_waits++;
  else
    gp_device_stats(device)->fences++;
  gp_lock_release(&device->lock);
}
