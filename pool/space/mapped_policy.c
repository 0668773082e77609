#include "pool/space/mapped_policy.h"

#include "pool/space/budget.h"
#include "pool/space/chunks.h"
#include "pool/space/segment.h"

/* The pool grows by few calls at first, and leaves little unused later. */
#define GROWTH_DIVISION       32 /* of what the context holds, from GROWTH_LEAST on */
#define GROWTH_LEAST          (16 * GP_MIB)
#define GROWTH_MOST           (512 * GP_MIB)
#define GROWTH_EARLY_DIVISION 8 /* up to GROWTH_LEAST */

/* A chunk moves as a whole: memory that the program frees can move only if the same chunk has no memory in
 * use. So a chunk is no larger than the request. Walks over all chunks limit their number: one that is made
 * when the pool holds much has a CHUNK_SHARE of that at least (some 2,000 chunks in 80 GiB). */
#define CHUNK_SHARE 512

/* Thousandths of the highest use that the pool may hold before it moves memory instead. Where the same
 * chunks move again and again, a few more end that: one for each MOVES_A_PERMILLE such moves. */
#define HELD_PERMILLE      1033
#define HELD_PERMILLE_MOST 1150
#define MOVES_A_PERMILLE   2

static uint64_t power_of_two_within(uint64_t bytes)
{
  return bytes == 0 ? 0 : UINT64_C(1) << (63 - (unsigned)__builtin_clzll(bytes));
}

uint64_t gp_mapped_growth(uint64_t held)
{
  uint64_t early = held / GROWTH_EARLY_DIVISION;
  uint64_t size = held / GROWTH_DIVISION;

  if (early > GROWTH_LEAST)
    early = GROWTH_LEAST;
  size = power_of_two_within(size > early ? size : early);
  if (size > GROWTH_MOST)
    return GROWTH_MOST;
  return size < GP_CHUNK_STEP ? GP_CHUNK_STEP : size;
}

uint64_t gp_mapped_chunk_size(uint64_t held, uint64_t request)
{
  uint64_t growth = gp_mapped_growth(held);
  uint64_t size = gp_round_up(request, GP_CHUNK_STEP);
  uint64_t least = power_of_two_within(held / CHUNK_SHARE);

  if (size < least)
    size = least;
  return size < growth ? size : growth;
}

bool gp_mapped_should_move(const gp_device_t *device, uint64_t need, uint64_t bytes)
{
  uint64_t mapped = gp_device_stats(device)->reserved_bytes.current - gp_budget_held(device);
  uint64_t use = device->part_active + need;
  uint64_t highest = use > device->highest_parts ? use : device->highest_parts;
  uint64_t permille = HELD_PERMILLE + device->moved_again / MOVES_A_PERMILLE;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (permille > HELD_PERMILLE_MOST)
    permille = HELD_PERMILLE_MOST;
  return mapped + bytes > highest / 1000 * permille;
}

static bool is_usable(const gp_block_t *block)
{
  return block->state == GP_STATE_UNMAPPED || block->state == GP_STATE_IDLE;
}

/* Missing bytes in `bytes` that begin with the block, or with `down` end with it. UINT64_MAX:
 * there are not that many. */
static uint64_t missing_from(const gp_block_t *block, bool down, uint64_t bytes)
{
  uint64_t missing = 0, left = bytes;

  for (; block && is_usable(block); block = down ? gp_segment_below(block) : gp_segment_above(block)) {
    uint64_t part = block->size < left ? block->size : left;
    if (block->state == GP_STATE_UNMAPPED)
      missing += gp_round_up(part, GP_CHUNK_STEP);
    left -= part;
    if (left == 0)
      return missing;
  }
  return UINT64_MAX;
}

/* The block that contains address, at or below `block`. */
static gp_block_t *block_down_to(gp_block_t *block, uint64_t address)
{
  while (block->address > address)
    block = gp_segment_below(block);
  return block;
}

bool gp_mapped_place(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place)
{
  ret_place->missing = UINT64_MAX;
  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock));
  for (gp_block_t *block = range->segment.first; block; block = gp_segment_above(block)) {
    if (!is_usable(block))
      continue;
    uint64_t missing = missing_from(block, false, bytes);
    if (missing < ret_place->missing)
      *ret_place = (gp_place_t){.first = block, .address = block->address, .missing = missing};
    if (block->state == GP_STATE_UNMAPPED)
      continue;
    missing = missing_from(block, true, bytes);
    if (missing < ret_place->missing) {
      uint64_t address = block->address + block->size - bytes;
      *ret_place =
          (gp_place_t){.first = block_down_to(block, address), .address = address, .missing = missing};
    }
  }
  return ret_place->missing != UINT64_MAX;
}

bool gp_mapped_place_ahead(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place)
{
  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock));
  for (gp_block_t *block = range->segment.first; block; block = gp_segment_above(block)) {
    if (block->state != GP_STATE_UNMAPPED || block->size < bytes)
      continue;
    *ret_place = (gp_place_t){.first = block, .address = block->address, .missing = bytes};
    return true;
  }
  return false;
}
