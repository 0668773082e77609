/*
 * The budget: how much memory the pool may reserve, by the highest use so far. Memory is used while the
 * program uses it, or has freed it and the device may still use it. Memory freed in a stream, which that
 * stream may reuse at once, counts as idle. The two kinds of memory are measured separately:
 *
 * - Whole blocks, each a driver allocation: memory of cudaMalloc of types round and naive, and large blocks
 * once the program exports memory. GPUPOOL_SLACK derives a budget from their highest use: the pool should not
 *   reserve more in whole blocks. Beyond it an allocation takes an idle block up to twice as large as the
 *   request before the pool grows, and idle blocks are surplus (surplus.h). doc/memory-types.md has the
 *   figures. A block that is larger than the pool would have made it counts without that excess.
 * - Parts of segments and of mapped memory: see segment.h and mapped.h.
 *
 * Prewarmed memory counts as used. Sizes are in bytes. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_BUDGET_H
#define GP_POOL_SPACE_BUDGET_H

#include "pool/device_record.h"

/* A request may take an idle block of that many times its size. */
#define GP_BORROW_TIMES 2

/* Blocks that go back for the budget in one free or synchronization: so that none takes long. */
#define GP_BUDGET_RELEASES 4

/* What the pool should hold in whole blocks at most; UINT64_MAX: no bound. */
uint64_t gp_budget_bytes(const gp_engine_t *engine, const gp_device_t *device);

/* What the pool holds in whole blocks, and in parts, and can use; memory on its way to the driver does not
 * count. */
static inline uint64_t gp_budget_held(const gp_device_t *device)
{
  return gp_device_stats(device)->active_bytes.current - device->part_active +
         gp_device_stats(device)->cached_bytes.current - device->part_cached;
}

static inline uint64_t gp_parts_held(const gp_device_t *device)
{
  return device->part_active + device->part_cached;
}

/* By how much the pool holds more than the budget. */
static inline uint64_t gp_budget_excess(const gp_engine_t *engine, const gp_device_t *device)
{
  uint64_t held = gp_budget_held(device);

  if (held <= device->highest_whole) /* the usual case in a free, which need not know the budget */
    return 0;
  uint64_t budget = gp_budget_bytes(engine, device);
  return held > budget ? held - budget : 0;
}

/* The pool may grow by that much. */
static inline bool gp_budget_allows(const gp_engine_t *engine, const gp_device_t *device, uint64_t bytes)
{
  uint64_t held = gp_budget_held(device), budget = gp_budget_bytes(engine, device);
  return held <= budget && bytes <= budget - held;
}

/* Notes that use of whole blocks may be more than before. */
static inline void gp_budget_note_use(gp_device_t *device)
{
  uint64_t use = gp_device_stats(device)->active_bytes.current - device->part_active - device->borrowed_bytes;

  use -= device->filed_bytes;
  if (use > device->highest_whole)
    device->highest_whole = use;
}

static inline void gp_parts_begin_use(gp_device_t *device, uint64_t bytes)
{
  device->part_active += bytes;
  if (device->part_active > device->highest_parts)
    device->highest_parts = device->part_active;
}

/* Memory was obtained ahead of need: held memory counts as if it had been in use. */
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

/* The block, which is about to be handed out, may be larger than the request would get otherwise. */
static inline void gp_budget_borrow(gp_device_t *device, gp_block_t *block, const gp_fit_t *fit)
{
  uint64_t most = fit->class_bytes > fit->most ? fit->class_bytes : fit->most;

  gp_assert_internal(block->borrowed == 0);
  block->borrowed = block->size > most ? block->size - most : 0;
  device->borrowed_bytes += block->borrowed;
}

/* The block's use has ended. */
static inline void gp_budget_return(gp_device_t *device, gp_block_t *block)
{
  gp_assert_internal(device->borrowed_bytes >= block->borrowed);
  device->borrowed_bytes -= block->borrowed;
  block->borrowed = 0;
}

#endif
