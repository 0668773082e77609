#include "pool/space/bins.h"

#include <stdbool.h>
#include <stdlib.h>

#define INITIAL_CAPACITY 64u

void gp_bins_init(gp_bins_t *bins)
{
  *bins = (gp_bins_t){NULL, 0, 0};
}

void gp_bins_fini(gp_bins_t *bins)
{
  for (size_t i = 0; i < bins->capacity; i++)
    free(bins->slots[i].bin);
  free(bins->slots);
}

static bool rebuild(gp_bins_t *bins)
{
  size_t capacity = INITIAL_CAPACITY;
  size_t kept = 0;

  for (size_t i = 0; i < bins->capacity; i++)
    kept += bins->slots[i].bin && bins->slots[i].bin->block_count > 0;
  while (capacity < 4 * (kept + 1))
    capacity *= 2;
  gp_bin_slot_t *slots = calloc(capacity, sizeof(*slots));
  if (!slots)
    return false;
  for (size_t i = 0; i < bins->capacity; i++) {
    const gp_bin_slot_t *old = &bins->slots[i];
    if (old->bin && old->bin->block_count > 0)
      *gp_bins_slot(slots, capacity, old->size) = *old;
    else
      free(old->bin);
  }
  free(bins->slots);
  *bins = (gp_bins_t){slots, capacity, kept};
  return true;
}

gp_bin_t *gp_bins_make(gp_bins_t *bins, uint64_t size)
{
  gp_bin_t *bin = gp_bins_find(bins, size);
  if (bin)
    return bin;
  bin = calloc(1, sizeof(*bin));
  if (!bin || (2 * (bins->used + 1) > bins->capacity && !rebuild(bins))) {
    free(bin);
    return NULL;
  }
  bin->size = size;
  gp_bin_slot_t *slot = gp_bins_slot(bins->slots, bins->capacity, size);
  gp_assert_internal(slot->size == 0);
  *slot = (gp_bin_slot_t){size, bin};
  bins->used++;
  gp_assert_internal(2 * bins->used <= bins->capacity);
  return bin;
}

gp_bin_t *gp_bins_largest(const gp_bins_t *bins)
{
  gp_bin_t *largest = NULL;
  for (size_t i = 0; i < bins->capacity; i++) {
    gp_bin_t *bin = bins->slots[i].bin;
    if (bin && bin->idle_count > 0 && (!largest || bin->size > largest->size))
      largest = bin;
  }
  return largest;
}

uint64_t gp_bins_unused_bytes(const gp_bins_t *bins, uint64_t size)
{
  uint64_t bytes = 0;

  for (size_t i = 0; i < bins->capacity; i++) {
    const gp_bin_t *bin = bins->slots[i].bin;
    if (bin && bin->size <= size)
      bytes += bin->size * ((uint64_t)bin->idle_count + bin->deferred_count);
  }
  return bytes;
}
