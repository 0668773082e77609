#include "pool/map_range.h"

#include <stdlib.h>

#include "pool/driver_calls.h"
#include "pool/engine_record.h"
#include "pool/limit.h"
#include "pool/space/account.h"
#include "pool/space/block_slab.h"
#include "pool/space/chunks.h"
#include "pool/space/mapped.h"
#include "base/log.h"

/* Addresses cost nothing, and the range should not run out of holes. */
#define TIMES_OF_DEVICE 2

/* Where the process may not have so many (RLIMIT_AS, some devices), fewer do: half of them, so often at most.
 */
#define HALVINGS 6

/* Some drivers claim that they can map memory, and refuse at the first call. Returns
 * the first failure's code. */
static int try_mapping(gp_engine_t *engine, gp_context_t *context, uint64_t address)
{
  const gp_driver_context_t *driver_context = &context->driver;
  uint64_t handle;

  int code = gp_driver_create(engine, driver_context, GP_CHUNK_STEP, &handle);
  if (code != 0)
    return code;
  code = gp_driver_map(engine, driver_context, address, GP_CHUNK_STEP, handle);
  if (code == 0) {
    code = gp_driver_allow(engine, driver_context, address, GP_CHUNK_STEP, context->device->ordinal);
    int end = gp_driver_unmap(engine, driver_context, address, GP_CHUNK_STEP);
    if (end != 0) /* only this code knows of the mapping: tries once more */
      (void)gp_driver_unmap(engine, driver_context, address, GP_CHUNK_STEP);
    code = code != 0 ? code : end;
  }
  int end = gp_driver_destroy(engine, driver_context, handle);
  if (end != 0)
    (void)gp_driver_destroy(engine, driver_context, handle);
  return code != 0 ? code : end;
}

/* Reserves as many of these addresses as there are. Returns the driver's code. */
static int reserve_most(gp_engine_t *engine, gp_context_t *context, uint64_t *bytes, uint64_t *ret_address)
{
  const int out_of_memory = engine->driver.ops->code_out_of_memory;
  int code = gp_driver_reserve(engine, &context->driver, *bytes, ret_address);

  for (int i = 0; i < HALVINGS && code == out_of_memory && *bytes > 2 * GP_CHUNK_STEP; i++) {
    *bytes = gp_round_up(*bytes / 2, GP_CHUNK_STEP);
    code = gp_driver_reserve(engine, &context->driver, *bytes, ret_address);
  }
  return code;
}

/* Reserves at most *bytes of addresses where memory can be mapped; 0: there are none. *ret_is_final:
 * there will never be any. */
static uint64_t reserve(gp_engine_t *engine, gp_context_t *context, uint64_t *bytes, bool *ret_is_final)
{
  const gp_driver_ops_t *ops = engine->driver.ops;
  uint64_t address;

  *ret_is_final = true;
  if (!ops->reserve || *bytes == 0)
    return 0;
  int code = reserve_most(engine, context, bytes, &address);
  *ret_is_final = code != ops->code_not_ready;
  if (code != 0)
    return 0;
  gp_assert(address % GP_CHUNK_STEP == 0);
  code = ops->code_out_of_memory;
  if (gp_limit_reserve(engine, context, GP_CHUNK_STEP, GP_SUPPLY_APART)) {
    code = try_mapping(engine, context, address);
    gp_limit_cancel(engine, context->device, GP_CHUNK_STEP, GP_SUPPLY_APART);
  }
  if (code == 0)
    return address;
  *ret_is_final = code != ops->code_out_of_memory && code != ops->code_not_ready;
  (void)gp_driver_unreserve(engine, &context->driver, address, *bytes);
  return 0;
}

/* Called by the one thread that tries. */
static gp_range_t *make(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool *ret_is_final)
{
  gp_range_t *range = calloc(1, sizeof(*range));
  gp_block_t *block = range ? gp_block_slab_take(engine) : NULL;
  uint64_t address;

  *ret_is_final = false;
  address = block ? reserve(engine, context, &bytes, ret_is_final) : 0;
  if (address == 0) {
    if (block)
      gp_block_slab_give(engine, block);
    free(range);
    return NULL;
  }
  range->segment = (gp_segment_t){.address = address, .size = bytes, .context = context};
  block->size = bytes;
  block->free_epoch = 0;
  __atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
  __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
  gp_lock_take(&context->device->lock);
  gp_mapped_add(range, block);
  gp_lock_release(&context->device->lock);
  return range;
}

/* One thread tries, and sets the outcome. What is mapped ends with the context. The caller
 * holds the device's lock. */
static void set_use(gp_context_t *context, gp_range_use_t use)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_assert_internal((use == GP_RANGE_BEING_TRIED) == (context->range_use == GP_RANGE_UNTRIED));
  context->range_use = use;
}

bool gp_map_range_is_there(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  gp_range_use_t use = context->range_use;
  uint64_t bytes = gp_round_up(gp_locked(device)->total, GP_CHUNK_STEP) * TIMES_OF_DEVICE;
  if (use == GP_RANGE_UNTRIED)
    set_use(context, GP_RANGE_BEING_TRIED);
  gp_lock_release(&device->lock);
  if (use != GP_RANGE_UNTRIED)
    return use == GP_RANGE_USED;

  bool is_final;
  gp_range_t *range = make(engine, context, bytes, &is_final);
  gp_lock_take(&device->lock);
  set_use(context, range ? GP_RANGE_USED : is_final ? GP_RANGE_REFUSED : GP_RANGE_UNTRIED);
  gp_lock_release(&device->lock);
  if (!range && is_final && !atomic_exchange(&device->told_range, true))
    gp_log(GP_LOG_ERROR, "GPUPOOL_TYPE=vmm: memory cannot be mapped on device %d; the type is segment there",
        device->ordinal);
  return range != NULL;
}

/* Takes the next idle chunk out of the pool; false: there is none. It counts until end_chunk: the driver
 * still has it. */
static bool take_chunk(gp_engine_t *engine, gp_context_t *context, gp_chunk_t *ret_chunk)
{
  gp_range_t *range = context->range;

  gp_lock_take(&context->device->lock);
  gp_block_t *block = gp_mapped_cut_out(engine, context, UINT64_MAX, false);
  if (block) {
    gp_chunk_t *chunk = gp_chunks_find(range, block->address);
    *ret_chunk = *chunk;
    gp_account_keep_bytes(context->device, gp_account_growth(chunk->size, GP_SUPPLY_APART));
    gp_mapped_forget(engine, range, chunk, GP_DETAIL_CONTEXT_LOST, gp_now(engine), 0);
    gp_mapped_become_hole(engine, block);
  }
  gp_lock_release(&context->device->lock);
  return block != NULL;
}

static void end_chunk(gp_device_t *device, const gp_chunk_t *chunk)
{
  gp_lock_take(&device->lock);
  gp_account_end_kept_bytes(device, gp_account_growth(chunk->size, GP_SUPPLY_APART));
  gp_lock_release(&device->lock);
}

/* The range is in use, and no memory is mapped there or about to be. The caller holds the device's lock. */
static bool is_without_memory(const gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  return context->range_use == GP_RANGE_USED && context->range->count == 0 && context->range->promised == 0;
}

void gp_map_range_lose(gp_engine_t *engine, gp_context_t *context)
{
  gp_chunk_t chunk;

  gp_assert(!gp_holds_engine_lock());
  if (!context->range)
    return;
  while (take_chunk(engine, context, &chunk)) {
    /* The driver has ended, or has taken the memory back with the context, or else
     * there is nothing to be done. */
    (void)gp_driver_unmap(engine, &context->driver, chunk.address, chunk.size);
    if (!chunk.has_no_handle)
      (void)gp_driver_destroy(engine, &context->driver, chunk.handle);
    end_chunk(context->device, &chunk);
  }
  gp_lock_take(&context->device->lock);
  bool is_empty = is_without_memory(context);
  if (is_empty)
    set_use(context, GP_RANGE_REFUSED);
  gp_lock_release(&context->device->lock);
  if (is_empty)
    (void)gp_driver_unreserve(
        engine, &context->driver, context->range->segment.address, context->range->segment.size);
}

/* The first chunk from *address on; false: there is none. */
static bool next_chunk(const gp_context_t *context, uint64_t *address, uint64_t *ret_size)
{
  const gp_range_t *range = context->range;

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  for (size_t i = 0; range && i < range->count; i++) {
    if (range->chunks[i].address < *address)
      continue;
    *address = range->chunks[i].address;
    *ret_size = range->chunks[i].size;
    return true;
  }
  return false;
}

/* Gives access chunk by chunk, since memory may move meanwhile; the thread that moves it
 * then finds the new mask. */
void gp_engine_peer_enabled(gp_engine_t *engine, gp_context_t *context, int ordinal)
{
  gp_device_t *device = context->device;
  uint64_t address = 0;
  bool is_there;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  context->peers |= UINT64_C(1) << ordinal;
  gp_lock_release(&device->lock);
  do {
    uint64_t size = 0;
    gp_lock_take(&device->lock);
    is_there = next_chunk(context, &address, &size);
    gp_lock_release(&device->lock);
    if (is_there) /* whether the device can is the program's concern */
      (void)gp_driver_allow(engine, &context->driver, address, size, ordinal);
    address += size;
  } while (is_there);
}
