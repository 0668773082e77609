#include "trace/snapshot/damage_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "trace/stacks/asker.h"

/* Returns true if this owner's damage is new, and remembers it. Without a stack, allocations of one size
 * count as one owner. Returns false if the array is full. */
static bool is_new(gp_damage_reports_t *reports, const gp_damage_t *damage)
{
  const uint64_t kind = damage->kind == GP_DAMAGE_STALE;
  const uint64_t owner = damage->origin != GP_ORIGIN_NONE ? (uint64_t)damage->origin << 2 | kind << 1 | 1
                                                          : damage->requested << 2 | kind << 1;

  for (size_t i = 0; i < GP_DAMAGE_OWNERS; i++) {
    uint64_t seen = 0;
    if (atomic_compare_exchange_strong(&reports->owners[i], &seen, owner))
      return true;
    if (seen == owner)
      return false;
  }
  return false;
}

bool gp_damage_log(gp_damage_reports_t *reports, const gp_damage_t *damage, const gp_stack_logs_t *logs)
{
  char asker[GP_ASKER_BYTES];

  if (!is_new(reports, damage))
    return false;
  bool has_asker = gp_asker_describe(logs, damage->origin, asker, sizeof(asker));
  gp_log(GP_LOG_ERROR,
      "heap check: %" PRIu64 " byte%s written %s %" PRIu64 " bytes%s%s (device %d, offset %" PRIu64 ")",
      damage->bytes, damage->bytes == 1 ? "" : "s",
      damage->kind == GP_DAMAGE_EDGE ? "past the end of" : "after the free of", damage->requested,
      has_asker ? " of " : "", has_asker ? asker : "", damage->device, damage->offset);
  return true;
}
