#include "trace/record/live.h"

#define GROWTH_SLOTS 1024u

void gp_live_init(gp_live_t *live, gp_region_t *region)
{
  live->region = region;
  live->slots = gp_region_section(region, GP_SECTION_LIVE, NULL);
  gp_lock_init(&live->lock, GP_RANK_LIVE);
}

void gp_live_fini(gp_live_t *live)
{
  gp_assert_internal(gp_lock_is_free(&live->lock));
}

static bool has_room_for(gp_live_t *live, uint32_t index)
{
  size_t bytes = (index + (size_t)1) * sizeof(gp_live_slot_t);
  gp_assert_internal(gp_lock_is_held(&live->lock));
  if (index >= GP_LIVE_MAX)
    return false;
  if (bytes <= gp_region_used(live->region, GP_SECTION_LIVE))
    return true;
  return gp_region_grow(live->region, GP_SECTION_LIVE, bytes + (GROWTH_SLOTS - 1) * sizeof(gp_live_slot_t)) ||
         gp_region_grow(live->region, GP_SECTION_LIVE, bytes);
}

static uint32_t used_slots(const gp_live_t *live)
{
  return atomic_load_explicit(&live->used, memory_order_relaxed);
}

/* Takes a slot that was never used. Returns its index + 1, or 0 if there is no memory. */
static uint32_t take_new_slot(gp_live_t *live)
{
  uint32_t cookie = 0;
  gp_lock_take(&live->lock);
  if (has_room_for(live, used_slots(live))) {
    cookie = used_slots(live) + 1;
    atomic_store_explicit(&live->used, cookie, memory_order_relaxed);
  }
  gp_lock_release(&live->lock);
  return cookie;
}

/* Assigns a slot to the event's memory; the slot's word is 0. If there is no memory for a slot, increments
 * the header's missing_slots, so that readers know. */
static void take_slot(gp_live_t *live, const gp_event_t *event)
{
  uint32_t slot = gp_live_take_free(live, event->device);
  if (!slot)
    slot = take_new_slot(live);
  event->observer_cookie->slot = slot;
  if (slot)
    gp_live_set_place(&live->slots[slot - 1], event->address, event->rounded_size, event->context);
  else if (gp_region_is_started(live->region))
    atomic_fetch_add_explicit(&live->region->header->missing_slots, 1, memory_order_relaxed);
}

static void set_state(gp_live_slot_t *slot, gp_live_state_t state, const gp_event_t *event)
{
  gp_live_set_state(slot, state, event->device, event->is_cut, false);
}

static void add_forwarded(gp_live_slot_t *slot, const gp_event_t *event)
{
  const gp_live_word_t word = {.state = GP_LIVE_FORWARDED, .kind = event->detail, .device = event->device};
  atomic_store_explicit(&slot->word, gp_live_pack(word), memory_order_release);
}

void gp_live_event(gp_live_t *live, const gp_event_t *event, uint64_t time_ns, int16_t stream, bool is_quiet)
{
  bool is_end = event->action == GP_ACTION_SEGMENT_FREE || event->action == GP_ACTION_FORWARDED_FREE ||
                (event->action == GP_ACTION_FREE_COMPLETED && event->is_cut);
  bool is_new = event->observer_cookie->slot == 0;
  gp_assert_internal(event->device >= 0 && event->device < GP_MAX_DEVICES);
  if (is_new && !is_end && !is_quiet)
    take_slot(live, event);
  if (event->observer_cookie->slot == 0)
    return;
  gp_live_slot_t *slot = &live->slots[event->observer_cookie->slot - 1];
  gp_assert_internal(event->observer_cookie->slot <= used_slots(live));
  gp_assert_internal(slot->address == event->address);
  bool has_owner = event->action == GP_ACTION_ALLOC || event->action == GP_ACTION_FORWARDED_ALLOC;
  const gp_live_owner_t owner = {.requested = event->size,
      .block_id = event->block_id,
      .alloc_ns = event->alloc_ns != 0 ? event->alloc_ns : time_ns,
      .origin = event->origin,
      .stream = has_owner ? stream : -1};
  if (is_new || has_owner) /* is_new: also segments that were reserved while recording was off */
    gp_live_set_owner(slot, &owner);
  switch (event->action) {
  case GP_ACTION_SEGMENT_ALLOC: set_state(slot, event->is_cut ? GP_LIVE_SEGMENT : GP_LIVE_IDLE, event); break;
  case GP_ACTION_ALLOC: set_state(slot, GP_LIVE_ALLOCATED, event); break;
  case GP_ACTION_FREE_REQUESTED: set_state(slot, GP_LIVE_PENDING, event); break;
  case GP_ACTION_FREE_COMPLETED:
    if (!is_end)
      set_state(slot, GP_LIVE_IDLE, event);
    break;
  case GP_ACTION_FORWARDED_ALLOC: add_forwarded(slot, event); break;
  default: break;
  }
  if (is_end)
    gp_live_give(live, event->observer_cookie, event->device);
}

void gp_live_holders(gp_live_t *live, uint32_t cookie, uint32_t refs, bool tainted)
{
  if (!cookie)
    return;
  gp_assert_internal(cookie <= used_slots(live));
  gp_live_slot_t *slot = &live->slots[cookie - 1];
  gp_live_word_t word = gp_live_unpack(atomic_load_explicit(&slot->word, memory_order_relaxed));
  word.refs = refs;
  word.tainted = tainted;
  atomic_store_explicit(&slot->word, gp_live_pack(word), memory_order_release);
}
