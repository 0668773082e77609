/*
 * Allocation: from the idle blocks of the context (a hit: one lock, no driver call), else from the driver.
 */
#include "pool/state.h"
#include "pool/util/cancel.h"

/* One request on its way. */
typedef struct gp_request {
  gp_engine_t *engine;
  gp_context_t *context;
  uint64_t requested;
  uint64_t size; /* of the block to make */
  uint64_t ret_address;
} gp_request_t;

/*
 * Under MONO any idle block will do; what is handed out while its earlier owner's work may be pending is a
 * debt. Otherwise its own context has to have completed the free: others had no work when it was freed under
 * MONO, and have completed all other frees of idle blocks. With the device's lock.
 */
static gp_block_t *take_idle(gp_engine_t *engine, gp_context_t *context, uint64_t size)
{
  if (!gp_single_stream_holds(engine))
    return gp_block_take_idle(context, size, atomic_load_explicit(&context->completed, memory_order_acquire));
  gp_block_t *block = gp_block_take_idle(context, size, UINT64_MAX);
  if (block && block->tag > atomic_load_explicit(&engine->mono_debt, memory_order_relaxed))
    atomic_store(&engine->mono_debt, block->tag);
  return block;
}

/* Serves the request from idle blocks. *ret_surplus: idle memory is overdue to go back, see the caller. */
static bool serve_from_cache(gp_request_t *request, bool *ret_surplus)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  uint64_t now_ns = gp_now(engine); /* under the lock: events of a device are in the order of their times */
  /* Over a limit that was lowered, what is idle has to go back: the miss that follows sees to that. */
  gp_block_t *block =
      gp_device_is_over_limit(device) ? NULL : take_idle(engine, request->context, request->size);
  if (block) {
    gp_block_hand_out(engine, block, request->requested, now_ns, 0, true);
    request->ret_address = block->address;
  }
  *ret_surplus = gp_release_is_due(engine, device, now_ns);
  gp_lock_release(&device->lock);
  return block != NULL;
}

/* What is ready for a block before the driver is asked for its memory. */
typedef struct gp_preparation {
  const gp_request_t *request;
  gp_block_t *block; /* NULL: the host has no memory for it */
  bool has_bin;
} gp_preparation_t;

static gp_preparation_t prepare(const gp_request_t *request)
{
  gp_device_t *device = request->context->device;
  gp_preparation_t preparation = {.request = request, .block = gp_record_take(request->engine)};

  gp_lock_take(&device->lock);
  preparation.has_bin = preparation.block && gp_block_prepare(request->context, request->size);
  gp_lock_release(&device->lock);
  return preparation;
}

/* The bytes that were counted against the limit, too. */
static void unprepare(void *arg)
{
  const gp_preparation_t *preparation = arg;
  const gp_request_t *request = preparation->request;
  gp_device_t *device = request->context->device;

  gp_limit_cancel(device, request->size);
  gp_lock_take(&device->lock);
  if (preparation->has_bin)
    gp_block_unprepare(request->context, request->size);
  gp_lock_release(&device->lock);
  if (preparation->block)
    gp_record_give(request->engine, preparation->block);
}

/*
 * Makes a block of request->size bytes; exact: not of a size that the type makes. Everything that can fail on
 * our side is done before the driver is called, so that there is nothing to undo after its success but the
 * map entry.
 */
static int serve_from_driver(gp_request_t *request, bool exact, bool *by_limit)
{
  gp_engine_t *engine = request->engine;
  gp_context_t *context = request->context;
  gp_device_t *device = context->device;
  uint64_t address = 0;
  int code;

  *by_limit = !gp_limit_reserve(engine, context, request->size, request->size, false);
  if (*by_limit)
    return engine->driver.ops->code_out_of_memory;
  gp_preparation_t preparation = prepare(request);
  gp_block_t *block = preparation.block;

  uint64_t start_ns = gp_now(engine);
  GP_CANCEL_UNDO(
      code, gp_driver_alloc(engine, &context->driver, request->size, &address), unprepare, &preparation);
  uint64_t duration_ns = gp_now(engine) - start_ns;

  if (code == 0 && preparation.has_bin) {
    block->size = request->size;
    block->exact = exact;
    __atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
    __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
    gp_lock_take(&device->lock);
    gp_release_await(device, address);
    if (gp_address_map_insert(&engine->blocks, address, block)) {
      gp_block_adopt(engine, block, start_ns, duration_ns);
      gp_block_hand_out(engine, block, request->requested, start_ns, duration_ns, false);
      gp_lock_release(&device->lock);
      request->ret_address = address;
      return 0;
    }
    gp_lock_release(&device->lock);
  }
  /* The driver refused, or the host has no memory for our records: then the program gets an untracked
   * allocation, whose free will be the driver's. */
  unprepare(&preparation);
  if (code == 0)
    request->ret_address = address;
  return code;
}

static int attempt(void *arg, bool *by_limit)
{
  gp_request_t *request = arg;
  bool surplus; /* left to the next call */

  *by_limit = false;
  if (request->engine->type->keeps_blocks && serve_from_cache(request, &surplus))
    return 0;
  return serve_from_driver(request, false, by_limit);
}

/* What a miss may learn from the device before it grows the pool, see GPUPOOL_MAX_DEFERRED. */
#define POLL_BLOCKS 128 /* as many deferred blocks of the wanted size are worth a question to the driver */

static bool serve_after_reclaim(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  bool surplus;

  gp_lock_take(&device->lock);
  uint64_t deferred = device->stats->deferred_bytes.current;
  uint64_t allowance = gp_reuse_allowance(engine, device);
  const gp_bin_t *bin = gp_bins_find(&request->context->bins, request->size);
  uint32_t same_size = bin ? bin->deferred_count : 0;
  bool withheld = bin && bin->idle; /* freed under MONO, which is over */
  gp_lock_release(&device->lock);

  if (deferred == 0 && !withheld)
    return false;
  if (gp_engine_uses_streams(engine)) { /* a stream without work holds nothing back: this asks no driver */
    gp_reuse_advance(engine, true);
    if (serve_from_cache(request, &surplus))
      return true;
  }
  if (deferred > allowance / 2 || same_size > POLL_BLOCKS) {
    gp_reuse_poll(engine);
    if (serve_from_cache(request, &surplus))
      return true;
  }
  if (deferred > allowance) {
    /* Not for other devices: growing is always allowed. A failure shows in the driver's answer to the
     * allocation. */
    (void)gp_reuse_await(engine, request->context);
    return serve_from_cache(request, &surplus);
  }
  return false;
}

#define FREE_TOLD_NS    UINT64_C(100000000)
#define FREE_TOLD_AMPLE 4 /* times the reserve */

/*
 * Whether the driver's last word on free memory, less what we took since, leaves so much that it need not be
 * asked again: a program that starts up would otherwise cause a question with every allocation. With the
 * device's lock.
 */
static bool has_ample_memory(const gp_device_t *device, uint64_t size, uint64_t reserve, uint64_t now_ns)
{
  uint64_t taken = device->held > device->free_told_held ? device->held - device->free_told_held : 0;
  uint64_t left = device->free_told > taken ? device->free_told - taken : 0;
  return now_ns - device->free_told_ns < FREE_TOLD_NS && left > size &&
         (left - size) / FREE_TOLD_AMPLE > reserve;
}

/* Gives idle memory back if the device would be left with less than GPUPOOL_RESERVE. */
static void keep_reserve(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  uint64_t free_bytes;
  uint64_t total_bytes;

  gp_lock_take(&device->lock);
  uint64_t cached = device->stats->cached_bytes.current;
  uint64_t reserve = gp_amount_resolve(&engine->reserve, device->total);
  bool ample = has_ample_memory(device, request->size, reserve, gp_now(engine));
  gp_lock_release(&device->lock);
  if (cached == 0 || reserve == 0 || ample ||
      !gp_limit_ask(engine, request->context, &free_bytes, &total_bytes))
    return;
  uint64_t wanted;
  if (__builtin_add_overflow(request->size, reserve, &wanted) || free_bytes >= wanted)
    return;
  free_bytes = gp_driver_available(engine, &request->context->driver, free_bytes);
  if (free_bytes < wanted)
    (void)gp_release_largest(engine, device, wanted - free_bytes, GP_TRIM_RESERVE);
}

static int alloc_miss(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  const int out_of_memory = engine->driver.ops->code_out_of_memory;
  gp_device_t *device = request->context->device;
  bool by_limit = false;

  if (engine->type->keeps_blocks) {
    if (serve_after_reclaim(request))
      return 0;
    keep_reserve(request);
  }
  int code = serve_from_driver(request, false, &by_limit);
  if (code != out_of_memory)
    return code;

  uint64_t largest_free = gp_oom_largest_idle(device);
  if (gp_release_await_all(device)) {
    code = attempt(request, &by_limit); /* another thread was giving memory back */
    if (code != out_of_memory)
      return code;
  }
  if (gp_oom_is_hopeless(engine, request->context, request->requested)) {
    gp_oom_report(engine, request->context, request->requested, by_limit, largest_free);
    return code;
  }
  code = gp_oom_climb(engine, request->context, request->size, attempt, request, &by_limit);
  uint64_t exact = gp_round_up(request->requested, GP_BLOCK_GRANULE);
  if (code == out_of_memory && exact != 0 && exact < request->size) {
    request->size = exact;
    code = serve_from_driver(request, true, &by_limit);
  }
  if (code == out_of_memory)
    gp_oom_report(engine, request->context, request->requested, by_limit, largest_free);
  return code;
}

/* While a capture is active or after a sticky error: the driver's call, recorded as not pooled. */
static int alloc_forwarded(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_forwarded_t memory = {.size = request->requested, .kind = GP_FORWARDED_CAPTURE};

  if (!gp_engine_forwarded_reserve(engine, request->context, request->requested, memory.kind))
    return engine->driver.ops->code_out_of_memory;
  memory.time_ns = gp_now(engine);
  int code = gp_driver_alloc(engine, &request->context->driver, request->requested, &memory.address);
  if (code == engine->driver.ops->code_out_of_memory && gp_aside_release(engine) > 0)
    code = gp_driver_alloc(engine, &request->context->driver, request->requested, &memory.address);
  if (code != 0) {
    gp_engine_forwarded_cancel(engine, request->context, request->requested, memory.kind);
    return code;
  }
  gp_engine_forwarded_commit(engine, request->context, &memory, gp_now(engine) - memory.time_ns);
  request->ret_address = memory.address;
  return 0;
}

int gp_engine_alloc(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  gp_request_t request = {engine, context, bytes, 0, 0};
  bool surplus = false;
  int code = 0;

  gp_assert(context);
  gp_find_origin(engine, GP_OCCASION_ALLOC, bytes);
  if (engine->refuse_all) {
    gp_oom_report(engine, context, bytes, true, 0);
    return engine->driver.ops->code_out_of_memory;
  }
  if (bytes > 0)
    request.size = engine->type->block_bytes(&engine->type_config, bytes);
  if (request.size == 0) {
    /* Zero, or so large that rounding overflows: the driver knows the answer, and it is an error. */
    code = gp_driver_alloc(engine, &context->driver, bytes, &request.ret_address);
    if (code == engine->driver.ops->code_out_of_memory)
      gp_oom_report(engine, context, bytes, false, gp_oom_largest_idle(context->device));
  } else if (gp_engine_forwards(engine)) {
    code = alloc_forwarded(&request);
  } else if (!engine->type->keeps_blocks || !serve_from_cache(&request, &surplus)) {
    code = alloc_miss(&request);
  }
  if (surplus)
    gp_release_surplus(engine, context->device, gp_now(engine));
  if (code == 0)
    *ret_address = request.ret_address;
  return code;
}
