#include "pool/reuse/fence_policy.h"

#include "pool/limits/reclaim.h"
#include "pool/reuse/fences.h"

#define FENCED_DIVISION 64

static uint64_t whole_of(const gp_device_t *device)
{
  return device->total < device->limit ? device->total : device->limit;
}

static bool is_nearly_full(const gp_engine_t *engine, const gp_device_t *device, uint64_t whole)
{
  uint64_t allowed = device->limit > device->committed_bytes ? device->limit - device->committed_bytes : 0;

  return gp_device_left(device) / 2 < gp_amount_resolve(&engine->reserve, device->total) ||
         allowed < whole / FENCED_DIVISION;
}

/*
 * Returns true if a free needs a fence. A later allocation may wait for work submitted before the free of its
 * memory, as the driver's free would have, but not for newer work (wait.h). A fence recorded right at the
 * free separates the two. That matters if the freed bytes are at least a 64th of the device or of its limit,
 * or if the device is nearly full.
 */
static bool is_needed(const gp_engine_t *engine, const gp_device_t *device, uint64_t freed)
{
  uint64_t whole = whole_of(device);

  return freed >= whole / FENCED_DIVISION || is_nearly_full(engine, device, whole);
}

/* Returns the bytes deferred since the last fence, including this block. On drivers without fences, returns
 * the bytes deferred since the last completion proof. */
static uint64_t freed_with(const gp_engine_t *engine, const gp_block_t *block)
{
  const gp_device_t *device = block->context->device;
  bool is_first = device->newest_free_epoch <= gp_covered(engine);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  return (is_first ? 0 : device->freed_since_fence) + block->size;
}

bool gp_fence_policy_needs(const gp_engine_t *engine, const gp_block_t *block)
{
  uint64_t freed = freed_with(engine, block);
  return freed >= GP_FENCED_LEAST && is_needed(engine, block->context->device, freed);
}

bool gp_fence_policy_refuses(const gp_engine_t *engine, const gp_block_t *block, bool is_async)
{
  const gp_device_t *device = block->context->device;

  if (__builtin_expect(engine->driver.ops->fence_record != NULL, 1))
    return false;
  return freed_with(engine, block) > gp_deferred_bound(engine, device) ||
         (!is_async && block->size >= GP_FENCED_LEAST && device->told_ns != 0 &&
             is_nearly_full(engine, device, whole_of(device)));
}

/* Returns true if an early fence is worthwhile. While more memory is idle than deferred, the next request
 * probably finds an idle block without a fence. */
static bool is_worth_knowing(const gp_engine_t *engine, gp_device_t *device, uint64_t now_ns)
{
  if (!gp_clock_is_read(engine))
    now_ns = gp_device_time(device, gp_now(engine));
  return gp_device_idle(device) <= gp_device_pending(device) && gp_fences_have_time(engine, now_ns);
}

/* Returns true if a free may soon have to wait (wait_in_free.h). Such a free waits until only half of the
 * bound is deferred. For that the pool needs a fence from the time when a little more than half was deferred.
 */
static bool is_wait_near(const gp_engine_t *engine, const gp_context_t *context)
{
  uint64_t quarter = gp_deferred_bound(engine, context->device) / 4;

  return context->deferred_bytes / 3 >= quarter && context->device->freed_since_fence >= quarter;
}

gp_fence_wish_t gp_fence_policy_judge_much(
    const gp_engine_t *engine, const gp_context_t *context, uint64_t live, uint64_t now_ns)
{
  gp_device_t *device = context->device;
  gp_fence_wish_t wish = GP_FENCE_NONE;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (device->freed_since_fence < live / FENCED_DIVISION || !engine->driver.ops->fence_record ||
      gp_engine_is_suspended(engine))
    return GP_FENCE_NONE; /* after the capture, the first free records one fence for all these frees */
  if (is_needed(engine, device, device->freed_since_fence) || is_wait_near(engine, context))
    wish = GP_FENCE_NEEDED;
  else if (is_worth_knowing(engine, device, now_ns))
    wish = GP_FENCE_AHEAD;
  if (wish != GP_FENCE_NONE)
    device->freed_since_fence = 0;
  return wish;
}

void gp_fence_policy_note_free(
    gp_engine_t *engine, const gp_device_t *device, gp_fence_wish_t wish, bool waits)
{
  uint64_t begin_ns = gp_now(engine);

  gp_assert(!gp_holds_engine_lock() && wish != GP_FENCE_NONE);
  if (gp_fences_record_at_free(engine, waits ? device : NULL))
    gp_reclaim(engine);
  gp_fences_took_time(engine, begin_ns);
}

/* Even when the time budget for fences is used up, a miss polls fences if the class has more deferred blocks
 * than this. */
#define MANY_BLOCKS 8

static bool would_grow_much(const gp_device_t *device, const gp_bin_t *bin)
{
  uint64_t deferred = gp_device_pending(device);

  return bin->deferred_count > MANY_BLOCKS ||
         (deferred >= 2 * GP_FENCED_LEAST &&
             deferred >= gp_device_stats(device)->allocated_bytes.current / FENCED_DIVISION);
}

/* Returns true if polling fences may provide a block for the request. With is_cut, any deferred part of a
 * segment may serve the request, and without one the pool would grow by a segment. The caller holds the
 * device's lock. */
static bool is_worth_asking(const gp_engine_t *engine, const gp_context_t *context, uint64_t class_bytes,
    bool is_cut, uint64_t now_ns)
{
  const gp_device_t *device = context->device;
  const gp_bin_t *bin = gp_bins_find(&context->bins, class_bytes);

  bool has_time = gp_fences_have_time(engine, now_ns);

  if (gp_list_is_empty(&context->deferred))
    return false;
  if (!has_time && device->asked_covered == gp_covered(engine))
    return false; /* the last poll proved nothing, and no proof has come since */
  if (is_cut || gp_device_pending(device) > gp_deferred_bound(engine, device) / 2)
    return true;
  return bin && bin->deferred_count > 0 && (has_time || would_grow_much(device, bin));
}

bool gp_fence_policy_ask(gp_engine_t *engine, gp_context_t *context, uint64_t class_bytes, bool is_cut)
{
  gp_device_t *device = context->device;
  uint64_t begin_ns = gp_now(engine);

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  bool asks = is_worth_asking(engine, context, class_bytes, is_cut, begin_ns);
  gp_lock_release(&device->lock);
  if (!asks)
    return false;
  uint64_t covered = gp_covered(engine);
  bool asked = gp_fences_poll_twice(engine);
  if (asked)
    gp_reclaim(engine);
  gp_fences_took_time(engine, begin_ns);
  gp_lock_take(&device->lock);
  bool is_for_nothing =
      asked && gp_covered(engine) == covered && covered < atomic_load(&engine->newest_free_epoch);
  gp_locked(device)->asked_covered = is_for_nothing ? covered : UINT64_MAX;
  gp_lock_release(&device->lock);
  return true;
}
