/*
 * Checks the invariants of all records: recomputes every sum and compares. Prints every mismatch, so that a
 * failing test shows what is wrong.
 */
#include "pool/serve/fill.h"
#include "pool/forwarded/forwarded_counts.h"
#include "pool/serve/heaps.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/pending_frees.h"
#include "pool/space/account.h"
#include "pool/space/mapped.h"
#include "pool/space/segment.h"

typedef struct gp_sums {
  uint64_t segments, reserved, live_count, live, requested, deferred, cached, parts, releasable,
      async_context, pooled_async_live, shared, shared_bytes, taken, closed_idle, found, borrowed,
      part_active, part_cached, bound, bound_releasable, block_count, host_counted;
} gp_sums_t;

/* Adds an allocation of cuMemAlloc. */
static void add_plain(gp_sums_t *sums, uint64_t bytes)
{
  if (bytes > GP_DRIVER_SHARED_MAX) {
    sums->taken += gp_account_growth(NULL, bytes, GP_SUPPLY_PLAIN);
    return;
  }
  sums->shared++;
  sums->shared_bytes += bytes;
}

static bool is_of_class(const gp_engine_t *engine, const gp_block_t *block)
{
  return block->bin->size == engine->type->block_bytes(&engine->type_config, block->size);
}

static bool check_block(gp_engine_t *engine, const gp_context_t *context, gp_block_t *block, gp_sums_t *sums)
{
  bool good = true;
  bool owned = block->state == GP_STATE_LIVE || block->state == GP_STATE_RETAINED;

  good &= gp_expect(block->context == context, "block in the list of another context", block->address, 0);
  good &= gp_expect(block->state != GP_STATE_RELEASING, "block is still being released", block->address, 0);
  bool is_unmapped = block->state == GP_STATE_UNMAPPED || block->state == GP_STATE_MAPPING;
  bool is_bound = block->state == GP_STATE_BOUND;
  bool is_hole = block->segment && (block->state == GP_STATE_IDLE || is_bound || is_unmapped);
  good &= gp_expect(is_hole || gp_address_map_find(&engine->blocks, block->address) == block,
      "block not in the map", block->address, 0);
  good &= gp_expect((block->refs > 0) == owned, "references against state", block->refs, block->state);
  good &=
      gp_expect(block->segment ? !block->bin
                               : block->bin && gp_bins_find(&context->bins, block->bin->size) == block->bin,
          "block without a bin", block->size, 0);
  good &= gp_expect(!block->bin || block->exact || is_of_class(engine, block),
      "block in a class that is not that of its size", block->size, block->bin ? block->bin->size : 0);
  const gp_stream_record_t *in = block->freed_in;
  good &= gp_expect(!in || ((block->state == GP_STATE_DEFERRED || is_bound) && !in->has_ended &&
                               in->context->device == context->device),
      "block is with a stream", block->address, block->state);
  good &= gp_expect(!in || block->is_in_others ||
                        ((block->segment ? is_bound : gp_block_is_async(block)) &&
                            (context->is_async || in->context == context)),
      "block could serve a stream", block->address, block->state);
  good &= gp_expect(!in || atomic_load(&in->settled) <= atomic_load(&in->reuses),
      "what is settled in a stream", block->address, 0);
  good &= gp_expect(!in || block->freed_as <= in->frees, "block was freed after all frees of its stream",
      block->freed_as, in ? in->frees : 0);
  good &= gp_expect(!in || (in->entered <= in->frees && in->passed <= in->frees), "frees of a stream",
      block->address, in ? in->frees : 0);
  good &= gp_expect(!atomic_load(&block->home) || (block->state == GP_STATE_LIVE && block->refs == 1),
      "block that no thread has freed has a home", block->address, block->state);
  good &= gp_expect(!block->is_kept, "block in no heap is kept", block->address, block->state);
  bool is_freed = block->state == GP_STATE_DEFERRED || block->state == GP_STATE_QUARANTINED;
  good &= gp_expect(block->borrowed == 0 || owned || is_freed, "block that is not in use has borrowed",
      block->borrowed, block->state);
  sums->borrowed += block->borrowed;
  sums->block_count += in && !block->segment && !block->is_in_others ? block->size - block->borrowed : 0;
  sums->async_context += gp_block_is_async(block) ? block->size : 0;
  sums->pooled_async_live += gp_block_is_async(block) && block->state == GP_STATE_LIVE ? block->size : 0;
  sums->segments += !block->segment;
  good &= gp_expect(!context->is_async || (block->segment && block->segment->range),
      "block for streams is not mapped", block->address, 0);
  if (!block->segment)
    add_plain(sums, block->size);
  else if (block->segment->range && !is_unmapped)
    sums->taken += block->size; /* a chunk has whole pages */
  sums->closed_idle += block->segment && block->segment->is_closed && block->state == GP_STATE_IDLE &&
                       gp_segment_is_whole(block);
  if (block->segment && (owned || is_freed))
    sums->part_active += block->size;
  sums->found += !is_hole;
  sums->reserved += is_unmapped ? 0 : block->size;
  switch (block->state) {
  case GP_STATE_LIVE:
    sums->live_count++;
    sums->live += block->size;
    sums->requested += block->requested;
    break;
  case GP_STATE_RETAINED:
  case GP_STATE_QUARANTINED:
  case GP_STATE_DEFERRED: sums->deferred += block->size; break;
  case GP_STATE_BOUND:
    sums->cached += block->size;
    sums->parts += block->size - block->releasable;
    sums->part_cached += block->size;
    sums->bound += block->size;
    sums->bound_releasable += block->releasable;
    break;
  case GP_STATE_IDLE:
    sums->cached += block->size;
    if (block->segment) {
      sums->parts += block->size - block->releasable;
      sums->part_cached += block->size;
    }
    break;
  case GP_STATE_UNMAPPED:
  case GP_STATE_MAPPING:
  case GP_STATE_RELEASING: break;
  }
  return good;
}

static bool check_bins(const gp_context_t *context)
{
  bool good = true;
  uint64_t blocks = 0;
  uint64_t counted = 0;
  uint64_t deferred = 0;
  uint64_t queued = 0;

  for (size_t i = 0; i < context->bins.capacity; i++) {
    const gp_bin_t *bin = context->bins.slots[i].bin;
    uint64_t idle = 0;
    if (!bin)
      continue;
    counted += bin->block_count;
    queued += bin->deferred_count;
    for (gp_bin_entry_t *entry = bin->idle; entry; entry = entry->next) {
      const gp_block_t *block = gp_block_of_entry(entry);
      good &= gp_expect(
          block->state == GP_STATE_IDLE, "block in a bin is not idle", block->address, block->state);
      good &= gp_expect(block->bin == bin && block->size <= bin->size, "block in the bin of another class",
          block->size, bin->size);
      idle++;
    }
    good &= gp_expect(idle == bin->idle_count, "idle_count of a bin", idle, bin->idle_count);
  }
  GP_LIST_EACH(&context->blocks, const gp_block_t, all, block)
    blocks += block->context == context && !block->segment;
  GP_LIST_EACH(&context->deferred, const gp_block_t, order, block)
    deferred += !block->segment;
  good &= gp_expect(deferred == queued, "deferred_count of the bins", deferred, queued);
  return gp_expect(blocks == counted, "block_count of the bins", blocks, counted) && good;
}

static bool check_context(gp_engine_t *engine, gp_context_t *context, gp_sums_t *sums)
{
  bool good = true;
  uint64_t newest = 0;
  uint64_t deferred = 0;
  uint64_t queued = 0;
  uint64_t bytes = 0;

  GP_LIST_EACH(&context->blocks, gp_block_t, all, block) {
    good &= check_block(engine, context, block, sums);
    deferred += block->state == GP_STATE_DEFERRED || block->state == GP_STATE_BOUND;
  }
  GP_LIST_EACH(&context->segments, const gp_segment_t, link, segment) {
    sums->segments += segment->range ? segment->range->count : segment->context == context;
    if (!segment->range)
      add_plain(sums, segment->size);
  }
  GP_LIST_EACH(&context->deferred, const gp_block_t, order, block) {
    bool is_deferred = block->state == GP_STATE_DEFERRED || block->state == GP_STATE_BOUND;
    good &= gp_expect(is_deferred, "block in deferred", block->address, block->state);
    good &= gp_expect(block->free_epoch >= newest, "epochs of deferred shrink", block->free_epoch, newest);
    newest = block->free_epoch;
    queued++;
    bytes += block->state == GP_STATE_DEFERRED && !block->freed_in ? block->size : 0;
  }
  good &= gp_expect(deferred == queued, "blocks in deferred", deferred, queued);
  GP_LIST_EACH(&context->quarantine, const gp_block_t, order, block)
    good &=
        gp_expect(block->state == GP_STATE_QUARANTINED, "block in quarantine", block->address, block->state);
  good &= gp_expect(
      bytes == context->deferred_bytes, "deferred_bytes of a context", bytes, context->deferred_bytes);
  good &= gp_segment_check(context);
  good &= gp_mapped_check(context);
  good &= gp_fill_check(engine, context);
  sums->releasable += context->range ? context->range->releasable : 0;
  return check_bins(context) && good;
}

static bool check_gauge(const char *name, const gp_gauge_t *gauge)
{
  bool good =
      gp_expect(gauge->current == gauge->allocated - gauge->freed, name, gauge->current, gauge->allocated);
  return gp_expect(gauge->current <= gauge->peak, name, gauge->current, gauge->peak) && good;
}

static bool check_covered(gp_engine_t *engine)
{
  uint64_t covered = atomic_load(&engine->covered);
  uint64_t epoch = atomic_load(&engine->epoch);
  return gp_expect(covered < epoch, "covered has passed the epoch", covered, epoch);
}

/* Checks the sums that include forwarded memory. */
static bool check_forwarded(gp_engine_t *engine, const gp_device_t *device, gp_sums_t *sums)
{
  const gp_stats_t *stats = gp_device_stats(device);
  gp_forwarded_sums_t forwarded;
  bool good = true;

  GP_LIST_EACH(&device->pending_frees, const gp_pending_free_t, link, pending)
    sums->host_counted += pending->is_host ? pending->bytes : 0;
  sums->host_counted += device->unlisted_host;
  gp_forwarded_sum(engine, device->ordinal, &forwarded);
  good &= gp_expect(stats->passthrough_bytes.current == forwarded.on_device, "passthrough_bytes",
      stats->passthrough_bytes.current, forwarded.on_device);
  good &= gp_expect(stats->pinned_host_bytes.current == forwarded.on_host, "pinned_host_bytes",
      stats->pinned_host_bytes.current, forwarded.on_host);
  good &= gp_expect(
      device->async_live == forwarded.in_pools, "async_live", device->async_live, forwarded.in_pools);
  good &= gp_expect(device->pools.taken == forwarded.pools_taken, "taken by pools", device->pools.taken,
      forwarded.pools_taken);
  sums->host_counted += forwarded.host_counted;
  sums->shared += forwarded.shared;
  sums->shared_bytes += forwarded.shared_bytes;
  sums->taken += forwarded.taken + device->pools.taken;
  return good;
}

/* Checks the bytes that count against the limit. Adds the allocations that share pages to *users, and the
 * pages to *pages. */
static bool check_account(const gp_device_t *device, const gp_sums_t *sums, uint64_t *users, uint64_t *pages)
{
  uint64_t taken = sums->taken + device->shared_pages * GP_DRIVER_PAGE + device->draining +
                   device->kept_bytes + device->kept_for_good + device->orphan_bytes;
  bool good = gp_expect(device->committed_bytes == taken, "committed_bytes", device->committed_bytes, taken);

  *users += sums->shared + device->kept_pages;
  *users -= device->unlisted_pages;
  *pages += device->shared_pages - device->unlisted_pages;
  good &=
      gp_expect(device->growing + device->pools_asked == 0, "growing", device->growing, device->pools_asked);
  good &= gp_expect(
      device->shared_bytes == sums->shared_bytes, "shared_bytes", device->shared_bytes, sums->shared_bytes);
  return gp_expect(device->lowered || gp_account_in_use(device) <= device->limit,
             "committed_bytes is over the limit", device->committed_bytes, device->limit) &&
         good;
}

/* Totals over all devices, with which the entries of the maps are compared. */
typedef struct gp_found {
  uint64_t blocks, users, pages, host_counted;
} gp_found_t;

static bool check_device(gp_engine_t *engine, gp_device_t *device, gp_found_t *found)
{
  gp_stats_t *stats = gp_device_stats(device);
  gp_sums_t sums = {0};
  bool good = true;
  uint64_t idle = 0;
  uint64_t since = 0;

  GP_LIST_EACH(&device->contexts, gp_context_t, device_link, context)
    good &= check_context(engine, context, &sums);
  GP_LIST_EACH(&device->idle, const gp_block_t, order, block) {
    good &= gp_expect(block->idle_ns >= since, "idle list is not by age", block->idle_ns, since);
    since = block->idle_ns;
    idle += block->size;
  }
  GP_LIST_EACH(&device->passed, const gp_stream_record_t, passed_link, stream_record)
    good &=
        gp_expect(!stream_record->has_ended, "an ended stream has passed a point", stream_record->handle, 0);
#define GAUGE(name, ...) good &= check_gauge(#name, &stats->name);
#include "format/stats.def"
  good &=
      gp_expect(stats->segment.current == sums.segments, "segment", stats->segment.current, sums.segments);
  good &= gp_expect(stats->reserved_bytes.current == sums.reserved, "reserved_bytes",
      stats->reserved_bytes.current, sums.reserved);
  good &= gp_expect(
      stats->allocation.current == sums.live_count, "allocation", stats->allocation.current, sums.live_count);
  good &= gp_expect(stats->allocated_bytes.current == sums.live, "allocated_bytes",
      stats->allocated_bytes.current, sums.live);
  good &= gp_expect(stats->requested_bytes.current == sums.requested, "requested_bytes",
      stats->requested_bytes.current, sums.requested);
  good &= gp_expect(stats->deferred_bytes.current == sums.deferred, "deferred_bytes",
      stats->deferred_bytes.current, sums.deferred);
  good &= gp_expect(
      device->borrowed_bytes == sums.borrowed, "borrowed_bytes", device->borrowed_bytes, sums.borrowed);
  good &= gp_expect(device->stream_block_bytes == sums.block_count, "stream_block_bytes",
      device->stream_block_bytes, sums.block_count);
  good &= gp_expect(
      device->part_active == sums.part_active, "part_active", device->part_active, sums.part_active);
  good &= gp_expect(
      device->part_cached == sums.part_cached, "part_cached", device->part_cached, sums.part_cached);
  good &= gp_expect(device->bound_bytes == sums.bound, "bound_bytes", device->bound_bytes, sums.bound);
  good &= gp_expect(device->bound_releasable == sums.bound_releasable, "bound_releasable",
      device->bound_releasable, sums.bound_releasable);
  good &= gp_expect(device->part_active <= device->highest_parts, "highest_parts", device->highest_parts,
      device->part_active);
  good &= gp_expect(stats->active_bytes.current - device->part_active - device->borrowed_bytes -
                            device->stream_block_bytes <=
                        device->highest_whole,
      "highest_whole", device->highest_whole, stats->active_bytes.current);
  good &= gp_expect(stats->active_bytes.current == sums.live + sums.deferred, "active_bytes",
      stats->active_bytes.current, sums.live + sums.deferred);
  good &= gp_expect(stats->cached_bytes.current == sums.cached &&
                        idle + sums.releasable + sums.bound_releasable + sums.parts == sums.cached,
      "cached_bytes", stats->cached_bytes.current, sums.cached);
  good &= gp_expect(stats->inactive_split_bytes.current == sums.parts, "inactive_split_bytes",
      stats->inactive_split_bytes.current, sums.parts);
  good &= gp_expect(device->pooled_async_bytes == sums.async_context, "pooled_async_bytes",
      device->pooled_async_bytes, sums.async_context);
  good &= gp_expect(device->pooled_async_live == sums.pooled_async_live, "pooled_async_live",
      device->pooled_async_live, sums.pooled_async_live);
  good &= gp_expect(
      device->closed_idle == sums.closed_idle, "closed_idle", device->closed_idle, sums.closed_idle);
  good &= check_forwarded(engine, device, &sums);
  good &= check_account(device, &sums, &found->users, &found->pages);
  good &= gp_expect(stats->cache_hits + stats->cache_misses == stats->allocation.allocated, "hits and misses",
      stats->cache_hits + stats->cache_misses, stats->allocation.allocated);
  good &= gp_expect(gp_releases_are_none(&device->releases), "releases in flight", 0, 0);
  found->blocks += sums.found;
  found->host_counted += sums.host_counted;
  return good;
}

/* Checks that all suspensions that end with contexts are counted in engine->service, and that a thread
 * noted as capturing has a capture there. */
static bool check_suspensions(gp_engine_t *engine)
{
  bool good = true;
  uint64_t sum = 0;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), const gp_context_t, live_link, context)
    sum += context->suspensions;
  uint64_t service = atomic_load(&engine->service);
  good &= gp_expect(sum <= service, "suspensions of contexts", sum, service);
  for (int i = 0; i < GP_CAPTURERS; i++) {
    const gp_capturer_t *capturer = &engine->capturers[i];
    good &= gp_expect(atomic_load(&capturer->thread) == 0 || service >= GP_SERVICE_CAPTURE,
        "a thread captures without a capture", atomic_load(&capturer->thread), service);
  }
  gp_lock_release(&engine->contexts_lock);
  return good;
}

/* Checks that the map has an entry for each counted block, and no other. */
static bool check_map(const gp_address_map_t *map, uint64_t blocks)
{
  const gp_address_table_t *table = atomic_load(&map->table);
  uint64_t entries = 0;

  for (size_t i = 0; table && i < table->capacity; i++)
    entries += atomic_load(&table->slots[i].key) > GP_ADDRESS_DELETED;
  return gp_expect(entries == blocks && map->live == blocks, "entries of the map", entries, blocks);
}

/* Checks that the users of the pages are exactly the counted allocations that share pages. */
static bool check_pages(const gp_address_map_t *map, const gp_found_t *found)
{
  const gp_address_table_t *table = atomic_load(&map->table);
  uint64_t users = 0;

  for (size_t i = 0; table && i < table->capacity; i++)
    if (atomic_load(&table->slots[i].key) > GP_ADDRESS_DELETED)
      users += (uintptr_t)atomic_load(&table->slots[i].value);
  return gp_expect(users == found->users, "allocations that share pages", users, found->users) &&
         gp_expect(map->live == found->pages, "pages", map->live, found->pages);
}

bool gp_engine_check(gp_engine_t *engine)
{
  bool good = check_covered(engine);
  gp_found_t found = {.host_counted = atomic_load(&engine->host_limit.kept_for_good)};

  good &= check_suspensions(engine);
  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    gp_lock_take(&engine->devices[i].lock);
    gp_heaps_collect(engine, &engine->devices[i]);
    good &= check_device(engine, &engine->devices[i], &found);
    gp_lock_release(&engine->devices[i].lock);
  }
  uint64_t host_used = atomic_load(&engine->host_limit.used);
  good &= gp_expect(host_used == found.host_counted, "page-locked memory", host_used, found.host_counted);
  return check_map(&engine->blocks, found.blocks) && check_pages(&engine->pages, &found) && good;
}
