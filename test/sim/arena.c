/*
 * Address ranges. An arena is one mapping that costs nothing until touched, much larger than the memory it
 * stands for: a GPU maps pages, so its address space does not fragment; the capacity is accounted apart.
 *
 * Invariant: a range that is not taken reads as zero, in the arena and in its shadow.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIM_WIPE                                                                                             \
  (256u << 10) /* new pages cost ten times as much, and much of what is given back was never touched */
#define SIM_KEPT_PAGES 32768u /* in free ranges, at most about so many */

sim_arena_t sim_host_arena;
static uint64_t wiped_pages; /* that stayed since free ranges were last given back */

typedef struct {
  sim_node_t by_address; /* key: address, tie 0 */
  sim_node_t by_size;    /* key: size, tie: address */
} range_t;

#define RANGE_OF_ADDRESS(node) SIM_CONTAINER(node, range_t, by_address)
#define RANGE_OF_SIZE(node)    SIM_CONTAINER(node, range_t, by_size)

static void range_add(sim_region_t *region, uint64_t address, uint64_t size)
{
  range_t *range = calloc(1, sizeof *range);
  if (!range)
    abort();
  range->by_address.key = address;
  range->by_size.key = size;
  range->by_size.tie = address;
  sim_tree_insert(&region->by_address, &range->by_address);
  sim_tree_insert(&region->by_size, &range->by_size);
}

static void range_drop(sim_region_t *region, range_t *range)
{
  sim_tree_remove(&region->by_address, &range->by_address);
  sim_tree_remove(&region->by_size, &range->by_size);
  free(range);
}

/* Where in a range a block begins: one that is smaller than a page is in one page. */
static uint64_t place_in(const range_t *range, uint64_t size)
{
  uint64_t mask = SIM_PAGE - 1, address = range->by_address.key;
  bool crosses = size <= SIM_PAGE && ((address ^ (address + size - 1)) & ~mask);
  return crosses ? (address + mask) & ~mask : address;
}

static uint64_t region_take(sim_region_t *region, uint64_t size)
{
  for (sim_node_t *node = sim_tree_ceil(&region->by_size, size, 0); node;
       node = sim_tree_ceil(&region->by_size, node->key, node->tie + 1)) {
    range_t *range = RANGE_OF_SIZE(node);
    uint64_t first = range->by_address.key, end = first + range->by_size.key;
    uint64_t address = place_in(range, size);
    if (address + size > end)
      continue;
    range_drop(region, range);
    if (address > first)
      range_add(region, first, address - first);
    if (address + size < end)
      range_add(region, address + size, end - address - size);
    return address;
  }
  return 0;
}

static void region_give(sim_region_t *region, uint64_t address, uint64_t size)
{
  sim_node_t *node = sim_tree_floor(&region->by_address, address, 0);
  if (node) {
    range_t *range = RANGE_OF_ADDRESS(node);
    if (range->by_address.key + range->by_size.key == address) {
      address = range->by_address.key;
      size += range->by_size.key;
      range_drop(region, range);
    }
  }
  node = sim_tree_ceil(&region->by_address, address, 0);
  if (node && node->key == address + size) {
    range_t *range = RANGE_OF_ADDRESS(node);
    size += range->by_size.key;
    range_drop(region, range);
  }
  range_add(region, address, size);
}

static uint64_t page_bytes(void)
{
  static uint64_t page;
  if (!page)
    page = (uint64_t)sysconf(_SC_PAGESIZE);
  return page;
}

/* A touched byte must cost a small page; only an economy. */
static void small_pages(void *p, uint64_t size)
{
  (void)madvise(p, size, MADV_NOHUGEPAGE);
}

static uint64_t map(uint64_t hint, uint64_t size)
{
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *p = MAP_FAILED;
  if (hint)
    p = mmap((void *)(uintptr_t)hint, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (p != MAP_FAILED && (uintptr_t)p != hint) { /* a kernel that takes the address as a mere hint */
    munmap(p, size);
    p = MAP_FAILED;
  }
  if (p == MAP_FAILED) /* the place is taken: addresses will vary */
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (p == MAP_FAILED) {
    fprintf(
        stderr, "simcuda: cannot reserve %llu MiB of address space: %m\n", (unsigned long long)(size >> 20));
    abort();
  }
  small_pages(p, size);
  return (uintptr_t)p;
}

/* Whether the system can take pages of the mapped file back: an emulator says so and does nothing. */
static bool takes_back(uint64_t address)
{
  volatile char *byte = (volatile char *)(uintptr_t)address;
  *byte = 1;
  bool done = madvise((void *)(uintptr_t)address, page_bytes(), MADV_REMOVE) == 0 && *byte == 0;
  *byte = 0;
  return done;
}

bool sim_arena_map_file(uint64_t address, uint64_t size, const sim_file_t *file, uint64_t offset)
{
  void *p = (void *)(uintptr_t)address;
  if (!sim_file_is_there(file) ||
      mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file->descriptor,
          (off_t)offset) == MAP_FAILED)
    return false;
  small_pages(p, size);
  return true;
}

/* Other processes can map the file that stands behind the memory: the byte at `base` is its first. Without
 * the file nothing is exported. */
static void map_file(sim_arena_t *arena)
{
  if (!sim_file_new(&arena->file, "simulated-gpu", arena->size))
    return;
  if (!sim_arena_map_file(arena->base, arena->size, &arena->file, 0))
    abort();
  arena->keeps_pages = !takes_back(arena->base);
}

void sim_arena_init(sim_arena_t *arena, uint64_t hint, uint64_t size, bool device)
{
  uint64_t mask = SIM_PAGE - 1;
  size = (size + mask) & ~mask;
  arena->base = (map(hint, size + SIM_PAGE) + mask) & ~mask;
  arena->size = size;
  arena->to_shadow = 0;
  arena->file.inode = 0;
  if (device) {
    map_file(arena);
    arena->to_shadow =
        (int64_t)(((map(hint ? hint + size + 2 * (uint64_t)SIM_PAGE : 0, size + SIM_PAGE) + mask) & ~mask) -
                  arena->base);
  }
  uint64_t small = (size / 4) & ~mask;
  arena->small.unit = SIM_GRANULE;
  arena->large.unit = SIM_PAGE;
  range_add(&arena->small, arena->base, small);
  arena->page_users = calloc(small / SIM_PAGE + 1, sizeof *arena->page_users);
  if (!arena->page_users)
    abort();
  range_add(&arena->large, arena->base + small, size - small);
}

static sim_region_t *region_of(sim_arena_t *arena, uint64_t *size)
{
  sim_region_t *region = *size <= SIM_SHARED_MAX ? &arena->small : &arena->large;
  *size = (*size + region->unit - 1) & ~(region->unit - 1);
  return region;
}

uint64_t sim_arena_take(sim_arena_t *arena, uint64_t size)
{
  if (size > arena->size)
    return 0;
  sim_region_t *region = region_of(arena, &size);
  return region_take(region, size);
}

bool sim_arena_page_enter(sim_arena_t *arena, uint64_t address)
{
  return arena->page_users[(address - arena->base) / SIM_PAGE]++ == 0;
}

bool sim_arena_page_leave(sim_arena_t *arena, uint64_t address)
{
  return --arena->page_users[(address - arena->base) / SIM_PAGE] == 0;
}

/* A few bytes are quicker wiped than given back to the system and asked for again. Their pages stay. */
static void wipe(uint64_t address, uint64_t size)
{
  memset((void *)(uintptr_t)address, 0, size);
  wiped_pages += size / 4096u + 1;
}

static bool inside(const sim_arena_t *arena, uint64_t address)
{
  return address - arena->base < arena->size;
}

/* Whole pages of the arena or of its shadow, which read as zero then */
static bool drop(const sim_arena_t *arena, uint64_t address, uint64_t size)
{
  bool is_file = arena->file.inode && inside(arena, address);
  return !(is_file && arena->keeps_pages) &&
         madvise((void *)(uintptr_t)address, size, is_file ? MADV_REMOVE : MADV_DONTNEED) == 0;
}

static void give_back(const sim_arena_t *arena, uint64_t address, uint64_t size)
{
  uint64_t page = page_bytes();
  uint64_t first = (address + page - 1) & ~(page - 1), last = (address + size) & ~(page - 1);
  if (first >= last) {
    wipe(address, size);
    return;
  }
  memset((void *)(uintptr_t)address, 0, first - address);
  memset((void *)(uintptr_t)last, 0, address + size - last);
  if (!drop(arena, first, last - first))
    memset((void *)(uintptr_t)first, 0, last - first);
}

void sim_arena_unmap_file(uint64_t address, uint64_t size)
{
  const sim_arena_t *arena = sim_arena_of(address);
  void *p = (void *)(uintptr_t)address;
  if (!sim_arena_map_file(address, size, &arena->file, address - arena->base)) {
    if (mmap(p, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
            0) == MAP_FAILED)
      abort();
    small_pages(p, size);
  }
  give_back(arena, address, size);
  if (arena->to_shadow)
    give_back(arena, address + (uint64_t)arena->to_shadow, size);
}

static void clear(const sim_arena_t *arena, uint64_t address, const sim_grid_t *grid)
{
  if (grid->rows * grid->width > SIM_WIPE) {
    give_back(arena, address + grid->from, (grid->rows - 1) * grid->pitch + grid->width);
    return;
  }
  for (uint64_t y = 0; y < grid->rows; y++)
    wipe(address + grid->from + y * grid->pitch, grid->width);
}

/* Its bytes are zero already. */
static void drop_pages(const sim_arena_t *arena, uint64_t address, uint64_t size)
{
  uint64_t page = page_bytes();
  uint64_t first = (address + page - 1) & ~(page - 1), last = (address + size) & ~(page - 1);
  if (first < last)
    (void)drop(arena, first, last - first);
}

static void drop_free_pages(const sim_arena_t *arena, const sim_region_t *region)
{
  for (sim_node_t *node = sim_tree_ceil(&region->by_address, 0, 0); node;
       node = sim_tree_ceil(&region->by_address, node->key + 1, 0)) {
    uint64_t size = RANGE_OF_ADDRESS(node)->by_size.key;
    drop_pages(arena, node->key, size);
    if (arena->to_shadow)
      drop_pages(arena, node->key + (uint64_t)arena->to_shadow, size);
  }
}

void sim_arena_give(sim_arena_t *arena, uint64_t address, uint64_t size, const sim_dirty_t *dirty)
{
  sim_region_t *region = region_of(arena, &size);
  for (unsigned i = 0; i < dirty->count; i++) {
    clear(arena, address, &dirty->grids[i]);
    if (arena->to_shadow)
      clear(arena, address + (uint64_t)arena->to_shadow, &dirty->grids[i]);
  }
  region_give(region, address, size);
  if (wiped_pages > SIM_KEPT_PAGES) { /* so that memory use follows what the program holds */
    wiped_pages = 0;
    drop_free_pages(arena, &arena->small);
    drop_free_pages(arena, &arena->large);
  }
}

sim_arena_t *sim_arena_of(uint64_t address)
{
  if (!sim_initialized)
    return NULL;
  for (int i = 0; i < sim_knobs.devices; i++) {
    if (inside(&sim_devices[i].arena, address))
      return &sim_devices[i].arena;
  }
  return inside(&sim_host_arena, address) ? &sim_host_arena : NULL;
}

static sim_block_t *find_in(sim_arena_t *arena, uint64_t address)
{
  if (arena->last && address - arena->last->node.key < arena->last->size)
    return arena->last;
  sim_node_t *node = sim_tree_floor(&arena->blocks, address, UINT64_MAX);
  if (!node)
    return NULL;
  sim_block_t *block = SIM_CONTAINER(node, sim_block_t, node);
  if (address - block->node.key >= block->size)
    return NULL;
  arena->last = block;
  return block;
}

void sim_arena_remove(sim_arena_t *arena, sim_block_t *block)
{
  if (arena->last == block)
    arena->last = NULL;
  sim_tree_remove(&arena->blocks, &block->node);
}

sim_block_t *sim_arena_find(uint64_t address)
{
  sim_arena_t *arena = sim_arena_of(address);
  if (arena)
    return find_in(arena, address);
  return sim_initialized ? find_in(&sim_host_arena, address) : NULL; /* registered memory lies anywhere */
}
