#include "trace/snapshot/device_copy.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/emergency_pages.h"

typedef struct reading {
  gp_engine_t *engine;
  int device;
  gp_stats_t *stats;
  const gp_moment_t *moment;
} reading_t;

typedef size_t (*read_fn)(const reading_t *reading, void *array, size_t capacity);

static size_t read_blocks(const reading_t *reading, void *array, size_t capacity)
{
  return gp_engine_blocks(reading->engine, reading->device, array, capacity, reading->stats, reading->moment);
}

static size_t read_passthroughs(const reading_t *reading, void *array, size_t capacity)
{
  return gp_engine_forwarded_copy(reading->engine, reading->device, array, capacity);
}

static bool take_array(
    const reading_t *reading, read_fn read, size_t item_bytes, size_t guess, gp_copied_array_t *ret_array)
{
  size_t capacity = guess + guess / 4 + 64;
  for (;;) {
    size_t bytes = capacity * (item_bytes + sizeof(gp_sort_key_t));
    char *pages = gp_emergency_pages_map(bytes, false);
    if (!pages)
      return false;
    size_t count = read(reading, pages, capacity);
    if (count <= capacity) {
      ret_array->items = pages;
      ret_array->by_address = (gp_sort_key_t *)(void *)(pages + capacity * item_bytes);
      ret_array->count = count;
      ret_array->pages = pages;
      ret_array->bytes = bytes;
      return true;
    }
    /* Other threads may be allocating: makes room for twice as many, so that this ends. */
    gp_emergency_pages_unmap(pages, bytes);
    capacity = 2 * count;
  }
}

bool gp_device_copy_take(
    gp_engine_t *engine, int device, const gp_moment_t *moment, gp_device_copy_t *ret_copy)
{
  gp_device_copy_t *copy = ret_copy;
  const reading_t reading = {engine, device, &copy->stats, moment};
  memset(copy, 0, sizeof(*copy));
  gp_engine_stats(engine, device, &copy->stats); /* to know how many blocks to expect */
  copy->limit = gp_engine_limit(engine, device);
  copy->has_use = gp_engine_device_use(engine, device, &copy->use);
  /* Only cut memory has more blocks than segments, and then about as many holes. */
  uint64_t guess = copy->stats.segment.current;
  if (copy->stats.allocation.current > guess)
    guess += 2 * copy->stats.allocation.current;
  static_assert(sizeof(gp_block_view_t) % 8 == 0 && sizeof(gp_forwarded_t) % 8 == 0, "keys follow, aligned");
  if (!take_array(&reading, read_blocks, sizeof(gp_block_view_t), guess, &copy->blocks) ||
      !take_array(&reading, read_passthroughs, sizeof(gp_forwarded_t), 64, &copy->forwarded))
    return false;

  const gp_block_view_t *blocks = copy->blocks.items;
  for (size_t i = 0; i < copy->blocks.count; i++) {
    copy->blocks.by_address[i] = (gp_sort_key_t){.key = blocks[i].address, .index = (uint32_t)i};
    if (blocks[i].state != GP_BLOCK_IDLE)
      continue;
    copy->idle_bytes += blocks[i].size;
    gp_assert_internal(blocks[i].refs == 0);
    if (blocks[i].size > copy->largest_idle)
      copy->largest_idle = blocks[i].size;
  }
  const gp_forwarded_t *forwarded = copy->forwarded.items;
  for (size_t i = 0; i < copy->forwarded.count; i++)
    copy->forwarded.by_address[i] = (gp_sort_key_t){.key = forwarded[i].address, .index = (uint32_t)i};
  gp_sort_keys(copy->blocks.by_address, copy->blocks.count);
  gp_sort_keys(copy->forwarded.by_address, copy->forwarded.count);
  return true;
}

void gp_device_copy_fini(gp_device_copy_t *copy)
{
  gp_emergency_pages_unmap(copy->blocks.pages, copy->blocks.bytes);
  gp_emergency_pages_unmap(copy->forwarded.pages, copy->forwarded.bytes);
  memset(copy, 0, sizeof(*copy));
}
