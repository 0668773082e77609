#include "pool/serve/grow.h"

#include <stdlib.h>

#include "pool/space/driver_calls.h"
#include "pool/limits/limit.h"
#include "pool/space/block_life.h"
#include "pool/space/block_slab.h"
#include "pool/space/segment.h"
#include "base/cancel.h"

/* A segment that is being allocated. */
typedef struct gp_growth {
  gp_engine_t *engine;
  gp_context_t *context;
  uint64_t requested;
  uint64_t bytes;  /* size of the request's block */
  uint64_t stream; /* stream of the request; 0: none */
  uint64_t size;   /* size of the segment, counted against the limit */
  gp_segment_t *segment;
  gp_block_t *block; /* record of the segment; NULL, like `segment`, if the host has no memory */
} gp_growth_t;

static void prepare(gp_growth_t *growth)
{
  growth->segment = calloc(1, sizeof(*growth->segment));
  growth->block = growth->segment ? gp_block_slab_take(growth->engine) : NULL;
}

static void unprepare(void *arg)
{
  gp_growth_t *growth = arg;

  gp_limit_cancel(growth->engine, growth->context->device, growth->size, GP_SUPPLY_PLAIN);
  if (growth->block)
    gp_block_slab_give(growth->engine, growth->block);
  free(growth->segment);
}

/* Called after the driver has returned the address. Adds the segment to the records, and gives its low end to
 * the program. Returns false if the host has no memory for the map's entry. */
static bool adopt(const gp_growth_t *growth, uint64_t address, uint64_t start_ns)
{
  gp_engine_t *engine = growth->engine;
  gp_context_t *context = growth->context;
  gp_device_t *device = context->device;
  gp_block_t *block = growth->block;
  uint64_t duration_ns = gp_now(engine) - start_ns;

  *growth->segment = (gp_segment_t){.address = address, .size = growth->size, .context = context};
  block->size = growth->size;
  block->free_epoch = 0;
  block->idle_ns = start_ns;
  __atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
  __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
  gp_lock_take(&device->lock);
  gp_releases_await(&device->releases, address, growth->size);
  bool is_known = gp_address_map_insert(&engine->blocks, address, block);
  if (is_known) {
    gp_segment_add(growth->segment, block);
    gp_block_adopt(engine, block, start_ns, duration_ns);
    gp_segment_shrink(engine, block, growth->bytes);
    gp_block_set_stream(block, growth->stream);
    gp_block_allocate(engine, block, growth->requested, start_ns, duration_ns, false);
  }
  gp_lock_release(&device->lock);
  return is_known;
}

static int ask_driver(const gp_growth_t *growth, uint64_t *ret_address)
{
  const gp_driver_context_t *context = &growth->context->driver;

  return growth->stream ? gp_driver_alloc_in(growth->engine, context, growth->size, ret_address)
                        : gp_driver_alloc(growth->engine, context, growth->size, ret_address);
}

/* Serves the request from a new segment of `size` bytes. Allocates all host memory for the records before
 * it calls the driver. */
static int grow_by(gp_growth_t *growth, uint64_t size, bool *by_limit, uint64_t *ret_address)
{
  gp_engine_t *engine = growth->engine;
  uint64_t address = 0;
  int code;

  *by_limit = !gp_limit_reserve(engine, growth->context, size, GP_SUPPLY_PLAIN);
  if (*by_limit)
    return engine->driver.ops->code_out_of_memory;
  growth->size = size;
  prepare(growth);
  uint64_t start_ns = gp_now(engine);
  GP_CANCEL_UNDO(code, ask_driver(growth, &address), unprepare, growth);
  if (code == 0)
    *ret_address = address;
  if (code != 0 || !growth->block || !adopt(growth, address, start_ns))
    unprepare(growth);
  return code;
}

/* Called after the driver has returned the address. Adds the segment to the records as idle; no work has used
 * it. */
static void adopt_idle(const gp_growth_t *growth, uint64_t address, uint64_t start_ns)
{
  gp_engine_t *engine = growth->engine;
  gp_context_t *context = growth->context;
  gp_device_t *device = context->device;
  gp_block_t *block = growth->block;
  uint64_t end_ns = gp_now(engine);

  *growth->segment = (gp_segment_t){.address = address, .size = growth->size, .context = context};
  block->size = growth->size;
  block->free_epoch = 0;
  __atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
  __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
  gp_lock_take(&device->lock);
  gp_releases_await(&device->releases, address, growth->size);
  gp_segment_add(growth->segment, block);
  gp_block_adopt(engine, block, start_ns, end_ns - start_ns);
  (void)gp_segment_enter_idle(engine, block, gp_block_idle_since(device, end_ns));
  gp_parts_note_ahead(device);
  gp_lock_release(&device->lock);
}

int gp_grow_ahead(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool *by_limit)
{
  gp_growth_t growth = {.engine = engine, .context = context, .size = bytes};
  uint64_t address = 0;
  int code = engine->driver.ops->code_out_of_memory;

  gp_assert(!gp_holds_engine_lock());
  *by_limit = !gp_limit_reserve(engine, context, bytes, GP_SUPPLY_PLAIN);
  if (*by_limit)
    return code;
  prepare(&growth);
  uint64_t start_ns = gp_now(engine);
  if (growth.block)
    code = gp_driver_alloc(engine, &context->driver, bytes, &address);
  if (code == 0)
    adopt_idle(&growth, address, start_ns);
  else
    unprepare(&growth);
  return code;
}

/*
 * Once parts of a segment are in use, the memory beyond the request may never be released again. The program
 * may need that memory where the pool cannot help: for its kernels, its other libraries, or managed memory.
 * So the pool reserves such memory only while GPUPOOL_RESERVE, and at least this fraction of the device and
 * of the limit, stays free.
 */
#define KEPT_DIVISION 16

#define AMPLE 4 /* free memory is ample if it is this multiple of the needed bytes */

/* Returns the bytes that must stay free on the device. The caller holds the device's lock. */
static uint64_t kept_bytes(const gp_engine_t *engine, const gp_device_t *device)
{
  uint64_t reserve = gp_amount_resolve(&engine->reserve, device->total);
  uint64_t share = device->total / KEPT_DIVISION;
  return reserve > share ? reserve : share;
}

/* Returns true if the driver's last report of free memory, less the memory allocated since, is reliable. It
 * is reliable if it is recent. An older report is reliable if it leaves so many times the needed bytes that
 * other processes would have to allocate much first. The caller holds the device's lock. */
static bool can_rely(const gp_device_t *device, uint64_t needed, uint64_t now_ns)
{
  uint64_t times = needed ? gp_device_left(device) / AMPLE / needed : 0;
  return device->told_ns != 0 && (now_ns - device->told_ns) / GP_QUERY_FRESH_NS <= times;
}

bool gp_grow_leaves_enough(gp_engine_t *engine, gp_context_t *context, uint64_t size)
{
  gp_device_t *device = context->device;
  uint64_t left, total;

  gp_lock_take(&device->lock);
  uint64_t kept = kept_bytes(engine, device);
  bool is_reliable = can_rely(device, size + kept, gp_now(engine));
  gp_lock_release(&device->lock);
  if (!is_reliable)
    (void)gp_limit_ask(engine, context, &left, &total);
  gp_lock_take(&device->lock);
  kept = kept_bytes(engine, device);
  uint64_t limit = device->limit;
  uint64_t allowed = device->committed_bytes < limit ? limit - device->committed_bytes : 0;
  left = gp_device_left(device);
  gp_lock_release(&device->lock);
  if (limit != UINT64_MAX && (allowed < size || allowed - size < limit / KEPT_DIVISION))
    return false;
  if (left < size || left - size < kept)
    left = gp_driver_available(engine, &context->driver, left);
  return left >= size && left - size >= kept;
}

int gp_grow(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address)
{
  gp_context_t *context = need->context;
  gp_device_t *device = context->device;
  const uint64_t bytes = need->bytes;
  gp_growth_t growth = {.engine = engine,
      .context = context,
      .requested = need->requested,
      .bytes = bytes,
      .stream = need->stream};

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  uint64_t held = gp_segment_held(context);
  gp_lock_release(&device->lock);
  uint64_t least = gp_round_up(bytes, GP_SEGMENT_STEP); /* 0 on overflow, as is `size` */
  uint64_t size = gp_segment_size(held, bytes);
  if (size > least && !gp_grow_leaves_enough(engine, context, size))
    size = least;
  for (size = size ? size : bytes;; size = size > least ? least : bytes) {
    int code = grow_by(&growth, size, by_limit, ret_address);
    if (code != engine->driver.ops->code_out_of_memory || size == bytes)
      return code;
  }
}
