/* Allocation. A request is served from blocks that its thread has freed (heaps.h), otherwise by a hit or a
 * miss (hit.h). If the pool does not serve the request, the driver does. */
#include "pool/space/driver_calls.h"
#include "pool/events.h"
#include "pool/serve/damage.h"
#include "pool/serve/fill.h"
#include "pool/forwarded/forwarded.h"
#include "pool/serve/heaps.h"
#include "pool/serve/hit.h"
#include "pool/reuse/mode.h"
#include "pool/limits/oom.h"
#include "pool/reuse/stream_points.h"
#include "pool/reuse/wait.h"

/* Forwards an invalid size, because the driver has the error code: 0, or a size that overflows when
 * rounded. */
static __attribute__((noinline)) int alloc_invalid(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_context_t *context = request->context;

  int code = gp_driver_alloc(engine, &context->driver, request->requested, &request->ret_address);
  if (code == engine->driver.ops->code_out_of_memory)
    gp_oom_report(engine, context, request->requested, false, gp_oom_largest_idle(context->device), NULL);
  return code;
}

/* Restricts the request to blocks of exactly this size, and parts that are cut to it. */
static void set_size(gp_request_t *request, uint64_t size)
{
  request->fit = (gp_fit_t){.least = request->needed, .fresh = size, .class_bytes = size, .most = size};
  request->size = size;
}

/* Chooses a separate driver allocation for the request, which the program can export as a whole. */
static __attribute__((noinline)) void choose_whole(gp_request_t *request)
{
  const gp_engine_t *engine = request->engine;
  uint64_t size = request->size;

  if (size != 0) /* the pool type has no size classes of its own */
    size = size <= GP_DRIVER_SHARED_MAX
               ? gp_pool_type_round.block_bytes(&engine->type_config, request->needed)
               : gp_round_up(size, GP_DRIVER_PAGE);
  request->is_cut = size == 0; /* true if rounding overflowed */
  if (size != 0)
    set_size(request, size);
}

static inline __attribute__((always_inline)) void choose_cut(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;

  request->is_cut = engine->type->cuts;
  if (request->is_cut && request->size >= atomic_load_explicit(&engine->whole_least, memory_order_relaxed))
    choose_whole(request);
}

/* Serves the request from blocks that its thread has freed. */
static inline __attribute__((always_inline)) bool serve_from_heap(gp_request_t *request)
{
  return gp_heap_alloc(request->engine, request->context, request->size, request->is_cut, request->requested,
      &request->ret_address);
}

static inline __attribute__((always_inline)) int alloc_pooled(gp_request_t *request)
{
  choose_cut(request);
  if (serve_from_heap(request))
    return 0;
  return request->engine->type->keeps_blocks && gp_hit_plain(request) ? 0 : gp_miss(request);
}

/* Makes the driver's call while the engine is suspended, or after pooling has stopped, and records the
 * memory as forwarded. Sets *ret_again if the driver has no memory, but the engine is no longer suspended. */
static int alloc_once(gp_request_t *request, gp_oom_attempts_t *attempts, bool *ret_again)
{
  gp_engine_t *engine = request->engine;
  gp_forwarded_t memory = {.size = request->requested, .kind = GP_FORWARDED_CAPTURE};

  gp_request_look_for_escapes(request);
  if (!gp_engine_forwarded_reserve(engine, request->context, request->requested, memory.kind))
    return engine->driver.ops->code_out_of_memory;
  memory.time_ns = gp_now(engine);
  int code = gp_driver_alloc(engine, &request->context->driver, request->requested, &memory.address);
  if (code == engine->driver.ops->code_out_of_memory &&
      gp_oom_release_after_stop(engine, request->context, attempts))
    code = gp_driver_alloc(engine, &request->context->driver, request->requested, &memory.address);
  if (code != 0) {
    gp_engine_forwarded_cancel(engine, request->context, request->requested, memory.kind);
    *ret_again = code == engine->driver.ops->code_out_of_memory &&
                 (gp_wait_for_endings(engine, request->context->device, attempts) ||
                     gp_engine_service(engine) == GP_SERVICE_POOL);
    return code;
  }
  gp_engine_forwarded_commit(engine, request->context, &memory, gp_now(engine) - memory.time_ns);
  request->ret_address = memory.address;
  return 0;
}

/* Out of line, so that other allocations need no stack for it. */
static __attribute__((noinline)) int alloc_forwarded(gp_request_t *request)
{
  gp_oom_attempts_t attempts = {.next_step = 0};
  bool again = false;

  int code = alloc_once(request, &attempts, &again);
  while (again) {
    again = false;
    if (gp_engine_service(request->engine) == GP_SERVICE_POOL)
      return alloc_pooled(request);
    code = alloc_once(request, &attempts, &again);
  }
  return code;
}

/* Serves a request in every service but POOL. Service BESIDE (during a capture) allocates memory that the
 * pool already has, which needs no driver call. All other requests are forwarded. */
static __attribute__((noinline)) int alloc_restricted(gp_request_t *request, gp_service_t service)
{
  if (service == GP_SERVICE_BESIDE && !gp_mode_thread_captures(request->engine)) {
    choose_cut(request);
    if (request->engine->type->keeps_blocks && (gp_hit(request) || gp_hit_after_drain(request)))
      return 0;
  }
  return alloc_forwarded(request);
}

/* Fills memory of the request, as work of its stream if it has one. */
static gp_fill_result_t fill_part(const gp_request_t *request, const gp_filling_t *filling)
{
  if (!request->order)
    return gp_fill_now(request->engine, request->context, filling);
  return gp_fill_in_order(request->engine, request->order, filling) ? GP_FILL_DONE : GP_FILL_OMITTED;
}

/* Fills the memory with GPUPOOL_FILL, and its red zone with GPUPOOL_CHECK. If a fill is late, the program
 * gets other memory, without a second wait: the next fill cannot begin before the late one is complete. */
static __attribute__((noinline)) int fill(const gp_request_t *request, uint64_t *ret_address)
{
  gp_engine_t *engine = request->engine;
  const uint64_t address = request->ret_address;
  const gp_filling_t contents = {.address = address, .bytes = request->requested, .value = engine->fill_byte};
  const gp_filling_t red_zone = {.address = address,
      .offset = request->requested,
      .bytes = gp_damage_red_zone(engine, request->context, address, request->requested),
      .value = engine->check_byte};

  gp_fill_result_t result = engine->fills ? fill_part(request, &contents) : GP_FILL_DONE;
  if (red_zone.bytes > 0 && result != GP_FILL_LATE) {
    result = fill_part(request, &red_zone);
    if (result == GP_FILL_DONE)
      gp_damage_watch(engine, request->context, address, red_zone.bytes);
  }
  if (result == GP_FILL_LATE)
    return gp_engine_alloc(engine, request->context, request->requested, ret_address);
  *ret_address = address;
  return 0;
}

int gp_engine_alloc(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  gp_request_t request; /* request.fit is set below */
  int code;

  gp_assert(context);
  request.engine = engine;
  request.context = context;
  request.arena = context;
  request.order = NULL;
  request.requested = bytes;
  gp_find_origin(engine, GP_OCCASION_ALLOC, bytes);
  gp_service_t service = gp_engine_service(engine);
  if (service == GP_SERVICE_REFUSE) {
    gp_oom_report(engine, context, bytes, true, 0, NULL);
    return engine->driver.ops->code_out_of_memory;
  }
  bool is_checked = gp_damage_is_checked(engine);
  request.needed = is_checked ? gp_damage_block_bytes(engine, bytes) : bytes;
  if (bytes > 0 && gp_type_fit(engine->type, &engine->type_config, request.needed, &request.fit))
    request.size = request.fit.fresh;
  else
    request.size = 0;
  if (__builtin_expect(is_checked, 0) && request.size != 0 && service == GP_SERVICE_POOL)
    gp_damage_search_for(engine, context, context, &request.fit, engine->type->cuts);
  if (request.size == 0)
    code = alloc_invalid(&request);
  else
    code = service == GP_SERVICE_POOL ? alloc_pooled(&request) : alloc_restricted(&request, service);
  if (code != 0)
    return code;
  if (__builtin_expect(engine->fills || is_checked, 0))
    return fill(&request, ret_address);
  *ret_address = request.ret_address;
  return 0;
}

bool gp_engine_alloc_kept(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  gp_request_t request = {
      .engine = engine, .context = context, .arena = context, .requested = bytes, .needed = bytes};

  gp_assert(context);
  if (gp_engine_service(engine) != GP_SERVICE_POOL || !engine->type->keeps_blocks || bytes == 0 ||
      engine->fills || gp_damage_is_checked(engine) ||
      !gp_type_fit(engine->type, &engine->type_config, bytes, &request.fit))
    return false;
  request.size = request.fit.fresh;
  gp_find_origin(engine, GP_OCCASION_ALLOC, bytes);
  choose_cut(&request);
  if (!serve_from_heap(&request) && !gp_hit_plain(&request))
    return false;
  *ret_address = request.ret_address;
  return true;
}

/*
 * Returns the record from which a stream-ordered request gets its memory. Parts of the context's segments and
 * mapped memory serve both kinds of requests, but they belong to the context: other contexts and devices may
 * have no access.
 */
static gp_context_t *async_arena(const gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;
  bool is_apart =
      !engine->orders_plain || atomic_load_explicit(&device->async_is_apart, memory_order_relaxed);
  return is_apart ? &device->async_context : context;
}

bool gp_engine_alloc_async(
    gp_engine_t *engine, const gp_stream_order_t *order, uint64_t bytes, uint64_t *ret_address, int *ret_code)
{
  gp_context_t *arena = async_arena(engine, order->context);
  const gp_pool_type_t *type = arena->is_async ? &gp_pool_type_vmm : engine->type;
  gp_request_t request = {.engine = engine,
      .context = order->context,
      .arena = arena,
      .order = order,
      .requested = bytes,
      .needed = gp_damage_block_bytes(engine, bytes),
      .is_cut = true};

  if (!engine->serves_async || bytes == 0 || gp_mode_forwards_async(engine) ||
      !gp_type_fit(type, &engine->type_config, request.needed, &request.fit))
    return false;
  gp_stream_points_want(engine);
  gp_find_origin(engine, GP_OCCASION_ALLOC, bytes);
  request.size = request.fit.fresh;
  if (!arena->is_async)
    choose_cut(&request);
  if (gp_damage_is_checked(engine) && !gp_engine_is_suspended(engine))
    gp_damage_search_for(engine, order->context, arena, &request.fit, request.is_cut);
  *ret_code = 0;
  if (gp_engine_is_suspended(engine)) {
    if (!gp_hit_during_capture(&request))
      return false;
  } else if (!gp_hit(&request)) {
    *ret_code = gp_miss(&request);
  }
  if (arena->is_async && *ret_code == engine->driver.ops->code_not_ready) /* no memory can be mapped now */
    return false;
  if (*ret_code != 0)
    return true;
  *ret_address = request.ret_address;
  if (engine->fills || gp_damage_is_checked(engine))
    *ret_code = fill(&request, ret_address);
  return true;
}
