#include "pool/stripes.h"

#include <stdlib.h>

#include "pool/space/size_classes.h"
#include "pool/util/size.h"

/* Waits for the device's lock, a microsecond or more each. */
#define LEAST_PRICE 4u
#define MOST_PRICE  4096u /* where stripes were of no use before */

/* To take memory back costs about as much as serving so many allocations for each block saves, and each
 * stripe. */
#define WORTH_BLOCK  4u
#define WORTH_STRIPE 256u

/* Steps back in a context's queue, for all of a stripe. */
#define MOST_STEPS 256u

#define ALLOWANCE_DIVISION 128u /* of what is live, for all stripes */

static _Atomic unsigned threads; /* that have asked for a stripe */
static _Thread_local unsigned own_number __attribute__((tls_model("initial-exec"))); /* 0: none yet */

gp_stripe_t *gp_stripes_own(gp_device_t *device)
{
  if (__builtin_expect(own_number == 0, 0))
    own_number = GP_STRIPES | (atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % GP_STRIPES);
  return &device->stripes->stripe[own_number % GP_STRIPES];
}

/*
 * Of the settings, and of what may change: a lower limit is to get back what is freed, the record orders
 * events by the device's lock, and no mode but `context` asks no more than whether a free is covered.
 */
static bool may_have_stripes(const gp_engine_t *engine, const gp_device_t *device)
{
  return engine->type == &gp_pool_type_round && engine->max_cached == UINT64_MAX && !device->lowered &&
         atomic_load(&engine->reuse_mode) == GP_MODE_CONTEXT && gp_stripes_are_silent(engine);
}

static bool make_stripes(gp_device_t *device)
{
  gp_stripes_t *stripes = calloc(1, sizeof(*stripes));
  if (!stripes)
    return false;
  stripes->price = LEAST_PRICE;
  for (unsigned i = 0; i < GP_STRIPES; i++) {
    gp_lock_init(&stripes->stripe[i].lock, GP_RANK_STRIPE);
    gp_list_init(&stripes->stripe[i].deferred);
  }
  device->stripes = stripes;
  return true;
}

void gp_stripes_begin(gp_device_t *device)
{
  if (!device->stripes && !make_stripes(device))
    return;
  /* Release: a thread that sees it, without the lock, finds the stripes. */
  atomic_store_explicit(&device->is_striped, true, memory_order_release);
}

void gp_stripes_init(gp_device_t *device)
{
#ifdef GP_STRIPES_ALWAYS
  gp_stripes_begin(device); /* the build of test/interpose: where there can be stripes there are some */
#else
  (void)device;
#endif
}

void gp_stripes_note_wait(gp_engine_t *engine, gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (gp_device_is_striped(device) || (!device->stripes && !make_stripes(device)))
    return;
  if (++device->stripes->paid >= device->stripes->price && may_have_stripes(engine, device))
    gp_stripes_begin(device);
}

static void fold_gauge(gp_gauge_t *gauge, uint64_t in, uint64_t out, int64_t most)
{
  gp_assert_internal(gauge->current + in >= out);
  if (gauge->current + (uint64_t)most > gauge->peak)
    gauge->peak = gauge->current + (uint64_t)most;
  gauge->current += in - out;
  gauge->allocated += in;
  gauge->freed += out;
}

/* The tally goes to the device. The caller has both locks. */
static void fold(gp_device_t *device, gp_stripe_t *stripe)
{
  gp_stats_t *stats = gp_device_stats(device);
  gp_stripe_tally_t *tally = &stripe->tally;

  gp_assert_internal(gp_lock_is_held(&device->lock) && gp_lock_is_held(&stripe->lock));
  fold_gauge(&stats->allocation, tally->allocs, tally->frees, tally->most_count);
  fold_gauge(&stats->allocated_bytes, tally->alloc_bytes, tally->free_bytes, tally->most_bytes);
  fold_gauge(&stats->requested_bytes, tally->alloc_requested, tally->free_requested, tally->most_requested);
  fold_gauge(&stats->deferred_bytes, tally->free_bytes, tally->alloc_bytes, -tally->least_bytes);
  fold_gauge(&stats->active_bytes, tally->alloc_bytes, tally->alloc_bytes, 0);
  fold_gauge(&stats->cached_bytes, tally->alloc_bytes, tally->alloc_bytes, (int64_t)tally->largest);
  stats->cache_hits += tally->allocs;
  device->stripes->served += tally->allocs;
  if (tally->free_bytes > 0) { /* as of frees of the device's, see fence_policy.h */
    device->freed_since_fence += tally->free_bytes;
    if (device->newest_free_epoch < stripe->newest_epoch)
      device->newest_free_epoch = stripe->newest_epoch;
  }
  *tally = (gp_stripe_tally_t){0};
  uint64_t share = stats->allocated_bytes.current / (ALLOWANCE_DIVISION * GP_STRIPES);
  stripe->allowance = share > GP_STRIPE_LEAST ? share : GP_STRIPE_LEAST;
}

/*
 * Moves the freed blocks into the context's queue, each to its place by its stamp. Beyond a number of steps
 * the stamps of the others are raised to that of the block before which they would have to go: they are used
 * later than they could be, and the lock is held for a bounded time. The caller has both locks.
 */
static unsigned put_back(gp_stripe_t *stripe)
{
  gp_list_t *queue = &stripe->context->deferred;
  gp_list_t *place = queue->prev;
  unsigned steps = 0;
  unsigned moved = 0;

  while (!gp_list_is_empty(&stripe->deferred)) {
    gp_block_t *block = gp_list_entry(stripe->deferred.prev, gp_block_t, order);
    gp_assert_internal(block->state == GP_STATE_DEFERRED);
    for (; place != queue && gp_list_entry(place, gp_block_t, order)->free_epoch > block->free_epoch;
         steps++) {
      if (steps >= MOST_STEPS) {
        block->free_epoch = gp_list_entry(place, gp_block_t, order)->free_epoch;
        break;
      }
      place = place->prev;
    }
    gp_list_remove(&block->order);
    gp_list_insert_after(place, &block->order);
    block->bin->deferred_count++;
    __atomic_store_n(&block->home, 0, __ATOMIC_RELAXED);
    moved++;
  }
  return moved;
}

/* Returns how many freed blocks it had. Its live ones are the device's as soon as its generation is over. */
static unsigned empty(gp_device_t *device, gp_stripe_t *stripe)
{
  gp_lock_take(&stripe->lock);
  unsigned moved = put_back(stripe);
  fold(device, stripe);
  stripe->context = NULL;
  stripe->generation++;
  stripe->kept_bytes = 0;
  stripe->next_id = stripe->end_id = 0; /* numbers from now on are above all that a snapshot shows */
  for (unsigned i = 0; i < GP_STRIPE_QUEUES; i++)
    stripe->queues[i].oldest = NULL;
  gp_lock_release(&stripe->lock);
  return moved;
}

/*
 * Where taking memory back costs more than the stripes have saved, there are none until threads wait again,
 * and more often than before.
 */
void gp_stripes_take_back(gp_device_t *device)
{
  gp_stripes_t *stripes = device->stripes;
  uint64_t worth = 0;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (stripes->used == 0)
    return;
  for (; stripes->used; stripes->used &= stripes->used - 1)
    worth +=
        WORTH_STRIPE + (uint64_t)WORTH_BLOCK * empty(device, &stripes->stripe[__builtin_ctz(stripes->used)]);
  bool is_worth_it = stripes->served >= worth;
  stripes->served = 0;
  stripes->paid = 0;
  if (is_worth_it)
    stripes->price = LEAST_PRICE;
  else if (stripes->price < MOST_PRICE)
    stripes->price *= 2;
#ifndef GP_STRIPES_ALWAYS
  atomic_store_explicit(&device->is_striped, is_worth_it, memory_order_relaxed);
#endif
}

static bool can_be_adopted(const gp_block_t *block)
{
  return block->size <= GP_STRIPE_MOST && !block->segment && !block->exact && !block->tainted &&
         block->refs == 1 && block->stream == 0 && block->observer_cookie == 0;
}

void gp_stripes_adopt(gp_engine_t *engine, gp_block_t *block)
{
  gp_device_t *device = block->context->device;

  gp_assert_internal(gp_lock_is_held(&device->lock) && block->state == GP_STATE_LIVE);
  if (!gp_device_is_striped(device) || !can_be_adopted(block) || !may_have_stripes(engine, device))
    return;
  gp_stripe_t *stripe = gp_stripes_own(device);
  gp_lock_take(&stripe->lock);
  if (!stripe->context) {
    stripe->context = block->context;
    stripe->generation += stripe->generation == 0;
    device->stripes->used |= 1u << (stripe - device->stripes->stripe);
  }
  fold(device, stripe);
  if (stripe->context == block->context)
    __atomic_store_n(&block->home, gp_stripe_home(device, stripe), __ATOMIC_RELEASE);
  gp_lock_release(&stripe->lock);
}

void gp_stripes_keep_off(gp_engine_t *engine, gp_block_t *block, uint64_t home)
{
  gp_device_t *device = block->context->device;
  bool is_live = true;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_stripe_t *stripe = gp_stripe_of(engine, home);
  gp_lock_take(&stripe->lock);
  if (home == gp_stripe_home(device, stripe)) {
    is_live = block->state == GP_STATE_LIVE;
    fold(device, stripe);
  }
  if (is_live)
    __atomic_store_n(&block->home, 0, __ATOMIC_RELAXED);
  gp_lock_release(&stripe->lock);
  if (!is_live)
    gp_stripes_take_back(device);
}

bool gp_stripes_locks_available(gp_device_t *device)
{
  for (unsigned i = 0; device->stripes && i < GP_STRIPES; i++) {
    if (!gp_lock_take_within(&device->stripes->stripe[i].lock, 1))
      return false;
    gp_lock_release(&device->stripes->stripe[i].lock);
  }
  return true;
}

void gp_stripes_fini(gp_device_t *device)
{
  for (unsigned i = 0; device->stripes && i < GP_STRIPES; i++)
    gp_assert_internal(gp_lock_is_free(&device->stripes->stripe[i].lock));
  free(device->stripes);
}

static bool check_stripe(const gp_device_t *device, const gp_stripe_t *stripe)
{
  gp_assert_internal(gp_lock_is_held(&stripe->lock));
  uint64_t home = gp_stripe_home(device, stripe);
  uint64_t newest = 0;
  uint64_t kept = 0;
  size_t blocks = 0;
  size_t queued = 0;
  bool good = true;

  GP_LIST_EACH(&stripe->deferred, const gp_block_t, order, block) {
    good &= gp_expect(
        block->state == GP_STATE_DEFERRED, "state of a stripe's freed block", block->address, block->state);
    good &= gp_expect(block->home == home && block->context == stripe->context, "home of a stripe's block",
        block->home, home);
    good &=
        gp_expect(can_be_adopted(block) || block->refs == 0, "block is none for a stripe", block->address, 0);
    good &= gp_expect(block->free_epoch >= newest, "epochs of a stripe shrink", block->free_epoch, newest);
    newest = block->free_epoch;
    kept += block->size;
    blocks++;
  }
  for (unsigned i = 0; i < GP_STRIPE_QUEUES; i++) {
    const gp_stripe_queue_t *queue = &stripe->queues[i];
    for (const gp_bin_entry_t *entry = queue->oldest; entry; entry = entry->next) {
      const gp_block_t *block = gp_list_entry(entry, const gp_block_t, in_bin);
      good &= gp_expect(block->size == queue->size && block->home == home, "block in another size's queue",
          block->size, queue->size);
      good &= gp_expect(entry->next || entry == queue->newest, "end of a stripe's queue", block->address, 0);
      queued++;
    }
  }
  const gp_stripe_tally_t *tally = &stripe->tally;
  good &= gp_expect(queued == blocks, "blocks in the queues of a stripe", queued, blocks);
  good &= gp_expect(
      kept == stripe->kept_bytes && kept <= stripe->allowance, "bytes of a stripe", kept, stripe->kept_bytes);
  good &= gp_expect(tally->alloc_bytes <= stripe->allowance && tally->free_bytes <= stripe->allowance,
      "tally of a stripe", tally->alloc_bytes, tally->free_bytes);
  return gp_expect(stripe->context || (blocks == 0 && tally->allocs == 0 && tally->frees == 0),
             "stripe without a context", blocks, 0) &&
         good;
}

bool gp_stripes_check(gp_engine_t *engine, gp_device_t *device)
{
  bool good = true;

  (void)engine;
  gp_assert_internal(gp_lock_is_held(&device->lock));
  for (unsigned i = 0; device->stripes && i < GP_STRIPES; i++) {
    gp_stripe_t *stripe = &device->stripes->stripe[i];
    gp_lock_take(&stripe->lock);
    good &= check_stripe(device, stripe);
    good &= gp_expect(!stripe->context || device->stripes->used >> i & 1, "stripe that is used", i, 0);
    good &=
        gp_expect(!stripe->context || gp_device_is_striped(device), "device without stripes has one", i, 0);
    gp_lock_release(&stripe->lock);
  }
  return good;
}
