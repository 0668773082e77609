#include "tools/model/component_use.h"

#include <string.h>

#include "tools/model/component.h"
#include "tools/model/moments.h"
#include "tools/saturated.h"

static gp_site_amount_t host_at(
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments)
{
  gp_memory_t memory;

  gp_moments_memory(moments, lifetimes, NULL, filter->device, &memory);
  return (gp_site_amount_t){.bytes = memory.host, .count = memory.host_count};
}

/* Adds to *bytes what the pool had reserved on the device at the moment beyond the requested bytes. */
static void add_pool(const gp_lifetimes_t *lifetimes, const gp_snapshot_device_t *device,
    const gp_moments_t *moments, uint64_t *bytes)
{
  const gp_stats_t *stats = &device->stats;
  uint64_t reserved = stats->reserved_bytes.current, requested = stats->requested_bytes.current;
  gp_memory_t memory;

  if (moments->is_of_one && moments->device != device->device)
    return;
  if (!moments->is_end) {
    gp_moments_memory(moments, lifetimes, NULL, device->device, &memory);
    reserved = memory.reserved;
    requested = memory.requested;
  }
  *bytes = gp_add_saturated(*bytes, gp_subtract_saturated(reserved, requested));
}

void gp_unsited_use_find(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, const gp_moments_t *peak, gp_unsited_use_t *ret_unsited)
{
  const gp_snapshot_t *snapshot = lifetimes->snapshot;

  *ret_unsited = (gp_unsited_use_t){.has_contexts = false};
  for (size_t i = 0; i < snapshot->device_count; i++) {
    const gp_snapshot_device_t *device = &snapshot->devices[i];
    if (!gp_filter_has_device(filter, device->device))
      continue;
    add_pool(lifetimes, device, moments, &ret_unsited->pool[GP_USE_END]);
    add_pool(lifetimes, device, peak, &ret_unsited->pool[GP_USE_PEAK]);
    ret_unsited->has_contexts |= device->total > 0;
    ret_unsited->contexts = gp_add_saturated(ret_unsited->contexts, device->unaccounted);
  }
  ret_unsited->host[GP_USE_END] = host_at(lifetimes, filter, moments);
  ret_unsited->host[GP_USE_PEAK] = host_at(lifetimes, filter, peak);
}

void gp_unsited_rows(const gp_unsited_use_t *unsited, int moment, gp_unsited_row_t *ret_rows)
{
  ret_rows[0] = (gp_unsited_row_t){"the pool's (freed, rounding)", unsited->pool[moment], false};
  ret_rows[1] = (gp_unsited_row_t){"contexts, code, other processes", unsited->contexts, false};
  ret_rows[2] = (gp_unsited_row_t){"pinned memory of the host", unsited->host[moment].bytes, true};
}

int gp_component_use_init(gp_component_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device)
{
  gp_filter_t of_device = *filter; /* shares the lists of `filter` */

  of_device.device = device;
  *use = (gp_component_use_t){.device = device, .knows_peak = !lifetimes->snapshot->lacks_history};
  int error = gp_sites_init(&use->sites, lifetimes, &of_device, moments, GP_SITE_BY_COMPONENT, NULL, NULL);
  if (error)
    return error;
  gp_sites_sort(&use->sites, GP_SITE_PEAK, false);
  for (size_t i = 0; i < use->sites.count; i++)
    use->has_others |= !use->sites.sites[i].is_unknown &&
                       strcmp(use->sites.sites[i].name, gp_component_name(GP_COMPONENT_PROGRAM)) != 0;
  gp_unsited_use_find(lifetimes, &of_device, moments, &use->sites.peak, &use->unsited);
  return 0;
}

void gp_component_use_fini(gp_component_use_t *use)
{
  gp_sites_fini(&use->sites);
}
