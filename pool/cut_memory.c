#include "pool/cut_memory.h"

#include "pool/heaps.h"
#include "pool/space/segment.h"

gp_block_t *gp_cut_find_and_lock(gp_engine_t *engine, uint64_t address)
{
  if (engine->cut_most == 0)
    return NULL;
  GP_DEVICE_EACH(engine, device)
  {
    gp_lock_take(&device->lock);
    GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context) {
      const gp_segment_t *segment = gp_segment_at(context, address);
      gp_block_t *block = segment ? gp_segment_block_at(segment, address) : NULL;
      if (block && atomic_load_explicit(&block->home, memory_order_relaxed))
        gp_heap_disown(engine, block);
      if (block)
        return block;
    }
    gp_lock_release(&device->lock);
  }
  return NULL;
}

bool gp_engine_holds(gp_engine_t *engine, uint64_t address)
{
  if (gp_address_map_find(&engine->blocks, address))
    return true;
  const gp_block_t *block = gp_cut_find_and_lock(engine, address);
  if (!block)
    return false;
  bool is_leaving = block->state == GP_STATE_RELEASING;
  gp_lock_release(&block->context->device->lock);
  return !is_leaving;
}

bool gp_engine_is_mapped(gp_engine_t *engine, uint64_t address)
{
  const gp_block_t *block = gp_cut_find_and_lock(engine, address);

  if (!block)
    return false;
  bool is_mapped = block->segment->range != NULL;
  gp_lock_release(&block->context->device->lock);
  return is_mapped;
}

bool gp_engine_mapped_block(gp_engine_t *engine, uint64_t address, gp_mapped_block_t *ret_block)
{
  const gp_block_t *block = gp_cut_find_and_lock(engine, address);

  if (!block)
    return false;
  bool is_used = block->segment->range && block->refs > 0;
  *ret_block = (gp_mapped_block_t){
      .address = block->address, .size = block->requested, .context = block->context->driver.handle};
  gp_lock_release(&block->context->device->lock);
  return is_used;
}

bool gp_engine_begins_use(gp_engine_t *engine, uint64_t address)
{
  const gp_block_t *first = gp_cut_find_and_lock(engine, address);

  if (!first)
    return false;
  gp_heaps_collect(engine, first->context->device);
  bool is_used = first->segment->address == address && gp_segment_is_used(first->segment);
  gp_lock_release(&first->context->device->lock);
  return is_used;
}

bool gp_engine_cut_block(gp_engine_t *engine, uint64_t address, uint64_t *ret_block, uint64_t *ret_segment)
{
  const gp_block_t *block = gp_cut_find_and_lock(engine, address);

  if (!block)
    return false;
  *ret_block = block->address;
  *ret_segment = block->segment->address;
  gp_lock_release(&block->context->device->lock);
  return true;
}

const char *gp_engine_uncut_setting(const gp_engine_t *engine)
{
  return engine->type->cuts ? "GPUPOOL_TYPE=round" : "GPUPOOL_SMALL=whole";
}
