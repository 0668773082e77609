/* Free, and the reference counts behind it: the program owns one reference, and gp_engine_retain takes
 * others. */
#include "pool/serve/cut_memory.h"
#include "pool/events.h"
#include "pool/reuse/fence_policy.h"
#include "pool/limits/give_back.h"
#include "pool/serve/heaps.h"
#include "pool/limits/peak.h"
#include "pool/limits/release.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/stamps.h"
#include "pool/reuse/stream_points.h"
#include "pool/space/block_life.h"
#include "pool/space/bound_parts.h"
#include "pool/async/stream_blocks.h"
#include "pool/space/segment.h"
#include "pool/space/surplus.h"
#include "pool/reuse/wait_in_free.h"
#include "pool/reuse/wait_in_stream.h"

/* A free's usual path is inlined into one function: six calls took a fifth of a free's instructions. */
#define INLINE inline __attribute__((always_inline))

/* Finds the block that starts at address and locks its device. The map is read without a lock, and
 * meanwhile the record may have become another block's. Therefore the record is compared again under the
 * lock. */
static INLINE gp_block_t *find_and_lock_inline(gp_engine_t *engine, uint64_t address)
{
  gp_block_t *block = gp_address_map_find(&engine->blocks, address);
  if (!block)
    return NULL;
  gp_context_t *context = __atomic_load_n(&block->context, __ATOMIC_RELAXED);
  gp_device_t *device = context->device;
  gp_lock_take(&device->lock);
  if (__atomic_load_n(&block->address, __ATOMIC_RELAXED) == address &&
      __atomic_load_n(&block->context, __ATOMIC_RELAXED) == context && block->state != GP_STATE_RELEASING) {
    if (atomic_load_explicit(&block->home, memory_order_relaxed))
      gp_heap_disown(engine, block);
    return block;
  }
  gp_lock_release(&device->lock);
  return NULL;
}

gp_block_t *gp_find_and_lock(gp_engine_t *engine, uint64_t address)
{
  return find_and_lock_inline(engine, address);
}

/*
 * Links the block to the stream in which the program freed it, if that is a stream of the block's device.
 * Later requests in the stream may reuse the block if its owner allocated it in stream order, and if no
 * context can end and take the block away while the stream lives. The caller holds the device's lock.
 */
static INLINE void file(
    gp_engine_t *engine, gp_block_t *block, uint64_t now_ns, const gp_stream_order_t *order)
{
  const gp_context_t *context = block->context;
  gp_stream_record_t *stream_record = order->stream_record;

  if (!stream_record || stream_record->has_ended || order->context->device != context->device)
    return;
  bool may_serve = gp_block_is_async(block) && (context->is_async || order->context == context) &&
                   !gp_damage_is_checked(engine);
  if (__builtin_expect(order->event != NULL, 0) && may_serve)
    gp_free_events_cover(block, order->event);
  if (!block->segment)
    gp_stream_block_add(stream_record, block, may_serve);
  else if (!may_serve || block->segment->is_closed || !gp_bound_enter(engine, stream_record, block, now_ns))
    gp_stream_block_add(stream_record, block, false);
  gp_wait_in_stream_note_free(context->device);
}

/* What the program's call says about the work that uses a block. */
typedef enum ending {
  ENDING_MAY_WAIT, /* some work may be pending; the native call may wait for the device */
  ENDING_KEPT,     /* as MAY_WAIT, but the free returns no result of the driver */
  ENDING_RELEASE,  /* as MAY_WAIT, but released by the last other owner, where native CUDA does not wait */
  ENDING_NO_WAIT,  /* some work may be pending; the native call does not wait */
  ENDING_COMPLETE, /* all work is complete */
} ending_t;

/*
 * Returns the ending for cudaFree. "This API will not perform any implicit synchronization when the pointer
 * was allocated with cuMemAllocAsync [...]. Callers must ensure that all accesses to these pointer have
 * completed before invoking cuMemFree" (cuda.h at cuMemFree). But if the library itself has filled the memory
 * in the stream, its fill may be pending.
 */
static INLINE ending_t ending_of(const gp_engine_t *engine, const gp_block_t *block)
{
  if (!gp_block_is_async(block))
    return ENDING_MAY_WAIT;
  return engine->fills || gp_damage_is_checked(engine) ? ENDING_NO_WAIT : ENDING_COMPLETE;
}

/*
 * Drops the last reference. The caller holds the device's lock, which this function releases. Returns the
 * driver's code if it called the driver, otherwise 0. order: the stream in which the program freed the block;
 * NULL: none.
 */
static INLINE int drop_and_unlock(
    gp_engine_t *engine, gp_block_t *block, uint64_t now_ns, ending_t ending, const gp_stream_order_t *order)
{
  bool may_wait = ending <= ENDING_RELEASE;
  gp_context_t *context = block->context;
  gp_device_t *device = context->device;

#ifdef GP_UNSAFE_REUSE
  /* A build for tests, which must notice that freed blocks are reused while the device still uses them. */
  gp_block_end_use(engine, block, now_ns);
  gp_block_enter_idle(engine, block, now_ns);
  gp_lock_release(&device->lock);
  return 0;
#endif
  gp_mode_t mode = gp_engine_reuse_mode(engine);
  gp_drain_some(engine, context, now_ns);
  gp_fence_wish_t wish = GP_FENCE_NONE;
  int code = 0;
  /* Its stream may have reused the block early: then work of an earlier owner may be pending. */
  if (ending == ENDING_COMPLETE && block->free_epoch <= gp_covered(engine)) {
    block->free_epoch = 0;
    gp_block_end_use(engine, block, now_ns);
    gp_block_enter_idle(engine, block, now_ns);
  } else {
    gp_stamp_and_defer(engine, block);
    wish = gp_fence_policy_judge(engine, block, now_ns);
    if (order)
      file(engine, block, now_ns, order);
  }
  uint64_t block_id = block->block_id;
  bool is_beyond = ending == ENDING_MAY_WAIT && gp_wait_in_free_is_due(engine, context, 0);
  bool is_due = gp_surplus_is_due(engine, device, now_ns);
  bool surplus = is_due && (may_wait ? gp_give_back_has(context) : gp_block_has_idle(&device->async_context));
  if (!is_due && gp_device_stats(device)->surplus_bytes.current > 0)
    gp_surplus_note_kept(device, 0); /* the kept surplus has been allocated again */
  gp_lock_release(&device->lock);
  if (mode == GP_MODE_STRICT && may_wait)
    code = gp_free_strictly(engine, context, block, block_id);
  if (wish != GP_FENCE_NONE)
    gp_fence_policy_note_free(engine, device, wish, may_wait);
  if (is_beyond)
    code = gp_wait_in_free(engine, context, block, block_id);
  if (surplus && may_wait)
    (void)gp_give_back_in_free(engine, context, ending != ENDING_RELEASE);
  else if (surplus)
    (void)gp_release_surplus(engine, &device->async_context, now_ns); /* does not wait */
  return code;
}

/* Records a double free, with the stack of the second free. This is a rare mistake of the program. While
 * the lock is not held, another thread may allocate the block; then there is nothing to record. */
static __attribute__((noinline)) void note_refused(gp_engine_t *engine, uint64_t address)
{
  gp_find_origin(engine, GP_OCCASION_DRIVER, 0);
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (!block)
    return;
  gp_device_t *device = block->context->device;
  if (block->state != GP_STATE_LIVE)
    gp_event_block(engine, block, GP_ACTION_FREE_REFUSED, GP_DETAIL_NONE, gp_now(engine), 0, false);
  gp_lock_release(&device->lock);
}

/*
 * Returns true if it refuses the free of an address inside the pool's segments at which no block of the
 * program begins: mostly a double free. The driver must not see the call, because the address may be that of
 * a segment. But if the driver has already ended the context of a segment and the pool has not, the address
 * may belong to new forwarded memory.
 */
static bool refuse_in_segment(gp_engine_t *engine, uint64_t address, int *ret_answer)
{
  gp_forwarded_t forwarded;

  if (gp_forwarded_table_find(&engine->forwarded, GP_SPACE_POINTER, address, &forwarded))
    return false;
  const gp_block_t *block = gp_cut_find_and_lock(engine, address);
  if (!block)
    return false;
  gp_lock_release(&block->context->device->lock);
  gp_find_origin(engine, GP_OCCASION_DRIVER, 0);
  block = gp_cut_find_and_lock(engine, address);
  if (block) {
    gp_event_refused(engine, block->context, address, gp_now(engine));
    gp_lock_release(&block->context->device->lock);
  }
  *ret_answer = engine->driver.ops->code_invalid_value;
  return true;
}

/*
 * Returns true if the free is forwarded because pooling is off or restricted. During a capture no fence can
 * prove which work a later allocation has to wait for, so large blocks are released to the driver, as in
 * native CUDA. order: the stream of the free, which is not capturing; NULL: none.
 */
static __attribute__((noinline)) bool is_forwarded(
    const gp_engine_t *engine, const gp_block_t *block, const gp_stream_order_t *order)
{
  return (order ? gp_mode_forwards_async(engine) : gp_mode_forwards(engine)) ||
         (gp_engine_is_suspended(engine) && gp_fence_policy_needs(engine, block));
}

/* Returns true if the block must be released to the driver because the pool never reuses it, so that the
 * program's free is served by the driver, and waits as it does natively. A part of a segment is unknown to
 * the driver, and is released with its segment. */
static bool goes_to_driver(const gp_engine_t *engine, const gp_block_t *block, const gp_stream_order_t *order)
{
  if (block->segment)
    return false;
  return block->tainted || block->exact || !engine->type->keeps_blocks ||
         (gp_engine_forwards(engine) && is_forwarded(engine, block, order));
}

/* Returns true if the program's own free, which natively may wait or is stream-ordered, releases the block
 * to the driver. Work on memory of cudaMallocAsync is complete when it is freed by cudaFree. */
static bool is_passed_on(const gp_engine_t *engine, const gp_block_t *block, const gp_stream_order_t *order)
{
  return goes_to_driver(engine, block, order) ||
         (!block->segment && (order || ending_of(engine, block) == ENDING_MAY_WAIT) &&
             gp_fence_policy_refuses(engine, block, order != NULL));
}

/* Ends the program's ownership of a block that stays in the pool. The caller holds the device's lock,
 * which this function releases. Returns the result for the program. clock_ns is the result of
 * gp_request_clock. */
static INLINE int end_ownership_and_unlock(gp_engine_t *engine, gp_block_t *block, uint64_t clock_ns,
    ending_t ending, const gp_stream_order_t *order)
{
  gp_heap_fold_own(engine, block->context->device, false);
  uint64_t now_ns = gp_request_time(engine, block->context->device, clock_ns);

  gp_block_end_ownership(engine, block, GP_DETAIL_NONE, now_ns);
  if (--block->refs == 0)
    return drop_and_unlock(engine, block, now_ns, ending, order);
  block->state = GP_STATE_RETAINED;
  gp_event_holders(engine, block);
  gp_lock_release(&block->context->device->lock);
  return 0;
}

/* See gp_engine_free_with. The caller found the block live. If another thread frees it concurrently, that
 * is a double free, and either of the two frees may be refused. */
static __attribute__((noinline)) gp_free_result_t free_cut_with(gp_engine_t *engine,
    const gp_stream_order_t *order, uint64_t address, gp_free_fn free_fn, void *arg, int *ret_code)
{
  *ret_code = free_fn(arg, true);
  if (*ret_code != 0)
    return GP_FREE_DONE;
  uint64_t clock_ns = gp_request_clock(engine);
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (block && block->state == GP_STATE_LIVE) {
    *ret_code = end_ownership_and_unlock(engine, block, clock_ns, ENDING_NO_WAIT, order);
    return GP_FREE_DONE;
  }
  if (block)
    gp_lock_release(&block->context->device->lock);
  *ret_code = engine->driver.ops->code_invalid_value;
  return GP_FREE_DONE;
}

/*
 * Returns true if the driver refuses the program's free with a driver error, during a capture or after a
 * sticky error. Such a free may also invalidate a capture. The library cannot forward the free of a part of a
 * segment, so it frees another small allocation instead. That free may wait, but the native free of
 * stream-ordered memory does not wait. For stream-ordered memory this is therefore only done if the thread
 * itself captures, or after an error.
 */
static bool refused_by_driver(gp_engine_t *engine, gp_context_t *context, int *ret_code)
{
  gp_service_t service = gp_engine_service(engine);

  if (service != GP_SERVICE_BESIDE && service != GP_SERVICE_SUSPENDED && service != GP_SERVICE_DEAD)
    return false;
  if (context->is_async && service != GP_SERVICE_DEAD && !gp_mode_thread_captures(engine))
    return false;
  int code = gp_free_a_little(engine, context);
  if (code == 0 || code == engine->driver.ops->code_out_of_memory)
    return false;
  *ret_code = code;
  return true;
}

/* Returns the block at address, with its device's lock held. Returns NULL, with no lock held, if *ret is
 * the result for the program. has_call: the free makes a driver call anyway, and gets the driver's result. */
static INLINE gp_block_t *find_for_free(
    gp_engine_t *engine, uint64_t address, bool has_call, gp_free_result_t *ret, int *ret_code)
{
  gp_block_t *block = find_and_lock_inline(engine, address);

  if (!has_call && block && block->segment && block->state == GP_STATE_LIVE && gp_mode_forwards(engine)) {
    gp_context_t *context = block->context;
    gp_lock_release(&context->device->lock);
    *ret = GP_FREE_DONE;
    if (refused_by_driver(engine, context, ret_code))
      return NULL;
    block = gp_find_and_lock(engine, address);
  }
  if (!block)
    *ret = refuse_in_segment(engine, address, ret_code) ? GP_FREE_DONE : GP_FREE_UNKNOWN;
  return block;
}

/*
 * Returns true if a call of the driver takes the place of the program's call, which is not cudaFree, and the
 * block stays in the pool. Parts of segments, which the driver does not know, always stay; other blocks of
 * cudaMalloc stay if the pool serves stream-ordered memory. Memory that the program allocated in stream order
 * needs no such call.
 */
static bool stays_in_pool(const gp_engine_t *engine, const gp_block_t *block, const gp_stream_order_t *order)
{
  if (order && gp_block_is_async(block))
    return false;
  return block->segment || (order && !is_passed_on(engine, block, order));
}

/* Serves most frees: the block's home keeps the block. A free that has to report a peak takes the device's
 * lock instead. */
static INLINE bool free_to_heap(gp_engine_t *engine, uint64_t address)
{
#ifdef GP_UNSAFE_REUSE
  return false;
#endif
  return atomic_load_explicit(&engine->peaks, memory_order_relaxed) == 0 && gp_heap_free(engine, address);
}

/* Frees a block. order: the stream of the free; NULL: none. */
static INLINE gp_free_result_t free_block(gp_engine_t *engine, const gp_stream_order_t *order,
    uint64_t address, gp_free_fn free_fn, void *arg, int *ret_code)
{
  gp_find_origin(engine, GP_OCCASION_FREE, 0);
  gp_peak_tell(engine);
  gp_free_result_t result;
  uint64_t clock_ns = gp_request_clock(engine);
  gp_block_t *block = find_for_free(engine, address, free_fn != NULL, &result, ret_code);
  if (!block)
    return result;
  gp_device_t *device = block->context->device;

  if (block->state != GP_STATE_LIVE) {
    gp_lock_release(&device->lock);
    note_refused(engine, address);
    *ret_code = engine->driver.ops->code_invalid_value; /* double free: the driver's code */
    return GP_FREE_DONE;
  }
  if (free_fn && stays_in_pool(engine, block, order)) {
    gp_lock_release(&device->lock);
    return free_cut_with(engine, order, address, free_fn, arg, ret_code);
  }
  if (block->refs == 1 && ((free_fn && !order) || is_passed_on(engine, block, order))) {
    gp_release_start(engine, block);
    gp_lock_release(&device->lock);
    *ret_code = gp_release_owned(engine, block, order, free_fn, arg);
    return GP_FREE_DONE;
  }
  ending_t ending = order || free_fn ? ENDING_NO_WAIT : ending_of(engine, block);
  *ret_code = end_ownership_and_unlock(engine, block, clock_ns, ending, order);
  return GP_FREE_DONE;
}

gp_free_result_t gp_engine_free(gp_engine_t *engine, uint64_t address, int *ret_code)
{
  if (free_to_heap(engine, address)) {
    *ret_code = 0;
    return GP_FREE_DONE;
  }
  return free_block(engine, NULL, address, NULL, NULL, ret_code);
}

bool gp_engine_free_kept(gp_engine_t *engine, uint64_t address)
{
  if (free_to_heap(engine, address))
    return true;
  if (gp_engine_service(engine) != GP_SERVICE_POOL || gp_engine_reuse_mode(engine) == GP_MODE_STRICT)
    return false;
  gp_find_origin(engine, GP_OCCASION_FREE, 0);
  gp_peak_tell(engine);
  uint64_t clock_ns = gp_request_clock(engine);
  gp_block_t *block = find_and_lock_inline(engine, address);
  if (!block)
    return false;
  if (block->state != GP_STATE_LIVE || is_passed_on(engine, block, NULL) ||
      gp_wait_in_free_is_due(engine, block->context, block->size)) {
    gp_lock_release(&block->context->device->lock);
    return false;
  }
  ending_t ending = ending_of(engine, block);
  if (ending == ENDING_MAY_WAIT)
    ending = ENDING_KEPT;
  int code = end_ownership_and_unlock(engine, block, clock_ns, ending, NULL);
  gp_assert(code == 0); /* only a free that waits returns a driver result */
  return true;
}

bool gp_engine_put_back(gp_engine_t *engine, uint64_t address)
{
  if (gp_engine_service(engine) != GP_SERVICE_POOL)
    return false;
  gp_find_origin(engine, GP_OCCASION_FREE, 0);
  uint64_t clock_ns = gp_request_clock(engine);
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (!block)
    return false;
  if (block->state != GP_STATE_LIVE || goes_to_driver(engine, block, NULL)) {
    gp_lock_release(&block->context->device->lock);
    return false;
  }
  (void)end_ownership_and_unlock(
      engine, block, clock_ns, ENDING_NO_WAIT, NULL); /* this ending makes no driver call */
  return true;
}

gp_free_result_t gp_engine_free_with(
    gp_engine_t *engine, uint64_t address, gp_free_fn free_fn, void *arg, int *ret_code)
{
  return free_block(engine, NULL, address, free_fn, arg, ret_code);
}

/* Frees a block on a device that is short of memory: records an event directly behind the work that
 * precedes the free. */
static __attribute__((noinline)) gp_free_result_t free_with_event(gp_engine_t *engine,
    const gp_stream_order_t *order, uint64_t address, gp_free_fn free_fn, void *arg, int *ret_code)
{
  gp_stream_order_t own = *order;

  own.event = gp_wait_in_stream_record(engine, order);
  gp_free_result_t result = free_block(engine, &own, address, free_fn, arg, ret_code);
  if (own.event)
    gp_wait_in_stream_drop(own.event);
  return result;
}

gp_free_result_t gp_engine_free_async(gp_engine_t *engine, const gp_stream_order_t *order, uint64_t address,
    gp_free_fn free_fn, void *arg, int *ret_code)
{
  gp_stream_points_want(engine);
  if (gp_engine_is_suspended(engine) && !gp_stream_record_needs_no_call(order->stream_record))
    return gp_engine_free_with(engine, address, free_fn, arg, ret_code);
  gp_free_result_t result = __builtin_expect(gp_wait_in_stream_needs_events(order->context->device), 0)
                                ? free_with_event(engine, order, address, free_fn, arg, ret_code)
                                : free_block(engine, order, address, free_fn, arg, ret_code);
  if (result == GP_FREE_DONE && *ret_code == 0)
    (void)gp_stream_record_after_free(engine, order->stream_record);
  return result;
}

bool gp_engine_retain(gp_engine_t *engine, uint64_t address)
{
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (!block)
    return false;
  bool in_use = block->state == GP_STATE_LIVE || block->state == GP_STATE_RETAINED;
  if (in_use) {
    block->refs++;
    gp_event_holders(engine, block);
  }
  gp_lock_release(&block->context->device->lock);
  return in_use;
}

bool gp_engine_release(gp_engine_t *engine, uint64_t address)
{
  uint64_t clock_ns = gp_request_clock(engine);
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (!block)
    return false;
  gp_device_t *device = block->context->device;
  /* Only the program's free drops the program's own reference. */
  if ((block->state == GP_STATE_LIVE && block->refs > 1) ||
      (block->state == GP_STATE_RETAINED && block->refs > 1)) {
    block->refs--;
    gp_event_holders(engine, block);
    gp_lock_release(&device->lock);
    return true;
  }
  if (block->state != GP_STATE_RETAINED) {
    gp_lock_release(&device->lock);
    return false;
  }
  if (goes_to_driver(engine, block, NULL)) {
    gp_release_start(engine, block);
    gp_lock_release(&device->lock);
    return gp_release_retained(engine, block) == 0; /* if the driver refuses, the owner keeps its reference */
  }
  block->refs = 0;
  gp_event_holders(engine, block);
  uint64_t now_ns = gp_request_time(engine, device, clock_ns);
  ending_t ending = gp_block_is_async(block) ? ENDING_NO_WAIT : ENDING_RELEASE;
  (void)drop_and_unlock(engine, block, now_ns, ending, NULL); /* if it fails, the block stays deferred */
  return true;
}

gp_owner_t gp_engine_owner(gp_engine_t *engine, uint64_t address)
{
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (!block)
    block = gp_cut_find_and_lock(engine, address);
  if (!block)
    return GP_OWNER_UNKNOWN;
  gp_state_t state = block->state;
  gp_lock_release(&block->context->device->lock);
  if (state == GP_STATE_RELEASING)
    return GP_OWNER_UNKNOWN;
  return state == GP_STATE_LIVE || state == GP_STATE_RETAINED ? GP_OWNER_PROGRAM : GP_OWNER_POOL;
}

void gp_engine_expect_exports(gp_engine_t *engine)
{
  atomic_store_explicit(&engine->whole_least, 0, memory_order_relaxed);
}

/* From now on the pool cuts no large block from segments. */
static void note_export(gp_engine_t *engine)
{
  uint64_t never = UINT64_MAX;
  (void)atomic_compare_exchange_strong(&engine->whole_least, &never, GP_DRIVER_PAGE);
}

/* Closes a segment. From now on no stream may reuse its parts early, either. */
static void close_segment(gp_segment_t *segment)
{
  gp_bound_remove_segment(segment);
  gp_segment_close(segment);
}

void gp_engine_taint(gp_engine_t *engine, uint64_t address)
{
  note_export(engine);
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (!block)
    block = gp_cut_find_and_lock(engine, address);
  if (!block)
    return;
  gp_heaps_collect(engine, block->context->device); /* no heap may reuse parts of a closed segment */
  bool is_mapped = block->segment && block->segment->range;
  if (is_mapped) /* the pool's own reference remains after the program's free */
    block->refs += block->refs > 0 && !block->tainted;
  else if (block->segment)
    close_segment(block->segment);
  if (!block->segment || block->refs > 0) { /* an address in a segment may be in an idle block */
    block->tainted = true;
    gp_event_holders(engine, block);
  }
  gp_lock_release(&block->context->device->lock);
}
