#include "pool/stripe_calls.h"

#include "pool/events.h"
#include "pool/mode.h"
#include "pool/reuse/stamps.h"

#define NUMBERS 64u /* of blocks, taken at a time */

static gp_stripe_queue_t *queue_of(gp_stripe_t *stripe, uint64_t size)
{
  _Static_assert(GP_STRIPE_QUEUES == 32, "the bits that are left");
  return &stripe->queues[(size * UINT64_C(0x9e3779b97f4a7c15)) >> 59];
}

/*
 * The oldest freed block of that size, out of the stripe's queues, if it is covered (reuse/stamps.h) and the
 * device need not be told first; else NULL. The caller has the stripe's lock.
 */
static gp_block_t *take_covered(
    gp_engine_t *engine, gp_stripe_t *stripe, const gp_context_t *context, uint64_t size)
{
  gp_stripe_queue_t *queue = queue_of(stripe, size);

  gp_assert_internal(gp_lock_is_held(&stripe->lock));
  if (stripe->context != context || !queue->oldest || queue->size != size ||
      stripe->tally.alloc_bytes + size > stripe->allowance)
    return NULL;
  gp_block_t *block = gp_block_of_entry(queue->oldest);
  if (block->free_epoch > gp_covered(engine))
    return NULL;
  gp_assert_internal(block->state == GP_STATE_DEFERRED && block->size == size && !block->freed_in);
  queue->oldest = block->in_bin.next;
  gp_list_remove(&block->order);
  gp_assert_internal(stripe->kept_bytes >= size);
  stripe->kept_bytes -= size;
  return block;
}

/* Numbers grow over all owners of a block, whichever stripe it had before. */
static uint64_t next_id(gp_engine_t *engine, gp_stripe_t *stripe, const gp_block_t *block)
{
  if (stripe->next_id == stripe->end_id || stripe->next_id <= block->block_id) {
    stripe->next_id = atomic_fetch_add_explicit(&engine->last_block_id, NUMBERS, memory_order_relaxed) + 1;
    stripe->end_id = stripe->next_id + NUMBERS;
  }
  return stripe->next_id++;
}

static void raise(int64_t *most, uint64_t in, uint64_t out)
{
  int64_t now = (int64_t)(in - out);
  if (now > *most)
    *most = now;
}

static void tally_alloc(gp_stripe_tally_t *tally, const gp_block_t *block)
{
  tally->allocs++;
  tally->alloc_bytes += block->size;
  tally->alloc_requested += block->requested;
  raise(&tally->most_count, tally->allocs, tally->frees);
  raise(&tally->most_bytes, tally->alloc_bytes, tally->free_bytes);
  raise(&tally->most_requested, tally->alloc_requested, tally->free_requested);
  if (block->size > tally->largest)
    tally->largest = block->size;
}

bool gp_stripe_alloc(gp_engine_t *engine, gp_context_t *context, const gp_fit_t *fit, uint64_t requested,
    uint64_t *ret_address)
{
  gp_stripe_t *stripe = gp_stripes_own(context->device);

  if (fit->class_bytes > GP_STRIPE_MOST || !gp_stripes_are_silent(engine))
    return false;
  uint64_t now_ns = gp_now(engine);
  gp_lock_take(&stripe->lock);
  gp_block_t *block = take_covered(engine, stripe, context, fit->class_bytes);
  if (block) {
    block->state = GP_STATE_LIVE;
    block->refs = 1;
    block->requested = requested;
    block->time_ns = now_ns;
    block->origin = gp_origin(engine);
    block->block_id = next_id(engine, stripe, block);
    tally_alloc(&stripe->tally, block);
    *ret_address = block->address;
  }
  gp_lock_release(&stripe->lock);
  return block != NULL;
}

/* The stripe may keep the block. The caller has the stripe's lock. */
static bool has_place(const gp_stripe_t *stripe, const gp_stripe_queue_t *queue, uint64_t size)
{
  gp_assert_internal(gp_lock_is_held(&stripe->lock));
  return (!queue->oldest || queue->size == size) && stripe->kept_bytes + size <= stripe->allowance &&
         stripe->tally.free_bytes + size <= stripe->allowance;
}

static void keep(gp_engine_t *engine, gp_stripe_t *stripe, gp_stripe_queue_t *queue, gp_block_t *block)
{
  gp_stripe_tally_t *tally = &stripe->tally;

  gp_assert_internal(gp_lock_is_held(&stripe->lock) && gp_list_is_empty(&block->order));
  block->refs = 0;
  block->state = GP_STATE_DEFERRED;
  gp_stamp_under_lock(engine, block);
  stripe->newest_epoch = block->free_epoch;
  gp_list_push_back(&stripe->deferred, &block->order);
  block->in_bin.next = NULL;
  if (queue->oldest)
    queue->newest->next = &block->in_bin;
  else
    queue->oldest = &block->in_bin;
  queue->newest = &block->in_bin;
  queue->size = block->size;
  stripe->kept_bytes += block->size;
  tally->frees++;
  tally->free_bytes += block->size;
  tally->free_requested += block->requested;
  if ((int64_t)(tally->alloc_bytes - tally->free_bytes) < tally->least_bytes)
    tally->least_bytes = (int64_t)(tally->alloc_bytes - tally->free_bytes);
}

bool gp_stripe_free(gp_engine_t *engine, gp_block_t *block, uint64_t address)
{
  uint64_t home = __atomic_load_n(&block->home, __ATOMIC_ACQUIRE);
  bool is_kept = false;

  if (home == 0 || gp_engine_forwards(engine) || !gp_stripes_are_silent(engine))
    return false;
  const gp_device_t *device = &engine->devices[home >> 4 & (GP_MAX_DEVICES - 1)];
  gp_stripe_t *stripe = gp_stripe_of(engine, home);
  gp_lock_take(&stripe->lock);
  /* The map and the home were read without a lock: only under this one, and if it is the home still, do they
   * say anything. */
  if (home == gp_stripe_home(device, stripe) && __atomic_load_n(&block->home, __ATOMIC_RELAXED) == home &&
      __atomic_load_n(&block->address, __ATOMIC_RELAXED) == address && block->state == GP_STATE_LIVE) {
    gp_assert_internal(block->refs == 1 && !block->tainted && !block->segment && block->stream == 0);
    gp_stripe_queue_t *queue = queue_of(stripe, block->size);
    is_kept = has_place(stripe, queue, block->size);
    if (is_kept)
      keep(engine, stripe, queue, block);
  }
  gp_lock_release(&stripe->lock);
  return is_kept;
}
