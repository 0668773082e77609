#include "pool/space/surplus.h"

#include "pool/engine_record.h"
#include "pool/space/account.h"
#include "pool/space/budget.h"
#include "pool/space/mapped.h"
#include "pool/space/segment.h"

static uint64_t minimum(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Returns the spare bytes of segments, or 0 for mapped memory, which moves instead. */
static uint64_t segment_spare_bytes(const gp_engine_t *engine, const gp_device_t *device)
{
  return engine->type->cuts && !engine->type->maps ? gp_segment_spare_bytes(device) : 0;
}

static uint64_t spare_bytes(const gp_engine_t *engine, const gp_device_t *device)
{
  return gp_budget_excess(engine, device) + segment_spare_bytes(engine, device);
}

static bool has_spare(const gp_engine_t *engine, const gp_device_t *device)
{
  return device->closed_idle > 0 || spare_bytes(engine, device) > 0;
}

static gp_block_t *closed_of(gp_context_t *context)
{
  GP_LIST_EACH(&context->device->idle, gp_block_t, order, block)
    if (block->context == context && block->segment && block->segment->is_closed)
      return block;
  return NULL;
}

static bool is_expired(const gp_engine_t *engine, const gp_block_t *block, uint64_t now_ns)
{
  return engine->idle_release_ns != UINT64_MAX && now_ns > block->idle_ns &&
         now_ns - block->idle_ns >= engine->idle_release_ns;
}

/* Number of checks within GPUPOOL_IDLE_RELEASE. Deferred blocks are drained at that rate, because a program
 * that only synchronizes would drain none otherwise. Mapped memory is searched at the same rate, because it
 * has no list by age. */
#define LOOKS_BEFORE_EXPIRY 4

/* Returns the context's mapped memory that has been idle longest, or NULL if none can be released. */
static gp_block_t *oldest_mapped(const gp_engine_t *engine, const gp_context_t *context)
{
  gp_chunk_t *chunks;
  size_t count;
  return gp_mapped_oldest(context, atomic_load(&engine->covered), &chunks, &count);
}

static bool has_aged(const gp_engine_t *engine, gp_device_t *device, uint64_t now_ns)
{
  if (!atomic_load(&engine->has_mapped) || engine->idle_release_ns == UINT64_MAX ||
      now_ns < device->aged_ns + engine->idle_release_ns / LOOKS_BEFORE_EXPIRY)
    return false;
  device->aged_ns = now_ns;
  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context) {
    const gp_block_t *block = oldest_mapped(engine, context);
    if (block && is_expired(engine, block, now_ns))
      return true;
  }
  return false;
}

bool gp_surplus_is_due_of_idle(const gp_engine_t *engine, gp_device_t *device, uint64_t now_ns)
{
  return gp_device_idle(device) > engine->max_cached || gp_device_is_over_limit(device) ||
         device->wanted_back > 0 || has_spare(engine, device) ||
         (!gp_list_is_empty(&device->idle) &&
             is_expired(engine, gp_list_entry(device->idle.next, gp_block_t, order), now_ns)) ||
         has_aged(engine, device, now_ns);
}

bool gp_surplus_awaits_drain(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns)
{
  uint64_t deferred = gp_device_pending(device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  bool is_time = engine->idle_release_ns != UINT64_MAX &&
                 now_ns - device->drained_ns >= engine->idle_release_ns / LOOKS_BEFORE_EXPIRY;
  bool may_be_spare = (engine->type->cuts && gp_has_exports(engine)) || spare_bytes(engine, device) > 0;
  return is_time || may_be_spare || gp_device_idle(device) + deferred > engine->max_cached ||
         device->wanted_back > 0 || gp_device_is_over_limit(device);
}

/* Returns the context's whole block that has been idle longest, or NULL. Includes whole segments only if
 * with_segments. */
static gp_block_t *oldest_of(gp_context_t *context, bool with_segments)
{
  GP_LIST_EACH(&context->device->idle, gp_block_t, order, block)
    if (block->context == context && (with_segments || !block->segment))
      return block;
  return NULL;
}

static gp_block_t *spare_of(const gp_engine_t *engine, gp_context_t *context, gp_trim_reason_t *ret_reason)
{
  gp_block_t *closed = context->device->closed_idle > 0 ? closed_of(context) : NULL;

  *ret_reason = GP_TRIM_SPARE;
  return closed || segment_spare_bytes(engine, context->device) == 0 ? closed : gp_segment_spare(context);
}

/* Returns the block to release because of the budget, or NULL. Each call of the program releases only a few
 * such blocks. */
static gp_block_t *over_budget(const gp_engine_t *engine, gp_context_t *context, unsigned spared)
{
  return spared < GP_BUDGET_RELEASES && gp_budget_excess(engine, context->device) > 0
             ? oldest_of(context, false)
             : NULL;
}

gp_block_t *gp_surplus_next(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns, unsigned spared,
    gp_trim_reason_t *ret_reason)
{
  gp_device_t *device = context->device;
  gp_block_t *whole = oldest_of(context, true), *spare;
  gp_block_t *oldest = whole ? whole : oldest_mapped(engine, context);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (!oldest)
    return NULL;
  if (gp_device_idle(device) > engine->max_cached)
    *ret_reason = GP_TRIM_MAX_CACHED;
  else if (gp_device_is_over_limit(device))
    *ret_reason = GP_TRIM_REQUESTED;
  else if ((spare = over_budget(engine, context, spared))) {
    *ret_reason = GP_TRIM_SPARE;
    return spare;
  } else if (device->wanted_back > 0)
    *ret_reason = device->wanted_for;
  else if (is_expired(engine, oldest, now_ns))
    *ret_reason = GP_TRIM_IDLE;
  else
    return engine->type->cuts && has_spare(engine, device) ? spare_of(engine, context, ret_reason) : NULL;
  return whole ? whole : gp_mapped_cut_out(engine, context, atomic_load(&engine->covered), true);
}

static uint64_t expired_bytes(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns)
{
  uint64_t bytes = 0;

  GP_LIST_EACH(&device->idle, const gp_block_t, order, block) {
    if (!is_expired(engine, block, now_ns))
      break;
    bytes += block->size;
  }
  return bytes;
}

/* Every reason releases the oldest memory first, so the largest number of bytes includes the others. */
uint64_t gp_surplus_bytes(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns)
{
  uint64_t cached = gp_device_idle(device);
  uint64_t idle = gp_device_releasable(device);
  uint64_t bytes = expired_bytes(engine, device, now_ns);
  uint64_t committed = gp_account_in_use(device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (cached > engine->max_cached && cached - engine->max_cached > bytes)
    bytes = cached - engine->max_cached;
  if (gp_device_is_over_limit(device) && committed - device->limit > bytes)
    bytes = committed - device->limit;
  if (device->wanted_back > bytes)
    bytes = device->wanted_back;
  if (spare_bytes(engine, device) > bytes)
    bytes = spare_bytes(engine, device);
  return minimum(bytes, idle);
}

void gp_surplus_want(gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  bool is_news = reason == GP_TRIM_RESERVE && device->wanted_for == GP_TRIM_RESERVE;
  if (bytes <= device->wanted_back && !is_news)
    return;
  device->wanted_back = bytes;
  device->wanted_for = reason;
}

void gp_surplus_went(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  device->wanted_back -= minimum(bytes, device->wanted_back);
}

void gp_surplus_note_kept(gp_device_t *device, uint64_t bytes)
{
  gp_gauge_t *kept = &gp_device_stats(device)->surplus_bytes;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (bytes > kept->current)
    gp_gauge_add(kept, bytes - kept->current);
  else if (bytes < kept->current)
    gp_gauge_sub(kept, kept->current - bytes);
}
