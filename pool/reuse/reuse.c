/*
 * When a freed block may be used again.
 *
 * cudaFree may be called while kernels still use the block, and whoever gets it next may use it at once, on
 * any stream or from the host. So it is reusable only when all device work submitted before the free is known
 * by the host to be complete, in every context (a context reaches the memory of others through peer access
 * and copies).
 *
 * Epochs make that cheap. `epoch` only grows. A free stamps its block with the epoch in force. Something that
 * will establish that a context is idle (a synchronization, a fence) first begins a new epoch; the old one,
 * e, is its token. When it has succeeded, all work of the context submitted before it began is complete, and
 * so is the work before every free stamped e or less: such a free read `epoch` before begin changed it, and
 * all submissions of the freeing thread, and those that happened before its cudaFree, come before that read.
 * Both sides use sequentially consistent read-modify-write operations, so that the submissions are visible to
 * the driver before the stamp is taken, on processors that reorder a later load with earlier stores too.
 */
#include <sched.h>

#include "pool/state.h"

uint64_t gp_reuse_begin(gp_engine_t *engine)
{
  return atomic_fetch_add(&engine->epoch, 1);
}

void gp_reuse_complete(gp_context_t *context, uint64_t epoch)
{
  uint64_t completed = atomic_load(&context->completed);
  while (completed < epoch && !atomic_compare_exchange_weak(&context->completed, &completed, epoch)) {
  }
}

static void raise_newest_tag(gp_engine_t *engine, uint64_t tag)
{
  uint64_t newest = atomic_load(&engine->newest_tag);
  while (newest < tag && !atomic_compare_exchange_weak(&engine->newest_tag, &newest, tag)) {
  }
}

void gp_reuse_stamp(gp_engine_t *engine, gp_block_t *block)
{
  /* A read-modify-write, not a load: see above. Under the lock, so that the list is in the order of its tags.
   */
  block->tag = atomic_fetch_add(&engine->epoch, 0);
  raise_newest_tag(engine, block->tag);
}

void gp_reuse_defer(gp_engine_t *engine, gp_block_t *block)
{
  gp_context_t *context = block->context;

  gp_reuse_stamp(engine, block);
  block->state = GP_STATE_DEFERRED;
  gp_list_push_back(&context->deferred, &block->order);
  gp_bins_find(&context->bins, block->size)->deferred_count++;
}

/* The epoch that every context has completed; with contexts_lock held. */
static uint64_t completed_by_all(gp_engine_t *engine)
{
  uint64_t completed = UINT64_MAX;
  for (gp_list_t *link = engine->contexts.next; link != &engine->contexts; link = link->next) {
    gp_context_t *context = gp_list_entry(link, gp_context_t, live_link);
    uint64_t own = atomic_load(&context->completed);
    if (own < completed)
      completed = own;
  }
  return completed;
}

/* Moves the context's blocks whose free is in a completed epoch to idle; with the device's lock held. */
static void reclaim(gp_engine_t *engine, gp_context_t *context, uint64_t completed, uint64_t now_ns)
{
  while (!gp_list_is_empty(&context->deferred)) {
    gp_block_t *block = gp_list_entry(context->deferred.next, gp_block_t, order);
    if (block->tag > completed)
      break;
    gp_list_remove(&block->order);
    gp_bins_find(&context->bins, block->size)->deferred_count--;
    gp_block_end_use(engine, block, now_ns);
    gp_block_enter_idle(block, now_ns);
  }
}

void gp_reuse_advance(gp_engine_t *engine, bool may_wait)
{
  uint64_t devices = atomic_load(&engine->device_mask);

  if (gp_engine_uses_streams(engine) && engine->driver.ops->look_for_escapes)
    engine->driver.ops->look_for_escapes(engine->driver.self);
  gp_streams_tell_distrust(engine);
  gp_lock_take(&engine->contexts_lock);
  gp_streams_settle(engine);
  uint64_t completed = completed_by_all(engine);
  gp_lock_release(&engine->contexts_lock);
  for (; devices; devices &= devices - 1) {
    gp_device_t *device = &engine->devices[__builtin_ctzll(devices)];
    bool surplus = false;
    uint64_t now_ns = 0;
    gp_lock_take(&device->lock);
    if (device->stats->deferred_bytes.current > 0) {
      now_ns = gp_now(engine);
      for (gp_list_t *link = device->contexts.next; link != &device->contexts; link = link->next)
        reclaim(engine, gp_list_entry(link, gp_context_t, device_link), completed, now_ns);
      surplus = may_wait && gp_release_is_due(engine, device, now_ns);
    }
    gp_lock_release(&device->lock);
    if (surplus)
      gp_release_surplus(engine, device, now_ns);
  }
}

/*
 * The live contexts (of one device, or of all: NULL) that have not completed everything freed so far, at most
 * capacity of them. Contexts are never returned to the host before the engine ends, so that the pointers stay
 * good without the lock.
 */
static int lagging_contexts(
    gp_engine_t *engine, const gp_device_t *device, gp_context_t **array, int capacity)
{
  uint64_t newest = atomic_load(&engine->newest_tag);
  int count = 0;

  gp_lock_take(&engine->contexts_lock);
  for (gp_list_t *link = engine->contexts.next; link != &engine->contexts && count < capacity;
       link = link->next) {
    gp_context_t *context = gp_list_entry(link, gp_context_t, live_link);
    if (atomic_load(&context->completed) < newest && (!device || context->device == device))
      array[count++] = context;
  }
  gp_lock_release(&engine->contexts_lock);
  return count;
}

#define MAX_LAGGING 64

void gp_reuse_count(gp_context_t *context, bool host_wait)
{
  gp_lock_take(&context->device->lock);
  if (host_wait)
    context->device->stats->host_waits++;
  else
    context->device->stats->fences++;
  gp_lock_release(&context->device->lock);
}

/* A result of a wait or a fence: a context that has ended unseen must not hold the others' memory back for
 * ever. */
void gp_reuse_note(gp_engine_t *engine, gp_context_t *context, int code)
{
  const gp_driver_ops_t *ops = engine->driver.ops;
  if (code != 0 && ops->code_is_context_gone && ops->code_is_context_gone(code))
    gp_engine_context_lost(engine, context);
  else
    gp_engine_note_result(engine, code);
}

/* Asks the outstanding fence of a context; records one if there is none. With fence.busy held. */
static void poll_fence(gp_engine_t *engine, gp_context_t *context)
{
  const gp_driver_ops_t *ops = engine->driver.ops;
  gp_fence_t *fence = &context->fence;

  if (fence->outstanding) {
    int code = gp_driver_fence_query(engine, &context->driver, fence->handle);
    if (code == ops->code_not_ready)
      return;
    fence->outstanding = false;
    gp_reuse_note(engine, context, code);
    if (code == 0) {
      gp_streams_sync_end(engine, context, fence->tag);
      gp_reuse_complete(context, fence->tag);
    }
  }
  if (atomic_load(&context->completed) >= atomic_load(&engine->newest_tag) || gp_engine_forwards(engine))
    return;
  fence->tag = gp_reuse_begin(engine); /* before the record: what is freed after it is not covered */
  gp_streams_sync_begin(engine, context, fence->tag);
  int code = gp_driver_fence_record(engine, &context->driver, &fence->handle);
  gp_reuse_note(engine, context, code);
  fence->outstanding = code == 0;
  if (code == 0)
    gp_reuse_count(context, false);
}

void gp_reuse_poll(gp_engine_t *engine)
{
  gp_context_t *lagging[MAX_LAGGING];

  if (!engine->driver.ops->fence_record)
    gp_streams_poll(engine);
  if (!engine->driver.ops->fence_record || !gp_engine_enter(engine))
    return;
  int count = lagging_contexts(engine, NULL, lagging, MAX_LAGGING);
  for (int i = 0; i < count; i++) {
    gp_context_t *context = lagging[i];
    if (atomic_flag_test_and_set_explicit(&context->fence.busy, memory_order_acquire))
      continue; /* another thread is at it */
    if (!atomic_load(&context->lost))
      poll_fence(engine, context);
    atomic_flag_clear_explicit(&context->fence.busy, memory_order_release);
  }
  gp_engine_leave(engine);
  gp_reuse_advance(engine, true);
}

int gp_reuse_wait_for(gp_engine_t *engine, gp_context_t *context)
{
  uint64_t epoch = gp_reuse_begin(engine);
  gp_streams_sync_begin(engine, context, epoch);
  int code = gp_driver_wait(engine, &context->driver);
  gp_reuse_count(context, true);
  if (code == 0 &&
      epoch >
          atomic_load(&engine->void_epoch)) { /* no capture began meanwhile; mono.c waits for one to begin */
    gp_streams_sync_end(engine, context, epoch);
    gp_reuse_complete(context, epoch);
  } else if (code != 0) {
    gp_reuse_note(engine, context, code);
  }
  return code;
}

/*
 * None begins during a capture: that of another thread may be one beside which the program's call, cudaFree
 * or cudaMalloc, is legal (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), while a synchronization of the context would
 * spoil it.
 */
int gp_reuse_wait(gp_engine_t *engine, gp_context_t *own, bool own_device_only)
{
  gp_context_t *lagging[MAX_LAGGING];
  int result = 0;

  int count = lagging_contexts(engine, own_device_only ? own->device : NULL, lagging, MAX_LAGGING);
  for (int i = 0; i < count && gp_engine_enter_wait(engine); i++) {
    int code = gp_reuse_wait_for(engine, lagging[i]);
    gp_engine_leave_wait(engine);
    if (code != 0 && lagging[i] == own)
      result = code; /* what another context answers is not the program's business here */
  }
  gp_reuse_advance(engine, true);
  return result;
}

#define PATIENT_POLLS 16 /* where the clock stands still, as in tests */

static bool can_poll(gp_engine_t *engine)
{
  return engine->driver.ops->fence_record || gp_streams_can_be_asked(engine);
}

bool gp_reuse_await(gp_engine_t *engine, gp_context_t *own)
{
  gp_context_t *lagging[1];
  uint64_t begin_ns = gp_now(engine);

  if (!can_poll(engine))
    return gp_reuse_wait(engine, own, true) == 0;
  gp_reuse_count(own, true);
  for (int polls = 0;; polls++) {
    uint64_t now_ns = gp_now(engine);
    if (!can_poll(engine))
      return gp_reuse_wait(engine, own, true) == 0;
    gp_reuse_poll(engine);
    if (lagging_contexts(engine, own->device, lagging, 1) == 0)
      return true;
    if (now_ns - begin_ns > GP_PATIENCE_NS || (polls > PATIENT_POLLS && now_ns == begin_ns) ||
        gp_engine_forwards(engine))
      return false;
    sched_yield();
  }
}

#define LEAST_ALLOWANCE (64 * GP_MIB)

uint64_t gp_reuse_allowance(const gp_engine_t *engine, const gp_device_t *device)
{
  if (!engine->max_deferred.is_share)
    return engine->max_deferred.number;
  uint64_t share = gp_amount_resolve(&engine->max_deferred, device->stats->allocated_bytes.current);
  return share > LEAST_ALLOWANCE ? share : LEAST_ALLOWANCE;
}

uint64_t gp_engine_sync_begin(gp_engine_t *engine, gp_context_t *context)
{
  uint64_t epoch = gp_reuse_begin(engine);
  gp_streams_sync_begin(engine, context, epoch);
  return epoch;
}

void gp_engine_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t token)
{
  if (!gp_engine_may_conclude(engine, token))
    return;
  gp_streams_sync_end(engine, context, token);
  gp_reuse_complete(context, token);
  gp_reuse_advance(engine, true);
}
