/*
 * The present memory: one slot for every segment of the pool, every block in use that is cut from one, and
 * every allocation that is not pooled. It is separate from the events, so that wrapping loses history but
 * never state. The engine knows all this itself; the table is for the reader of a process that was killed,
 * and is written as events arrive.
 *
 * A writer stores a slot's word last, with one instruction, and a change of state writes nothing else. A
 * process killed during a change leaves the earlier state; the event, which is stored before, tells the new
 * one. This works for cut memory because idle parts have no slots: cutting a block off takes one slot, and
 * joining it to its neighbours gives one back.
 */
#ifndef GP_TRACE_LIVE_H
#define GP_TRACE_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/observer.h"
#include "base/lock.h"
#include "format/live_slot.h"
#include "trace/region/region.h"

/* Zeroed memory plus gp_live_init. In cut memory each alloc takes a slot and each free gives one back. So
 * each device has its own free slots, which its lock guards. */
typedef struct gp_live {
  gp_lock_t lock; /* for slots never taken; ranks below the pool's locks, above the region's */
  gp_region_t *region;
  gp_live_slot_t *slots;
  _Atomic uint32_t used;         /* slots [0, used) have been taken at some time */
  uint32_t free[GP_MAX_DEVICES]; /* first free one + 1, 0: none; under the device's lock */
} gp_live_t;

/* The region is borrowed. */
void gp_live_init(gp_live_t *live, gp_region_t *region);
void gp_live_fini(gp_live_t *live);

/* Updates the slot of the event's observer_cookie. stream is the index of the event's stream, -1: none.
 * With is_quiet it takes no new slot, for a recorder that is off. The caller holds the device's lock. */
void gp_live_event(gp_live_t *live, const gp_event_t *event, int16_t stream, bool is_quiet);

/* The new word of a block's slot; kind and taint stay. */
static inline uint64_t gp_live_next_word(uint64_t before, gp_live_state_t state, const gp_event_t *event)
{
  const uint64_t kept = gp_live_pack((gp_live_word_t){.kind = (gp_detail_t)0xff, .tainted = true});
  const gp_live_word_t word = {
      .state = state,
      .device = event->device,
      .is_cut = event->is_cut && state != GP_LIVE_SEGMENT,
      .refs = state == GP_LIVE_ALLOCATED,
  };
  return gp_live_pack(word) | (before & kept);
}

static inline void gp_live_set_state(gp_live_slot_t *slot, gp_live_state_t state, const gp_event_t *event)
{
  uint64_t before = atomic_load_explicit(&slot->word, memory_order_relaxed);
  atomic_store_explicit(&slot->word, gp_live_next_word(before, state, event), memory_order_release);
}

static inline void gp_live_set_owner(gp_live_slot_t *slot, const gp_event_t *event, int16_t stream)
{
  slot->requested = event->size;
  slot->block_id = event->block_id;
  slot->time_ns = event->time_ns - event->lifetime_ns;
  slot->origin = event->origin;
  slot->stream = stream;
}

/* The slot of a usual event: the block has a slot and keeps it. NULL: the event is not such. */
static inline gp_live_slot_t *gp_live_usual_slot(const gp_live_t *live, const gp_event_t *event)
{
  bool is_usual = event->action == GP_ACTION_ALLOC || event->action == GP_ACTION_FREE_REQUESTED ||
                  (event->action == GP_ACTION_FREE_COMPLETED && !event->is_cut);
  if (!is_usual || !live->slots || !event->observer_cookie || *event->observer_cookie == 0)
    return NULL;
  return &live->slots[*event->observer_cookie - 1];
}

/* gp_live_event for a usual event: only the state, the owner and the references change. */
static inline void gp_live_usual_event(gp_live_slot_t *slot, const gp_event_t *event, int16_t stream)
{
  const uint64_t kept = gp_live_pack(
      (gp_live_word_t){.kind = (gp_detail_t)0xff, .device = 0xff, .tainted = true, .is_cut = true});
  uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed) & kept;

  gp_assert_internal(slot->address == event->address && gp_live_unpack(word).device == event->device);
  if (event->action == GP_ACTION_ALLOC) {
    gp_live_set_owner(slot, event, stream);
    word |= gp_live_pack((gp_live_word_t){.state = GP_LIVE_ALLOCATED, .refs = 1});
  } else {
    word |= event->action == GP_ACTION_FREE_REQUESTED ? GP_LIVE_PENDING : GP_LIVE_IDLE;
  }
  atomic_store_explicit(&slot->word, word, memory_order_release);
}

/* gp_observer_t holders. */
void gp_live_holders(gp_live_t *live, uint32_t cookie, uint32_t refs, bool tainted);

#endif
