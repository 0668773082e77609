#include "trace/views.h"

#include <assert.h>
#include <string.h>

#include "trace/pages.h"

typedef size_t (*read_fn)(gp_engine_t *engine, int device, void *array, size_t capacity);

static size_t read_blocks(gp_engine_t *engine, int device, void *array, size_t capacity)
{
  return gp_engine_blocks(engine, device, array, capacity);
}

static size_t read_passthroughs(gp_engine_t *engine, int device, void *array, size_t capacity)
{
  return gp_engine_passthroughs(engine, device, array, capacity);
}

static bool take_array(gp_engine_t *engine, int device, read_fn read, size_t item_bytes, size_t guess,
    gp_view_array_t *ret_array)
{
  size_t capacity = guess + guess / 4 + 64;
  for (;;) {
    size_t bytes = capacity * (item_bytes + sizeof(gp_sort_key_t));
    char *pages = gp_pages_map(bytes, false);
    if (!pages)
      return false;
    size_t count = read(engine, device, pages, capacity);
    if (count <= capacity) {
      ret_array->items = pages;
      ret_array->by_address = (gp_sort_key_t *)(void *)(pages + capacity * item_bytes);
      ret_array->count = count;
      ret_array->pages = pages;
      ret_array->bytes = bytes;
      return true;
    }
    /* Others may be allocating: twice what there was, so that this ends. */
    gp_pages_unmap(pages, bytes);
    capacity = 2 * count;
  }
}

bool gp_device_view_take(gp_engine_t *engine, int device, uint64_t until_ns, gp_device_view_t *ret_view)
{
  gp_device_view_t *view = ret_view;
  memset(view, 0, sizeof(*view));
  view->until_ns = until_ns;
  gp_engine_stats(engine, device, &view->stats);
  view->limit = gp_engine_limit(engine, device);
  view->has_use = gp_engine_device_use(engine, device, &view->use);
  static_assert(
      sizeof(gp_block_view_t) % 8 == 0 && sizeof(gp_passthrough_t) % 8 == 0, "keys follow, aligned");
  if (!take_array(
          engine, device, read_blocks, sizeof(gp_block_view_t), view->stats.segment.current, &view->blocks) ||
      !take_array(engine, device, read_passthroughs, sizeof(gp_passthrough_t), 64, &view->passthroughs))
    return false;

  const gp_block_view_t *blocks = view->blocks.items;
  for (size_t i = 0; i < view->blocks.count; i++) {
    view->blocks.by_address[i] = (gp_sort_key_t){.key = blocks[i].address, .index = (uint32_t)i};
    if (blocks[i].state != GP_BLOCK_IDLE)
      continue;
    view->idle_bytes += blocks[i].size;
    if (blocks[i].size > view->largest_idle)
      view->largest_idle = blocks[i].size;
  }
  const gp_passthrough_t *passthroughs = view->passthroughs.items;
  for (size_t i = 0; i < view->passthroughs.count; i++)
    view->passthroughs.by_address[i] = (gp_sort_key_t){.key = passthroughs[i].address, .index = (uint32_t)i};
  gp_sort_keys(view->blocks.by_address, view->blocks.count);
  gp_sort_keys(view->passthroughs.by_address, view->passthroughs.count);
  return true;
}

void gp_device_view_fini(gp_device_view_t *view)
{
  gp_pages_unmap(view->blocks.pages, view->blocks.bytes);
  gp_pages_unmap(view->passthroughs.pages, view->passthroughs.bytes);
  memset(view, 0, sizeof(*view));
}
