/*
 * What is there now: every segment of the pool and every allocation that is not pooled, one slot each, apart
 * from the events, so that wrapping loses history and never state. The engine knows all this itself; the
 * table is for the reader of a process that was killed, and is written as events arrive.
 *
 * A slot's word is stored last, by one instruction, and is all that a change of state writes. Killed in the
 * middle of a change, a process leaves the state before it; the event, which is stored before, tells what was
 * to come.
 */
#ifndef GP_TRACE_LIVE_H
#define GP_TRACE_LIVE_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/engine.h"
#include "trace/record/region.h"

#define GP_LIVE_MAX (1u << 20) /* slots */

typedef enum gp_live_state {
  GP_LIVE_NONE, /* the slot is free */
  GP_LIVE_HELD, /* a segment whose block the program holds */
  GP_LIVE_PENDING,
  GP_LIVE_IDLE,
  GP_LIVE_FORWARDED,
  GP_LIVE_STATE_COUNT
} gp_live_state_t;

/* word: state, kind (gp_detail_t), device, tainted: 8 bits each from the lowest; then refs, 32 bits. */
typedef struct gp_live_slot {
  _Atomic uint64_t word;
  uint64_t address; /* of a free slot: the next free one + 1, 0: none */
  uint64_t size;
  uint64_t requested;
  uint64_t block_id;
  uint64_t time_ns;
  uint64_t context;
  uint32_t origin;
  int16_t stream; /* index, -1: none */
  uint16_t reserved;
} gp_live_slot_t;

static_assert(sizeof(gp_live_slot_t) == 64, "a slot is one cache line, in every build");

typedef struct gp_live_word {
  gp_live_state_t state;
  gp_detail_t kind;
  int device;
  bool tainted;
  uint32_t refs;
} gp_live_word_t;

static inline uint64_t gp_live_pack(gp_live_word_t word)
{
  return (uint64_t)word.state | (uint64_t)word.kind << 8 | (uint64_t)(uint8_t)word.device << 16 |
         (uint64_t)word.tainted << 24 | (uint64_t)word.refs << 32;
}

static inline gp_live_word_t gp_live_unpack(uint64_t word)
{
  return (gp_live_word_t){.state = (gp_live_state_t)(word & 0xff),
      .kind = (gp_detail_t)(word >> 8 & 0xff),
      .device = (int)(word >> 16 & 0xff),
      .tainted = word >> 24 & 1,
      .refs = (uint32_t)(word >> 32)};
}

/* The section GP_SECTION_DEVICES: what the engine keeps, or told, of each device. */
typedef struct gp_device_record {
  _Alignas(64) gp_stats_t stats;
  uint64_t is_known; /* 1: the rest is filled in */
  uint64_t limit;
  uint64_t has_use;
  gp_device_use_t use;
} gp_device_record_t;

/* The section GP_SECTION_OOM. */
typedef struct gp_oom_record {
  _Atomic uint64_t is_complete; /* 1: report is whole; 0 while it is written */
  gp_oom_t report;
} gp_oom_record_t;

/* Zeroed memory plus gp_live_init. */
typedef struct gp_live {
  pthread_mutex_t mutex; /* of the free slots; below the pool's locks, above the region's */
  gp_region_t *region;
  gp_live_slot_t *slots;
  uint32_t used; /* slots [0, used) were ever taken */
  uint32_t free; /* first free one + 1; 0: none */
} gp_live_t;

/* The region is borrowed. Returns 0 or an errno. */
int gp_live_init(gp_live_t *live, gp_region_t *region);
void gp_live_fini(gp_live_t *live);

/*
 * Brings the slot of the event's observer_cookie up to date. stream is the index of the event's stream, -1:
 * none. With is_quiet no new slot is taken, for a recorder that is off. The device's lock is held.
 */
void gp_live_event(gp_live_t *live, const gp_event_t *event, int16_t stream, bool is_quiet);

/* gp_observer_t holders. */
void gp_live_holders(gp_live_t *live, uint32_t cookie, uint32_t refs, bool tainted);

#endif
