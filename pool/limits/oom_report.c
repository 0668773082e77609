#include "pool/limits/oom.h"
#include "pool/events.h"
#include "pool/serve/heaps.h"
#include "pool/limits/limit.h"
#include "pool/limits/oom_turn.h"
#include "pool/space/account.h"
#include "pool/engine_record.h"
#include "pool/space/mapped.h"

/* State of a walk over the blocks of a segment, in the order of addresses. */
typedef struct walk {
  const gp_segment_t *segment; /* segment of the walk; NULL: none */
  uint64_t unused;             /* bytes that are neither in use nor referenced */
  uint64_t run;                /* unused bytes without a gap before the current block */
  uint64_t end;                /* address at which the run ends */
  uint64_t largest_run;
  bool is_held; /* a block of the segment is in use or referenced */
} walk_t;

/* Ends the run. Whole chunks of mapped memory can be released, so they do not count as unused. */
static void end_run(walk_t *walk)
{
  if (walk->segment && walk->segment->range)
    walk->unused -= gp_chunks_bytes_within(walk->segment->range, walk->end - walk->run, walk->run);
  walk->run = 0;
}

static void end_segment(walk_t *walk, gp_oom_t *oom)
{
  end_run(walk);
  if (!walk->segment || (!walk->is_held && !walk->segment->range))
    return; /* whole segments can be released, so do not count them */
  oom->quiet_in_pieces += walk->unused;
  if (!walk->segment->is_closed && walk->largest_run > oom->quiet_largest)
    oom->quiet_largest = walk->largest_run;
}

static void take_block(walk_t *walk, const gp_block_t *block)
{
  if (block->state == GP_STATE_LIVE || block->state == GP_STATE_RETAINED) {
    walk->is_held = true;
    end_run(walk);
    return;
  }
  if (block->state == GP_STATE_UNMAPPED || block->state == GP_STATE_MAPPING) {
    end_run(walk);
    return;
  }
  walk->end = block->address + block->size;
  walk->unused += block->size;
  walk->run += block->size;
  if (walk->run > walk->largest_run)
    walk->largest_run = walk->run;
}

void gp_oom_count_pieces(const gp_device_t *device, gp_oom_t *oom)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  oom->in_pieces = gp_device_stats(device)->inactive_split_bytes.current -
                   (device->bound_bytes - device->bound_releasable);
  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context) {
    walk_t walk = {.segment = NULL};
    GP_LIST_EACH(&context->blocks, const gp_block_t, all, block) {
      if (block->segment != walk.segment) {
        end_segment(&walk, oom);
        walk = (walk_t){.segment = block->segment};
      }
      if (block->segment)
        take_block(&walk, block);
    }
    end_segment(&walk, oom);
  }
}

/* Returns the bytes that count against the limit but not in the statistics: the rounding up to whole pages.
 * The caller holds the device's lock. */
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
  gp_event_first_use(engine); /* if the limit refuses everything, this is the first use */
  gp_find_origin(engine, GP_OCCASION_DRIVER, bytes);
  bool was_asked = gp_limit_ask(engine, context, &oom.device_free, &oom.device_total);
  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  gp_device_use_t use;
  if (was_asked && gp_device_use_at_query(device, &use))
    oom.unaccounted = use.unaccounted;
  oom.time_ns = gp_now(engine);
  oom.counted = attempts ? attempts->counted : 0;
  if (attempts && attempts->has_timed_out) {
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
  if (oom.counted > 0) /* the value of `counted` includes whole pages */
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
