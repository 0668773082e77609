/*
 * SIMCUDA_* variables. A bad value costs one line on stderr and leaves the default.
 */
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_knobs_t sim_knobs = {.devices = 1, .seed = 1, .free_waits = true, .pools = true, .pool_orders = true};

static void complain(const char *name, const char *value, const char *accepted)
{
  fprintf(stderr, "simcuda: %s=%s is not understood: %s; the default is used\n", name, value, accepted);
}

static bool parse_number(
    const char *name, uint64_t min, uint64_t max, const char *accepted, uint64_t *ret_value)
{
  const char *text = getenv(name);
  if (!text || !*text)
    return false;
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 0);
  if (errno || *end || *text == '-' || value < min || value > max) {
    complain(name, text, accepted);
    return false;
  }
  *ret_value = value;
  return true;
}

/* Plain bytes or 8K, 8M, 8G, 8T with an optional "B" or "iB", all powers of 1024, a space before the unit
 * allowed. */
bool sim_knobs_parse_size(const char *text, uint64_t *ret_bytes, const char **ret_end)
{
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno || end == text || *text == '-')
    return false;
  const char *p = end;
  while (*p == ' ')
    p++;
  static const char units[] = "KMGTkmgt";
  const char *unit = *p ? strchr(units, *p) : NULL;
  unsigned shift = 0;
  if (unit) {
    shift = 10u * (unsigned)((unit - units) % 4 + 1);
    p++;
    if (*p == 'i' && p[1] == 'B')
      p += 2;
    else if (*p == 'B' || *p == 'b')
      p++;
  } else if (*p == 'B') {
    p++;
  }
  if (value > UINT64_MAX >> shift)
    return false;
  *ret_bytes = value << shift;
  *ret_end = p;
  return true;
}

/* One size for all devices, or a list such as 0=8GiB,1=4GiB */
static bool parse_capacity(const char *text, uint64_t *capacity)
{
  uint64_t bytes;
  const char *p = text, *end;
  if (!strchr(text, '=')) {
    if (!sim_knobs_parse_size(text, &bytes, &end) || *end || bytes < SIM_GRANULE || bytes > (uint64_t)1 << 42)
      return false;
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
      capacity[i] = bytes;
    return true;
  }
  for (;;) {
    char *after;
    long device = strtol(p, &after, 10);
    if (after == p || *after != '=' || device < 0 || device >= SIM_MAX_DEVICES)
      return false;
    if (!sim_knobs_parse_size(after + 1, &bytes, &end) || bytes < SIM_GRANULE || bytes > (uint64_t)1 << 42)
      return false;
    capacity[device] = bytes;
    if (!*end)
      return true;
    if (*end != ',')
      return false;
    p = end + 1;
  }
}

void sim_knobs_read(void)
{
  uint64_t value;
  sim_knobs.driver = sim_built_version;
  if (parse_number("SIMCUDA_DEVICES", 0, SIM_MAX_DEVICES, "a number of devices, 0 to 16", &value))
    sim_knobs.devices = (int)value;
  if (parse_number("SIMCUDA_DRIVER", 2000, 99990, "a version such as 12040", &value))
    sim_knobs.driver = (int)value;
  if (parse_number("SIMCUDA_SEED", 0, UINT64_MAX, "a number", &value))
    sim_knobs.seed = value;

  uint64_t capacity[SIM_MAX_DEVICES];
  for (int i = 0; i < SIM_MAX_DEVICES; i++)
    capacity[i] = sim_knobs.capacity[i] = (uint64_t)80 << 30;
  const char *text = getenv("SIMCUDA_CAPACITY");
  if (text && *text) {
    if (parse_capacity(text, capacity))
      memcpy(sim_knobs.capacity, capacity, sizeof capacity);
    else
      complain("SIMCUDA_CAPACITY", text, "a size such as 8GiB, or one per device such as 0=8GiB,1=4GiB");
  }
  text = getenv("SIMCUDA_PROC_ADDRESS");
  if (text && *text && strcmp(text, "exported") != 0) {
    if (strcmp(text, "distinct") == 0)
      sim_knobs.distinct = true;
    else
      complain("SIMCUDA_PROC_ADDRESS", text, "exported or distinct");
  }
  text = getenv("SIMCUDA_PACE");
  if (text && *text && strcmp(text, "random") != 0) {
    if (strcmp(text, "waits") == 0)
      sim_knobs.pace = SIM_PACE_WAITS;
    else if (strcmp(text, "at-once") == 0)
      sim_knobs.pace = SIM_PACE_AT_ONCE;
    else
      complain("SIMCUDA_PACE", text, "random, waits or at-once");
  }
  if (parse_number("SIMCUDA_ORACLE", 0, 1, "0 or 1", &value))
    sim_knobs.oracle = value;
  if (parse_number("SIMCUDA_FREE_WAITS", 0, 1, "0 or 1", &value))
    sim_knobs.free_waits = value;
  if (parse_number("SIMCUDA_POOLS", 0, 1, "0 or 1", &value))
    sim_knobs.pools = value;
  const char *end;
  text = getenv("SIMCUDA_POOL_PIECE");
  if (text && *text &&
      (!sim_knobs_parse_size(text, &value, &end) || *end || value % SIM_PAGE || value > UINT64_C(1) << 40))
    complain("SIMCUDA_POOL_PIECE", text, "a multiple of 2MiB");
  else if (text && *text)
    sim_knobs.pool_piece = value;
  if (parse_number("SIMCUDA_ACCESS", 0, 1, "0 or 1", &value))
    sim_knobs.access = value != 0;
  if (parse_number("SIMCUDA_POOL_ORDERS", 0, 1, "0 or 1", &value))
    sim_knobs.pool_orders = value;
  if (parse_number("SIMCUDA_FILLS", 0, 1, "0 or 1", &value))
    sim_knobs.fills = value;
  if (parse_number("SIMCUDA_OCCUPIED", 0, 1, "0 or 1", &value))
    sim_knobs.occupied = value;
  if (parse_number("SIMCUDA_UNSEEN_FREES", 0, 1, "0 or 1", &value))
    sim_knobs.unseen_frees = value;
  sim_knobs.pitch_rows = UINT64_MAX;
  if (parse_number("SIMCUDA_PITCH_ROWS", 1, UINT64_MAX, "a number of rows", &value))
    sim_knobs.pitch_rows = value;
  sim_knobs.page_cache = UINT64_MAX;
  text = getenv("SIMCUDA_INTEGRATED");
  if (text && *text) {
    if (!sim_knobs_parse_size(text, &sim_knobs.page_cache, &end) || *end)
      complain("SIMCUDA_INTEGRATED", text, "the size of the host's page cache, such as 8GiB");
  }
  text = getenv("SIMCUDA_FAIL");
  if (text && *text)
    sim_fault_parse(text);
  sim_knobs.log = getenv("SIMCUDA_LOG");
  sim_knobs.stats = getenv("SIMCUDA_STATS");
}
