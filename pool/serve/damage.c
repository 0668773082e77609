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
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "pool/limits/oom.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/mode.h"
#include "pool/serve/cut_memory.h"
#include "pool/serve/fill.h"
#include "pool/space/block_life.h"
#include "pool/space/driver_calls.h"
#include "pool/events.h"

/* The watched bytes of a large filled block, its sample: EDGE bytes at each end, and between them PLACES
 * pieces of PLACE bytes. */
#define EDGE        GP_RED_ZONE_MOST
#define PLACES      64
#define PLACE       256
#define SAMPLE_MOST (2 * EDGE + PLACES * PLACE)

#define BATCH        32
#define BUFFER_BYTES ((uint64_t)BATCH * SAMPLE_MOST)

typedef enum part {
  PART_RED_ZONE, /* red zone of a quarantined block, which is then filled under `stale` */
  PART_LIVE,     /* red zone of a live block whose context ends */
  PART_SAMPLE,   /* sample of a filled block */
  PART_ALL,      /* `length` bytes of a filled block from `offset` on (stale=full) */
} part_t;

/* One range of a block in a search. `at` is the position of its copied bytes in the buffer. */
typedef struct item {
  uint64_t address, requested, block_id;
  uint64_t offset, length;
  size_t at;
  part_t part;
  bool is_last;    /* no later item belongs to the same block */
  bool is_dropped; /* the rest of the block will not be searched: the block has to be searched again */
  gp_damage_t damage;
} item_t;

struct gp_search {
  struct gp_search *next;
  uint64_t stream; /* driver's handle; the stream and the buffer end with the context */
  uint8_t *buffer; /* page-locked host memory */
  size_t used, count;
  item_t items[BATCH];
  item_t rest;    /* part of the last block for the next batch; length 0: none */
  bool is_failed; /* the driver refused a copy or a fill */
  bool fills;     /* blocks whose red zone is searched are filled */
};
typedef struct gp_search gp_search_t;

/* The blocks that a search takes in addition to quarantined blocks that are not filled yet. */
typedef struct wish {
  const gp_fit_t *fit; /* one filled block that could serve this request; NULL: see `all` */
  bool is_cut;
  bool all;
  bool live; /* red zones of live blocks, and no quarantined blocks */
} wish_t;

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

static bool checks_edges(const gp_engine_t *engine)
{
  return atomic_load_explicit(&engine->checks, memory_order_relaxed) & GP_CHECK_EDGES;
}

static bool checks_stale(const gp_engine_t *engine)
{
  return atomic_load_explicit(&engine->checks, memory_order_relaxed) & GP_CHECK_STALE;
}

static bool is_stopped(const gp_engine_t *engine)
{
  return !checks_edges(engine) && !checks_stale(engine);
}

uint64_t gp_damage_block_bytes(const gp_engine_t *engine, uint64_t requested)
{
  return checks_edges(engine) && requested <= UINT64_MAX - GP_RED_ZONE_LEAST ? requested + GP_RED_ZONE_LEAST
                                                                             : requested;
}

uint64_t gp_damage_red_zone(gp_engine_t *engine, gp_context_t *context, uint64_t address, uint64_t requested)
{
  uint64_t rest = 0;

  if (!checks_edges(engine))
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

  if (!checks_edges(engine))
    return 0;
  gp_block_t *block = gp_find_and_lock(engine, address);
  if (!block)
    return 0;
  if (block->red_zone > 0)
    requested = block->requested;
  gp_lock_release(&block->context->device->lock);
  return requested;
}

/* Adds an item to the search. Returns false if the search has no room for it. */
static bool add(gp_search_t *search, const item_t *item)
{
  if (search->count == BATCH || item->length > BUFFER_BYTES - search->used)
    return false;
  search->items[search->count] = *item;
  search->items[search->count++].at = search->used;
  search->used += item->length;
  return true;
}

/* Adds a range of a block that may be larger than the buffer, and stores the rest in search->rest for the
 * next batch. Returns false if the search has no room. */
static bool add_all(gp_search_t *search, item_t item)
{
  uint64_t room = BUFFER_BYTES - search->used;

  if (search->count == BATCH || room == 0)
    return false;
  search->rest = item;
  item.is_last = item.length <= room;
  item.length = item.is_last ? item.length : room;
  search->rest.offset += item.length;
  search->rest.length -= item.length;
  return add(search, &item);
}

/* Adds a quarantined block to the search. Returns false if the search has no room for it. */
static bool add_quarantined(const gp_engine_t *engine, gp_search_t *search, const gp_block_t *block)
{
  item_t item = {
      .address = block->address, .requested = block->requested, .block_id = block->block_id, .is_last = true};

  if (!block->is_filled) {
    item.offset = block->requested;
    item.length = block->red_zone;
    return add(search, &item);
  }
  if (atomic_load(&engine->checks) & GP_CHECK_FULL || block->requested <= SAMPLE_MOST) {
    item.part = PART_ALL;
    item.length = block->requested;
    return add_all(search, item);
  }
  item.part = PART_SAMPLE;
  item.length = SAMPLE_MOST;
  return add(search, &item);
}

static bool serves(const gp_block_t *block, const wish_t *wish)
{
  if (wish->all || !wish->fit)
    return wish->all;
  return wish->is_cut ? block->segment && block->size == wish->fit->fresh
                      : block->bin && block->bin->size == wish->fit->class_bytes &&
                            block->size >= wish->fit->least && block->size <= wish->fit->most;
}

static void collect_live(gp_search_t *search, gp_context_t *arena)
{
  GP_LIST_EACH(&arena->blocks, gp_block_t, all, block) {
    const item_t item = {.address = block->address,
        .requested = block->requested,
        .block_id = block->block_id,
        .offset = block->requested,
        .length = block->red_zone,
        .part = PART_LIVE,
        .is_last = true};
    if (block->state != GP_STATE_LIVE || block->red_zone == 0 || block->tainted)
      continue;
    if (!add(search, &item))
      return;
    block->red_zone = 0; /* the red zone is searched only once */
  }
}

/* Chooses the blocks of the next batch and marks them (is_searched). */
static void collect(gp_engine_t *engine, gp_search_t *search, gp_context_t *arena, const wish_t *wish)
{
  bool has_served = false;

  search->used = 0;
  search->fills = checks_stale(engine) && !wish->all;
  if (search->rest.length > 0)
    (void)add_all(search, search->rest);
  gp_lock_take(&arena->device->lock);
  if (wish->live)
    collect_live(search, arena);
  GP_LIST_EACH(&arena->quarantine, gp_block_t, order, block) {
    if (wish->live || search->rest.length > 0)
      break;
    if (block->is_searched || (block->is_filled && (has_served || !serves(block, wish))))
      continue;
    if (!add_quarantined(engine, search, block))
      break;
    block->is_searched = true;
    has_served = block->is_filled && !wish->all;
  }
  gp_lock_release(&arena->device->lock);
}

/* Submits the copies of a batch, each followed by the fill of its block if there is one. Returns the driver's
 * code. */
static int submit(gp_engine_t *engine, gp_context_t *context, const gp_search_t *search)
{
  const gp_driver_context_t *in = &context->driver;
  int code = 0;

  for (size_t i = 0; i < search->count && code == 0; i++) {
    const item_t *item = &search->items[i];
    uint8_t *to = search->buffer + item->at;
    if (item->part == PART_SAMPLE) {
      uint64_t stride = (item->requested - 2 * EDGE) / PLACES;
      code = gp_driver_copy_out(engine, in, search->stream, to, item->address, EDGE, 1, EDGE);
      if (code == 0)
        code = gp_driver_copy_out(
            engine, in, search->stream, to + EDGE, item->address + EDGE, PLACE, PLACES, stride);
      if (code == 0)
        code = gp_driver_copy_out(engine, in, search->stream, to + SAMPLE_MOST - EDGE,
            item->address + item->requested - EDGE, EDGE, 1, EDGE);
    } else if (item->length > 0) {
      code = gp_driver_copy_out(
          engine, in, search->stream, to, item->address + item->offset, item->length, 1, item->length);
    }
    if (code == 0 && item->part == PART_RED_ZONE && search->fills)
      code = gp_driver_fill(engine, in, search->stream, item->address, item->requested, engine->check_byte);
  }
  return code;
}

/* Returns the offset, in the block, of the byte at `index` in the item's copy. */
static uint64_t offset_of(const item_t *item, uint64_t index)
{
  if (item->part != PART_SAMPLE || index < EDGE)
    return item->offset + index;
  if (index >= SAMPLE_MOST - EDGE)
    return item->requested - (SAMPLE_MOST - index);
  uint64_t place = (index - EDGE) / PLACE;
  return EDGE + place * ((item->requested - 2 * EDGE) / PLACES) + (index - EDGE) % PLACE;
}

/* Compares the copy of an item with the pattern, and describes the bytes that differ in item->damage. */
static void compare(const gp_engine_t *engine, const gp_search_t *search, item_t *item)
{
  const uint8_t *bytes = search->buffer + item->at;
  uint64_t first = 0, count = 0;

  if (item->length > 0 && bytes[0] == engine->check_byte && memcmp(bytes, bytes + 1, item->length - 1) == 0)
    return; /* the usual case, at the speed of memcmp: all bytes are equal */
  for (uint64_t i = 0; i < item->length; i++) {
    if (bytes[i] == engine->check_byte)
      continue;
    first = count++ == 0 ? i : first;
  }
  if (count > 0)
    item->damage = (gp_damage_t){.offset = offset_of(item, first),
        .bytes = count,
        .kind = item->part == PART_RED_ZONE || item->part == PART_LIVE ? GP_DAMAGE_EDGE : GP_DAMAGE_STALE};
}

/* Counts the damage of a block and notifies the observer. The caller holds the device's lock. */
static void record(gp_engine_t *engine, const gp_block_t *block, gp_damage_t *damage, uint64_t now_ns)
{
  damage->address = block->address;
  damage->device = block->context->device->ordinal;
  damage->requested = block->requested;
  damage->origin = block->origin;
  gp_device_stats(block->context->device)->num_damages++;
  gp_event_damage(engine, block, damage, now_ns);
}

/* Ends the search of a block: the block is filled, leaves the quarantine, or is searched again later. The
 * caller holds the device's lock. */
static void end_search(
    gp_engine_t *engine, gp_block_t *block, const item_t *item, bool is_sound, bool is_filled)
{
  block->is_searched = false;
  if (is_stopped(engine) || (is_sound && !item->is_dropped && !is_filled))
    gp_block_leave_quarantine(engine, block, gp_now(engine));
  else
    block->is_filled |= is_sound && is_filled;
}

/* Records the result for an item of a block, if the block still exists. */
static void conclude(gp_engine_t *engine, const gp_search_t *search, item_t *item, bool is_sound)
{
  gp_block_t *block = gp_find_and_lock(engine, item->address);
  gp_state_t state = item->part == PART_LIVE ? GP_STATE_LIVE : GP_STATE_QUARANTINED;

  if (!block) {
    item->damage.bytes = 0;
    return;
  }
  gp_device_t *device = block->context->device;
  bool is_same = block->block_id == item->block_id && block->state == state;
  if (!is_same)
    item->damage.bytes = 0;
  if (item->damage.bytes > 0)
    record(engine, block, &item->damage, gp_now(engine));
  if (is_same && item->part != PART_LIVE && (item->is_last || item->is_dropped))
    end_search(engine, block, item, is_sound, item->part == PART_RED_ZONE && search->fills);
  gp_lock_release(&device->lock);
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
    compare(engine, search, &search->items[i]);
  gp_engine_leave(engine);
  for (size_t i = 0; i < search->count; i++) {
    conclude(engine, search, &search->items[i], is_sound);
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
    code = gp_driver_host_alloc(engine, &context->driver, BUFFER_BYTES, &buffer);
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
static void begin_batch(
    gp_engine_t *engine, gp_context_t *context, gp_search_t *search, gp_context_t *arena, const wish_t *wish)
{
  int code = 0;

  search->count = 0;
  if (!gp_engine_enter(engine))
    return;
  if (!gp_fill_has_ended(context) && !is_stopped(engine)) {
    collect(engine, search, arena, wish);
    code = submit(engine, context, search);
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
static bool search_batch(
    gp_engine_t *engine, gp_context_t *context, gp_search_t *search, gp_context_t *arena, const wish_t *wish)
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
  bool has_more = !search->is_failed && (search->rest.length > 0 || search->count == BATCH);
  bool is_done = gp_fill_await(engine, context, search->stream) || gp_fill_has_ended(context);
  if (is_done && has_more && finish(engine, context, search))
    return true;
  drop_rest(search);
  is_done = is_done && finish(engine, context, search);
  put(context, is_done ? &context->searches : &context->late_searches, search);
  return false;
}

static void search_arena(gp_engine_t *engine, gp_context_t *context, gp_context_t *arena, const wish_t *wish)
{
  gp_lock_take(&arena->device->lock);
  bool is_empty = gp_list_is_empty(&arena->quarantine);
  gp_lock_release(&arena->device->lock);
  if ((is_empty && !wish->live) || is_stopped(engine) || !gp_engine_enter(engine))
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

static void search_both(gp_engine_t *engine, gp_context_t *context, const wish_t *wish)
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
    search_both(engine, context, &(wish_t){.all = false});
}

void gp_damage_flush(gp_engine_t *engine, gp_context_t *context)
{
  search_both(engine, context, &(wish_t){.all = true});
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
  search_arena(engine, context, arena, &(wish_t){.fit = fit, .is_cut = is_cut});
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
  search_arena(engine, context, context, &(wish_t){.live = true});
  if (context->driver.is_primary)
    search_arena(engine, context, &context->device->async_context, &(wish_t){.live = true});
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
