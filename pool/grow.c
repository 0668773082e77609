#include "pool/grow.h"

#include <stdlib.h>

#include "pool/driver_calls.h"
#include "pool/limit.h"
#include "pool/space/block.h"
#include "pool/space/block_slab.h"
#include "pool/space/segment.h"
#include "pool/space/segment_policy.h"
#include "pool/util/cancel.h"

/* One segment on its way. */
typedef struct gp_growth {
  gp_engine_t *engine;
  gp_context_t *context;
  uint64_t requested;
  uint64_t bytes; /* of the request's block */
  uint64_t size;  /* of the segment; counted against the limit */
  gp_segment_t *segment;
  gp_block_t *block; /* NULL, like segment: the host has no memory for it */
} gp_growth_t;

static void prepare(gp_growth_t *growth)
{
  growth->segment = calloc(1, sizeof(*growth->segment));
  growth->block = growth->segment ? gp_block_slab_take(growth->engine) : NULL;
}

static void unprepare(void *arg)
{
  gp_growth_t *growth = arg;

  gp_limit_cancel(growth->context->device, growth->size);
  if (growth->block)
    gp_block_slab_give(growth->engine, growth->block);
  free(growth->segment);
}

/* The driver gave the address: the segment is filed, and the program gets its low end. False: the host has no
 * memory for the map's entry. */
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
  gp_releases_await(&device->releases, &device->lock, address);
  bool is_known = gp_address_map_insert(&engine->blocks, address, block);
  if (is_known) {
    gp_segment_add(growth->segment, block);
    gp_block_adopt(engine, block, start_ns, duration_ns);
    gp_segment_trim(engine, block, growth->bytes);
    gp_block_hand_out(engine, block, growth->requested, start_ns, duration_ns, false);
  }
  gp_lock_release(&device->lock);
  return is_known;
}

/* Everything on this side that needs memory of the host is prepared before the driver is called. */
static int grow_by(gp_growth_t *growth, uint64_t size, bool *by_limit, uint64_t *ret_address)
{
  gp_engine_t *engine = growth->engine;
  uint64_t address = 0;
  int code;

  *by_limit = !gp_limit_reserve(engine, growth->context, size, size, false);
  if (*by_limit)
    return engine->driver.ops->code_out_of_memory;
  growth->size = size;
  prepare(growth);
  uint64_t start_ns = gp_now(engine);
  GP_CANCEL_UNDO(code, gp_driver_alloc(engine, &growth->context->driver, size, &address), unprepare, growth);
  if (code == 0)
    *ret_address = address;
  if (code != 0 || !growth->block || !adopt(growth, address, start_ns))
    unprepare(growth);
  return code;
}

/* What may be tried after `size` was refused: as much as is left, but not less than `bytes`; 0: nothing. */
static uint64_t smaller(const gp_growth_t *growth, uint64_t size, bool by_limit)
{
  gp_device_t *device = growth->context->device;
  uint64_t left = 0;
  uint64_t total;

  if (size == growth->bytes)
    return 0;
  if (by_limit) {
    gp_lock_take(&device->lock);
    left = device->committed_bytes < device->limit ? device->limit - device->committed_bytes : 0;
    gp_lock_release(&device->lock);
    left -= left % GP_CUT_GRANULE;
  } else {
    (void)gp_limit_ask(growth->engine, growth->context, &left, &total);
    left -= left % GP_SEGMENT_STEP;
  }
  if (by_limit && left < growth->bytes)
    return 0;
  return left > growth->bytes && left < size ? left : growth->bytes;
}

int gp_grow(gp_engine_t *engine, gp_context_t *context, uint64_t requested, uint64_t bytes, bool *by_limit,
    uint64_t *ret_address)
{
  const int out_of_memory = engine->driver.ops->code_out_of_memory;
  gp_device_t *device = context->device;
  gp_growth_t growth = {.engine = engine, .context = context, .requested = requested, .bytes = bytes};
  int code = out_of_memory;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  uint64_t reserved = device->stats->reserved_bytes.current;
  gp_lock_release(&device->lock);
  uint64_t size = gp_segment_size(reserved, bytes);
  for (size = size ? size : bytes; size != 0;
       size = code == out_of_memory ? smaller(&growth, size, *by_limit) : 0)
    code = grow_by(&growth, size, by_limit, ret_address);
  return code;
}
