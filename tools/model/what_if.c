#include "tools/model/what_if.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/size.h"
#include "tools/hash_index.h"
#include "tools/model/memory.h"
#include "tools/saturated.h"

#define GRANULE UINT64_C(512) /* granularity of type round */
/* The driver's granularity for more than DRIVER_SHARED_MAX bytes; rounding to less saves nothing. */
#define DRIVER_GRANULE    (2 * GP_MIB)
#define DRIVER_SHARED_MAX GP_MIB

/* Parses a setting; `otherwise` if missing or malformed. */
static uint64_t setting_of(const cJSON *settings, const char *name, uint64_t otherwise)
{
  const char *text = gp_snapshot_text(settings, name);
  uint64_t bytes;
  return gp_size_parse(text, strlen(text), &bytes) ? bytes : otherwise;
}

bool gp_block_sizes_init(gp_block_sizes_t *sizes, const cJSON *settings)
{
  const char *type = gp_snapshot_text(settings, "type");
  uint64_t cutoff = setting_of(settings, "round_cutoff", 64);

  *sizes = (gp_block_sizes_t){
      .is_naive = strcmp(type, "naive") == 0,
      .page = setting_of(settings, "page", 4 * GP_KIB),
      .large_round = setting_of(settings, "large_round", 2 * GP_MIB),
      .divisions = (unsigned)setting_of(settings, "round_divisions", 8),
      .cutoff = cutoff < 64 ? (unsigned)cutoff : 64,
  };
  if (sizes->divisions == 0 || sizes->divisions > 64)
    sizes->divisions = 8;
  return sizes->is_naive || strcmp(type, "round") == 0;
}

/* Rounds up to a multiple of step; on overflow returns bytes unchanged. */
static uint64_t round_up(uint64_t bytes, uint64_t step)
{
  uint64_t rest = step ? bytes % step : 0;
  return rest && bytes <= UINT64_MAX - step ? bytes + step - rest : bytes;
}

uint64_t gp_block_bytes(const gp_block_sizes_t *sizes, uint64_t requested)
{
  if (sizes->is_naive) {
    uint64_t bytes = round_up(requested ? requested : 1, sizes->page);
    if (bytes > DRIVER_SHARED_MAX)
      bytes = round_up(bytes, DRIVER_GRANULE);
    return bytes > sizes->large_round ? round_up(bytes, sizes->large_round) : bytes;
  }
  uint64_t smallest = sizes->divisions == 1 ? sizes->page : GRANULE;
  if (requested <= smallest || requested < 2)
    return smallest;
  unsigned log2 = 63 - (unsigned)__builtin_clzll(requested - 1);
  if (log2 >= sizes->cutoff)
    return round_up(requested, UINT64_C(1) << sizes->cutoff);
  uint64_t step = (UINT64_C(1) << log2) / sizes->divisions;
  if (requested > DRIVER_SHARED_MAX && step < DRIVER_GRANULE)
    step = DRIVER_GRANULE;
  return round_up(requested, step < GRANULE ? GRANULE : step);
}

bool gp_block_sizes_closest(const gp_block_sizes_t *sizes, gp_block_sizes_t *ret_closest,
    const char **ret_name, const char **ret_value)
{
  *ret_closest = *sizes;
  ret_closest->is_naive = true;
  *ret_name = "GPUPOOL_TYPE";
  *ret_value = "naive";
  if (!sizes->is_naive)
    return true;
  ret_closest->large_round = DRIVER_GRANULE;
  *ret_name = "GPUPOOL_LARGE_ROUND";
  *ret_value = "2MiB";
  return sizes->large_round > DRIVER_GRANULE;
}

void gp_rounded_peak_find(gp_rounded_peak_t *ret_peak, const gp_lifetimes_t *lifetimes, int device)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  gp_memory_t memory;

  gp_memory_held(lifetimes, device, 0, false, &memory);
  *ret_peak = (gp_rounded_peak_t){0, memory.requested, memory.allocated};
  for (size_t i = 0; i < events->count; i++) {
    if (gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) != device)
      continue;
    gp_memory_step(lifetimes, i, &memory);
    if (memory.allocated > ret_peak->rounded)
      *ret_peak = (gp_rounded_peak_t){(uint32_t)(i + 1), memory.requested, memory.allocated};
  }
}

uint64_t gp_rounded_at(
    const gp_lifetimes_t *lifetimes, int device, uint32_t moment, const gp_block_sizes_t *sizes)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->device == device && life->kind == GP_LIFE_POOLED && gp_life_is_held_at(life, moment))
      sum = gp_add_saturated(sum, gp_block_bytes(sizes, life->requested));
  }
  return sum;
}

/* Idle blocks by size. */
typedef struct idle {
  struct idle_size {
    uint64_t size;
    uint64_t count;
  } * sizes;
  size_t size_count;
  gp_hash_index_t index; /* of the sizes */
  uint64_t bytes;
} idle_t;

/* False without memory. */
static bool count_event(gp_served_t *served, idle_t *idle, const gp_life_t *life, gp_event_kind_t kind,
    const gp_block_sizes_t *sizes)
{
  uint64_t size = gp_block_bytes(sizes, life->requested);
  struct idle_size *slot = GP_HASH_NUMBER(&idle->index, idle->sizes, idle->size_count, size);

  if (!slot)
    return false;
  if (kind == GP_EVENT_FREE_COMPLETED) {
    slot->count++;
    idle->bytes = gp_add_saturated(idle->bytes, size);
    if (idle->bytes > served->idle_peak)
      served->idle_peak = idle->bytes;
  } else if (slot->count) {
    slot->count--;
    idle->bytes = gp_subtract_saturated(idle->bytes, size);
    served->hits++;
  } else {
    served->misses++;
    served->beside_idle += idle->bytes >= size;
  }
  return true;
}

int gp_served_count(
    gp_served_t *ret_served, const gp_lifetimes_t *lifetimes, int device, const gp_block_sizes_t *sizes)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  idle_t idle = {.size_count = 0};
  bool good = true;

  *ret_served = (gp_served_t){.hits = 0};
  for (size_t i = 0; i < events->count && good; i++) {
    gp_event_kind_t kind = gp_snapshot_event_kind(events, i);
    if (kind != GP_EVENT_ALLOC && kind != GP_EVENT_FREE_COMPLETED)
      continue;
    const gp_life_t *life = gp_lifetimes_life(lifetimes, i);
    if (life && life->device == device && life->kind == GP_LIFE_POOLED)
      good = count_event(ret_served, &idle, life, kind, sizes);
  }
  ret_served->size_count = idle.size_count;
  free(idle.sizes);
  gp_hash_index_fini(&idle.index);
  return good ? 0 : ENOMEM;
}
