#include "pool/reuse/wait_in_stream.h"

#include "pool/serve/cut_memory.h"
#include "pool/space/driver_calls.h"
#include "pool/limits/limit.h"
#include "pool/space/segment.h"

#define MOST_WAITS 64u /* most events for which one request waits */

/* Returns the bytes that the pool may still reserve; UINT64_MAX if unknown. *ret_whole is the total from
 * which they are taken. The caller holds the device's lock. */
static uint64_t left_of(const gp_device_t *device, uint64_t *ret_whole)
{
  uint64_t left = device->told_ns == 0 ? UINT64_MAX : gp_device_left(device);
  uint64_t in_limit = gp_bytes_less(device->limit, device->committed_bytes);
  bool by_limit = device->limit != UINT64_MAX && in_limit < left;

  *ret_whole = by_limit ? device->limit : device->total;
  return by_limit ? in_limit : left;
}

void gp_wait_in_stream_judge(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;
  uint64_t whole, free_bytes, total_bytes;

  gp_lock_take(&device->lock);
  bool is_known = gp_locked(device)->told_ns != 0;
  gp_lock_release(&device->lock);
  if (!is_known)
    (void)gp_limit_ask(engine, context, &free_bytes, &total_bytes);
  gp_lock_take(&device->lock);
  uint64_t left = left_of(device, &whole);
  uint64_t in_streams =
      gp_locked(device)->pooled_async_live + device->bound_bytes + device->stream_block_bytes;
  device->events_beyond = left;
  atomic_store_explicit(&device->needs_events, left < whole / 4 || left < in_streams, memory_order_relaxed);
  gp_lock_release(&device->lock);
}

static bool may_have_events(const gp_engine_t *engine, const gp_stream_order_t *order)
{
  return engine->driver.ops->stream_wait && !gp_damage_is_checked(engine) && order->stream_record &&
         order->stream != GP_STREAM_LEGACY;
}

void gp_wait_in_stream_drop(gp_free_event_t *event)
{
  gp_device_t *device = event->context->device;

  gp_lock_take(&device->lock);
  gp_free_event_drop(event);
  gp_lock_release(&device->lock);
}

gp_free_event_t *gp_wait_in_stream_record(gp_engine_t *engine, const gp_stream_order_t *order)
{
  gp_context_t *context = order->context;

  gp_assert(!gp_holds_engine_lock());
  if (!may_have_events(engine, order) || !gp_engine_enter(engine))
    return NULL;
  gp_lock_take(&context->device->lock);
  gp_free_event_t *event = gp_free_event_take(context);
  gp_lock_release(&context->device->lock);
  if (event && gp_driver_enter_stream(engine, &context->driver, order->stream, &event->event) != 0) {
    gp_wait_in_stream_drop(event);
    event = NULL;
  }
  gp_engine_leave(engine);
  return event;
}

/* Returns the bytes whose stream-ordered frees are pending. The caller holds the device's lock. */
static uint64_t pending_bytes(const gp_device_t *device)
{
  uint64_t bytes = device->bound_bytes;

  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context)
    GP_LIST_EACH(&context->deferred, const gp_block_t, order, block)
      if (block->freed_in || (!block->segment && gp_block_is_async(block)))
        bytes += block->requested;
  return bytes;
}

/*
 * Returns true if the driver's own pool would have to wait, too. That is so if the memory that the program
 * has not freed, pending frees, and the request together exceed the device or the limit. Ignores
 * fragmentation in the driver.
 */
static bool is_short_natively(const gp_request_t *request)
{
  gp_device_t *device = request->context->device;
  uint64_t free_bytes, total_bytes;

  if (!gp_limit_ask(request->engine, request->context, &free_bytes, &total_bytes))
    return false;
  gp_lock_take(&device->lock);
  const gp_stats_t *stats = gp_device_stats(device);
  uint64_t needed = stats->requested_bytes.current + stats->passthrough_bytes.current +
                    pending_bytes(device) + request->requested;
  bool is_short = needed > free_bytes + gp_account_given(device) || needed > device->limit;
  gp_lock_release(&device->lock);
  return is_short;
}

/* Memory that serves the request: adjacent pieces of one segment or range, or a whole block. */
typedef struct found {
  gp_block_t *first;
  uint64_t size;   /* bytes of all pieces, including the unused end of the last one */
  uint64_t newest; /* epoch of the newest free among the pieces */
  unsigned events;
} found_t;

static unsigned count_events(const gp_block_t *block)
{
  unsigned count = 0;

  for (const gp_freed_bytes_t *bytes = block->freed_bytes; bytes; bytes = bytes->next)
    count++;
  return count;
}

/* Returns the smallest block that fits, or NULL. Among equal sizes, returns the one freed first. */
static gp_block_t *find_whole(const gp_request_t *request)
{
  gp_block_t *best = NULL;

  GP_LIST_EACH(&request->arena->deferred, gp_block_t, order, block) {
    bool is_fit = !block->segment && block->freed_bytes && block->size >= request->fit.least &&
                  (!best || block->size < best->size);
    if (is_fit && gp_free_events_are_complete(block))
      best = block;
  }
  return best;
}

static bool may_serve(const gp_block_t *block)
{
  return block->state == GP_STATE_IDLE ||
         (block->state == GP_STATE_BOUND && gp_free_events_are_complete(block));
}

/* Collects adjacent pieces, beginning with `first`, until they have `bytes` bytes. If they do not suffice,
 * the member `first` of the result is NULL. */
static found_t look_from(gp_block_t *first, uint64_t bytes)
{
  found_t found = {.first = first};

  for (gp_block_t *piece = first; found.size < bytes; piece = gp_segment_above(piece)) {
    if (!piece || !may_serve(piece))
      return (found_t){.first = NULL};
    found.size += piece->size;
    found.events += count_events(piece);
    if (piece->free_epoch > found.newest)
      found.newest = piece->free_epoch;
  }
  return found;
}

/* Returns true if `found` is better than `best`. Small pieces are better, so that large ones stay unsplit.
 * Among equal sizes, old frees are better, because the device reaches them first. */
static bool is_better(const found_t *found, const found_t *best)
{
  return found->size < best->size || (found->size == best->size && found->newest < best->newest);
}

static gp_block_t *find_pieces(const gp_request_t *request)
{
  found_t best = {.first = NULL};

  GP_LIST_EACH(&request->arena->segments, gp_segment_t, link, segment) {
    if (segment->is_closed)
      continue;
    for (gp_block_t *block = segment->first; block; block = gp_segment_above(block)) {
      found_t found = may_serve(block) ? look_from(block, request->size) : (found_t){.first = NULL};
      if (found.first && found.events <= MOST_WAITS && (!best.first || is_better(&found, &best)))
        best = found;
    }
  }
  return best.first;
}

/* Events for which the request's stream has to wait, each with one use, and the addresses of the memory that
 * they cover. */
typedef struct waits {
  gp_free_event_t *events[MOST_WAITS];
  uint64_t addresses[MOST_WAITS];
  unsigned count;
} waits_t;

static void note(waits_t *waits, const gp_block_t *block)
{
  for (const gp_freed_bytes_t *bytes = block->freed_bytes; bytes; bytes = bytes->next) {
    gp_assert(waits->count < MOST_WAITS);
    waits->addresses[waits->count] = bytes->address;
    waits->events[waits->count++] = bytes->event;
    bytes->event->uses++;
  }
}

/* Drops the events that cover only bytes beyond the block, after the block was shrunk. */
static void forget_rest(waits_t *waits, const gp_block_t *block)
{
  unsigned count = 0;

  for (unsigned i = 0; i < waits->count; i++) {
    if (waits->addresses[i] >= block->address + block->size) {
      gp_free_event_drop(waits->events[i]);
      continue;
    }
    waits->addresses[count] = waits->addresses[i];
    waits->events[count++] = waits->events[i];
  }
  waits->count = count;
}

static gp_block_t *take_whole(const gp_request_t *request, uint64_t now_ns, waits_t *waits)
{
  gp_block_t *block = find_whole(request);

  if (!block)
    return NULL;
  note(waits, block);
  gp_stamp_leave_deferred(block);
  gp_block_end_use(request->engine, block, now_ns);
  gp_gauge_pass(&gp_device_stats(block->context->device)->cached_bytes, block->size);
  return block;
}

/* Removes the low `most` bytes of a piece from the lists; the rest of the piece remains in them. Removes the
 * whole piece if it is not larger, or if the host has no memory for a record of the rest. */
static void take_piece(gp_engine_t *engine, gp_block_t *piece, uint64_t most, waits_t *waits)
{
  note(waits, piece);
  if (piece->state == GP_STATE_BOUND) {
    gp_bound_take_low(engine, piece, most);
  } else {
    gp_segment_leave_idle(piece);
    gp_segment_shrink(engine, piece, most);
  }
}

static gp_block_t *take_pieces(const gp_request_t *request, waits_t *waits)
{
  gp_engine_t *engine = request->engine;
  gp_block_t *block = find_pieces(request);

  if (!block || !gp_address_map_insert(&engine->blocks, block->address, block))
    return NULL;
  gp_address_map_remove_value(&engine->blocks, block->address, block); /* only makes room for it */
  take_piece(engine, block, request->size, waits);
  while (block->size < request->size) {
    gp_block_t *above = gp_segment_above(block);
    take_piece(engine, above, request->size - block->size, waits);
    gp_segment_join(engine, block, above);
  }
  forget_rest(waits, block);
  (void)gp_address_map_insert(&engine->blocks, block->address, block);
  return block;
}

static bool take(gp_request_t *request, waits_t *waits)
{
  gp_engine_t *engine = request->engine;
  gp_device_t *device = request->context->device;
  gp_block_t *block = NULL;

  waits->count = 0;
  uint64_t clock_ns = gp_request_clock(engine);
  gp_lock_take(&device->lock);
  uint64_t now_ns = gp_request_time(engine, device, clock_ns);
  if (!gp_device_is_over_limit(device) && !request->order->stream_record->has_ended)
    block = request->is_cut ? take_pieces(request, waits) : take_whole(request, now_ns, waits);
  if (block) {
    gp_block_set_stream(block, request->order->stream);
    gp_block_allocate(engine, block, request->requested, now_ns, 0, true);
    request->ret_address = block->address;
    atomic_fetch_add(&request->order->stream_record->reuses, 1);
  }
  gp_lock_release(&device->lock);
  return block != NULL;
}

/* Makes the request's stream wait for the events. Returns false if the driver failed; the program does not
 * know the address yet. */
static bool await_frees(const gp_request_t *request, const waits_t *waits)
{
  gp_engine_t *engine = request->engine;
  int code = 0;

  for (unsigned i = 0; i < waits->count && code == 0; i++)
    code = gp_driver_stream_wait(
        engine, &request->context->driver, request->order->stream, waits->events[i]->event);
  for (unsigned i = 0; i < waits->count; i++)
    gp_wait_in_stream_drop(waits->events[i]);
  return code == 0;
}

/* Defers the block of a request that failed after it had taken the block. Does so even if the engine no
 * longer pools, because the program does not know the address and so will never free the block. */
static void give_up(const gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  gp_block_t *block = gp_find_and_lock(engine, request->ret_address);

  if (!block) /* the block ended with its context */
    return;
  gp_block_end_ownership(engine, block, GP_DETAIL_NONE, gp_now(engine));
  block->refs = 0;
  gp_stamp_and_defer(engine, block);
  gp_lock_release(&block->context->device->lock);
}

bool gp_wait_in_stream_serve(gp_request_t *request)
{
  gp_engine_t *engine = request->engine;
  waits_t waits;

  gp_assert(!gp_holds_engine_lock());
  if (!request->order || !may_have_events(engine, request->order) || !is_short_natively(request) ||
      !gp_engine_enter(engine))
    return false;
  bool is_served = take(request, &waits);
  if (is_served && !await_frees(request, &waits)) {
    give_up(request);
    is_served = false;
  }
  gp_engine_leave(engine);
  return is_served;
}
