/*
 * Allocation: from the idle blocks of the context (a hit: one lock, no driver call), else from the driver.
 */
#include "pool/contexts.h"
#include "pool/driver_calls.h"
#include "pool/events.h"
#include "pool/fence_policy.h"
#include "pool/fill.h"
#include "pool/forwarded/forwarded.h"
#include "pool/grow.h"
#include "pool/grow_mapped.h"
#include "pool/heaps.h"
#include "pool/limit.h"
#include "pool/mode.h"
#include "pool/oom.h"
#include "pool/prewarm.h"
#include "pool/reclaim.h"
#include "pool/release.h"
#include "pool/reuse/advance.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/identities.h"
#include "pool/reuse/single.h"
#include "pool/reuse/stream_points.h"
#include "pool/space/account.h"
#include "pool/space/block_life.h"
#include "pool/space/block_slab.h"
#include "pool/space/budget.h"
#include "pool/space/surplus.h"
#include "base/cancel.h"
#include "pool/wait.h"

/* A request while it is being served. */
typedef struct gp_request {
  gp_engine_t *engine;
  gp_context_t *context;
  gp_context_t *arena;     /* has the blocks that may serve the request: the context, or device->ordered */
  const gp_order_t *order; /* a request in a stream, whose context this is; NULL: in no stream */
  uint64_t requested;
  gp_fit_t fit;  /* idle blocks that may serve it */
  uint64_t size; /* of the block to make: one of its class */
  uint64_t ret_address;
  bool is_cut;        /* makes the block a part of a segment */
  bool asks_in_doubt; /* stream-ordered: to ask the driver although its pools seem to lack the memory */
} gp_request_t;

/* The request's memory comes from the driver's own pool. */
static inline bool is_of_drivers_pool(const gp_request_t *request)
{
  return request->arena->is_ordered;
}

static inline gp_supply_t supply_of(const gp_request_t *request)
{
  return is_of_drivers_pool(request) ? GP_SUPPLY_POOLS : GP_SUPPLY_PLAIN;
}

/*
 * In mode `single` any idle block will do; a block whose earlier owner's work may be pending becomes
 * unordered work. Otherwise the block's own context must have completed its free. The other contexts had
 * no work when it was freed in mode `single`, and have completed all other frees of idle blocks. The
 * caller holds the device's lock.
 */
static inline __attribute__((always_inline)) gp_block_t *take_idle(const gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_context_t *context = request->context;
  bool is_single = gp_single_holds(engine);
  uint64_t newest = is_single ? UINT64_MAX : atomic_load_explicit(&context->completed, memory_order_acquire);
  gp_block_t *block = gp_block_take_idle(engine, context, &request->fit, newest, request->is_cut);

  if (!is_single)
    return block;
  _Atomic uint64_t *unordered = &engine->single.unordered_epoch;
  if (block && block->free_epoch > atomic_load_explicit(unordered, memory_order_relaxed))
    atomic_store(unordered, block->free_epoch);
  return block;
}

/* Serves the request from idle blocks. Inline for the one call that most allocations make. */
static inline __attribute__((always_inline)) bool serve_from_cache_inline(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  gp_block_t *block = NULL;

  gp_heap_prepare(engine, device);
  uint64_t clock_ns = gp_request_clock(engine);
  gp_lock_take(&device->lock);
  gp_heap_fold_own(engine, device, true);
  uint64_t now_ns = gp_request_time(engine, device, clock_ns);
  /* Over a lowered limit idle memory has to go back: the miss that follows takes care of that. */
  bool may_serve = !gp_device_is_over_limit(device);
  if (may_serve)
    block = gp_drain_for(engine, request->context, &request->fit, request->is_cut, now_ns);
  if (!block) {
    gp_drain_some(engine, request->context, now_ns);
    block = may_serve ? take_idle(request) : NULL;
  }
  if (block) {
    gp_block_set_stream(block, 0);
    if (__builtin_expect(request->fit.borrow != 0, 0))
      gp_budget_borrow(device, block, &request->fit);
    gp_block_hand_out(engine, block, request->requested, now_ns, 0, true);
    request->ret_address = block->address;
    gp_heap_adopt(engine, block);
  }
  gp_lock_release(&device->lock);
  return block != NULL;
}

/* Idle blocks of the driver's own pool are all complete. The caller holds the device's lock. */
static gp_block_t *take_complete(const gp_request_t *request)
{
  if (!is_of_drivers_pool(request))
    return take_idle(request);
  return gp_block_take_idle(request->engine, request->arena, &request->fit, UINT64_MAX, false);
}

/*
 * First looks for a block freed in that stream before, although the device may still use it. Else takes one
 * that every context has completed, as all idle blocks of the driver's own pool are. *ret_entry: see
 * gp_identity_take. The caller holds the device's lock.
 */
static gp_block_t *take_ordered(const gp_request_t *request, uint64_t now_ns, bool *ret_entry)
{
  gp_engine_t *engine = request->engine;
  gp_block_t *block =
      gp_identity_take(engine, request->order->identity, &request->fit, request->is_cut, now_ns, ret_entry);

  if (!block)
    block = take_complete(request);
  if (!block && gp_stream_points_drain(engine, request->context->device, now_ns, GP_DRAIN_AT_ONCE) > 0)
    block = take_complete(request);
  if (block)
    gp_block_set_stream(block, request->order->stream);
  return block;
}

/* One attempt to serve a stream-ordered request from existing blocks. */
static bool serve_ordered(gp_request_t *request, bool *ret_entry)
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
    block = take_ordered(request, now_ns, ret_entry);
  if (block) {
    if (request->fit.borrow != 0)
      gp_budget_borrow(device, block, &request->fit);
    gp_block_hand_out(engine, block, request->requested, now_ns, 0, true);
    request->ret_address = block->address;
  }
  gp_lock_release(&device->lock);
  return block != NULL;
}

/* Serves the request without new memory of the driver. */
static __attribute__((noinline)) bool serve_from_cache(gp_request_t *request)
{
  bool may_enter;

  if (!request->order)
    return serve_from_cache_inline(request);
  (void)gp_identity_take_place(request->engine, request->order->identity);
  return serve_ordered(request, &may_enter) ||
         (may_enter && gp_identity_enter(request->engine, request->order->identity) &&
             serve_ordered(request, &may_enter));
}

/* Everything that a block needs before the pool asks the driver for its memory. */
typedef struct gp_preparation {
  const gp_request_t *request;
  gp_block_t *block; /* NULL: the host has no memory for it */
  bool has_bin;
} gp_preparation_t;

static gp_preparation_t prepare(const gp_request_t *request)
{
  gp_device_t *device = request->context->device;
  gp_preparation_t preparation = {.request = request, .block = gp_block_slab_take(request->engine)};

  gp_lock_take(&device->lock);
  preparation.has_bin =
      preparation.block && gp_block_prepare(request->arena, preparation.block, request->fit.class_bytes);
  gp_lock_release(&device->lock);
  return preparation;
}

/* Also takes back the bytes counted against the limit. */
static void unprepare(void *arg)
{
  const gp_preparation_t *preparation = arg;
  const gp_request_t *request = preparation->request;
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  gp_account_cancel(device, request->size, supply_of(request));
  if (preparation->has_bin)
    gp_block_unprepare(request->arena, preparation->block);
  gp_lock_release(&device->lock);
  if (preparation->block)
    gp_block_slab_give(request->engine, preparation->block);
}

/* The driver returned the address: gives it to the prepared block, and the block to the program. False: the
 * host has no memory for the map's entry, or the pool has lost the context, whose blocks it has forgotten.
 * Nothing else can fail after the driver's success. */
static bool adopt(gp_request_t *request, gp_block_t *block, uint64_t address, uint64_t start_ns, bool exact)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  uint64_t duration_ns = gp_now(engine) - start_ns;

  block->size = request->size;
  block->exact = exact;
  block->stream = request->order ? request->order->stream : 0;
  __atomic_store_n(&block->context, request->arena, __ATOMIC_RELAXED);
  __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
  gp_lock_take(&device->lock);
  gp_releases_await(&device->releases, address, request->size);
  bool is_known =
      !gp_context_is_lost(request->arena) && gp_address_map_insert(&engine->blocks, address, block);
  if (is_known) {
    gp_block_adopt(engine, block, start_ns, duration_ns);
    gp_block_hand_out(engine, block, request->requested, start_ns, duration_ns, false);
  }
  gp_lock_release(&device->lock);
  return is_known;
}

static int ask_driver(const gp_request_t *request, uint64_t *ret_address)
{
  gp_engine_t *engine = request->engine;
  const gp_driver_context_t *context = &request->context->driver;

  if (!request->order)
    return gp_driver_alloc(engine, context, request->size, ret_address);
  return is_of_drivers_pool(request)
             ? gp_driver_alloc_ordered(engine, context, request->order->stream, request->size, ret_address)
             : gp_driver_alloc_in(engine, context, request->size, ret_address);
}

/*
 * Counts the bytes against the limit. The driver may wait for the device before it reports that its own
 * pools have no memory; so if they seem to have none, memory that the pool keeps goes back first. False:
 * the limit refuses (*by_limit), or the driver must not be asked yet.
 */
static bool reserve(const gp_request_t *request, bool *by_limit)
{
  bool is_ordered = is_of_drivers_pool(request);

  *by_limit = false;
  if (is_ordered)
    gp_heaps_settle(request->engine, request->context->device);
  if (is_ordered)
    gp_release_before_growth(request->engine, request->context->device, request->size);
  if (is_ordered && !request->asks_in_doubt &&
      gp_device_keeps_memory(request->context->device, gp_covered(request->engine)) &&
      !gp_limit_fits_pools(request->engine, request->context, request->size))
    return false;
  *by_limit = !gp_limit_reserve(request->engine, request->context, request->size, supply_of(request));
  return !*by_limit;
}

/*
 * Makes a block of request->size bytes; exact: not of a size that the type makes. Gets all host memory for
 * its records before it calls the driver. Where it got none, the program gets an untracked allocation,
 * which the driver will free.
 */
static int serve_from_driver(gp_request_t *request, bool exact, bool *by_limit)
{
  gp_engine_t *engine = request->engine;
  uint64_t address = 0;
  int code;

  if (!reserve(request, by_limit))
    return engine->driver.ops->code_out_of_memory;
  gp_preparation_t preparation = prepare(request);

  uint64_t start_ns = gp_now(engine);
  GP_CANCEL_UNDO(code, ask_driver(request, &address), unprepare, &preparation);

  if (code == 0)
    request->ret_address = address;
  if (code == 0 && is_of_drivers_pool(request))
    gp_identity_allocated(engine, request->order->identity);
  bool is_block =
      code == 0 && preparation.has_bin && adopt(request, preparation.block, address, start_ns, exact);
  if (!is_block)
    unprepare(&preparation);
  return code;
}

/* A miss: the pool grows by what the type makes of the request. */
static int serve_by_growth(gp_request_t *request, bool *by_limit)
{
  if (!request->is_cut)
    return serve_from_driver(request, false, by_limit);
  const gp_need_t need = {.context = request->context,
      .requested = request->requested,
      .bytes = request->size,
      .stream = request->order ? request->order->stream : 0};
  return request->engine->type->maps ? gp_grow_mapped(request->engine, &need, by_limit, &request->ret_address)
                                     : gp_grow(request->engine, &need, by_limit, &request->ret_address);
}

static int attempt(void *arg, bool *by_limit)
{
  gp_request_t *request = arg;

  *by_limit = false;
  if (request->engine->type->keeps_blocks && serve_from_cache(request))
    return 0;
  return serve_by_growth(request, by_limit);
}

/* Serves the request from blocks that were known to be complete but still queued. */
static bool serve_after_drain(gp_request_t *request)
{
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  gp_heaps_collect(request->engine, device);
  bool has_deferred = gp_device_pending(device) > 0;
  gp_lock_release(&device->lock);
  if (!has_deferred)
    return false;
  gp_drain_device(request->engine, device);
  return serve_from_cache(request) ||
         (gp_drain_by_own_context(request->engine, device, GP_DRAIN_AT_ONCE) && serve_from_cache(request));
}

/* Asks what the device has finished before a miss grows the pool, see GPUPOOL_MAX_DEFERRED. */
static __attribute__((noinline)) bool serve_after_reclaim(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  uint64_t deferred = gp_device_pending(device);
  uint64_t allowance = gp_reclaim_allowance(engine, device);
  bool withheld = !is_of_drivers_pool(request) &&
                  gp_block_is_withheld(request->context, &request->fit, request->is_cut); /* in `single` */
  gp_lock_release(&device->lock);

  if (deferred == 0 && !withheld)
    return false;
  if (withheld && gp_fences_poll_twice(engine) && serve_from_cache(request))
    return true;
  if (gp_fence_policy_ask(engine, request->arena, request->fit.class_bytes, request->is_cut) &&
      serve_from_cache(request))
    return true;
  return deferred > allowance && gp_wait_briefly(engine, device) && serve_from_cache(request);
}

#define TOLD_FREE_AMPLE 4 /* times the reserve */

/*
 * The driver's last word on free memory, less memory taken since, leaves enough that the pool need
 * not ask again: otherwise a program that starts up would cause a question with every allocation.
 * The more is left, the longer the word holds, for other processes have more to take first. The
 * caller holds the device's lock.
 */
static bool has_ample_memory(const gp_device_t *device, uint64_t reserve, uint64_t now_ns)
{
  uint64_t times = reserve ? gp_device_left(device) / TOLD_FREE_AMPLE / reserve : 0;
  return (now_ns - device->told_ns) / GP_TOLD_FREE_NS < times;
}

/*
 * After the driver gave memory: if the device is left with less than GPUPOOL_RESERVE, idle memory becomes
 * surplus, as much as there is now. The surplus does not go back here: the driver's free may wait for the
 * device, but the driver's allocation did not.
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
  gp_heaps_collect(engine, device); /* heaps stay closed while memory is wanted back */
  gp_surplus_want(device, missing < cached ? missing : cached, GP_TRIM_RESERVE);
  gp_lock_release(&device->lock);
}

/*
 * Instead of growing beyond the budget, serves the request from an idle block that is up to twice as large.
 * An exported block shows its size to whoever opens it, so no request borrows once the program exports
 * memory.
 */
static bool serve_borrowed(gp_request_t *request)
{
  gp_device_t *device = request->context->device;

  gp_lock_take(&device->lock);
  bool has_room = gp_budget_allows(request->engine, device, request->size);
  gp_lock_release(&device->lock);
  if (has_room || request->is_cut || request->requested > UINT64_MAX / GP_BORROW_TIMES ||
      atomic_load_explicit(&request->engine->has_exports, memory_order_relaxed))
    return false;
  request->fit.borrow = GP_BORROW_TIMES * request->requested;
  bool is_served = serve_from_cache(request);
  request->fit.borrow = 0;
  return is_served;
}

/* Idle blocks of a class; the caller holds the device's lock. */
static bool has_idle(const gp_context_t *context, uint64_t class_bytes)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  const gp_bin_t *bin = gp_bins_find(&context->bins, class_bytes);
  return bin && bin->idle;
}

/*
 * Chooses the size of the block to make. If a slightly smaller block is idle, the program's sizes vary, and
 * a block of the whole class will serve more of them. Otherwise a buffer that grows a little each time
 * would need a new block each time.
 */
static void choose_size(gp_request_t *request)
{
  gp_context_t *context = request->arena;
  const gp_fit_t *fit = &request->fit;

  if (fit->fresh == fit->class_bytes)
    return;
  gp_lock_take(&context->device->lock);
  if ((has_idle(context, fit->class_bytes) || has_idle(context, fit->below)) &&
      gp_budget_allows(request->engine, context->device, fit->class_bytes) &&
      !gp_block_is_withheld(context, fit, false))
    request->size = fit->class_bytes;
  gp_lock_release(&context->device->lock);
}

static void look_for_escapes(gp_engine_t *engine)
{
  if (engine->driver.ops->look_for_escapes)
    engine->driver.ops->look_for_escapes(engine->driver.self);
}

static __attribute__((noinline)) int alloc_miss(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  const int out_of_memory = engine->driver.ops->code_out_of_memory;
  gp_device_t *device = request->context->device;
  bool by_limit = false;
  bool is_ordered = is_of_drivers_pool(request);
  gp_oom_attempts_t attempts = {
      .counted = gp_account_growth(request->requested, supply_of(request)), .is_ordered = is_ordered};

  gp_contexts_lose_gone(engine);
  if (!request->order && gp_prewarm(engine, request->context) && serve_from_cache(request))
    return 0;
  if (engine->type->keeps_blocks &&
      (serve_after_drain(request) || serve_after_reclaim(request) || serve_borrowed(request)))
    return 0;
  look_for_escapes(engine);
  choose_size(request);
  int code = serve_by_growth(request, &by_limit);
  if (code == out_of_memory && request->size != request->fit.fresh) { /* the request needs no whole class */
    request->size = request->fit.fresh;
    code = serve_by_growth(request, &by_limit);
  }
  if (code == 0 && engine->type->keeps_blocks)
    keep_reserve(request);
  if (code != out_of_memory)
    return code;

  uint64_t largest_free = gp_oom_largest_idle(device);
  if (gp_oom_is_hopeless(engine, request->context, request->requested)) {
    gp_oom_report(engine, request->context, request->requested, by_limit, largest_free, &attempts);
    return code;
  }
  code = gp_oom_make_room(engine, request->context, request->size, attempt, request, &by_limit, &attempts);
  uint64_t exact = gp_bytes_taken(request->requested);
  if (code == out_of_memory && is_ordered)
    request->asks_in_doubt = gp_wait_in_doubt(engine, device, &attempts);
  if (code == out_of_memory && exact != 0 && (exact < request->size || is_ordered)) {
    request->size = exact;
    code = serve_from_driver(request, true, &by_limit);
  }
  if (code == out_of_memory)
    gp_oom_report(engine, request->context, request->requested, by_limit, largest_free, &attempts);
  return code;
}

/* While the engine is suspended, or after pooling has stopped: makes the driver's call, recorded as not
 * pooled. Out of line, so that other allocations need no stack for it. */
static __attribute__((noinline)) int alloc_forwarded(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_forwarded_t memory = {.size = request->requested, .kind = GP_FORWARDED_CAPTURE};
  gp_oom_attempts_t attempts = {.next_step = 0};

  look_for_escapes(engine);
  if (!gp_engine_forwarded_reserve(engine, request->context, request->requested, memory.kind))
    return engine->driver.ops->code_out_of_memory;
  memory.time_ns = gp_now(engine);
  int code = gp_driver_alloc(engine, &request->context->driver, request->requested, &memory.address);
  if (code == engine->driver.ops->code_out_of_memory &&
      gp_oom_release_after_stop(engine, request->context, &attempts))
    code = gp_driver_alloc(engine, &request->context->driver, request->requested, &memory.address);
  if (code != 0) {
    gp_engine_forwarded_cancel(engine, request->context, request->requested, memory.kind);
    return code;
  }
  gp_engine_forwarded_commit(engine, request->context, &memory, gp_now(engine) - memory.time_ns);
  request->ret_address = memory.address;
  return 0;
}

/* Zero bytes, or so many that rounding overflows: an error, for which the driver has the code. */
static __attribute__((noinline)) int alloc_invalid(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_context_t *context = request->context;

  int code = gp_driver_alloc(engine, &context->driver, request->requested, &request->ret_address);
  if (code == engine->driver.ops->code_out_of_memory)
    gp_oom_report(engine, context, request->requested, false, gp_oom_largest_idle(context->device), NULL);
  return code;
}

/* To export a whole block, the program needs a driver allocation of its own. Once it exports memory, large
 * blocks are such allocations. */
#define CUT_MOST_AFTER_EXPORT (2 * GP_MIB)

/* Only blocks of that size serve it, and parts that are cut to it. */
static void set_size(gp_request_t *request, uint64_t size)
{
  request->fit = (gp_fit_t){.least = request->requested, .fresh = size, .class_bytes = size, .most = size};
  request->size = size;
}

static inline __attribute__((always_inline)) void choose_cut(gp_request_t *request)
{
  request->is_cut = request->size <= request->engine->cut_most;
  if (request->is_cut && !request->engine->type->cuts) {
    set_size(request, gp_round_up(request->requested, GP_BLOCK_GRANULE));
  } else if (request->is_cut && request->size >= CUT_MOST_AFTER_EXPORT &&
             atomic_load_explicit(&request->engine->has_exports, memory_order_relaxed)) {
    uint64_t size = gp_round_up(request->size, CUT_MOST_AFTER_EXPORT);
    request->is_cut = size == 0;
    if (size != 0)
      set_size(request, size);
  }
}

/* Serves the request from what its thread has freed. */
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
  return request->engine->type->keeps_blocks && serve_from_cache_inline(request) ? 0 : alloc_miss(request);
}

/* For every service but POOL. BESIDE hands out memory that the pool has, which takes no driver call. The
 * driver serves all other requests, not pooled. */
static __attribute__((noinline)) int alloc_restricted(gp_request_t *request, gp_service_t service)
{
  if (service == GP_SERVICE_BESIDE && !gp_mode_thread_captures(request->engine)) {
    choose_cut(request);
    if (request->engine->type->keeps_blocks && (serve_from_cache(request) || serve_after_drain(request)))
      return 0;
  }
  return alloc_forwarded(request);
}

/* With GPUPOOL_FILL. If the fill is late, the program gets other memory, without a second wait: the next
 * fill cannot begin before the late one is over. */
static __attribute__((noinline)) int fill(const gp_request_t *request, uint64_t *ret_address)
{
  gp_engine_t *engine = request->engine;

  if (gp_fill_now(engine, request->context, request->ret_address, request->requested) == GP_FILL_LATE)
    return gp_engine_alloc(engine, request->context, request->requested, ret_address);
  *ret_address = request->ret_address;
  return 0;
}

int gp_engine_alloc(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  gp_request_t request; /* the fit is filled in below */
  int code;

  gp_assert(context);
  request.engine = engine;
  request.context = context;
  request.arena = context;
  request.order = NULL;
  request.asks_in_doubt = false;
  request.requested = bytes;
  gp_find_origin(engine, GP_OCCASION_ALLOC, bytes);
  gp_service_t service = gp_engine_service(engine);
  if (service == GP_SERVICE_REFUSE) {
    gp_oom_report(engine, context, bytes, true, 0, NULL);
    return engine->driver.ops->code_out_of_memory;
  }
  if (bytes > 0 && gp_type_fit(engine->type, &engine->type_config, bytes, &request.fit))
    request.size = request.fit.fresh;
  else
    request.size = 0;
  if (request.size == 0)
    code = alloc_invalid(&request);
  else
    code = service == GP_SERVICE_POOL ? alloc_pooled(&request) : alloc_restricted(&request, service);
  if (code != 0)
    return code;
  if (__builtin_expect(engine->fills, 0))
    return fill(&request, ret_address);
  *ret_address = request.ret_address;
  return 0;
}

bool gp_engine_alloc_kept(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  gp_request_t request = {.engine = engine, .context = context, .arena = context, .requested = bytes};

  gp_assert(context);
  if (gp_engine_service(engine) != GP_SERVICE_POOL || !engine->type->keeps_blocks || bytes == 0 ||
      engine->fills || !gp_type_fit(engine->type, &engine->type_config, bytes, &request.fit))
    return false;
  request.size = request.fit.fresh;
  gp_find_origin(engine, GP_OCCASION_ALLOC, bytes);
  choose_cut(&request);
  if (!serve_from_heap(&request) && !serve_from_cache_inline(&request))
    return false;
  *ret_address = request.ret_address;
  return true;
}

/* During a capture, in a stream that is not captured. Puts nothing into the stream. */
static __attribute__((noinline)) bool serve_ordered_beside(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  bool may_enter;

  if (!gp_identity_needs_no_call(request->order->identity))
    return false;
  if (serve_ordered(request, &may_enter))
    return true;
  gp_drain_device(engine, request->context->device);
  return serve_ordered(request, &may_enter);
}

bool gp_engine_alloc_ordered(
    gp_engine_t *engine, const gp_order_t *order, uint64_t bytes, uint64_t *ret_address, int *ret_code)
{
  gp_device_t *device = order->context->device;
  gp_request_t request = {.engine = engine,
      .context = order->context,
      .arena = engine->orders_plain ? order->context : &device->ordered,
      .order = order,
      .requested = bytes};

  if (!engine->keeps_ordered || bytes == 0 || gp_mode_forwards_ordered(engine) ||
      atomic_load_explicit(&device->ordered_barred, memory_order_relaxed) ||
      !gp_type_fit(engine->type, &engine->type_config, bytes, &request.fit))
    return false;
  gp_stream_points_want(engine);
  gp_find_origin(engine, GP_OCCASION_ALLOC, bytes);
  request.size = request.fit.fresh;
  if (engine->orders_plain)
    choose_cut(&request);
  if (!gp_engine_is_suspended(engine))
    *ret_code = serve_from_cache(&request) ? 0 : alloc_miss(&request);
  else if (serve_ordered_beside(&request))
    *ret_code = 0;
  else
    return false;
  if (*ret_code != 0)
    return true;
  *ret_address = request.ret_address;
  if (engine->fills)
    gp_fill_in_order(engine, order, request.ret_address, bytes);
  return true;
}
