#include "pool/serve/cut_memory.h"

#include "pool/serve/heaps.h"
#include "pool/space/mapped.h"
#include "pool/space/segment.h"

gp_block_t *gp_cut_find_and_lock(gp_engine_t *engine, uint64_t address)
{
  if (!gp_engine_has_parts(engine))
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

bool gp_engine_part(gp_engine_t *engine, uint64_t address, gp_part_t *ret_part)
{
  /* Most callers pass the start of a block. Other addresses require a walk through the segment's blocks. */
  const gp_block_t *block = gp_engine_has_parts(engine) ? gp_find_and_lock(engine, address) : NULL;

  if (!block)
    block = gp_cut_find_and_lock(engine, address);
  if (!block)
    return false;
  if (!block->segment) {
    gp_lock_release(&block->context->device->lock);
    return false;
  }
  const gp_segment_t *segment = block->segment;
  const gp_chunk_t *chunk = segment->range ? gp_chunks_find(segment->range, address) : NULL;
  uint64_t begin = chunk ? chunk->address : segment->range ? address : segment->address;
  uint64_t size = chunk ? chunk->size : segment->range ? 0 : segment->size;
  *ret_part = (gp_part_t){.address = block->address,
      .size = block->requested,
      .end = block->address + block->size,
      .driver_address = begin,
      .driver_end = begin + size,
      .context = block->context->driver.handle,
      .device = block->context->driver.device,
      .is_mapped = segment->range != NULL,
      .is_used = block->refs > 0};
  gp_lock_release(&block->context->device->lock);
  return true;
}

bool gp_engine_uses_part(gp_engine_t *engine, uint64_t address, uint64_t size)
{
  gp_part_t part;

  for (uint64_t at = address; at - address < size && gp_engine_part(engine, at, &part); at = part.end)
    if (part.is_used)
      return true;
  return false;
}
