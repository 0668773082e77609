#include "trace/record/live.h"

#include "base/assert.h"

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

/* Takes a slot that was never taken; result as of take_slot. */
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

/* Takes a free slot, whose word is 0. Returns its index + 1; 0: no memory, which the header counts for the
 * reader. The caller of this and of give_slot holds the device's lock. */
static uint32_t take_slot(gp_live_t *live, int device)
{
  uint32_t cookie = live->free[device];
  if (cookie) {
    uint64_t next = live->slots[cookie - 1].address;
    /* The memory is shared: another process may have changed it. */
    live->free[device] = next <= used_slots(live) ? (uint32_t)next : 0;
  } else {
    cookie = take_new_slot(live);
  }
  gp_assert_internal(
      !cookie || atomic_load_explicit(&live->slots[cookie - 1].word, memory_order_relaxed) == 0);
  if (!cookie && gp_region_is_started(live->region))
    atomic_fetch_add_explicit(&live->region->header->missing_slots, 1, memory_order_relaxed);
  return cookie;
}

static void give_slot(gp_live_t *live, int device, uint32_t cookie)
{
  gp_live_slot_t *slot = &live->slots[cookie - 1];
  gp_assert_internal(cookie <= used_slots(live));
  atomic_store_explicit(&slot->word, 0, memory_order_release);
  slot->address = live->free[device];
  live->free[device] = cookie;
}

static void set_place(gp_live_slot_t *slot, const gp_event_t *event)
{
  slot->address = event->address;
  slot->size = event->rounded_size;
  slot->context = event->context;
  gp_live_set_owner(slot, event, -1);
}

static void add_forwarded(gp_live_slot_t *slot, const gp_event_t *event, int16_t stream)
{
  const gp_live_word_t word = {.state = GP_LIVE_FORWARDED, .kind = event->detail, .device = event->device};
  set_place(slot, event);
  slot->stream = stream;
  atomic_store_explicit(&slot->word, gp_live_pack(word), memory_order_release);
}

void gp_live_event(gp_live_t *live, const gp_event_t *event, int16_t stream, bool is_quiet)
{
  bool is_end = event->action == GP_ACTION_SEGMENT_FREE || event->action == GP_ACTION_FORWARDED_FREE ||
                (event->action == GP_ACTION_FREE_COMPLETED && event->is_cut);
  bool is_new = *event->observer_cookie == 0;
  gp_assert_internal(event->device >= 0 && event->device < GP_MAX_DEVICES);
  if (is_new && !is_end && !is_quiet)
    *event->observer_cookie = take_slot(live, event->device);
  if (*event->observer_cookie == 0)
    return;
  gp_live_slot_t *slot = &live->slots[*event->observer_cookie - 1];
  gp_assert_internal(*event->observer_cookie <= used_slots(live));
  gp_assert_internal(is_new || slot->address == event->address);
  if (is_new)
    set_place(slot, event); /* for a segment that is new, or came while recording was off */
  switch (event->action) {
  case GP_ACTION_SEGMENT_ALLOC:
    gp_live_set_state(slot, event->is_cut ? GP_LIVE_SEGMENT : GP_LIVE_IDLE, event);
    break;
  case GP_ACTION_ALLOC:
    gp_live_set_owner(slot, event, stream);
    gp_live_set_state(slot, GP_LIVE_ALLOCATED, event);
    break;
  case GP_ACTION_FREE_REQUESTED: gp_live_set_state(slot, GP_LIVE_PENDING, event); break;
  case GP_ACTION_FREE_COMPLETED:
    if (!is_end)
      gp_live_set_state(slot, GP_LIVE_IDLE, event);
    break;
  case GP_ACTION_FORWARDED_ALLOC: add_forwarded(slot, event, stream); break;
  default: break;
  }
  if (is_end) {
    give_slot(live, event->device, *event->observer_cookie);
    *event->observer_cookie = 0;
  }
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
