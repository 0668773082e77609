#include "pool/space/bins.h"

#include <stdlib.h>

#define STEPS_LOG2 4u

typedef struct place {
  unsigned range, step;
} place_t;

/* Returns the bin for a size. Each size below 16 granules has its own bin, in range 0. Range r > 0 begins at
 * 16 << (r - 1) granules. */
static place_t place_of(uint64_t size)
{
  uint64_t granules = size / GP_CUT_GRANULE;

  if (granules < GP_CUT_STEPS)
    return (place_t){0, (unsigned)granules};
  unsigned log2 = 63 - (unsigned)__builtin_clzll(granules);
  return (place_t){log2 - STEPS_LOG2 + 1, (unsigned)(granules >> (log2 - STEPS_LOG2)) & (GP_CUT_STEPS - 1)};
}

_Static_assert(GP_CUT_RANGES < 64, "a bit for each, and one more");

/* Moves *place to the first bin that has entries, at or after *place. Returns false if there is none. */
static bool first_from(const gp_cut_bins_t *bins, place_t *place)
{
  unsigned steps = (unsigned)bins->steps[place->range] & (~0u << place->step);

  if (steps == 0) {
    uint64_t ranges = bins->ranges & (~UINT64_C(0) << (place->range + 1));
    if (ranges == 0)
      return false;
    place->range = (unsigned)__builtin_ctzll(ranges);
    steps = bins->steps[place->range];
  }
  place->step = (unsigned)__builtin_ctz(steps);
  return true;
}

static void step_on(place_t *place)
{
  if (++place->step == GP_CUT_STEPS)
    *place = (place_t){place->range + 1, 0};
}

/* Joins two heaps and returns the result. NULL is an empty heap. */
static gp_cut_entry_t *meld(gp_cut_entry_t *a, gp_cut_entry_t *b)
{
  if (!a || !b)
    return a ? a : b;
  if (b->address < a->address) {
    gp_cut_entry_t *lower = b;
    b = a;
    a = lower;
  }
  b->previous = a;
  b->next = a->child;
  if (a->child)
    a->child->previous = b;
  a->child = b;
  a->next = NULL;
  a->previous = NULL;
  return a;
}

/* Joins a list of siblings into one heap: first in pairs from the left, then the pairs from the right. */
static gp_cut_entry_t *meld_siblings(gp_cut_entry_t *first)
{
  gp_cut_entry_t *pairs = NULL; /* list linked by next; the last pair comes first */
  gp_cut_entry_t *heap = NULL;

  while (first) {
    gp_cut_entry_t *second = first->next;
    gp_cut_entry_t *rest = second ? second->next : NULL;
    first->next = first->previous = NULL;
    if (second)
      second->next = second->previous = NULL;
    gp_cut_entry_t *pair = meld(first, second);
    pair->next = pairs;
    pairs = pair;
    first = rest;
  }
  while (pairs) {
    gp_cut_entry_t *rest = pairs->next;
    pairs->next = NULL;
    heap = meld(heap, pairs);
    pairs = rest;
  }
  return heap;
}

void gp_cut_bins_add(gp_cut_bins_t *bins, gp_cut_entry_t *entry)
{
  place_t place = place_of(entry->size);
  gp_cut_entry_t **lowest = &bins->lowest[place.range][place.step];

  gp_assert_internal(entry->size > 0 && entry->size % GP_CUT_GRANULE == 0);
  entry->child = entry->next = entry->previous = NULL;
  *lowest = meld(*lowest, entry);
  bins->steps[place.range] |= (uint16_t)(1u << place.step);
  bins->ranges |= UINT64_C(1) << place.range;
}

void gp_cut_bins_remove(gp_cut_bins_t *bins, gp_cut_entry_t *entry)
{
  place_t place = place_of(entry->size);
  gp_cut_entry_t **lowest = &bins->lowest[place.range][place.step];
  gp_cut_entry_t *below = meld_siblings(entry->child);

  if (*lowest == entry) {
    *lowest = below;
  } else {
    gp_assert_internal(entry->previous);
    if (entry->previous->child == entry)
      entry->previous->child = entry->next;
    else
      entry->previous->next = entry->next;
    if (entry->next)
      entry->next->previous = entry->previous;
    *lowest = meld(*lowest, below);
  }
  entry->child = entry->next = entry->previous = NULL;
  if (*lowest)
    return;
  bins->steps[place.range] &= (uint16_t) ~(1u << place.step);
  if (bins->steps[place.range] == 0)
    bins->ranges &= ~(UINT64_C(1) << place.range);
}

static bool serves(const gp_cut_entry_t *entry, uint64_t bytes, uint64_t newest)
{
  return entry->size >= bytes && entry->free_epoch <= newest;
}

/* Returns the next entry in a walk through the heap, parents first, or NULL after the last one. */
static gp_cut_entry_t *next_in_heap(gp_cut_entry_t *entry)
{
  if (entry->child)
    return entry->child;
  while (entry && !entry->next) {
    while (entry->previous && entry->previous->child != entry)
      entry = entry->previous;
    entry = entry->previous; /* `previous` of a first child is its parent */
  }
  return entry ? entry->next : NULL;
}

static gp_cut_entry_t *lowest_that_serves(gp_cut_entry_t *heap, uint64_t bytes, uint64_t newest)
{
  gp_cut_entry_t *found = NULL;

  for (gp_cut_entry_t *entry = heap; entry; entry = next_in_heap(entry))
    if (serves(entry, bytes, newest) && (!found || entry->address < found->address))
      found = entry;
  return found;
}

gp_cut_entry_t *gp_cut_bins_find(const gp_cut_bins_t *bins, uint64_t bytes, uint64_t newest)
{
  const place_t own = place_of(bytes);

  gp_assert_internal(bytes > 0 && bytes % GP_CUT_GRANULE == 0);
  for (place_t place = own; place.range < GP_CUT_RANGES && first_from(bins, &place); step_on(&place)) {
    gp_cut_entry_t *entry = bins->lowest[place.range][place.step];
    if (serves(entry, bytes, newest))
      return entry;
  }
  /* Search every entry that might fit, because a driver call would cost more. */
  for (place_t place = own; place.range < GP_CUT_RANGES && first_from(bins, &place); step_on(&place)) {
    gp_cut_entry_t *entry = lowest_that_serves(bins->lowest[place.range][place.step], bytes, newest);
    if (entry)
      return entry;
  }
  return NULL;
}

gp_cut_entry_t *gp_cut_bins_largest(const gp_cut_bins_t *bins)
{
  gp_cut_entry_t *largest = NULL;

  if (bins->ranges == 0)
    return NULL;
  unsigned range = 63 - (unsigned)__builtin_clzll(bins->ranges);
  unsigned step = 31 - (unsigned)__builtin_clz(bins->steps[range]);
  for (gp_cut_entry_t *entry = bins->lowest[range][step]; entry; entry = next_in_heap(entry))
    if (!largest || entry->size > largest->size)
      largest = entry;
  return largest;
}

/* Checks the heap and the bits of one bin, and adds its entries and bytes to *count and *bytes. Returns true
 * if they are valid. */
static bool check_bin(const gp_cut_bins_t *bins, place_t place, size_t *count, uint64_t *bytes)
{
  gp_cut_entry_t *heap = bins->lowest[place.range][place.step];
  bool has_bit = bins->steps[place.range] >> place.step & 1;
  bool good = (heap != NULL) == has_bit && (!heap || (!heap->previous && !heap->next));

  for (gp_cut_entry_t *entry = heap; entry; entry = next_in_heap(entry)) {
    place_t own = place_of(entry->size);
    good &= own.range == place.range && own.step == place.step;
    for (const gp_cut_entry_t *child = entry->child; child; child = child->next)
      good &= child->address > entry->address &&
              (child == entry->child ? child->previous == entry : child->previous->next == child);
    *bytes += entry->size;
    ++*count;
  }
  return good;
}

bool gp_cut_bins_check(const gp_cut_bins_t *bins, size_t *ret_count, uint64_t *ret_bytes)
{
  bool good = true;

  *ret_count = 0;
  *ret_bytes = 0;
  for (unsigned range = 0; range < GP_CUT_RANGES; range++) {
    good &= (bins->steps[range] != 0) == (bins->ranges >> range & 1);
    for (unsigned step = 0; step < GP_CUT_STEPS; step++)
      good &= check_bin(bins, (place_t){range, step}, ret_count, ret_bytes);
  }
  return good;
}

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
