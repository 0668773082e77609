/*
 * A search copies a batch of blocks to the host and looks for damage. The thread that searches marks the
 * blocks (is_searched), and submits the copies and fills to a stream of the library without a lock. Then it
 * waits for the stream, and compares the bytes. Afterwards it finds the blocks again by address and block_id,
 * because their context may have ended meanwhile. If the stream is not done in time, the search is late: its
 * blocks stay in quarantine until a later call finds the stream done, and meanwhile its context begins no
 * other search.
 */
#include "pool/serve/damage.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "pool/limits/oom.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/mode.h"
#include "pool/serve/cut_memory.h"
#include "pool/serve/damage_search.h"
#include "pool/serve/fill.h"
#include "pool/space/block_life.h"
#include "pool/space/driver_calls.h"

void gp_damage_init(gp_engine_t *engine, const gp_options_t *options)
{
  unsigned checks = (unsigned)gp_option_number(options, GP_OPTION_check);
  const gp_driver_ops_t *ops = engine->driver.ops;
  const uint32_t mixed = (uint32_t)getpid() * UINT32_C(2654435761); /* Knuth's multiplicative hash */

  if (checks & GP_CHECK_FULL)
    checks |= GP_CHECK_STALE;
  if (!(checks & (GP_CHECK_EDGES | GP_CHECK_STALE)))
    checks = 0;
  if (checks && (!ops->fill || !ops->copy_out || !ops->host_alloc || !gp_pool_type(options)->keeps_blocks)) {
    gp_log(GP_LOG_ERROR, "GPUPOOL_CHECK is ignored: with GPUPOOL_TYPE=unpooled no memory is in the pool");
    checks = 0;
  }
  /* At least 0xa1: not 0x00, 0xff or a small number, because programs write these most often. */
  engine->check_byte = (uint8_t)(0xa1 + (mixed >> 16) % 0x5d);
  atomic_init(&engine->checks, checks);
  engine->flush = checks ? gp_damage_flush_device : NULL;
}

uint64_t gp_damage_block_bytes(const gp_engine_t *engine, uint64_t requested)
{
  return gp_damage_checks(engine, GP_CHECK_EDGES) && requested <= UINT64_MAX - GP_RED_ZONE_LEAST
             ? requested + GP_RED_ZONE_LEAST
             : requested;
}

uint64_t gp_damage_red_zone(gp_engine_t *engine, gp_context_t *context, uint64_t address, uint64_t requested)
{
  uint64_t rest = 0;

  if (!gp_damage_checks(engine, GP_CHECK_EDGES))
    return 0;
  gp_lock_take(&context->device->lock);
  const gp_block_t *block = gp_address_map_find(&engine->blocks, address);
  if (block)
    rest = block->size - requested;
  gp_lock_release(&context->device->lock);
  return rest < GP_RED_ZONE_MOST ? rest : GP_RED_ZONE_MOST;
}

void gp_damage_watch(gp_engine_t *engine, gp_context_t *context, uint64_t address, uint64_t red_zone)
{
  gp_lock_take(&context->device->lock);
  gp_block_t *block = gp_address_map_find(&engine->blocks, address);
  if (block)
    block->red_zone = (uint16_t)red_zone;
  gp_lock_release(&context->device->lock);
}

uint64_t gp_engine_checked_size(gp_engine_t *engine, uint64_t address)
{
  uint64_t requested = 0;

  if (!gp_damage_checks(engine, GP_CHECK_EDGES))
    return 0;
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (!block)
    return 0;
  if (block->red_zone > 0)
    requested = block->requested;
  gp_lock_release(&block->context->device->lock);
  return requested;
}

/*
 * Compares the copies of a batch after they are complete, and reports damage. After the end of the context
 * nothing is compared, because the buffer has ended, too; blocks of other contexts are searched again.
 * Returns false, with nothing changed, during a capture.
 */
static bool finish(gp_engine_t *engine, const gp_context_t *context, gp_search_t *search)
{
  if (!gp_engine_enter_question(engine)) /* during these calls the context cannot end */
    return false;
  bool is_sound = !search->is_failed && !gp_fill_has_ended(context);
  for (size_t i = 0; is_sound && i < search->count; i++)
    gp_search_compare(engine, search, &search->items[i]);
  gp_engine_leave(engine);
  for (size_t i = 0; i < search->count; i++) {
    gp_search_conclude(engine, search, &search->items[i], is_sound);
    if (search->items[i].damage.bytes > 0 && engine->observer.damage)
      engine->observer.damage(engine->observer.self, &search->items[i].damage);
  }
  search->count = 0;
  return true;
}

/* take() removes the first record from one of the context's lists of searches; put() adds one. */

static gp_search_t *take(gp_context_t *context, gp_search_t **list)
{
  gp_lock_take(&context->device->lock);
  gp_search_t *search = *list;
  if (search)
    *list = search->next;
  gp_lock_release(&context->device->lock);
  return search;
}

static void put(gp_context_t *context, gp_search_t **list, gp_search_t *search)
{
  gp_lock_take(&context->device->lock);
  search->next = *list;
  *list = search;
  gp_lock_release(&context->device->lock);
}

/* Stops all checks. Quarantined blocks that no thread is searching become idle. */
static void stop_checks(gp_engine_t *engine, const char *reason)
{
  if (atomic_exchange(&engine->checks, GP_CHECK_STOPPED) != GP_CHECK_STOPPED)
    gp_log(GP_LOG_ERROR, "GPUPOOL_CHECK stops: %s", reason);
  GP_DEVICE_EACH(engine, device)
  {
    gp_lock_take(&device->lock);
    GP_LIST_EACH(gp_device_contexts(device), gp_context_t, device_link, context)
      GP_LIST_EACH_SAFE(&context->quarantine, gp_block_t, order, block)
        if (!block->is_searched)
          gp_block_leave_quarantine(engine, block, gp_now(engine));
    gp_lock_release(&device->lock);
  }
}

/* Returns an unused or new record for a search, or NULL if it cannot create one. The caller has called
 * gp_engine_enter. */
static gp_search_t *obtain(gp_engine_t *engine, gp_context_t *context)
{
  gp_search_t *search = take(context, &context->searches);
  void *buffer;

  if (search)
    return search;
  search = calloc(1, sizeof(*search));
  if (!search)
    return NULL;
  int code = gp_driver_fill_stream(engine, &context->driver, &search->stream);
  if (code == 0)
    code = gp_driver_host_alloc(engine, &context->driver, GP_SEARCH_BYTES, &buffer);
  if (code == 0) {
    search->buffer = buffer;
    return search;
  }
  gp_driver_note(engine, context, code);
  free(search);
  return NULL;
}

/* Finishes late searches of a context whose stream is done by now. Returns false if some are still late. */
static bool finish_late_of(gp_engine_t *engine, gp_context_t *context)
{
  gp_search_t *search, *pending = NULL;

  while ((search = take(context, &context->late_searches))) {
    bool is_over = gp_fill_has_ended(context) || gp_fill_is_done(engine, context, search->stream);
    if (is_over && finish(engine, context, search)) {
      put(context, &context->searches, search);
    } else {
      search->next = pending;
      pending = search;
    }
  }
  bool are_over = pending == NULL;
  while ((search = pending)) {
    pending = search->next;
    put(context, &context->late_searches, search);
  }
  return are_over;
}

/* Does the same for all contexts of the device, also those that have ended: they may have searched
 * stream-ordered memory. Returns false if the context itself has late searches. */
static bool finish_late(gp_engine_t *engine, gp_context_t *context)
{
  bool may_search = true;

  gp_lock_take(&engine->contexts_lock);
  gp_context_t *other = engine->all_contexts;
  gp_lock_release(&engine->contexts_lock);
  for (; other; other = other->next_any) {
    if (other->device == context->device && !finish_late_of(engine, other) && other == context)
      may_search = false;
  }
  return may_search;
}

/* Chooses a batch and submits its copies and fills. The batch is empty if the engine may make no driver call
 * now. */
static void begin_batch(gp_engine_t *engine, gp_context_t *context, gp_search_t *search, gp_context_t *arena,
    const gp_search_wish_t *wish)
{
  int code = 0;

  search->count = 0;
  if (!gp_engine_enter(engine))
    return;
  if (!gp_fill_has_ended(context) && gp_damage_checks(engine, GP_CHECK_EDGES | GP_CHECK_STALE)) {
    gp_search_collect(engine, search, arena, wish);
    code = gp_search_submit(engine, context, search);
  }
  gp_engine_leave(engine);
  gp_driver_note(engine, context, code);
  search->is_failed = code != 0;
  if (code != 0 && !gp_fill_has_ended(context))
    stop_checks(engine, "the driver refused a copy or a fill");
}

/* Gives up the rest of the last block. */
static void drop_rest(gp_search_t *search)
{
  if (search->rest.length > 0)
    search->items[search->count - 1].is_dropped = true;
  search->rest.length = 0;
}

/* Searches one batch. Returns true if another batch may follow. Otherwise it has put the record back into a
 * list of the context. */
static bool search_batch(gp_engine_t *engine, gp_context_t *context, gp_search_t *search, gp_context_t *arena,
    const gp_search_wish_t *wish)
{
  begin_batch(engine, context, search, arena, wish);
  if (search->count == 0 && search->rest.length == 0) {
    put(context, &context->searches, search);
    return false;
  }
  if (search->count == 0) {
    search->items[search->count++] = search->rest;
    search->is_failed = true;
  }
  bool has_more = !search->is_failed && (search->rest.length > 0 || search->count == GP_SEARCH_ITEMS);
  bool is_done = gp_fill_await(engine, context, search->stream) || gp_fill_has_ended(context);
  if (is_done && has_more && finish(engine, context, search))
    return true;
  drop_rest(search);
  is_done = is_done && finish(engine, context, search);
  put(context, is_done ? &context->searches : &context->late_searches, search);
  return false;
}

static void search_arena(
    gp_engine_t *engine, gp_context_t *context, gp_context_t *arena, const gp_search_wish_t *wish)
{
  gp_lock_take(&arena->device->lock);
  bool is_empty = gp_list_is_empty(&arena->quarantine);
  gp_lock_release(&arena->device->lock);
  if ((is_empty && !wish->live) || !gp_damage_checks(engine, GP_CHECK_EDGES | GP_CHECK_STALE) ||
      !gp_engine_enter(engine))
    return;
  gp_search_t *search = gp_fill_has_ended(context) ? NULL : obtain(engine, context);
  gp_engine_leave(engine);
  if (!search) {
    if (!gp_fill_has_ended(context))
      stop_checks(engine, "no page-locked memory or no stream for the search");
    return;
  }
  atomic_fetch_add(&engine->searches_begun, 1);
  while (search_batch(engine, context, search, arena, wish))
    ;
  atomic_fetch_add(&engine->searches_ended, 1);
}

static void search_both(gp_engine_t *engine, gp_context_t *context, const gp_search_wish_t *wish)
{
  gp_assert(!gp_holds_engine_lock());
  if (!gp_damage_is_checked(engine) || !context->driver.handle || !finish_late(engine, context))
    return;
  gp_drain_device(engine, context->device);
  search_arena(engine, context, context, wish);
  search_arena(engine, context, &context->device->async_context, wish);
}

void gp_engine_search(gp_engine_t *engine, gp_context_t *context)
{
  if (__builtin_expect(gp_damage_is_checked(engine), 0) && context)
    search_both(engine, context, &(gp_search_wish_t){.all = false});
}

void gp_damage_flush(gp_engine_t *engine, gp_context_t *context)
{
  search_both(engine, context, &(gp_search_wish_t){.all = true});
}

/* Waits for searches of other threads, which may end with blocks that serve the caller: until there is none,
 * or until twice as many searches have ended as there were. */
static void await_searches(gp_engine_t *engine)
{
  uint64_t ended = atomic_load(&engine->searches_ended); /* before the other one, which is not less */
  uint64_t begun = atomic_load(&engine->searches_begun);
  uint64_t enough = begun + (begun - ended);
  uint64_t begin_ns = gp_now(engine);
  uint64_t pause_ns = GP_FIRST_PAUSE_NS;

  for (;;) {
    ended = atomic_load(&engine->searches_ended);
    if (ended >= enough || ended == atomic_load(&engine->searches_begun) ||
        gp_now(engine) - begin_ns >= GP_FILL_PATIENCE_NS)
      return;
    gp_driver_pause(engine, pause_ns);
    pause_ns = gp_next_pause(pause_ns);
  }
}

void gp_damage_flush_device(gp_engine_t *engine, gp_device_t *device)
{
  gp_context_t *contexts[GP_OOM_CONTEXTS];
  int count = 0;

  gp_assert(!gp_holds_engine_lock());
  if (gp_engine_service(engine) == GP_SERVICE_STOPPED)
    stop_checks(engine, "pooling has stopped");
  gp_lock_take(&device->lock);
  GP_LIST_EACH(gp_device_contexts(device), gp_context_t, device_link, context)
    if (context->driver.handle && count < GP_OOM_CONTEXTS)
      contexts[count++] = context;
  gp_lock_release(&device->lock);
  for (int i = 0; i < count; i++)
    gp_damage_flush(engine, contexts[i]);
  await_searches(engine);
}

void gp_damage_search_for(
    gp_engine_t *engine, gp_context_t *context, gp_context_t *arena, const gp_fit_t *fit, bool is_cut)
{
  gp_assert(!gp_holds_engine_lock());
  if (!finish_late(engine, context))
    return;
  gp_drain_device(engine, context->device);
  search_arena(engine, context, arena, &(gp_search_wish_t){.fit = fit, .is_cut = is_cut});
}

/* Stream-ordered memory lives on, unless the device's primary context ends. */
void gp_engine_search_ending(gp_engine_t *engine, gp_context_t *context)
{
  if (!gp_damage_is_checked(engine) || !context || !context->driver.handle)
    return;
  bool is_quiet = gp_fences_are_quiet(engine, context->device);
  gp_damage_flush(engine, context);
  if (!is_quiet)
    return;
  search_arena(engine, context, context, &(gp_search_wish_t){.live = true});
  if (context->driver.is_primary)
    search_arena(engine, context, &context->device->async_context, &(gp_search_wish_t){.live = true});
}

void gp_damage_fini(gp_context_t *context)
{
  gp_search_t **const lists[] = {&context->searches, &context->late_searches};

  for (unsigned i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
    while (*lists[i]) {
      gp_search_t *search = *lists[i];
      *lists[i] = search->next;
      free(search);
    }
  }
}
