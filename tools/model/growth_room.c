#include "tools/model/growth_room.h"

#include <string.h>

#include "tools/model/saturated.h"

/* Room: idle memory, and memory that is neither reserved nor in use by others. */
static void measure_room(const gp_snapshot_device_t *device, gp_growth_room_t *room)
{
  const gp_stats_t *stats = &device->stats;
  uint64_t held = gp_add_saturated(stats->reserved_bytes.current, stats->passthrough_bytes.current);
  uint64_t used = gp_subtract_saturated(held, stats->cached_bytes.current);
  uint64_t limit = device->limit, total = gp_subtract_saturated(device->total, device->unaccounted);
  uint64_t below_limit = gp_subtract_saturated(limit, used), below_total = gp_subtract_saturated(total, used);

  room->is_known = limit > 0 || device->total > 0;
  room->is_limit = limit > 0 && (device->total == 0 || below_limit <= below_total);
  room->bytes = room->is_limit ? below_limit : below_total;
  room->capacity = room->is_limit ? limit : device->total;
}

void gp_growth_measure_rooms(gp_growth_t *growth, const gp_snapshot_t *snapshot)
{
  bool is_out = strcmp(gp_snapshot_text(snapshot->root, "reason"), "oom") == 0;
  for (size_t i = 0; i < growth->count; i++) {
    int device = growth->growers[i].device;
    if (gp_growth_room(growth, device))
      continue;
    gp_growth_room_t *room = &growth->rooms[growth->room_count++];
    const gp_snapshot_device_t *of = gp_snapshot_device(snapshot, device);
    *room = (gp_growth_room_t){.device = device};
    if (of)
      measure_room(of, room);
    double rate = 0;
    bool is_held = true;
    for (size_t k = i; k < growth->count && growth->growers[k].device == device; k++) {
      rate += growth->growers[k].bytes_per_ns;
      is_held = is_held && growth->growers[k].is_held;
    }
    double left_ns = rate > 0 ? (double)room->bytes / rate : 0;
    bool has_run_out = is_out || (of && of->stats.num_ooms > 0); /* a projection would be too late */
    if (room->is_known && is_held && !has_run_out && rate > 0 && left_ns < 9e18)
      room->exhausted_ns = left_ns < 1 ? 1 : (uint64_t)left_ns;
  }
}

const gp_growth_room_t *gp_growth_room(const gp_growth_t *growth, int device)
{
  for (size_t i = 0; i < growth->room_count; i++) {
    if (growth->rooms[i].device == device)
      return &growth->rooms[i];
  }
  return NULL;
}
