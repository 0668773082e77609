/*
 * Counters, and SIMCUDA_STATS: a JSON file written when the process ends.
 */
#include "oracle_clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t sim_calls[SIM_API_COUNT];
uint64_t sim_violations, sim_corrupt_stamps;

void sim_violation(const char *format, ...)
{
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  sim_violations++;
  sim_log_complain("violation: %s", text);
}

static void write_devices(FILE *file, const char *key, bool peak)
{
  sim_vmm_reap();
  fprintf(file, ",\n  \"%s\": [", key);
  for (int i = 0; i < sim_knobs.devices; i++) {
    const sim_device_t *device = &sim_devices[i];
    fprintf(file, "%s%" PRIu64, i ? ", " : "", peak ? device->peak_bytes : device->used_bytes);
  }
  fputc(']', file);
}

uint64_t simcuda_used(int device)
{
  pthread_mutex_lock(&sim_mutex);
  sim_vmm_reap();
  uint64_t bytes = sim_initialized && sim_device_get(device) ? sim_devices[device].used_bytes : 0;
  pthread_mutex_unlock(&sim_mutex);
  return bytes;
}

void sim_stats_write(void)
{
  if (!sim_knobs.stats || !*sim_knobs.stats)
    return;
  char path[4096];
  size_t n = 0;
  for (const char *p = sim_knobs.stats; *p && n + 24 < sizeof path; p++) {
    if (p[0] == '%' && p[1] == 'p') {
      n += (size_t)snprintf(path + n, sizeof path - n, "%ld", (long)getpid());
      p++;
    } else {
      path[n++] = *p;
    }
  }
  path[n] = '\0';
  FILE *file = fopen(path, "we");
  if (!file) {
    fprintf(stderr, "simcuda: SIMCUDA_STATS=%s cannot be written: %m\n", path);
    return;
  }
  fprintf(file, "{\n  \"driver\": %d,\n  \"seed\": %" PRIu64 ",\n  \"devices\": %d,\n  \"calls\": {",
      sim_knobs.driver, sim_knobs.seed, sim_knobs.devices);
  const char *comma = "";
  for (int i = 0; i < SIM_API_COUNT; i++) {
    if (sim_calls[i]) {
      fprintf(file, "%s\n    \"%s\": %" PRIu64, comma, sim_api_table[i].name, sim_calls[i]);
      comma = ",";
    }
  }
  fputs("\n  }", file);
  write_devices(file, "current_bytes", false);
  write_devices(file, "peak_bytes", true);
  fprintf(file, ",\n  \"violations\": %" PRIu64 ",\n  \"corrupt_stamps\": %" PRIu64 "", sim_violations,
      sim_corrupt_stamps);
  if (sim_oracle_on) {
    simcuda_oracle_t counts;
    sim_oracle_counts(&counts);
    fprintf(file,
        ",\n  \"owned\": %" PRIu64 ",\n  \"reuses\": %" PRIu64 ",\n  \"pending_reuses\": %" PRIu64
        ",\n  \"accesses\": %" PRIu64 ",\n  \"early_reuse\": %" PRIu64 ",\n  \"strays\": %" PRIu64
        ",\n  \"early_accesses\": %" PRIu64 ",\n  \"late_accesses\": %" PRIu64,
        counts.owned, counts.reuses, counts.pending_reuses, counts.accesses, counts.early_reuse,
        counts.strays, counts.early_accesses, counts.late_accesses);
  }
  fputs("\n}\n", file);
  fclose(file);
}
