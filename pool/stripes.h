/*
 * Stripes: small memory that a thread can take and give back without the device's lock, where threads wait
 * for that lock. A program with one thread that allocates has none.
 *
 * A block that the device has just handed out becomes the stripe's of the thread that got it (adopt). Its
 * free then takes that stripe's lock alone: stamps it as ever (reuse/stamps.h) and queues it there. An
 * allocation takes from its thread's stripe the oldest freed block of its size, if that is covered, by the
 * same question that the context's queue is asked. So a stripe changes nothing of when memory is used again.
 *
 * Whoever takes the device's lock by gp_device_take gets all memory back first, and sees the device as if
 * there were no stripes: misses, trims, limits, snapshots, the way to out of memory, a context's end, checks.
 * Stripes have nothing then, and get nothing while that lock is held. Only the usual allocation and free, and
 * the look for surplus after a synchronization, take the lock beside stripes (gp_device_take_beside): they
 * touch what the device has itself, whose statistics then lack what the stripes' tallies have: as much as
 * their allowances at most, a 128th of what is live on all stripes together, or GP_STRIPE_LEAST for each.
 * Of a gauge the device has at least what is its own, so that none gets below 0.
 *
 * The device's lock comes before that of a stripe; no thread holds two of these.
 */
#ifndef GP_POOL_STRIPES_H
#define GP_POOL_STRIPES_H

#include "pool/state.h"

#define GP_STRIPE_MOST  (64 * GP_KIB)  /* bytes of a block */
#define GP_STRIPE_LEAST (128 * GP_KIB) /* of an allowance */

/* Takes the lock of the device beside its stripes. */
static inline void gp_device_take_beside(gp_device_t *device)
{
  gp_lock_take(&device->lock);
}

/* After enough waits for the device's lock, which the caller has now, there are stripes. */
void gp_stripes_note_wait(gp_engine_t *engine, gp_device_t *device);

/* The same as gp_device_take_beside, where a thread that has to wait is reason to have stripes. */
static inline void gp_device_take_in_turn(gp_engine_t *engine, gp_device_t *device)
{
  if (gp_lock_take_telling(&device->lock))
    gp_stripes_note_wait(engine, device);
}

/* Some memory may be a stripe's. No lock, and so a hint. */
static inline bool gp_device_is_striped(const gp_device_t *device)
{
  return __builtin_expect(atomic_load_explicit(&device->is_striped, memory_order_acquire), 0);
}

/* For a new engine. */
void gp_stripes_init(gp_device_t *device);

/* From now on there are stripes, unless the host has no memory for them. The caller holds the device's lock.
 */
void gp_stripes_begin(gp_device_t *device);

/*
 * The block was handed out just now, for a request that named no stream: it becomes the calling thread's
 * stripe's, if there are stripes and it can be. The caller has the device's lock, beside stripes.
 */
void gp_stripes_adopt(gp_engine_t *engine, gp_block_t *block);

/* The block, of that lock's device, becomes the device's, and the lock guards it. The same. */
void gp_stripes_keep_off(gp_engine_t *engine, gp_block_t *block, uint64_t home);

static inline void gp_stripes_let_go(gp_engine_t *engine, gp_block_t *block)
{
  uint64_t home = __atomic_load_n(&block->home, __ATOMIC_RELAXED);
  if (__builtin_expect(home != 0, 0))
    gp_stripes_keep_off(engine, block, home);
}

/* For the end of the process, as gp_engine_locks_available. The caller holds no lock. */
bool gp_stripes_locks_available(gp_device_t *device);

/* No thread uses the engine any more. */
void gp_stripes_fini(gp_device_t *device);

/* No event is wanted of what happens in stripes: an event needs the device's lock. */
static inline bool gp_stripes_are_silent(const gp_engine_t *engine)
{
  const _Atomic int *interest = engine->observer.interest;
  return interest && atomic_load_explicit(interest, memory_order_relaxed) == 0;
}

/* The stripe that a home names; home is not 0. */
static inline gp_stripe_t *gp_stripe_of(gp_engine_t *engine, uint64_t home)
{
  return &engine->devices[home >> 4 & (GP_MAX_DEVICES - 1)].stripes->stripe[home & (GP_STRIPES - 1)];
}

/* The home of blocks that the stripe has now: generation, device, stripe. The caller holds its lock. */
static inline uint64_t gp_stripe_home(const gp_device_t *device, const gp_stripe_t *stripe)
{
  gp_assert_internal(gp_lock_is_held(&stripe->lock));
  return stripe->generation << 10 | (uint64_t)device->ordinal << 4 |
         (uint64_t)(stripe - device->stripes->stripe);
}

_Static_assert(GP_STRIPES == 1 << 4 && GP_MAX_DEVICES == 1 << 6, "the bits of a home");

/* The calling thread's. */
gp_stripe_t *gp_stripes_own(gp_device_t *device);

/* What stripe.h promises; prints each mismatch. The caller holds the device's lock. */
bool gp_stripes_check(gp_engine_t *engine, gp_device_t *device);

#endif
