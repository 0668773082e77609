#include "interpose/report.h"

#include "base/log.h"
#include "base/size.h"

static void write_device(gp_engine_t *engine, int device)
{
  gp_stats_t stats;
  char text[4][GP_SIZE_TEXT_BYTES];
  uint64_t allocations;

  gp_engine_stats(engine, device, &stats);
  allocations = stats.cache_hits + stats.cache_misses;
  gp_log(GP_LOG_REPORT,
      "device %d: %llu allocations, %.1f%% without a driver call; %llu driver allocations, %llu frees",
      device, (unsigned long long)allocations,
      allocations ? 100.0 * (double)stats.cache_hits / (double)allocations : 0.0,
      (unsigned long long)stats.driver_allocs, (unsigned long long)stats.driver_frees);
  gp_log(GP_LOG_REPORT, "device %d: peak requested %s, peak reserved %s; at exit requested %s, cached %s",
      device, gp_size_format(stats.requested_bytes.peak, text[0]),
      gp_size_format(stats.reserved_bytes.peak, text[1]),
      gp_size_format(stats.requested_bytes.current, text[2]),
      gp_size_format(stats.cached_bytes.current, text[3]));
  gp_log(GP_LOG_REPORT,
      "device %d: %llu fences, %llu host waits, %llu times out of memory, forwarded %s (peak %s)", device,
      (unsigned long long)stats.fences, (unsigned long long)stats.host_waits,
      (unsigned long long)stats.num_ooms, gp_size_format(stats.passthrough_bytes.current, text[0]),
      gp_size_format(stats.passthrough_bytes.peak, text[1]));
  gp_device_use_t use;
  if (gp_engine_device_use(engine, device, &use))
    gp_log(GP_LOG_REPORT,
        "device %d: of %s, %s was free at the last query, and %s was used by other processes and CUDA itself",
        device, gp_size_format(use.total, text[0]), gp_size_format(use.free, text[1]),
        gp_size_format(use.unaccounted, text[2]));
}

void gp_report_write(gp_engine_t *engine)
{
  for (uint64_t devices = gp_engine_devices(engine); devices; devices &= devices - 1)
    write_device(engine, __builtin_ctzll(devices));
}
