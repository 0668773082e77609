/*
 * The table of live memory: one slot for every segment of the pool, every allocated block that is part of a
 * segment, and every forwarded allocation. The table is separate from the events, so overwriting old events
 * loses history but never state. The engine has the same data in its own records. This table is for readers
 * of a killed process's record, and is updated as events arrive.
 *
 * A writer stores a slot's word last, with one instruction. A change of state writes only the word. If the
 * process is killed during a change, the slot has the earlier state, and the event, which is stored first,
 * has the new state. If an alloc has a slot but no event, the word shows whether the alloc happened. This
 * also works for split segments, because their idle parts have no slots: splitting off a block takes one
 * slot, and merging the block with its neighbours returns that slot.
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

/* The table; zeroed memory, then gp_live_init. In split segments each alloc takes a slot and each free
 * returns one. So each device has its own list of free slots, guarded by the device's lock. */
typedef struct gp_live {
  gp_lock_t lock; /* guards `used` and the OOM report; taken after the pool's locks and before the region's */
  gp_region_t *region;
  gp_live_slot_t *slots;
  _Atomic uint32_t used;         /* slots [0, used) have been taken at least once */
  uint32_t free[GP_MAX_DEVICES]; /* index + 1 of the first free slot, 0: none; guarded by the device's lock */
} gp_live_t;

/* Initializes the table. The region is borrowed. */
void gp_live_init(gp_live_t *live, gp_region_t *region);
void gp_live_fini(gp_live_t *live);

/* Updates the slot of the event's memory, which the event's observer_cookie contains. time_ns is the recorded
 * time of the event; `stream` is the index of its stream, or -1. If is_quiet is set (the recorder is off),
 * takes no new slot. The caller holds the device's lock. */
void gp_live_event(gp_live_t *live, const gp_event_t *event, uint64_t time_ns, int16_t stream, bool is_quiet);

/*
 * The recorder's note in a block's cookie (gp_cookie_t). For an allocated block, the note says whether the
 * slot is the only record of the alloc, and which thread made the alloc. For a freed block, the note is the
 * place of the free's record (gp_chunks_place).
 */
#define GP_NOTE_TELLS_ALLOC (UINT32_C(1) << 31)

static inline uint32_t gp_note_of_alloc(uint16_t thread)
{
  return GP_NOTE_TELLS_ALLOC | thread;
}

static inline bool gp_note_records_alloc(uint32_t note)
{
  return note & GP_NOTE_TELLS_ALLOC;
}

static inline uint16_t gp_note_thread(uint32_t note)
{
  return (uint16_t)note;
}

/* Changes the slot's state, but not its kind and taint. records_alloc means that the alloc has no event
 * record. */
static inline void gp_live_set_state(
    gp_live_slot_t *slot, gp_live_state_t state, int device, bool is_cut, bool records_alloc)
{
  const uint64_t kept = gp_live_pack((gp_live_word_t){.kind = (gp_detail_t)0xff, .tainted = true});
  const gp_live_word_t word = {
      .state = state,
      .device = device,
      .is_cut = is_cut && state != GP_LIVE_SEGMENT,
      .records_alloc = records_alloc,
      .refs = state == GP_LIVE_ALLOCATED,
  };
  uint64_t before = atomic_load_explicit(&slot->word, memory_order_relaxed);
  atomic_store_explicit(&slot->word, gp_live_pack(word) | (before & kept), memory_order_release);
}

typedef struct gp_live_owner {
  uint64_t requested;
  uint64_t block_id;
  uint64_t alloc_ns;
  uint32_t origin;
  int16_t stream; /* index of the stream; -1: none */
} gp_live_owner_t;

static inline void gp_live_set_owner(gp_live_slot_t *slot, const gp_live_owner_t *owner)
{
  /* The time is stored first: if the process is killed here, it tells a reader that the rest may be
   * missing. */
  slot->time_ns = owner->alloc_ns;
  atomic_signal_fence(memory_order_release);
  slot->requested = owner->requested;
  slot->block_id = owner->block_id;
  slot->origin = owner->origin;
  slot->stream = owner->stream;
}

static inline void gp_live_set_place(gp_live_slot_t *slot, uint64_t address, uint64_t size, uint64_t context)
{
  slot->address = address;
  slot->size = size;
  slot->context = context;
}

/* Takes a free slot of the device and returns its index + 1, or 0 if there is none. The slot's word is 0
 * until the caller stores a word. The caller holds the device's lock, which gp_live_give also requires. */
static inline uint32_t gp_live_take_free(gp_live_t *live, int device)
{
  uint32_t taken = live->free[device];
  if (taken == 0)
    return 0;
  uint64_t next = live->slots[taken - 1].address;
  gp_assert_internal(atomic_load_explicit(&live->slots[taken - 1].word, memory_order_relaxed) == 0);
  /* Checks `next`, because another process may have changed the shared memory. */
  live->free[device] = next <= atomic_load_explicit(&live->used, memory_order_relaxed) ? (uint32_t)next : 0;
  return taken;
}

static inline void gp_live_give(gp_live_t *live, gp_cookie_t *cookie, int device)
{
  gp_live_slot_t *slot = &live->slots[cookie->slot - 1];

  atomic_store_explicit(&slot->word, 0, memory_order_release);
  slot->address = live->free[device];
  live->free[device] = cookie->slot;
  *cookie = (gp_cookie_t){0, 0};
}

/* Stores a block's reference count and taint in its slot (gp_observer_t holders). */
void gp_live_holders(gp_live_t *live, uint32_t cookie, uint32_t refs, bool tainted);

#endif
