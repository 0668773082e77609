#include "pool/space/segment_policy.h"

#include "pool/space/budget.h"
#include "pool/space/segment.h"

/* A large request gets a segment of its own, which goes back as a whole after the free. */
#define OWN_LEAST    (64 * GP_MIB)
#define OWN_DIVISION 32 /* of what the context holds */

/* Other requests also obtain memory for later ones: few driver calls at first, little waste later. */
#define GROWTH_EARLY_DIVISION 4 /* of what the context holds, up to ... */
#define GROWTH_EARLY_MOST     (64 * GP_MIB)
#define GROWTH_DIVISION       24
#define GROWTH_MOST           (512 * GP_MIB)

/* Equal requests from this size on fill a segment: near the capacity's edge nothing is wasted. */
#define EQUAL_LEAST GP_MIB

/* Memory that the pool may hold beyond the highest use: percent of that, one more for each release, with
 * a least number of bytes. */
#define SLACK_LEAST 5u
#define SLACK_MOST  15u
#define SLACK_BYTES (32 * GP_MIB)

static uint64_t minimum(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static uint64_t maximum(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

uint64_t gp_segment_size(uint64_t held, uint64_t bytes)
{
  if (bytes >= OWN_LEAST && bytes >= held / OWN_DIVISION)
    return gp_round_up(bytes, GP_SEGMENT_STEP);
  uint64_t early = minimum(held / GROWTH_EARLY_DIVISION, GROWTH_EARLY_MOST);
  uint64_t growth = maximum(early, minimum(held / GROWTH_DIVISION, GROWTH_MOST));
  if (bytes >= EQUAL_LEAST && bytes < growth)
    growth -= growth % bytes;
  return gp_round_up(maximum(bytes, growth), GP_SEGMENT_STEP);
}

uint64_t gp_segment_spare_bytes(const gp_device_t *device)
{
  uint64_t percent = minimum(SLACK_LEAST + device->segments_spared, SLACK_MOST);
  uint64_t slack = maximum(device->highest_parts / 100 * percent, SLACK_BYTES);
  uint64_t needed = maximum(device->highest_parts + slack, device->needed_bytes);
  uint64_t reserved = gp_parts_held(device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  return reserved > needed ? reserved - needed : 0;
}

/* The smallest segment that suffices, else the largest. */
gp_block_t *gp_segment_spare(gp_context_t *context)
{
  uint64_t wanted = gp_segment_spare_bytes(context->device);
  gp_block_t *found = NULL;

  GP_LIST_EACH(&context->device->idle, gp_block_t, order, block) {
    if (block->context != context || !block->segment)
      continue;
    bool is_better = !found || (found->size >= wanted ? block->size >= wanted && block->size < found->size
                                                      : block->size > found->size);
    if (is_better)
      found = block;
  }
  return found;
}

void gp_segment_spared(gp_device_t *device, const gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&device->lock) && block->segment);
  device->segments_spared += device->segments_spared < SLACK_MOST;
  device->largest_spared = maximum(device->largest_spared, block->size);
}

void gp_segment_note_growth(gp_device_t *device, const gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&device->lock) && block->segment);
  if (device->largest_spared == 0 || block->size < device->largest_spared)
    return;
  device->largest_spared = 0;
  device->needed_bytes = maximum(device->needed_bytes, gp_parts_held(device) + block->size);
}
