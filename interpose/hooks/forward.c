#include "interpose/hooks/forward.h"

#include <string.h>
#include <sys/auxv.h>

#include "interpose/clock.h"
#include "interpose/hooks/current_context.h"
#include "interpose/library.h"
#include "base/assert.h"

/* Returns the context whose device the call is counted for; NULL if the call is not counted. */
static gp_context_t *context_of(gp_engine_t *engine, const gp_forward_call_t *call)
{
  gp_context_t *current = gp_current_context(engine);
  if (call->device == GP_CURRENT_DEVICE || (current && gp_context_device(current) == call->device))
    return current;
  return gp_engine_device_context(engine, call->device);
}

uint64_t gp_forward_locked_bytes(const void *memory, uint64_t bytes)
{
  uint64_t page = getauxval(AT_PAGESZ);
  uint64_t address = (uint64_t)(uintptr_t)memory;
  uint64_t begin = address & ~(page - 1), end = address + bytes;

  if (end < address || end > UINT64_MAX - page) /* overflow: the driver will reject the range */
    return bytes;
  return ((end + page - 1) & ~(page - 1)) - begin;
}

/* Returns the bytes that the limit counts. */
static uint64_t counted(const gp_forward_call_t *call)
{
  return call->counted ? call->counted : call->bytes;
}

bool gp_forward_begin(gp_forward_call_t *call)
{
  gp_engine_t *engine = gp_library_engine();

  gp_assert(!call->engine && !call->is_counted); /* each call structure is used once */
  call->engine = engine;
  call->context = engine && call->bytes > 0 ? context_of(engine, call) : NULL;
  if (!call->context)
    return true;
  if (!gp_engine_forwarded_reserve(engine, call->context, counted(call), call->kind))
    return false;
  call->is_suspended = gp_engine_is_suspended(engine);
  call->start_ns = gp_clock_now_ns();
  return true;
}

/* Cancels the reservation of the bytes after the thread was cancelled in the driver's call. Until now the
 * bytes counted against the limit. */
void gp_forward_undo(void *arg)
{
  const gp_forward_call_t *call = arg;
  if (call->context)
    gp_engine_forwarded_cancel(call->engine, call->context, counted(call), call->kind);
}

/* Makes room for another attempt. Returns false if the call must not be repeated. A device's limit does not
 * cover host memory: such a call is repeated only once, after idle memory of the device was released. */
static bool make_room(gp_forward_call_t *call)
{
  if (!gp_forwarded_is_host(call->kind))
    return gp_engine_forwarded_retry(call->engine, call->context, call->bytes, &call->retry);
  bool is_first = !call->has_retried;
  call->has_retried = true;
  return is_first && gp_engine_make_room(call->engine, call->context);
}

bool gp_forward_retry(gp_forward_call_t *call, CUresult result)
{
  bool again;

  if (result != CUDA_ERROR_OUT_OF_MEMORY || !call->context)
    return false;
  if (call->is_suspended)
    call->is_suspended = !gp_engine_forwarded_may_retry(call->engine, call->context, &call->retry);
  if (call->is_suspended)
    return false;
  GP_CANCEL_UNDO(again, make_room(call), gp_forward_undo, call);
  return again;
}

/* Returns the bytes that the driver allocated, or the upper bound if the hook does not know them. */
static uint64_t bytes_got(const gp_forward_call_t *call)
{
  uint64_t got = call->pitch ? (uint64_t)*call->pitch * call->height : call->bytes;
  return got < call->bytes ? got : call->bytes;
}

void gp_forward_end(gp_forward_call_t *call, CUresult result, const void *place)
{
  gp_forwarded_t memory = {
      .key = call->key,
      .pool = call->pool,
      .counted = call->counted,
      .kind = call->kind,
      .stream = (uint64_t)(uintptr_t)call->stream,
      .has_stream = call->has_stream,
      .time_ns = call->start_ns,
  };

  if (!call->context)
    return;
  gp_engine_note_result(call->engine, (int)result);
  if (result != CUDA_SUCCESS) {
    gp_engine_forwarded_cancel(call->engine, call->context, counted(call), call->kind);
    return;
  }
  memory.size = bytes_got(call);
  if (memory.size < call->bytes)
    gp_engine_forwarded_shrink(call->context, call->bytes, memory.size, call->kind);
  memcpy(&memory.address, place, sizeof(memory.address));
  gp_engine_forwarded_commit(call->engine, call->context, &memory, gp_clock_now_ns() - call->start_ns);
  call->is_counted = true;
}

void gp_forward_free_begin(gp_forward_free_t *call, gp_engine_t *engine, gp_space_t space, uint64_t key,
    const gp_stream_order_t *order)
{
  call->engine = engine;
  if (!engine)
    return;
  call->is_known = gp_engine_forwarded_take(engine, space, key, &call->memory);
  if (call->is_known && order) {
    call->memory.is_freed_in_order = true;
    call->memory.freed_in = *order;
  }
  call->start_ns = gp_clock_now_ns();
}

/* Ends the record of a free after the thread was cancelled in the driver's call. The record is on this
 * thread's stack, and other threads may wait for it. */
void gp_forward_free_undo(void *arg)
{
  gp_forward_free_t *call = arg;
  if (call->engine && call->is_known)
    gp_engine_forwarded_freed(call->engine, &call->memory, gp_clock_now_ns(), 0);
}

void gp_forward_free_end(gp_forward_free_t *call, CUresult result)
{
  if (!call->engine)
    return;
  if (call->is_known && result == CUDA_SUCCESS)
    gp_engine_forwarded_freed(
        call->engine, &call->memory, call->start_ns, gp_clock_now_ns() - call->start_ns);
  else if (call->is_known) {
    call->memory.is_freed_in_order = false;
    gp_engine_forwarded_restore(call->engine, &call->memory);
  }
  gp_engine_note_result(call->engine, (int)result);
}

gp_forward_hidden_t gp_forward_hidden_begin(int device)
{
  return (gp_forward_hidden_t){.engine = gp_library_engine(), .device = device};
}

bool gp_forward_hidden_retry(gp_forward_hidden_t *call, CUresult result)
{
  gp_engine_t *engine = call->engine;

  if (!engine)
    return false;
  if (call->context)
    gp_engine_room_used(call->context);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !call->has_retried) {
    gp_context_t *context = call->device == GP_CURRENT_DEVICE
                                ? gp_current_context(engine)
                                : gp_engine_device_context(engine, call->device);
    call->has_retried = true;
    if (context && !gp_engine_is_suspended(engine) && gp_engine_make_room(engine, context)) {
      call->context = context;
      return true;
    }
  }
  gp_engine_note_result(engine, (int)result);
  return false;
}
