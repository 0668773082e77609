/*
 * The memory in use at present. The section GP_SECTION_LIVE has a slot for each segment of the pool and for
 * each forwarded allocation. If a segment consists of one block, its slot contains the block's state and
 * owner. If a segment is cut into blocks, its slot has the state SEGMENT. Each of its allocated or pending
 * blocks has a slot of its own, marked `cut`; the rest of the segment is idle. trace/record/live.h describes
 * how slots are used.
 *
 * The slot of an allocated block may be the only place that records its alloc event; records_alloc is then
 * set. The alloc was a hit by thread `thread` at time_ns (event_record.h).
 */
#ifndef GP_FORMAT_LIVE_SLOT_H
#define GP_FORMAT_LIVE_SLOT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "format/details.h"
#include "format/states.h"

#define GP_LIVE_MAX (1u << 20) /* number of slots */

/* A slot. `word` contains the state, the kind (gp_detail_t) and the device in its lowest three bytes, in this
 * order. The next bits are `tainted`, `cut` and `records_alloc`; `refs` begins at bit 32. gp_live_unpack
 * returns all of them. */
typedef struct gp_live_slot {
  _Atomic uint64_t word;
  uint64_t address; /* in a free slot: index + 1 of the next free slot; 0: none */
  uint64_t size;
  uint64_t requested;
  uint64_t block_id;
  uint64_t time_ns;
  uint64_t context; /* the driver's id of the context */
  uint32_t origin;  /* number of the stack; 0: none */
  int16_t stream;   /* index of the stream; -1: none */
  uint16_t thread;  /* index of the thread that made the alloc */
} gp_live_slot_t;

static_assert(sizeof(gp_live_slot_t) == 64, "a slot is one cache line, in every build");

typedef struct gp_live_word {
  gp_live_state_t state;
  gp_detail_t kind;
  int device;
  bool tainted;
  bool is_cut; /* the block is a part of a segment */
  bool records_alloc;
  uint32_t refs;
} gp_live_word_t;

static inline uint64_t gp_live_pack(gp_live_word_t word)
{
  return (uint64_t)word.state | (uint64_t)word.kind << 8 | (uint64_t)(uint8_t)word.device << 16 |
         (uint64_t)word.tainted << 24 | (uint64_t)word.is_cut << 25 | (uint64_t)word.records_alloc << 26 |
         (uint64_t)word.refs << 32;
}

static inline gp_live_word_t gp_live_unpack(uint64_t word)
{
  return (gp_live_word_t){.state = (gp_live_state_t)(word & 0xff),
      .kind = (gp_detail_t)(word >> 8 & 0xff),
      .device = (int)(word >> 16 & 0xff),
      .tainted = word >> 24 & 1,
      .is_cut = word >> 25 & 1,
      .records_alloc = word >> 26 & 1,
      .refs = (uint32_t)(word >> 32)};
}

#endif
