/*
 * Reading the engine, for snapshots and tests.
 */
#include <time.h>

#include "pool/state.h"

uint64_t gp_engine_devices(const gp_engine_t *engine)
{
  return atomic_load(&engine->device_mask);
}

bool gp_engine_locks_available(gp_engine_t *engine)
{
  for (uint64_t devices = atomic_load(&engine->device_mask); devices; devices &= devices - 1) {
    gp_lock_t *lock = &engine->devices[__builtin_ctzll(devices)].lock;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_mutex_timedlock(&lock->mutex, &until) != 0)
      return false;
    pthread_mutex_unlock(&lock->mutex);
  }
  return true;
}

void gp_engine_stats(gp_engine_t *engine, int device, gp_stats_t *ret_stats)
{
  gp_lock_take(&engine->devices[device].lock);
  *ret_stats = *engine->devices[device].stats;
  gp_lock_release(&engine->devices[device].lock);
}

static gp_block_state_t view_state(gp_state_t state)
{
  switch (state) {
  case GP_STATE_LIVE: return GP_BLOCK_ALLOCATED;
  case GP_STATE_RETAINED:
  case GP_STATE_DEFERRED: return GP_BLOCK_PENDING;
  default: return GP_BLOCK_IDLE;
  }
}

size_t gp_engine_blocks(gp_engine_t *engine, int ordinal, gp_block_view_t *array, size_t capacity,
    gp_stats_t *ret_stats, const gp_moment_t *moment)
{
  gp_device_t *device = &engine->devices[ordinal];
  size_t count = 0;

  gp_lock_take(&device->lock);
  if (moment)
    moment->fn(moment->arg, ordinal);
  if (ret_stats)
    *ret_stats = *device->stats;
  for (gp_list_t *c = device->contexts.next; c != &device->contexts; c = c->next) {
    gp_context_t *context = gp_list_entry(c, gp_context_t, device_link);
    for (gp_list_t *b = context->blocks.next; b != &context->blocks; b = b->next) {
      const gp_block_t *block = gp_list_entry(b, gp_block_t, all);
      /* Nobody was given the address anew before the record of its release (gp_release_await): until then it
       * is ours. */
      gp_state_t state = block->state == GP_STATE_RELEASING ? block->released_from : block->state;
      if (count < capacity)
        array[count] = (gp_block_view_t){block->address, block->size, block->requested, block->incarnation,
            block->time_ns, context->driver.id, block->refs, block->origin, view_state(state),
            block->tainted};
      count++;
    }
  }
  gp_lock_release(&device->lock);
  return count;
}
