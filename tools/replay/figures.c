#include "tools/replay/figures.h"

#include "tools/request.h"

static void add(gp_figures_t *figures, const gp_simulation_t *simulation, const gp_workload_t *workload,
    gp_pass_t pass, int ordinal)
{
  static const gp_stats_t nothing;
  const gp_simulated_device_t *device = &simulation->passes[pass].devices[ordinal];
  const gp_stats_t *stats = &device->stats;
  const gp_stats_t *before =
      pass == GP_PASS_COLD ? &nothing : &simulation->passes[GP_PASS_COLD].devices[ordinal].stats;

  figures->live_peak += workload->devices[ordinal].live_peak;
  figures->asked_peak += workload->devices[ordinal].asked_peak;
  figures->reserved_peak += stats->reserved_bytes.peak;
  figures->held_peak += device->held_peak;
  figures->deferred_peak += stats->deferred_bytes.peak;
  figures->split_peak += stats->inactive_split_bytes.peak;
  figures->hits += stats->cache_hits - before->cache_hits;
  figures->misses += stats->cache_misses - before->cache_misses;
  figures->driver_allocs += stats->driver_allocs - before->driver_allocs;
  figures->driver_frees += stats->driver_frees - before->driver_frees;
  figures->fences += stats->fences - before->fences;
  figures->host_waits += stats->host_waits - before->host_waits;
  figures->granted += device->granted;
  figures->declined += device->declined;
  if (device->refused && (!figures->refused || device->first_refused < figures->first_refused)) {
    figures->first_refused = device->first_refused;
    figures->refused_size = device->refused_size;
  }
  figures->refused += device->refused;
}

void gp_figures_of(gp_figures_t *ret_figures, const gp_simulation_t *simulation,
    const gp_workload_t *workload, gp_pass_t pass, int device)
{
  *ret_figures = (gp_figures_t){0};
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++) {
    if (workload->present >> i & 1 && (device == GP_REQUEST_ALL_DEVICES || device == i))
      add(ret_figures, simulation, workload, pass, i);
  }
}

double gp_figures_hit_rate(const gp_figures_t *figures)
{
  uint64_t requests = figures->hits + figures->misses;
  return requests ? (double)figures->hits / (double)requests : 0;
}

double gp_figures_ratio(const gp_figures_t *figures)
{
  return figures->asked_peak ? (double)figures->held_peak / (double)figures->asked_peak : 0;
}
