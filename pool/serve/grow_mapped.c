/*
 * How a request is served with mapped memory. Under the lock the thread chooses a place. It removes all
 * blocks of the place, and every chunk that moves there, from the pool's lists (state MAPPING), so that no
 * other thread can use them. Then it calls the driver without a lock, and turns the place into the request's
 * block. If the driver refuses, the thread puts everything back.
 */
#include "pool/serve/grow.h"

#include <stdlib.h>
#include <string.h>

#include "pool/limits/limit.h"
#include "pool/serve/map_range.h"
#include "pool/reuse/stamps.h"
#include "pool/space/block_life.h"
#include "pool/space/block_slab.h"
#include "pool/space/mapped.h"
#include "pool/space/segment.h"
#include "base/cancel.h"

/* A request while it is being served, and the memory to map for it. */
typedef struct gp_plan {
  gp_engine_t *engine;
  gp_context_t *asker;   /* context of the request, with which the driver is queried about the device */
  gp_context_t *context; /* record whose range grows: the context, or device->async_context */
  uint64_t requested;
  uint64_t bytes;
  uint64_t stream;    /* stream of the request; 0: none */
  bool is_ahead;      /* the memory is reserved in advance: it becomes idle, and there is no request */
  bool is_exact;      /* move all memory that can move, and create only what is missing */
  bool moves;         /* true if memory is moved to the place */
  uint64_t missing;   /* bytes of the place that have no memory */
  uint64_t growth;    /* bytes to create at once, including the missing ones */
  uint64_t chunk;     /* maximum size of a new chunk, in bytes */
  uint64_t address;   /* address of the request's place */
  gp_block_t **parts; /* blocks of the place, by address, in state MAPPING */
  size_t part_count, part_room;
  gp_map_step_t *steps;
  size_t step_count, step_room;
  unsigned runs;
  size_t made_count; /* number of new chunks created */
  uint64_t made;     /* bytes of the new chunks; counted against the limit */
  uint64_t excess;   /* part of `made` beyond the missing bytes */
  uint64_t peers;
} gp_plan_t;

typedef enum gp_planned { PLANNED, NO_PLACE, NO_HOST_MEMORY } gp_planned_t;

/* Makes room for one more entry in an array of the plan. Returns false if the host has no memory. */
static bool make_room(void **array, size_t count, size_t *room, size_t entry)
{
  if (count < *room)
    return true;
  size_t wanted = 2 * *room + 8;
  void *larger = malloc(wanted * entry);
  if (!larger)
    return false;
  if (count > 0)
    memcpy(larger, *array, count * entry);
  free(*array);
  *array = larger;
  *room = wanted;
  return true;
}

static bool add_part(gp_plan_t *plan, gp_block_t *block, uint64_t address, uint64_t bytes)
{
  if (!make_room((void **)&plan->parts, plan->part_count, &plan->part_room, sizeof(gp_block_t *)))
    return false;
  gp_block_t *part = gp_mapped_carve(plan->engine, block, address, bytes);
  if (part)
    plan->parts[plan->part_count++] = part;
  return part != NULL;
}

/* Returns the bytes to create beyond the `left` missing ones, in whole chunks, so that later requests find
 * memory. Returns 0 if memory moves to the place. */
static uint64_t extra_size(const gp_plan_t *plan, uint64_t left, uint64_t room)
{
  uint64_t most = plan->growth < room ? plan->growth : room;
  uint64_t extra = most > left ? (most - left) / plan->chunk * plan->chunk : 0;

  if (plan->moves ||
      gp_mapped_should_move(plan->context->device, plan->bytes, plan->missing + plan->excess + extra))
    return 0;
  return extra;
}

/* Adds a step for `left` missing bytes at a position with room to map `room` bytes. Returns NULL if the host
 * has no memory. The caller sets the step's address. */
static gp_map_step_t *add_step(gp_plan_t *plan, uint64_t left, uint64_t room)
{
  if (!make_room((void **)&plan->steps, plan->step_count, &plan->step_room, sizeof(gp_map_step_t)))
    return NULL;
  gp_map_step_t *step = &plan->steps[plan->step_count];
  gp_block_t *source = NULL;
  if (plan->moves)
    source = gp_mapped_cut_to_fit(plan->engine, plan->context, gp_covered(plan->engine), left, room);
  if (!source && !gp_chunks_promise(plan->context->range, 1))
    return NULL;
  *step = (gp_map_step_t){.source = source, .run = plan->runs, .done = GP_MAP_NOTHING};
  if (source) {
    const gp_chunk_t *chunk = gp_chunks_find(plan->context->range, source->address);
    step->from = source->address;
    step->size = source->size;
    step->handle = chunk->handle;
  } else {
    step->size = plan->chunk < left ? plan->chunk : left;
    plan->made_count++;
    plan->made += step->size;
  }
  plan->step_count++;
  return step;
}

/* Plans to fill a hole for the request, from `address` up to at most `end`. The filled part starts at the low
 * end or stops at the high end of the hole. Memory beyond the request is mapped on the other side, where the
 * hole continues. Returns false if the host has no memory. */
static bool fill(gp_plan_t *plan, gp_block_t *hole, uint64_t address, uint64_t end)
{
  const uint64_t base = hole->segment->address;
  const uint64_t hole_end = hole->address + hole->size;
  uint64_t low = address - (address - base) % GP_CHUNK_STEP;
  uint64_t high = base + gp_round_up((end < hole_end ? end : hole_end) - base, GP_CHUNK_STEP);
  const bool is_down = low > hole->address;
  uint64_t left = high - low;
  uint64_t room = is_down ? high - hole->address : hole_end - low;
  uint64_t at = is_down ? high : low;

  uint64_t extra = extra_size(plan, left, room);
  plan->excess += extra;
  plan->runs++;
  while (left + extra > 0) {
    bool is_extra = left == 0;
    gp_map_step_t *step = add_step(plan, is_extra ? extra : left, room);
    if (!step)
      return false;
    step->address = is_down ? at - step->size : at;
    at = is_down ? at - step->size : at + step->size;
    gp_assert(!is_extra || step->size <= extra);
    if (is_extra)
      extra -= step->size;
    else
      left -= step->size < left ? step->size : left;
    room -= step->size;
  }
  return is_down ? add_part(plan, hole, at, high - at) : add_part(plan, hole, low, at - low);
}

/* Removes the blocks of the place from the pool's lists and plans the steps. Handles the idle parts first, so
 * that no chunk in them moves. Returns false if the plan cannot be used. */
static bool take_place(gp_plan_t *plan, const gp_place_t *place)
{
  const uint64_t end = place->address + plan->bytes;
  gp_block_t *first = place->first;
  size_t idle_parts;

  for (gp_block_t *block = first; block && block->address < end; block = gp_segment_above(block)) {
    if (block->state != GP_STATE_IDLE)
      continue;
    uint64_t from = block->address > place->address ? block->address : place->address;
    uint64_t to = block->address + block->size < end ? block->address + block->size : end;
    if (!add_part(plan, block, from, to - from))
      return false;
    if (block == first)
      first = plan->parts[0];
    block = plan->parts[plan->part_count - 1];
  }
  idle_parts = plan->part_count;
  for (gp_block_t *block = first; block && block->address < end; block = gp_segment_above(block)) {
    if (block->state != GP_STATE_UNMAPPED)
      continue;
    if (!fill(plan, block, block->address > place->address ? block->address : place->address, end))
      return false;
    block = plan->parts[plan->part_count - 1];
  }
  return plan->part_count > idle_parts; /* without a hole, the request was no miss */
}

static int by_address(const void *a, const void *b)
{
  uint64_t first = (*(gp_block_t *const *)a)->address, second = (*(gp_block_t *const *)b)->address;
  return (first > second) - (first < second);
}

/* Chooses a place and plans the steps for it. The caller holds the device's lock. Whatever the result,
 * put_back() can undo the plan. */
static gp_planned_t make_plan(gp_plan_t *plan)
{
  gp_context_t *context = plan->context;
  const gp_device_t *device = context->device;
  gp_place_t place;

  plan->part_count = plan->step_count = plan->made_count = 0;
  plan->made = plan->excess = 0;
  if (!(plan->is_ahead ? gp_mapped_place_ahead(context->range, plan->bytes, &place)
                       : gp_mapped_place(context->range, plan->bytes, &place)))
    return NO_PLACE;
  plan->address = place.address;
  plan->peers = context->peers;
  if (!plan->is_ahead) {
    uint64_t held = gp_segment_held(context) + place.missing;
    plan->missing = place.missing;
    plan->growth = gp_mapped_growth(held);
    plan->chunk = gp_mapped_chunk_size(held, plan->bytes);
    plan->moves = plan->is_exact || gp_mapped_should_move(device, plan->bytes, place.missing);
  }
  if (!take_place(plan, &place))
    return NO_HOST_MEMORY;
  qsort(plan->parts, plan->part_count, sizeof(*plan->parts), by_address);
  return PLANNED;
}

/* Puts the blocks of an unsuccessful plan back into the pool's lists. The caller holds the device's lock. */
static void put_back(gp_plan_t *plan)
{
  gp_engine_t *engine = plan->engine;
  gp_range_t *range = plan->context->range;
  uint64_t now_ns = gp_now(engine);

  for (size_t i = 0; i < plan->step_count; i++) {
    const gp_map_step_t *step = &plan->steps[i];
    if (step->source && step->done == GP_MAP_LOST) {
      gp_mapped_forget(engine, range, gp_chunks_find(range, step->from), GP_DETAIL_NONE, now_ns, 0);
      gp_mapped_become_hole(engine, step->source);
      gp_device_stats(plan->context->device)->driver_frees++;
    } else if (step->source) {
      gp_mapped_become_idle(engine, step->source, now_ns);
    }
  }
  for (size_t i = 0; i < plan->part_count; i++) {
    if (gp_chunks_find(range, plan->parts[i]->address))
      gp_mapped_become_idle(engine, plan->parts[i], now_ns);
    else
      gp_mapped_become_hole(engine, plan->parts[i]);
  }
  gp_chunks_unpromise(range, plan->made_count);
}

static void give_up(gp_plan_t *plan)
{
  gp_lock_take(&plan->context->device->lock);
  put_back(plan);
  gp_lock_release(&plan->context->device->lock);
  if (atomic_load(&plan->context->lost))
    gp_map_range_lose(plan->engine, plan->context);
}

/* Makes the parts of the place below and above the request idle. Returns the request's block, which is in
 * state MAPPING. */
static gp_block_t *cut_place(gp_plan_t *plan, uint64_t now_ns)
{
  gp_engine_t *engine = plan->engine;
  gp_block_t *block = plan->parts[0];

  for (size_t i = 1; i < plan->part_count; i++)
    gp_segment_join(engine, block, plan->parts[i]);
  gp_block_t *middle = block->address < plan->address ? gp_block_slab_take(engine) : NULL;
  if (middle) {
    gp_segment_split(block, plan->address - block->address, middle);
    gp_mapped_become_idle(engine, block, now_ns);
    block = middle;
  }
  gp_block_t *rest = block->size > plan->bytes ? gp_block_slab_take(engine) : NULL;
  if (rest) {
    gp_segment_split(block, plan->bytes, rest);
    gp_mapped_become_idle(engine, rest, now_ns);
  }
  return block;
}

/* Called after the driver has done all steps. Gives the place to the program, or makes it idle if there is no
 * request. Returns false if the host has no memory for the map's entry; the place is then idle. */
static bool commit(gp_plan_t *plan, uint64_t start_ns, uint64_t *ret_address)
{
  gp_engine_t *engine = plan->engine;
  gp_context_t *context = plan->context;
  gp_range_t *range = context->range;
  uint64_t duration_ns = gp_now(engine) - start_ns;
  uint64_t end_ns = start_ns + duration_ns;

  gp_lock_take(&context->device->lock);
  for (size_t i = 0; i < plan->step_count; i++) {
    const gp_map_step_t *step = &plan->steps[i];
    const gp_chunk_t chunk = {.address = step->address, .size = step->size, .handle = step->handle};
    if (step->source) {
      gp_mapped_move(engine, range, step->from, step->address, start_ns);
      gp_mapped_become_hole(engine, step->source);
    } else {
      gp_mapped_adopt(engine, range, &chunk, start_ns, duration_ns);
    }
  }
  gp_block_t *block = cut_place(plan, end_ns);
  bool is_lost = atomic_load(&context->lost);
  bool is_known =
      !is_lost && !plan->is_ahead && gp_address_map_insert(&engine->blocks, block->address, block);
  if (is_known) {
    gp_block_set_stream(block, plan->stream);
    gp_block_allocate(engine, block, plan->requested, start_ns, duration_ns, false);
    *ret_address = block->address;
  } else {
    gp_mapped_become_idle(engine, block, end_ns);
  }
  if (plan->is_ahead)
    gp_parts_note_ahead(context->device);
  uint64_t new_peers = context->peers & ~plan->peers;
  gp_lock_release(&context->device->lock);
  if (new_peers) /* peer access was enabled during the steps, see gp_engine_peer_enabled */
    gp_map_allow(engine, context, plan->steps, plan->step_count, new_peers);
  if (is_lost)
    gp_map_range_lose(engine, context);
  return is_known || plan->is_ahead;
}

/* Makes one attempt to serve the request. *ret_again is true if another attempt, with a smaller request to
 * the driver, may succeed. */
static int attempt(gp_plan_t *plan, bool *by_limit, bool *ret_again, uint64_t *ret_address)
{
  gp_engine_t *engine = plan->engine;
  gp_context_t *context = plan->context;
  const int out_of_memory = engine->driver.ops->code_out_of_memory;

  *by_limit = false;
  *ret_again = !plan->is_exact;
  if (plan->excess > 0 && !gp_grow_leaves_enough(engine, plan->asker, plan->made)) {
    give_up(plan);
    return out_of_memory;
  }
  *by_limit = !gp_limit_reserve(engine, plan->asker, plan->made, GP_SUPPLY_APART);
  if (*by_limit) {
    give_up(plan);
    return out_of_memory;
  }
  uint64_t start_ns = gp_now(engine);
  int code = gp_map_take_steps(engine, context, plan->steps, plan->step_count, plan->peers);
  if (code != 0) {
    give_up(plan);
    gp_limit_cancel(engine, context->device, plan->made, GP_SUPPLY_APART);
    return code;
  }
  *ret_again = false;
  return commit(plan, start_ns, ret_address) ? 0 : out_of_memory;
}

static int serve(gp_plan_t *plan, bool *by_limit, bool *ret_is_placed, uint64_t *ret_address)
{
  gp_device_t *device = plan->context->device;
  const int out_of_memory = plan->engine->driver.ops->code_out_of_memory;
  int code = out_of_memory;

  *ret_is_placed = true;
  for (bool again = true; again && code == out_of_memory; plan->is_exact = true) {
    gp_lock_take(&device->lock);
    gp_planned_t planned = make_plan(plan);
    if (planned == NO_HOST_MEMORY)
      put_back(plan);
    gp_lock_release(&device->lock);
    *ret_is_placed = planned != NO_PLACE;
    if (planned != PLANNED)
      return out_of_memory;
    code = attempt(plan, by_limit, &again, ret_address);
  }
  return code;
}

/* Executes the plan, if the context has a range with a place for it. *ret_is_placed is true if there was a
 * place. It is also true for device->async_context if the device or the limit has no memory to test whether
 * the driver can map, because making room helps then. */
static int grow(gp_plan_t *plan, bool *by_limit, bool *ret_is_placed, uint64_t *ret_address)
{
  gp_context_t *context = plan->context;
  const int out_of_memory = plan->engine->driver.ops->code_out_of_memory;

  gp_assert(!gp_holds_engine_lock());
  *by_limit = *ret_is_placed = false;
  int cancel_state = gp_cancel_hold(); /* until commit or undo, no record owns the memory */
  int code = gp_map_range_find(plan->engine, context, plan->asker, by_limit);
  if (code == out_of_memory)
    *ret_is_placed = context->is_async;
  else if (code == 0 && plan->bytes > context->range->segment.size)
    code = out_of_memory;
  else if (code == 0)
    code = serve(plan, by_limit, ret_is_placed, ret_address);
  if (code == plan->engine->driver.ops->code_not_ready) /* the driver cannot map now, but can allocate */
    *ret_is_placed = false;
  gp_cancel_restore(cancel_state);
  free(plan->parts);
  free(plan->steps);
  return code;
}

int gp_grow_mapped(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address)
{
  gp_plan_t plan = {.engine = engine,
      .asker = need->context,
      .context = need->arena,
      .requested = need->requested,
      .bytes = need->bytes,
      .stream = need->stream};
  bool is_placed;

  int code = grow(&plan, by_limit, &is_placed, ret_address);
  if (is_placed)
    return code;
  return need->arena->is_async ? engine->driver.ops->code_not_ready
                               : gp_grow(engine, need, by_limit, ret_address);
}

int gp_grow_mapped_ahead(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t held, bool *by_limit)
{
  gp_plan_t plan = {.engine = engine,
      .asker = context,
      .context = context,
      .bytes = bytes,
      .is_ahead = true,
      .is_exact = true,
      .chunk = gp_mapped_growth(held)};
  uint64_t address;
  bool is_placed;

  int code = grow(&plan, by_limit, &is_placed, &address);
  return is_placed ? code : gp_grow_ahead(engine, context, bytes, by_limit);
}
