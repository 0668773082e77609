#include "pool/reuse/contexts.h"
#include "pool/space/driver_calls.h"
#include "pool/reuse/fence_policy.h"
#include "pool/serve/grow.h"
#include "pool/serve/hit.h"
#include "pool/limits/limit.h"
#include "pool/limits/oom.h"
#include "pool/limits/oom_turn.h"
#include "pool/serve/damage.h"
#include "pool/serve/prewarm.h"
#include "pool/limits/reclaim.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/stream_points.h"
#include "pool/space/block_slab.h"
#include "pool/space/surplus.h"
#include "pool/reuse/wait_in_stream.h"
#include "base/cancel.h"

/* The records that a block needs before the pool requests its memory from the driver. */
typedef struct gp_preparation {
  const gp_request_t *request;
  gp_block_t *block; /* NULL: the host has no memory for the record */
  bool has_bin;
} gp_preparation_t;

static gp_preparation_t prepare(const gp_request_t *request)
{
  gp_device_t *device = request->context->device;
  gp_preparation_t preparation = {.request = request, .block = gp_block_slab_take(request->engine)};

  gp_lock_take(&device->lock);
  preparation.has_bin =
      preparation.block && gp_block_prepare(request->context, preparation.block, request->fit.class_bytes);
  gp_lock_release(&device->lock);
  return preparation;
}

/* Frees the prepared records, and cancels the reservation of bytes against the limit. */
static void unprepare(void *arg)
{
  const gp_preparation_t *preparation = arg;
  const gp_request_t *request = preparation->request;
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  gp_account_cancel(device, request->size, GP_SUPPLY_PLAIN);
  if (preparation->has_bin)
    gp_block_unprepare(request->context, preparation->block);
  gp_lock_release(&device->lock);
  if (preparation->block)
    gp_block_slab_give(request->engine, preparation->block);
}

/* Called after the driver has returned the address: gives the prepared block that address, and the program
 * the block. Returns false if the host has no memory for the map's entry, or if the pool has lost the
 * context and forgotten its blocks. Nothing else can fail after the driver's success. */
static bool adopt(gp_request_t *request, gp_block_t *block, uint64_t address, uint64_t start_ns, bool exact)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  uint64_t duration_ns = gp_now(engine) - start_ns;

  block->size = request->size;
  block->exact = exact;
  block->stream = request->order ? request->order->stream : 0;
  __atomic_store_n(&block->context, request->context, __ATOMIC_RELAXED);
  __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
  gp_lock_take(&device->lock);
  gp_releases_await(&device->releases, address, request->size);
  bool is_known =
      !gp_context_is_lost(request->context) && gp_address_map_insert(&engine->blocks, address, block);
  if (is_known) {
    gp_block_adopt(engine, block, start_ns, duration_ns);
    gp_block_allocate(engine, block, request->requested, start_ns, duration_ns, false);
  }
  gp_lock_release(&device->lock);
  return is_known;
}

static int ask_driver(const gp_request_t *request, uint64_t *ret_address)
{
  gp_engine_t *engine = request->engine;
  const gp_driver_context_t *context = &request->context->driver;

  return request->order ? gp_driver_alloc_in(engine, context, request->size, ret_address)
                        : gp_driver_alloc(engine, context, request->size, ret_address);
}

/*
 * Makes a block of request->size bytes. exact: the size is not one that the pool type makes. Allocates all
 * host memory for the records before it calls the driver. If the host has none, the program gets an untracked
 * allocation, which the driver will free.
 */
static int serve_from_driver(gp_request_t *request, bool exact, bool *by_limit)
{
  gp_engine_t *engine = request->engine;
  uint64_t address = 0;
  int code;

  *by_limit = !gp_limit_reserve(engine, request->context, request->size, GP_SUPPLY_PLAIN);
  if (*by_limit)
    return engine->driver.ops->code_out_of_memory;
  gp_preparation_t preparation = prepare(request);

  uint64_t start_ns = gp_now(engine);
  GP_CANCEL_UNDO(code, ask_driver(request, &address), unprepare, &preparation);

  if (code == 0)
    request->ret_address = address;
  bool is_block =
      code == 0 && preparation.has_bin && adopt(request, preparation.block, address, start_ns, exact);
  if (!is_block)
    unprepare(&preparation);
  return code;
}

/* Serves a miss: the pool grows in the way of its pool type. */
static int serve_by_growth(gp_request_t *request, bool *by_limit)
{
  if (!request->is_cut)
    return serve_from_driver(request, false, by_limit);
  const gp_need_t need = {.context = request->context,
      .arena = request->arena,
      .requested = request->requested,
      .bytes = request->size,
      .stream = request->order ? request->order->stream : 0};
  return request->engine->type->maps || request->arena->is_async
             ? gp_grow_mapped(request->engine, &need, by_limit, &request->ret_address)
             : gp_grow(request->engine, &need, by_limit, &request->ret_address);
}

static int attempt(void *arg, bool *by_limit)
{
  gp_request_t *request = arg;

  *by_limit = false;
  if (request->engine->type->keeps_blocks && gp_hit(request))
    return 0;
  int code = serve_by_growth(request, by_limit);
  bool is_refused = code == request->engine->driver.ops->code_out_of_memory;
  return is_refused && gp_wait_in_stream_serve(request) ? 0 : code;
}

/* Queries which work the device has completed, before a miss grows the pool. Returns true if that served
 * the request. */
static __attribute__((noinline)) bool serve_after_reclaim(gp_request_t *request)
{
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  uint64_t deferred = gp_device_pending(device);
  bool is_much = deferred > gp_deferred_bound(request->engine, device);
  gp_lock_release(&device->lock);
  if (deferred == 0)
    return false;
  if (gp_fence_policy_ask(request->engine, request->arena, request->fit.class_bytes, request->is_cut) &&
      gp_hit(request))
    return true;
  if (!request->order || !is_much || request->engine->driver.ops->fence_record)
    return false;
  gp_stream_records_query(request->engine, device); /* before CUDA 12.5 the streams themselves are queried */
  return gp_hit(request);
}

#define TOLD_FREE_AMPLE 4 /* multiple of the reserve */

/*
 * Returns true if the driver's last report of free memory, less the memory allocated since, leaves so much
 * that the pool need not query it again: otherwise a program that starts up would cause a query with every
 * allocation. The more memory is left, the longer the report is valid, because other processes have to
 * allocate more first. The caller holds the device's lock.
 */
static bool has_ample_memory(const gp_device_t *device, uint64_t reserve, uint64_t now_ns)
{
  uint64_t times = reserve ? gp_device_left(device) / TOLD_FREE_AMPLE / reserve : 0;
  return (now_ns - device->told_ns) / GP_QUERY_FRESH_NS < times;
}

/*
 * Called after the driver has returned memory. If the device has less than GPUPOOL_RESERVE left, idle memory
 * becomes surplus, as far as there is any. The surplus is not released here, because the driver's free may
 * wait for the device, but the driver's allocation did not.
 */
static __attribute__((noinline)) void keep_reserve(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  uint64_t free_bytes;
  uint64_t total_bytes;

  gp_lock_take(&device->lock);
  uint64_t cached = gp_device_idle(device);
  uint64_t reserve = gp_amount_resolve(&engine->reserve, device->total);
  bool ample = has_ample_memory(device, reserve, gp_now(engine));
  gp_lock_release(&device->lock);
  if (cached == 0 || reserve == 0 || ample ||
      !gp_limit_ask(engine, request->context, &free_bytes, &total_bytes))
    return;
  if (free_bytes < reserve)
    free_bytes = gp_driver_available(engine, &request->context->driver, free_bytes);
  uint64_t missing = free_bytes < reserve ? reserve - free_bytes : 0;
  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device); /* heaps stay closed while memory has to be released */
  gp_surplus_want(device, missing < cached ? missing : cached, GP_TRIM_RESERVE);
  gp_lock_release(&device->lock);
}

/*
 * Serves the request from an idle block that is up to twice as large, instead of growing beyond the budget.
 * An exported block shows its size to whoever opens it, so no request borrows once the program exports
 * memory.
 */
static bool serve_borrowed(gp_request_t *request)
{
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  bool has_room = gp_budget_allows(request->engine, device, request->size);
  gp_lock_release(&device->lock);
  if (has_room || request->is_cut || request->needed > UINT64_MAX / GP_BORROW_TIMES ||
      gp_has_exports(request->engine))
    return false;
  request->fit.borrow = GP_BORROW_TIMES * request->needed;
  bool is_served = gp_hit(request);
  request->fit.borrow = 0;
  return is_served;
}

/* Returns true if the class has an idle block. The caller holds the device's lock. */
static bool has_idle(const gp_context_t *context, uint64_t class_bytes)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  const gp_bin_t *bin = gp_bins_find(&context->bins, class_bytes);
  return bin && bin->idle;
}

/*
 * Chooses the size of the block to make. If a slightly smaller block is idle, the program's sizes vary, and a
 * block of the full class size will serve more of them. Without this rule, a buffer that grows a little each
 * time would need a new block each time.
 */
static void choose_size(gp_request_t *request)
{
  gp_context_t *context = request->arena;
  const gp_fit_t *fit = &request->fit;

  if (fit->fresh == fit->class_bytes)
    return;
  gp_lock_take(&context->device->lock);
  if ((has_idle(context, fit->class_bytes) || has_idle(context, fit->below)) &&
      gp_budget_allows(request->engine, context->device, fit->class_bytes))
    request->size = fit->class_bytes;
  gp_lock_release(&context->device->lock);
}

/* Makes one pass over the steps that make room. The last attempt allocates no more from the driver than
 * the request needs. */
static int make_room_and_serve(gp_request_t *request, bool *by_limit, gp_oom_attempts_t *attempts)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  const int out_of_memory = engine->driver.ops->code_out_of_memory;
  const uint64_t size = request->size;
  const uint64_t exact = gp_bytes_taken(request->needed);

  int code = gp_oom_make_room(engine, request->context, size, attempt, request, by_limit, attempts);
  if (code == out_of_memory && exact != 0 && exact < size) {
    request->size = exact;
    (void)gp_oom_turn_take(engine, device, attempts);
    code = serve_from_driver(request, true, by_limit);
    if (code == out_of_memory)
      request->size = size;
  }
  gp_oom_turn_leave(device);
  return code;
}

/* Queries the streams, and serves a stream-ordered request from memory whose frees are complete. If there
 * is none, makes the request's stream wait for a block. */
static bool serve_in_stream(gp_request_t *request)
{
  if (!request->order)
    return false;
  gp_stream_records_query(request->engine, request->context->device);
  return gp_hit(request) || gp_wait_in_stream_serve(request);
}

/* Serves a stream-ordered request from an idle block of cudaMalloc, because no more memory can be mapped.
 * The context is the primary context, which stays, and no other context or device has requested access.
 * Not inlined: gp_oom_report on the same path needs the stack space of the copy. */
static __attribute__((noinline)) bool serve_from_context(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  const gp_device_t *device = request->context->device;
  gp_request_t other = *request;

  if (!request->arena->is_async || !request->context->driver.is_primary ||
      atomic_load_explicit(&device->async_is_apart, memory_order_relaxed) ||
      !gp_type_fit(engine->type, &engine->type_config, request->needed, &other.fit))
    return false;
  other.arena = request->context;
  other.is_cut = engine->type->cuts;
  if (!gp_hit(&other))
    return false;
  request->ret_address = other.ret_address;
  return true;
}

/* The first steps of a miss: serves from memory that the pool has or can get without a driver allocation. */
static bool serve_from_pool(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;

  if (!request->order && gp_prewarm(engine, request->context) && gp_hit(request))
    return true;
  if (request->is_cut && gp_damage_is_checked(engine)) {
    gp_damage_flush(engine, request->context); /* parts join only when they are idle */
    if (gp_hit(request))
      return true;
  }
  return engine->type->keeps_blocks &&
         (gp_hit_after_drain(request) || serve_after_reclaim(request) || serve_borrowed(request));
}

/* The next steps: serves from new driver memory, of the full class size or of the size that the request
 * needs. */
static int serve_from_growth(gp_request_t *request, bool *by_limit)
{
  gp_engine_t *engine = request->engine;

  gp_request_look_for_escapes(request);
  choose_size(request);
  int code = serve_by_growth(request, by_limit);
  if (code == engine->driver.ops->code_out_of_memory && request->size != request->fit.fresh) {
    request->size = request->fit.fresh;
    code = serve_by_growth(request, by_limit);
  }
  if (code == 0 && engine->type->keeps_blocks)
    keep_reserve(request);
  return code;
}

/* The last steps, when neither driver nor limit allows more: memory of cudaMalloc for a stream-ordered
 * request, memory that its stream can wait for, and all memory that can be released to the driver, with
 * GPUPOOL_PATIENCE. Only these steps may wait. */
static int serve_under_shortage(gp_request_t *request, bool by_limit, gp_oom_attempts_t *attempts)
{
  gp_engine_t *engine = request->engine;
  int code = engine->driver.ops->code_out_of_memory;
  const int out_of_memory = code;

  gp_engine_flush(engine, request->context->device);
  if (serve_from_context(request))
    return 0;
  uint64_t largest_free = gp_oom_largest_idle(request->context->device);
  if (!gp_oom_is_hopeless(engine, request->context, request->requested)) {
    if (serve_in_stream(request))
      return 0;
    do
      code = make_room_and_serve(request, &by_limit, attempts);
    while (code == out_of_memory && gp_oom_again(engine, request->context, request->requested, attempts));
  }
  if (code == out_of_memory)
    gp_oom_report(engine, request->context, request->requested, by_limit, largest_free, attempts);
  return code;
}

static int miss(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  bool by_limit = false;
  gp_oom_attempts_t attempts = {
      .counted = gp_account_growth(request->context->device, request->requested, GP_SUPPLY_PLAIN)};

  gp_contexts_lose_gone(engine);
  if (serve_from_pool(request))
    return 0;
  int code = serve_from_growth(request, &by_limit);
  return code == engine->driver.ops->code_out_of_memory ? serve_under_shortage(request, by_limit, &attempts)
                                                        : code;
}

int gp_miss(gp_request_t *request)
{
  int code = miss(request);

  if (gp_stream_points_are_wanted(request->engine))
    gp_wait_in_stream_judge(request->engine, request->context);
  return code;
}
