/*
 * The ordering oracle, part four: whether the device would have room for a request if a library below the
 * program kept nothing back. That is the device's own account less all allocations, and all shared pages,
 * in which no owner has anything.
 */
#include "oracle_clock.h"
#include "vmm.h"

static sim_block_t *next_block(const sim_arena_t *arena, uint64_t from)
{
  sim_node_t *node = sim_tree_ceil(&arena->blocks, from, 0);
  return node ? SIM_CONTAINER(node, sim_block_t, node) : NULL;
}

/* The bytes of the page that `block` shares if no block in the page has an owner. *ret_next: the address
 * after the page's last block. */
static uint64_t unowned_page(const sim_arena_t *arena, const sim_block_t *block, uint64_t *ret_next)
{
  uint64_t page = (block->node.key - arena->base) / SIM_PAGE;
  bool is_owned = false;

  for (; block && (block->node.key - arena->base) / SIM_PAGE == page;
       block = next_block(arena, block->node.key + 1)) {
    is_owned |= block->shares_page && sim_owner_has(block->node.key, block->size);
    *ret_next = block->node.key + 1;
  }
  return is_owned ? 0 : SIM_PAGE;
}

static uint64_t unowned_blocks(const sim_arena_t *arena)
{
  uint64_t bytes = 0, next = arena->base;
  const sim_block_t *block;

  while ((block = next_block(arena, next))) {
    next = block->node.key + 1;
    if (block->shares_page)
      bytes += unowned_page(arena, block, &next);
    else if (!sim_owner_has(block->node.key, block->size))
      bytes += block->charged;
  }
  return bytes;
}

int simcuda_fits(int device, uint64_t bytes, uint64_t most)
{
  bool fits = false;

  pthread_mutex_lock(&sim_mutex);
  if (sim_oracle_on && sim_initialized && sim_device_get(device) && sim_pending == 0) {
    const sim_device_t *own = &sim_devices[device];
    uint64_t capacity = sim_knobs.capacity[device];
    uint64_t used = own->used_bytes - unowned_blocks(&own->arena) - sim_vmm_unowned(own);
    uint64_t needed = sim_device_bytes_taken(bytes <= SIM_SHARED_MAX ? SIM_PAGE : bytes);
    most = most < capacity ? most : capacity;
    fits = used <= most && needed <= most - used;
  }
  pthread_mutex_unlock(&sim_mutex);
  return fits;
}
