/*
 * The pool allocates prewarmed memory block by block, like the program's own allocations. Each block is idle
 * from the start, because no work has used it. The pool omits blocks that do not fit, because the program's
 * own requests come first. When memory is short, prewarmed memory is released like all idle memory (oom.c).
 */
#include "pool/serve/prewarm.h"

#include "pool/space/driver_calls.h"
#include "pool/serve/grow.h"
#include "pool/limits/limit.h"
#include "pool/reuse/mode.h"
#include "pool/space/block_life.h"
#include "pool/space/block_slab.h"
#include "base/cancel.h"
#include "base/log.h"

/* The reason for which the pool omits a block. */
typedef enum gp_obstacle {
  NO_OBSTACLE,
  OBSTACLE_MAX_CACHED,
  OBSTACLE_LIMIT,
  OBSTACLE_RESERVE,
  OBSTACLE_EXPORTS,
  OBSTACLE_DRIVER,
} gp_obstacle_t;

static const char *const obstacles[] = {
    [OBSTACLE_MAX_CACHED] = "GPUPOOL_MAX_CACHED allows no more",
    [OBSTACLE_LIMIT] = "GPUPOOL_LIMIT allows no more",
    [OBSTACLE_RESERVE] = "GPUPOOL_RESERVE has to stay free",
    [OBSTACLE_EXPORTS] = "the program exports memory, which takes separate driver allocations",
    [OBSTACLE_DRIVER] = "the driver refused more",
};

void gp_prewarm_init(gp_engine_t *engine, const gp_options_t *options)
{
  engine->prewarm_list = options->prewarm;
  bool is_due = engine->prewarm_list.count > 0 && engine->type->keeps_blocks;
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    atomic_init(&engine->devices[i].prewarm.state, is_due ? GP_PREWARM_DUE : GP_PREWARM_DONE);
}

/* The allocations for one entry of the list, with the sizes of the pool type. */
typedef struct gp_wish {
  uint64_t bytes; /* size of one allocation; 0: rounding overflows */
  uint64_t count;
  bool is_cut; /* the memory will be allocated in parts */
  gp_fit_t fit;
} gp_wish_t;

static gp_wish_t wish_of(const gp_engine_t *engine, unsigned entry)
{
  uint64_t bytes = engine->prewarm_list.entries[entry].bytes;
  gp_wish_t wish = {.count = engine->prewarm_list.entries[entry].count};

  uint64_t size = gp_type_fit(engine->type, &engine->type_config, bytes, &wish.fit) ? wish.fit.fresh : 0;
  wish.is_cut = engine->type->cuts && /* same condition as choose_cut in alloc.c */
                size < atomic_load_explicit(&engine->whole_least, memory_order_relaxed);
  if (size == 0) {
    return wish;
  } else {
    wish.bytes = wish.is_cut ? gp_round_up(bytes, GP_DRIVER_PAGE) : size;
  }
  return wish;
}

static uint64_t list_bytes(const gp_engine_t *engine)
{
  uint64_t bytes = 0;

  for (unsigned i = 0; i < engine->prewarm_list.count; i++) {
    const gp_wish_t wish = wish_of(engine, i);
    bytes += wish.count * wish.bytes;
  }
  return bytes;
}

/* Returns the obstacle to allocating `bytes` more. The limit and the driver decide later. */
static gp_obstacle_t find_obstacle(gp_engine_t *engine, gp_context_t *context, uint64_t bytes)
{
  gp_device_t *device = context->device;

  /* After an export, the program's large requests get separate driver allocations, see choose_cut in alloc.c.
   */
  if (engine->type->cuts && gp_has_exports(engine))
    return OBSTACLE_EXPORTS;
  gp_lock_take(&device->lock);
  uint64_t cached = gp_device_stats(device)->cached_bytes.current;
  uint64_t reserve = gp_amount_resolve(&engine->reserve, device->total);
  uint64_t left = gp_device_left(device);
  bool is_told = device->told_ns != 0;
  gp_lock_release(&device->lock);
  if (bytes > engine->max_cached || cached > engine->max_cached - bytes)
    return OBSTACLE_MAX_CACHED;
  if (is_told && (left < bytes || left - bytes < reserve))
    left = gp_driver_available(engine, &context->driver, left);
  return is_told && (left < bytes || left - bytes < reserve) ? OBSTACLE_RESERVE : NO_OBSTACLE;
}

/* Allocates all host memory for the records before the driver is called. Returns false if the host has no
 * memory. */
static bool prepare(gp_engine_t *engine, gp_context_t *context, uint64_t class_bytes, gp_block_t **ret_block)
{
  gp_block_t *block = gp_block_slab_take(engine);
  if (!block)
    return false;
  gp_lock_take(&context->device->lock);
  bool has_bin = gp_block_prepare(context, block, class_bytes);
  bool is_ready = has_bin && gp_address_map_promise(&engine->blocks);
  if (has_bin && !is_ready)
    gp_block_unprepare(context, block);
  gp_lock_release(&context->device->lock);
  if (!is_ready)
    gp_block_slab_give(engine, block);
  *ret_block = block;
  return is_ready;
}

static void unprepare(gp_engine_t *engine, gp_context_t *context, gp_block_t *block)
{
  gp_lock_take(&context->device->lock);
  gp_block_unprepare(context, block);
  gp_lock_release(&context->device->lock);
  gp_address_map_unpromise(&engine->blocks);
  gp_block_slab_give(engine, block);
}

/* Called after the driver has returned the address. Assigns the address to the prepared block, which becomes
 * idle. */
static void adopt(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t address,
    uint64_t bytes, uint64_t start_ns)
{
  gp_device_t *device = context->device;
  uint64_t end_ns = gp_now(engine);

  block->size = bytes;
  block->requested = 0;
  block->block_id = 0;
  block->time_ns = start_ns;
  block->free_epoch = 0;
  __atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
  __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
  gp_lock_take(&device->lock);
  gp_releases_await(&device->releases, address, block->size);
  gp_address_map_insert_promised(&engine->blocks, address, block);
  gp_block_adopt(engine, block, start_ns, end_ns - start_ns);
  gp_block_enter_idle(engine, block, end_ns);
  gp_budget_note_ahead(device);
  gp_lock_release(&device->lock);
}

/* Obtains a separate driver allocation in a size class of the pool type. Returns what gp_grow_ahead returns.
 */
static int obtain_whole(gp_engine_t *engine, gp_context_t *context, const gp_fit_t *fit, bool *by_limit)
{
  const int out_of_memory = engine->driver.ops->code_out_of_memory;
  uint64_t address = 0;
  gp_block_t *block;

  *by_limit = !gp_limit_reserve(engine, context, fit->fresh, GP_SUPPLY_PLAIN);
  if (*by_limit)
    return out_of_memory;
  if (!prepare(engine, context, fit->class_bytes, &block)) {
    gp_limit_cancel(engine, context->device, fit->fresh, GP_SUPPLY_PLAIN);
    return out_of_memory;
  }
  uint64_t start_ns = gp_now(engine);
  int code = gp_driver_alloc(engine, &context->driver, fit->fresh, &address);
  if (code == 0) {
    adopt(engine, context, block, address, fit->fresh, start_ns);
    return 0;
  }
  unprepare(engine, context, block);
  gp_limit_cancel(engine, context->device, fit->fresh, GP_SUPPLY_PLAIN);
  return code;
}

/* Makes one allocation for an entry of the list. Returns the obstacle if there is one. */
static gp_obstacle_t obtain(gp_engine_t *engine, gp_context_t *context, const gp_wish_t *wish)
{
  bool by_limit = false;
  int code;

  gp_obstacle_t obstacle = find_obstacle(engine, context, wish->bytes);
  if (obstacle != NO_OBSTACLE)
    return obstacle;
  if (engine->type->maps)
    code = gp_grow_mapped_ahead(engine, context, wish->bytes, list_bytes(engine), &by_limit);
  else if (wish->is_cut)
    code = gp_grow_ahead(engine, context, wish->bytes, &by_limit);
  else
    code = obtain_whole(engine, context, &wish->fit, &by_limit);
  if (code == 0)
    context->device->prewarm.obtained += wish->bytes;
  return code == 0 ? NO_OBSTACLE : by_limit ? OBSTACLE_LIMIT : OBSTACLE_DRIVER;
}

/* Makes the next allocations of the list. Returns false if the engine may make no driver call of its own now.
 */
static bool go_on(gp_engine_t *engine, gp_context_t *context)
{
  gp_prewarm_t *prewarm = &context->device->prewarm;

  while (prewarm->entry < engine->prewarm_list.count) {
    const gp_wish_t wish = wish_of(engine, prewarm->entry);
    if (!gp_engine_enter(engine))
      return false;
    gp_obstacle_t obstacle = obtain(engine, context, &wish);
    gp_engine_leave(engine);
    if (obstacle != NO_OBSTACLE && !prewarm->why)
      prewarm->why = obstacles[obstacle];
    /* Skip the rest of the entry: a size that does not fit now will not fit the next time, but smaller blocks
     * may. */
    if (obstacle != NO_OBSTACLE || ++prewarm->done == wish.count) {
      prewarm->entry++;
      prewarm->done = 0;
    }
  }
  return true;
}

static void tell(const gp_engine_t *engine, const gp_device_t *device)
{
  const gp_prewarm_t *prewarm = &device->prewarm;
  char obtained[GP_SIZE_TEXT_BYTES], wanted[GP_SIZE_TEXT_BYTES];

  gp_size_format(prewarm->obtained, obtained);
  gp_size_format(list_bytes(engine), wanted);
  if (prewarm->why)
    gp_log(GP_LOG_ERROR, "GPUPOOL_PREWARM: device %d: %s of %s prewarmed: %s", device->ordinal, obtained,
        wanted, prewarm->why);
  else
    gp_log(GP_LOG_INFO, "device %d: %s prewarmed", device->ordinal, obtained);
}

bool gp_prewarm_now(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;
  gp_prewarm_state_t due = GP_PREWARM_DUE;
  uint64_t free_bytes, total_bytes;

  gp_assert(!gp_holds_engine_lock());
  if (gp_engine_forwards(engine) ||
      !atomic_compare_exchange_strong(&device->prewarm.state, &due, GP_PREWARM_RUNNING))
    return false;
  int cancel_state = gp_cancel_hold(); /* the program did not request these calls */
  uint64_t before = device->prewarm.obtained;
  (void)gp_limit_ask(engine, context, &free_bytes, &total_bytes);
  bool is_done = go_on(engine, context);
  bool has_more = device->prewarm.obtained > before;
  if (is_done)
    tell(engine, device);
  gp_cancel_restore(cancel_state);
  /* Must come last, because no other thread can enter this function before. */
  atomic_store(&device->prewarm.state, is_done ? GP_PREWARM_DONE : GP_PREWARM_DUE);
  return has_more;
}
