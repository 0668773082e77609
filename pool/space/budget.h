/*
 * The budget: how much memory the pool may reserve, derived from the highest use so far. Memory is in use
 * until the program has freed it and the device no longer uses it. Memory freed in a stream that may reuse it
 * at once counts as idle. Two kinds of memory are measured separately:
 * - Whole blocks, each of which is a driver allocation: memory of cudaMalloc with the pool types round and
 *   naive, and large blocks once the program exports memory. The budget is their highest use plus
 *   GPUPOOL_SLACK. The pool should not reserve more than that in whole blocks. Beyond the budget, an
 *   allocation takes an idle block of up to twice the requested size before the pool grows, and idle blocks
 *   are surplus (surplus.h). doc/memory-types.md has the measurements. If a block is larger than a new block
 *   for its request would be, the excess does not count.
 * - Parts of segments and of mapped memory: see segment.h and mapped.h.
 *
 * Prewarmed memory counts as used. Sizes are in bytes. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_BUDGET_H
#define GP_POOL_SPACE_BUDGET_H

#include "pool/device_record.h"

/* Beyond the budget, a request may take an idle block of up to this many times its size. */
#define GP_BORROW_TIMES 2

/* The most blocks that one free or synchronization releases for the budget, so that no call takes long. */
#define GP_BUDGET_RELEASES 4

/* Returns the most bytes that the pool should reserve in whole blocks; UINT64_MAX: no bound. */
uint64_t gp_budget_bytes(const gp_engine_t *engine, const gp_device_t *device);

/* gp_budget_held returns the bytes of whole blocks, and gp_parts_held those of parts. Memory that is being
 * released to the driver does not count. */
static inline uint64_t gp_budget_held(const gp_device_t *device)
{
  return gp_device_stats(device)->active_bytes.current - device->part_active +
         gp_device_stats(device)->cached_bytes.current - device->part_cached;
}

static inline uint64_t gp_parts_held(const gp_device_t *device)
{
  return device->part_active + device->part_cached;
}

/* Returns the bytes by which the whole blocks exceed the budget. */
static inline uint64_t gp_budget_excess(const gp_engine_t *engine, const gp_device_t *device)
{
  uint64_t held = gp_budget_held(device);

  if (held <= device->highest_whole) /* the usual case in a free: no need to compute the budget */
    return 0;
  uint64_t budget = gp_budget_bytes(engine, device);
  return held > budget ? held - budget : 0;
}

/* Returns true if the budget allows the pool to grow by `bytes`. */
static inline bool gp_budget_allows(const gp_engine_t *engine, const gp_device_t *device, uint64_t bytes)
{
  uint64_t held = gp_budget_held(device), budget = gp_budget_bytes(engine, device);
  return held <= budget && bytes <= budget - held;
}

/* Updates the highest use of whole blocks after their use has grown. */
static inline void gp_budget_note_use(gp_device_t *device)
{
  uint64_t use = gp_device_stats(device)->active_bytes.current - device->part_active - device->borrowed_bytes;

  use -= device->stream_block_bytes;
  if (use > device->highest_whole)
    device->highest_whole = use;
}

static inline void gp_parts_begin_use(gp_device_t *device, uint64_t bytes)
{
  device->part_active += bytes;
  if (device->part_active > device->highest_parts)
    device->highest_parts = device->part_active;
}

/* Raises the highest use to all reserved memory. Called after memory was reserved in advance. */
static inline void gp_budget_note_ahead(gp_device_t *device)
{
  if (gp_budget_held(device) > device->highest_whole)
    device->highest_whole = gp_budget_held(device);
}

static inline void gp_parts_note_ahead(gp_device_t *device)
{
  if (gp_parts_held(device) > device->highest_parts)
    device->highest_parts = gp_parts_held(device);
}

/* Records the bytes by which a block that is about to be allocated is larger than a new block would be. */
static inline void gp_budget_borrow(gp_device_t *device, gp_block_t *block, const gp_fit_t *fit)
{
  uint64_t most = fit->class_bytes > fit->most ? fit->class_bytes : fit->most;

  gp_assert_internal(block->borrowed == 0);
  block->borrowed = block->size > most ? block->size - most : 0;
  device->borrowed_bytes += block->borrowed;
}

/* Ends the count of gp_budget_borrow. Called when the use of the block has ended. */
static inline void gp_budget_return(gp_device_t *device, gp_block_t *block)
{
  gp_assert_internal(device->borrowed_bytes >= block->borrowed);
  device->borrowed_bytes -= block->borrowed;
  block->borrowed = 0;
}

#endif
