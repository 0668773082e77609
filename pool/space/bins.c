#include "pool/space/bins.h"

#include <stdbool.h>
#include <stdlib.h>

#include "pool/util/assert.h"

#define INITIAL_CAPACITY 64u

void gp_bins_init(gp_bins_t *bins)
{
  *bins = (gp_bins_t){NULL, 0, 0};
}

void gp_bins_fini(gp_bins_t *bins)
{
  free(bins->slots);
  gp_bins_init(bins);
}

/* The slot of size, or the free slot where it would go. */
static gp_bin_t *slot_of(gp_bin_t *slots, size_t capacity, uint64_t size)
{
  size_t i = (size_t)((size * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (capacity - 1);
  while (slots[i].size != size && slots[i].size != 0)
    i = (i + 1) & (capacity - 1);
  return &slots[i];
}

gp_bin_t *gp_bins_find(const gp_bins_t *bins, uint64_t size)
{
  if (bins->capacity == 0)
    return NULL;
  gp_bin_t *bin = slot_of(bins->slots, bins->capacity, size);
  return bin->size == size ? bin : NULL;
}

static bool rebuild(gp_bins_t *bins)
{
  size_t capacity = INITIAL_CAPACITY;
  size_t kept = 0;

  for (size_t i = 0; i < bins->capacity; i++)
    kept += bins->slots[i].block_count > 0;
  while (capacity < 4 * (kept + 1))
    capacity *= 2;
  gp_bin_t *slots = calloc(capacity, sizeof(*slots));
  if (!slots)
    return false;
  for (size_t i = 0; i < bins->capacity; i++)
    if (bins->slots[i].block_count > 0)
      *slot_of(slots, capacity, bins->slots[i].size) = bins->slots[i];
  free(bins->slots);
  *bins = (gp_bins_t){slots, capacity, kept};
  return true;
}

gp_bin_t *gp_bins_make(gp_bins_t *bins, uint64_t size)
{
  gp_bin_t *bin = gp_bins_find(bins, size);
  if (bin)
    return bin;
  if (2 * (bins->used + 1) > bins->capacity && !rebuild(bins))
    return NULL;
  bin = slot_of(bins->slots, bins->capacity, size);
  gp_assert_internal(bin->size == 0);
  bin->size = size;
  bins->used++;
  gp_assert_internal(2 * bins->used <= bins->capacity);
  return bin;
}

gp_bin_t *gp_bins_largest(const gp_bins_t *bins)
{
  gp_bin_t *largest = NULL;
  for (size_t i = 0; i < bins->capacity; i++) {
    gp_bin_t *bin = &bins->slots[i];
    if (bin->idle_count > 0 && (!largest || bin->size > largest->size))
      largest = bin;
  }
  return largest;
}

void gp_bin_push(gp_bin_t *bin, gp_bin_entry_t *entry)
{
  entry->previous = NULL;
  entry->next = bin->idle;
  if (bin->idle)
    bin->idle->previous = entry;
  bin->idle = entry;
  bin->idle_count++;
  gp_assert_internal(bin->idle_count <= bin->block_count);
}

void gp_bin_remove(gp_bin_t *bin, gp_bin_entry_t *entry)
{
  gp_assert_internal(bin->idle_count > 0);
  if (entry->previous)
    entry->previous->next = entry->next;
  else
    bin->idle = entry->next;
  if (entry->next)
    entry->next->previous = entry->previous;
  *entry = (gp_bin_entry_t){NULL, NULL};
  bin->idle_count--;
}
