/*
 * The record of a block. A block is a whole driver allocation or, with the pool types segment and vmm, a part
 * of one or of a range of mapped memory (space/segment.h, space/mapped.h). The states of a block:
 *
 *      driver --miss.c---> LIVE --free.c--> DEFERRED --reuse/drain.c--> IDLE --hit.h----> LIVE
 *                           |  \ `-> BOUND --reuse/drain.c--> IDLE        |
 *                           |   `-> RETAINED (freed, but referenced)      |
 *                           |          `-- its last reference --> DEFERRED|
 *                           `--------------- release.c -------------------'--> RELEASING --> driver
 *
 * With GPUPOOL_CHECK, a complete block is QUARANTINED between DEFERRED and IDLE (serve/damage.h).
 *
 * Addresses of a range begin as UNMAPPED. They are MAPPING while a thread maps or unmaps memory there
 * (space/mapped.c, map_range.c), and then an IDLE part, or UNMAPPED again. These files change states:
 * block_life.h (LIVE, IDLE), reuse/stamps.h (DEFERRED), space/bound_parts.c (BOUND), free.c and release.c
 * (RETAINED), release.c (RELEASING, and back if the driver refuses), space/segment.c (IDLE, of joined
 * blocks), space/mapped.c (UNMAPPED, MAPPING).
 */
#ifndef GP_POOL_SPACE_BLOCK_RECORD_H
#define GP_POOL_SPACE_BLOCK_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/observer.h"
#include "pool/records.h"
#include "pool/space/bins.h"
#include "pool/space/releases.h"
#include "base/list.h"

/* Snapshots (inspect.c) have the states of format/states.def: LIVE is ALLOCATED there; RETAINED, DEFERRED
 * and QUARANTINED are PENDING; BOUND, IDLE and MAPPING are IDLE; RELEASING is the state before. They omit
 * UNMAPPED. */
typedef enum gp_state {
  GP_STATE_LIVE,        /* in use by the program */
  GP_STATE_RETAINED,    /* the program freed it, but something else still references it */
  GP_STATE_DEFERRED,    /* freed; the device may still use it */
  GP_STATE_BOUND,       /* part of a segment, freed in stream order: so far only that stream may reuse it */
  GP_STATE_QUARANTINED, /* freed and complete; not reusable before it was searched for damage */
  GP_STATE_IDLE,        /* ready for reuse by any request */
  GP_STATE_RELEASING,   /* being freed in the driver; only in the list context->blocks, not in the map */
  GP_STATE_UNMAPPED,    /* addresses of a range without memory; in lists and map like RELEASING */
  GP_STATE_MAPPING,     /* part of a range that a thread maps or unmaps; in lists and map like RELEASING */
} gp_state_t;

/*
 * Invariants, under the device's lock: refs > 0 exactly in states LIVE and RETAINED, and while RELEASING
 * from these. The address map has every block except RELEASING ones and ownerless parts of a segment or range
 * (IDLE, BOUND, UNMAPPED, MAPPING). free_epoch is the epoch of the newest free, also while the block is LIVE.
 * Every context has completed that epoch if the block is idle, but perhaps not if it is live, because a
 * stream may reuse memory early. Writers store address and context atomically, since a free that races with
 * the end of the block reads them without the lock. Records are recycled, and freed when the engine ends.
 */
struct gp_block {
  /* The members that every allocation and free uses come first. */
  union {
    gp_observed_t observed;
    struct {
      GP_OBSERVED_MEMBERS
    };
  };
  gp_context_t *context;
  gp_bin_t *bin;             /* of its size class; NULL: the block is a part of a segment */
  uint64_t free_epoch;       /* epoch of the free: reusable when every context has completed it; 0: none */
  gp_segment_t *segment;     /* that contains it; NULL: it is a whole driver allocation */
  _Atomic(gp_heap_t *) home; /* LIVE: the heap that keeps it when it is freed (heaps.h); NULL: none */
  gp_list_t order; /* DEFERRED, BOUND: in context->deferred; IDLE: in device->idle; RELEASING: the releaser's
                      list */
  uint32_t refs;
  bool tainted;            /* exported: its free is forwarded to the driver */
  bool exact;              /* not of a class's size: its free is forwarded, too */
  bool is_in_others;       /* with freed_in: the bin is freed_in->others */
  bool is_kept;            /* with home: the program has freed it; under the heap's lock */
  uint16_t red_zone;       /* bytes behind `requested` that have the pattern (serve/damage.h); 0: none */
  bool is_filled;          /* QUARANTINED: all of it has the pattern */
  bool is_searched;        /* a thread searches it for damage, or has a late copy of it */
  union {                  /* a block is in one of these at a time */
    gp_bin_entry_t in_bin; /* IDLE: in its bin; LIVE: in a bin of home; DEFERRED: of freed_in; unused: in
                              engine->free_records */
    gp_cut_entry_t in_cut; /* part of an open segment: IDLE: in context->cut; BOUND: in freed_in->bound */
    gp_release_t release;  /* RELEASING: in device->releases */
  };
  gp_state_t state;
  gp_state_t released_from;     /* RELEASING: the state before, restored if the driver refuses */
  gp_stream_record_t *freed_in; /* DEFERRED, BOUND: freed in this stream; NULL: in none, or it has ended */
  uint64_t freed_as;            /* number of this free among the frees in freed_in */
  uint64_t idle_ns;             /* time since which it is idle */
  uint64_t releasable; /* part of a segment: bytes that could be released now (IDLE), or once idle (BOUND) */
  struct gp_freed_bytes *freed_bytes; /* DEFERRED, BOUND: events behind its frees, see free_events.h */
  uint64_t borrowed; /* bytes beyond the size of a new block for the owner's request, see budget.h */
  gp_list_t all;     /* in context->blocks */
};

static inline gp_block_t *gp_block_of_entry(gp_bin_entry_t *entry)
{
  return gp_list_entry(entry, gp_block_t, in_bin);
}

static inline gp_block_t *gp_block_of_cut(gp_cut_entry_t *entry)
{
  return gp_list_entry(entry, gp_block_t, in_cut);
}

/* Returns true if the block's current or last owner allocated it in a stream (cudaMallocAsync). The caller
 * holds the device's lock. */
static inline bool gp_block_is_async(const gp_block_t *block)
{
  return block->stream != 0;
}

/*
 * A driver allocation that is split into blocks. Invariants, under the device's lock: its blocks are
 * consecutive in context->blocks, ordered by address, and cover it without a gap; no two idle blocks are
 * neighbours; idle blocks of an open segment are in context->cut, those of a closed one are not, and are
 * never reused; an idle block that is the whole segment is also in device->idle. A segment is closed when a
 * block of it is exported, and stays closed.
 */
struct gp_segment {
  uint64_t address;
  uint64_t size; /* bytes of the driver allocation */
  gp_context_t *context;
  gp_list_t link;    /* in context->segments */
  gp_block_t *first; /* its block with the lowest address */
  gp_range_t *range; /* that contains this segment; NULL: a driver allocation */
  gp_cookie_t observer_cookie;
  bool is_closed;
};

/* The physical memory of one driver handle (cuMemCreate), mapped as a whole. */
typedef struct gp_chunk {
  uint64_t address;
  uint64_t size;
  uint64_t handle;    /* of cuMemCreate */
  bool has_no_handle; /* the handle was released: the memory exists while it is mapped, and cannot move */
  bool has_moved;
  gp_cookie_t observer_cookie;
} gp_chunk_t;

/*
 * A reserved address range of a context, with the physical memory that is mapped there. A context has at most
 * one. The segment covers all of it and is never closed. Invariants, under the device's lock: chunks are
 * ordered by address, do not overlap, and begin and end at multiples of GP_CHUNK_STEP from the start of the
 * range; UNMAPPED blocks have no chunk and are not neighbours, and there is always at least one; chunks cover
 * all other blocks except the MAPPING ones; capacity >= count + promised.
 */
struct gp_range {
  gp_segment_t segment;
  gp_chunk_t *chunks;
  size_t count;
  size_t capacity;
  size_t promised;     /* places reserved for chunks that threads are about to add */
  uint64_t mapped;     /* bytes of all chunks */
  uint64_t releasable; /* releasable bytes of its idle blocks */
  uint64_t peers;      /* bit mask of other devices with access to the memory */
};

typedef enum gp_range_use {
  GP_RANGE_UNTRIED,
  GP_RANGE_BEING_TRIED, /* one thread tries to reserve it; other threads continue without a range */
  GP_RANGE_USED,
  GP_RANGE_REFUSED, /* permanently */
} gp_range_use_t;

#endif
