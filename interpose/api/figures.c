#include "interpose/api/figures.h"

void gp_figures_each(const gp_stats_t *stats, gp_figure_fn fn, void *arg)
{
#define GAUGE(name, ...)                                                                                     \
  fn(arg, #name ".all.current", stats->name.current);                                                        \
  fn(arg, #name ".all.peak", stats->name.peak);                                                              \
  fn(arg, #name ".all.allocated", stats->name.allocated);                                                    \
  fn(arg, #name ".all.freed", stats->name.freed);                                                            \
  fn(arg, #name, stats->name.current);
#define COUNTER(name, ...) fn(arg, #name, stats->name);
#include "format/stats.def"

  /* Statistics that have one name here and another in PyTorch. */
  fn(arg, "num_device_alloc", stats->driver_allocs);
  fn(arg, "num_device_free", stats->driver_frees);
  fn(arg, "num_sync_all_streams", stats->host_waits);

  fn(arg, "num_allocations", stats->allocation.allocated);
  fn(arg, "num_cache_hits", stats->cache_hits);
  fn(arg, "num_cache_misses", stats->cache_misses);
  fn(arg, "peak_allocated", stats->allocated_bytes.peak);
  fn(arg, "peak_cached", stats->cached_bytes.peak);
  fn(arg, "peak_reserved", stats->reserved_bytes.peak);
}

void gp_figures_since(gp_stats_t *stats, const gp_stats_t *since)
{
#define GAUGE(name, ...)                                                                                     \
  stats->name.allocated -= since->name.allocated;                                                            \
  stats->name.freed -= since->name.freed;
#define COUNTER(name, ...) stats->name -= since->name;
#include "format/stats.def"
}
