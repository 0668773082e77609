#include "pool/limits/oom.h"

#include "pool/space/driver_calls.h"
#include "pool/events.h"
#include "pool/serve/heaps.h"
#include "pool/limits/limit.h"
#include "pool/limits/oom_groups.h"
#include "pool/limits/oom_pieces.h"
#include "pool/limits/oom_turn.h"
#include "pool/space/account.h"

/* Bytes counted against the limit beyond the sizes in the statistics. The caller
 * holds the device's lock. */
static uint64_t page_rest(const gp_device_t *device)
{
  const gp_stats_t *stats = gp_device_stats(device);
  uint64_t known = stats->reserved_bytes.current + stats->passthrough_bytes.current;
  uint64_t counted = gp_account_in_use(device);

  return counted > known ? counted - known : 0;
}

void gp_oom_report(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit,
    uint64_t largest_free, const gp_oom_attempts_t *attempts)
{
  gp_device_t *device = context->device;
  gp_oom_groups_t groups = {.count = 0};
  gp_oom_t oom = {.requested = bytes,
      .largest_free = largest_free,
      .device = device->ordinal,
      .by_limit = by_limit ? GP_OOM_BY_LIMIT : GP_OOM_BY_DRIVER};

  gp_assert(!gp_holds_engine_lock());
  gp_oom_turn_leave(device);
  gp_event_first_use(engine); /* not called yet if the limit refuses everything */
  gp_find_origin(engine, GP_OCCASION_DRIVER, bytes);
  bool was_asked = gp_limit_ask(engine, context, &oom.device_free, &oom.device_total);
  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  gp_device_use_t use;
  if (was_asked && gp_device_use_as_told(device, &use))
    oom.unaccounted = use.unaccounted;
  oom.time_ns = gp_now(engine);
  oom.counted = attempts ? attempts->counted : 0;
  if (attempts && attempts->was_in_vain) {
    oom.waited_ns = attempts->before_ns + attempts->later_ns;
    oom.busy_context = attempts->busy_context;
    oom.busy_ns = attempts->busy_since_ns != 0 && attempts->busy_since_ns < oom.time_ns
                      ? oom.time_ns - attempts->busy_since_ns
                      : 0;
  }
  oom.live = gp_device_stats(device)->allocated_bytes.current;
  oom.deferred = gp_device_pending(device);
  oom.cached = gp_device_idle(device);
  gp_oom_count_pieces(device, &oom);
  oom.passthrough = gp_device_stats(device)->passthrough_bytes.current;
  if (oom.counted > 0) /* plus what pages have beyond the sizes above */
    oom.counted += page_rest(device);
  oom.limit = device->limit == UINT64_MAX ? 0 : device->limit;
  gp_device_stats(device)->num_ooms++;
  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, owner)
    GP_LIST_EACH(&owner->blocks, const gp_block_t, all, block)
      if (block->state == GP_STATE_LIVE)
        gp_oom_groups_add(&groups, block->requested);
  gp_event_device(engine, device->ordinal, GP_ACTION_OOM, GP_DETAIL_NONE, bytes, oom.time_ns);
  gp_lock_release(&device->lock);
  gp_oom_groups_largest(&groups, oom.owners);
  if (engine->observer.out_of_memory)
    engine->observer.out_of_memory(engine->observer.self, &oom);
}
