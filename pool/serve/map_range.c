#include "pool/serve/map_range.h"

#include <stdlib.h>

#include "pool/space/driver_calls.h"
#include "pool/engine_record.h"
#include "pool/limits/limit.h"
#include "pool/space/account.h"
#include "pool/space/block_slab.h"
#include "pool/space/mapped.h"
#include "base/log.h"

/* Creates the new memory of all steps. Called first, so that nothing has moved if the driver refuses. */
static int create(gp_engine_t *engine, gp_context_t *context, gp_map_step_t *steps, size_t count)
{
  int code = 0;

  for (size_t i = 0; i < count && code == 0; i++) {
    if (steps[i].source)
      continue;
    code = gp_driver_create(engine, &context->driver, steps[i].size, &steps[i].handle);
    if (code == 0)
      steps[i].done = GP_MAP_FLOATING;
  }
  return code;
}

static int bring(gp_engine_t *engine, gp_context_t *context, gp_map_step_t *step)
{
  int code = step->source ? gp_driver_unmap(engine, &context->driver, step->from, step->size) : 0;
  if (code != 0)
    return code;
  step->done = GP_MAP_FLOATING;
  code = gp_driver_map(engine, &context->driver, step->address, step->size, step->handle);
  if (code == 0)
    step->done = GP_MAP_MAPPED;
  return code;
}

/* Returns the number of steps in the run that begins with the first step. *ret_address and *ret_size describe
 * the address range that these steps fill. */
static size_t run_of(const gp_map_step_t *steps, size_t count, uint64_t *ret_address, uint64_t *ret_size)
{
  size_t length = 0;

  *ret_address = UINT64_MAX;
  *ret_size = 0;
  for (; length < count && steps[length].run == steps[0].run; length++) {
    if (steps[length].address < *ret_address)
      *ret_address = steps[length].address;
    *ret_size += steps[length].size;
  }
  return length;
}

static int allow(
    gp_engine_t *engine, gp_context_t *context, uint64_t address, uint64_t size, uint64_t devices)
{
  int code = 0;

  for (; devices && code == 0; devices &= devices - 1)
    code = gp_driver_allow(engine, &context->driver, address, size, __builtin_ctzll(devices));
  return code;
}

/* Moves the step's memory back to its old place, or releases it to the driver. */
static void undo(gp_engine_t *engine, gp_context_t *context, gp_map_step_t *step)
{
  const gp_driver_context_t *driver_context = &context->driver;
  bool is_free =
      step->done != GP_MAP_MAPPED || gp_driver_unmap(engine, driver_context, step->address, step->size) == 0;
  bool is_back = step->source && is_free &&
                 gp_driver_map(engine, driver_context, step->from, step->size, step->handle) == 0;

  if (is_back &&
      gp_driver_allow(engine, driver_context, step->from, step->size, context->device->ordinal) == 0) {
    step->done = GP_MAP_NOTHING;
    return;
  }
  if (is_back)
    (void)gp_driver_unmap(
        engine, driver_context, step->from, step->size);         /* ignore errors: the memory is given up */
  (void)gp_driver_destroy(engine, driver_context, step->handle); /* and so is its handle */
  step->done = step->source ? GP_MAP_LOST : GP_MAP_NOTHING;
}

int gp_map_take_steps(
    gp_engine_t *engine, gp_context_t *context, gp_map_step_t *steps, size_t count, uint64_t peers)
{
  const uint64_t devices = UINT64_C(1) << context->device->ordinal | peers;

  gp_assert(!gp_holds_engine_lock());
  int code = create(engine, context, steps, count);
  for (size_t i = 0; i < count && code == 0; i++)
    code = bring(engine, context, &steps[i]);
  for (size_t i = 0; i < count && code == 0;) {
    uint64_t address, size;
    i += run_of(&steps[i], count - i, &address, &size);
    code = allow(engine, context, address, size, devices);
  }
  for (size_t i = count; i-- > 0 && code != 0;)
    if (steps[i].done != GP_MAP_NOTHING)
      undo(engine, context, &steps[i]);
  return code;
}

void gp_map_allow(
    gp_engine_t *engine, gp_context_t *context, const gp_map_step_t *steps, size_t count, uint64_t devices)
{
  gp_assert(!gp_holds_engine_lock());
  for (size_t i = 0; i < count;) {
    uint64_t address, size;
    i += run_of(&steps[i], count - i, &address, &size);
    (void)allow(engine, context, address, size, devices);
  }
}

/* Size of a range, as a multiple of the device's memory. Addresses cost nothing, and the range should not run
 * out of free ones. */
#define TIMES_OF_DEVICE 2

/* How often the size of a range may be halved if the process cannot reserve that many addresses (RLIMIT_AS,
 * some devices). */
#define HALVINGS 6

/* Maps and unmaps a little memory, because some drivers claim that they can map memory but refuse the first
 * call. Returns the code of the first failure. */
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
    if (end != 0) /* no record has this mapping, so retry unmapping */
      (void)gp_driver_unmap(engine, driver_context, address, GP_CHUNK_STEP);
    code = code != 0 ? code : end;
  }
  int end = gp_driver_destroy(engine, driver_context, handle);
  if (end != 0)
    (void)gp_driver_destroy(engine, driver_context, handle);
  return code != 0 ? code : end;
}

/* Reserves *bytes of addresses, or fewer if that many are not available. Returns the driver's code. */
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

/* Returns true if the code means that the driver can never map memory. */
static bool is_final(const gp_engine_t *engine, int code)
{
  return code != 0 && code != engine->driver.ops->code_out_of_memory &&
         code != engine->driver.ops->code_not_ready;
}

/* Reserves at most *bytes of addresses at which memory can be mapped. Returns the driver's code, or the code
 * for out of memory if the limit leaves no room for the trial. */
static int reserve(gp_engine_t *engine, gp_context_t *context, gp_context_t *asker, uint64_t *bytes,
    bool *by_limit, uint64_t *ret_address)
{
  const gp_driver_ops_t *ops = engine->driver.ops;

  if (!ops->reserve)
    return ops->code_invalid_value;
  int code = reserve_most(engine, context, bytes, ret_address);
  if (code != 0)
    return code == ops->code_out_of_memory ? ops->code_invalid_value : code; /* out of addresses */
  gp_assert(*ret_address % GP_CHUNK_STEP == 0);
  code = ops->code_out_of_memory;
  *by_limit = !gp_limit_reserve(engine, asker, GP_CHUNK_STEP, GP_SUPPLY_APART);
  if (!*by_limit) {
    code = try_mapping(engine, context, *ret_address);
    gp_limit_cancel(engine, context->device, GP_CHUNK_STEP, GP_SUPPLY_APART);
  }
  if (code != 0)
    (void)gp_driver_unreserve(engine, &context->driver, *ret_address, *bytes);
  return code;
}

/* Returns the size of a range for the device. Returns 0 if the device's size is unknown and cannot be queried
 * now. */
static uint64_t range_bytes(gp_engine_t *engine, gp_context_t *asker)
{
  gp_device_t *device = asker->device;
  uint64_t free_bytes, total;

  gp_lock_take(&device->lock);
  total = gp_locked(device)->total;
  gp_lock_release(&device->lock);
  if (total == 0)
    (void)gp_limit_ask(engine, asker, &free_bytes, &total);
  return gp_round_up(total, GP_CHUNK_STEP) * TIMES_OF_DEVICE;
}

/* Creates the range. Only the one thread that tries calls it. Returns 0, or the code with which
 * gp_map_range_find explains that there is no range. */
static int make(gp_engine_t *engine, gp_context_t *context, gp_context_t *asker, bool *by_limit)
{
  gp_range_t *range = calloc(1, sizeof(*range));
  gp_block_t *block = range ? gp_block_slab_take(engine) : NULL;
  uint64_t bytes = range_bytes(engine, asker);
  uint64_t address;
  int code = engine->driver.ops->code_not_ready;

  if (block && bytes > 0)
    code = reserve(engine, context, asker, &bytes, by_limit, &address);

  if (code != 0) {
    if (block)
      gp_block_slab_give(engine, block);
    free(range);
    return code;
  }
  range->segment = (gp_segment_t){.address = address, .size = bytes, .context = context};
  block->size = bytes;
  block->free_epoch = 0;
  __atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
  __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
  atomic_store(&engine->has_mapped, true);
  gp_lock_take(&context->device->lock);
  gp_mapped_add(range, block);
  gp_lock_release(&context->device->lock);
  return 0;
}

/* Sets the state of the range. One thread tries to create the range, and sets the result. The mapped memory
 * ends with the context. The caller holds the device's lock. */
static void set_use(gp_context_t *context, gp_range_use_t use)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_assert_internal((use == GP_RANGE_BEING_TRIED) == (context->range_use == GP_RANGE_UNTRIED));
  context->range_use = use;
}

int gp_map_range_find(gp_engine_t *engine, gp_context_t *context, gp_context_t *asker, bool *by_limit)
{
  gp_device_t *device = context->device;
  const int not_ready = engine->driver.ops->code_not_ready;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  gp_range_use_t use = context->range_use;
  if (use == GP_RANGE_UNTRIED)
    set_use(context, GP_RANGE_BEING_TRIED);
  gp_lock_release(&device->lock);
  if (use != GP_RANGE_UNTRIED)
    return use == GP_RANGE_USED ? 0 : not_ready;

  int code = make(engine, context, asker, by_limit);
  bool is_over = is_final(engine, code);
  gp_lock_take(&device->lock);
  set_use(context, code == 0 ? GP_RANGE_USED : is_over ? GP_RANGE_REFUSED : GP_RANGE_UNTRIED);
  gp_lock_release(&device->lock);
  if (is_over && !atomic_exchange(&device->reported_range, true))
    gp_log(GP_LOG_ERROR, "memory cannot be mapped on device %d; %s", device->ordinal,
        context->is_async ? "the driver serves cudaMallocAsync there"
                          : "GPUPOOL_TYPE=segment is used there instead of vmm");
  return is_over ? not_ready : code;
}

/* Removes the next idle chunk from the pool. Returns false if there is none. The chunk counts until end_chunk
 * is called, because the driver still has its memory. */
static bool take_chunk(gp_engine_t *engine, gp_context_t *context, gp_chunk_t *ret_chunk)
{
  gp_range_t *range = context->range;

  gp_lock_take(&context->device->lock);
  gp_block_t *block = gp_mapped_cut_out(engine, context, UINT64_MAX, false);
  if (block) {
    gp_chunk_t *chunk = gp_chunks_find(range, block->address);
    *ret_chunk = *chunk;
    gp_account_keep_bytes(context->device, gp_account_growth(NULL, chunk->size, GP_SUPPLY_APART));
    gp_mapped_forget(engine, range, chunk, GP_DETAIL_CONTEXT_LOST, gp_now(engine), 0);
    gp_mapped_become_hole(engine, block);
  }
  gp_lock_release(&context->device->lock);
  return block != NULL;
}

static void end_chunk(gp_device_t *device, const gp_chunk_t *chunk)
{
  gp_lock_take(&device->lock);
  gp_account_end_kept_bytes(device, gp_account_growth(NULL, chunk->size, GP_SUPPLY_APART));
  gp_lock_release(&device->lock);
}

/* Returns true if the range is in use, and no memory is mapped or about to be mapped there. The caller holds
 * the device's lock. */
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
    /* Ignore errors: the driver has shut down, or has already freed the memory with the context, or nothing
     * can be done. */
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

/* Finds the first chunk at or above *address. Returns false if there is none. */
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

/* Handles one chunk at a time, because memory may move concurrently. The thread that moves a chunk then uses
 * the new mask. */
int gp_map_range_give_access(gp_engine_t *engine, gp_context_t *arena, int ordinal)
{
  gp_device_t *device = arena->device;
  uint64_t address = 0;
  int code = 0;
  bool is_there;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  arena->peers |= UINT64_C(1) << ordinal;
  gp_lock_release(&device->lock);
  do {
    uint64_t size = 0;
    gp_lock_take(&device->lock);
    is_there = next_chunk(arena, &address, &size);
    gp_lock_release(&device->lock);
    if (is_there && code == 0)
      code = gp_driver_allow(engine, &arena->driver, address, size, ordinal);
    address += size;
  } while (is_there);
  return code;
}

void gp_engine_peer_enabled(gp_engine_t *engine, gp_context_t *context, int ordinal)
{
  (void)gp_map_range_give_access(
      engine, context, ordinal); /* the program decides which devices can have access */
}
