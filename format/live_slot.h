/*
 * The present memory. The section GP_SECTION_LIVE has a slot for each segment of the pool and each forwarded
 * allocation. The slot of a segment that is one block has the block's state and owner. A segment that is cut
 * into blocks has the state SEGMENT; each of its allocated or pending blocks has a slot of its own, marked
 * cut, and the rest of the segment is idle. trace/record/live.h says how slots are used.
 *
 * The slot of an allocated block may be the only place that records its alloc (records_alloc). In that case
 * no event record has the alloc, which was a hit by `thread` at time_ns (event_record.h).
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

/* word has state, kind (gp_detail_t) and device, in 8 bits each from the lowest; then tainted, cut,
 * records_alloc, and from bit 32 on refs. */
typedef struct gp_live_slot {
  _Atomic uint64_t word;
  uint64_t address; /* in a free slot: index of the next free slot + 1, 0: none */
  uint64_t size;
  uint64_t requested;
  uint64_t block_id;
  uint64_t time_ns;
  uint64_t context; /* driver id of the context */
  uint32_t origin;  /* number of the stack, 0: none */
  int16_t stream;   /* index, -1: none */
  uint16_t thread;  /* thread of the alloc */
} gp_live_slot_t;

static_assert(sizeof(gp_live_slot_t) == 64, "a slot is one cache line, in every build");

typedef struct gp_live_word {
  gp_live_state_t state;
  gp_detail_t kind;
  int device;
  bool tainted;
  bool is_cut; /* the block is part of a segment */
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
