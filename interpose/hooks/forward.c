#include "interpose/hooks/forward.h"

#include "interpose/clock.h"
#include "interpose/hooks/current_context.h"
#include "interpose/library.h"
#include "pool/util/cancel.h"

static int repeat_call(void *arg)
{
  const gp_forward_call_t *call = arg;
  return (int)call->call(call->arg);
}

/* The context to count with, NULL: not to be counted. */
static gp_context_t *context_of(gp_engine_t *engine, const gp_forward_call_t *call)
{
  gp_context_t *current = gp_current_context(engine);
  if (call->device == GP_CURRENT_DEVICE || (current && gp_context_device(current) == call->device))
    return current;
  return gp_engine_device_context(engine, call->device);
}

static CUresult second_try(gp_engine_t *engine, gp_context_t *context, const gp_forward_call_t *call)
{
  if (gp_forwarded_is_host(call->kind))
    return gp_engine_make_room(engine, context) ? call->call(call->arg) : CUDA_ERROR_OUT_OF_MEMORY;
  return (CUresult)gp_engine_forwarded_retry(
      engine, context, call->bytes, repeat_call, (void *)(uintptr_t)call);
}

/* Bytes that are counted while the driver is asked for them. */
typedef struct reservation {
  gp_engine_t *engine;
  gp_context_t *context;
  uint64_t bytes;
  gp_forwarded_kind_t kind;
} reservation_t;

static void cancel_reservation(void *arg)
{
  const reservation_t *reservation = arg;
  gp_engine_forwarded_cancel(
      reservation->engine, reservation->context, reservation->bytes, reservation->kind);
}

static CUresult call_up_to_twice(
    gp_engine_t *engine, gp_context_t *context, const gp_forward_call_t *call, bool capturing)
{
  CUresult result = call->call(call->arg);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !capturing)
    result = second_try(engine, context, call);
  return result;
}

static GP_CANCEL_NOINLINE CUresult call_driver(
    gp_engine_t *engine, gp_context_t *context, const gp_forward_call_t *call, bool capturing)
{
  reservation_t reservation = {engine, context, call->bytes, call->kind};
  CUresult result;
  GP_CANCEL_UNDO(
      result, call_up_to_twice(engine, context, call, capturing), cancel_reservation, &reservation);
  return result;
}

CUresult gp_forward_alloc(const gp_forward_call_t *call, bool *ret_counted)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine && call->bytes > 0 ? context_of(engine, call) : NULL;
  gp_forwarded_t memory = {
      .size = call->bytes,
      .key = call->key,
      .pool = call->pool,
      .kind = call->kind,
      .stream = (uint64_t)(uintptr_t)call->stream,
      .has_stream = call->has_stream,
  };

  if (ret_counted)
    *ret_counted = false;
  if (!context)
    return call->call(call->arg);
  if (!gp_engine_forwarded_reserve(engine, context, call->bytes, call->kind))
    return CUDA_ERROR_OUT_OF_MEMORY;
  bool capturing = gp_engine_is_suspended(engine);
  memory.time_ns = gp_clock_now_ns();
  CUresult result = call_driver(engine, context, call, capturing);
  gp_engine_note_result(engine, (int)result);
  if (result != CUDA_SUCCESS) {
    gp_engine_forwarded_cancel(engine, context, call->bytes, call->kind);
    return result;
  }
  uint64_t got = call->bytes_got ? call->bytes_got(call->arg) : call->bytes;
  if (got < call->bytes) {
    memory.size = got;
    gp_engine_forwarded_cancel(engine, context, call->bytes - got, call->kind);
  }
  memory.address = call->address(call->arg);
  gp_engine_forwarded_commit(engine, context, &memory, gp_clock_now_ns() - memory.time_ns);
  if (ret_counted)
    *ret_counted = true;
  return result;
}

/* A record that was taken out while the driver frees its memory; NULL: there is none. */
typedef struct taken {
  gp_engine_t *engine;
  gp_forwarded_t *memory;
} taken_t;

/* The thread ended in the driver's free. Others wait for the record, which lies in this thread's stack. */
static void count_as_freed(void *arg)
{
  const taken_t *taken = arg;
  if (taken->memory)
    gp_engine_forwarded_freed(taken->engine, taken->memory, gp_clock_now_ns(), 0);
}

CUresult gp_forward_free_in(
    gp_engine_t *engine, gp_space_t space, uint64_t key, gp_free_fn free_fn, void *arg)
{
  gp_forwarded_t memory;
  bool known = gp_engine_forwarded_take(engine, space, key, &memory);
  uint64_t start_ns = gp_clock_now_ns();
  taken_t taken = {engine, known ? &memory : NULL};
  int code;

  GP_CANCEL_UNDO(code, free_fn(arg), count_as_freed, &taken);
  if (known && code == CUDA_SUCCESS)
    gp_engine_forwarded_freed(engine, &memory, start_ns, gp_clock_now_ns() - start_ns);
  else if (known)
    gp_engine_forwarded_restore(engine, &memory);
  gp_engine_note_result(engine, code);
  return (CUresult)code;
}

CUresult gp_forward_free(gp_space_t space, uint64_t key, gp_free_fn free_fn, void *arg)
{
  gp_engine_t *engine = gp_library_engine();
  return engine ? gp_forward_free_in(engine, space, key, free_fn, arg) : (CUresult)free_fn(arg);
}

CUresult gp_forward_hidden(CUresult (*call)(void *arg), void *arg)
{
  gp_engine_t *engine = gp_library_engine();
  CUresult result = call(arg);

  if (!engine)
    return result;
  gp_context_t *context = result == CUDA_ERROR_OUT_OF_MEMORY ? gp_current_context(engine) : NULL;
  if (context && !gp_engine_is_suspended(engine) && gp_engine_make_room(engine, context))
    result = call(arg);
  gp_engine_note_result(engine, (int)result);
  return result;
}
