/* The records of segments, and of mapped memory. */
#ifndef GP_POOL_SPACE_SEGMENT_RECORD_H
#define GP_POOL_SPACE_SEGMENT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/records.h"
#include "base/list.h"

/*
 * A driver allocation that is cut into blocks. Invariants, under the device's lock: its blocks follow each
 * other in context->blocks, in the order of their addresses, and cover it without a gap; no two idle blocks
 * are neighbours; idle blocks of an open segment are in context->cut, those of a closed one are not, and
 * are never handed out; an idle block that is the whole segment is in device->idle, too. A segment closes
 * when a block of it is exported, and stays closed.
 */
struct gp_segment {
  uint64_t address;
  uint64_t size; /* bytes that the driver gave */
  gp_context_t *context;
  gp_list_t link;    /* in context->segments */
  gp_block_t *first; /* its block with the lowest address */
  gp_range_t *range; /* that has this segment; NULL: an allocation of the driver */
  gp_cookie_t observer_cookie;
  bool is_closed;
};

/* Physical memory of one handle of the driver, mapped as a whole. */
typedef struct gp_chunk {
  uint64_t address;
  uint64_t size;
  uint64_t handle;    /* the driver's */
  bool has_no_handle; /* without a handle only the mapping holds the memory, which cannot move any more */
  bool has_moved;
  gp_cookie_t observer_cookie;
} gp_chunk_t;

/*
 * Type vmm: addresses that a context has reserved, with the physical memory that is mapped there. A
 * context has one range at most. The segment covers all of it and is never closed. Invariants, under the
 * device's lock: chunks are in the order of their addresses, do not overlap, and begin and end at
 * multiples of GP_CHUNK_STEP from the range's beginning; UNMAPPED blocks have no chunk and are not
 * neighbours, and there is always at least one; chunks cover all other blocks except the MAPPING ones;
 * capacity >= count + promised.
 */
struct gp_range {
  gp_segment_t segment;
  gp_chunk_t *chunks;
  size_t count;
  size_t capacity;
  size_t promised;     /* chunks on their way into the table */
  uint64_t mapped;     /* bytes of all chunks */
  uint64_t releasable; /* of its idle blocks */
  uint64_t peers;      /* devices that may use the memory, too, as a bit mask */
};

typedef enum gp_range_use {
  GP_RANGE_UNTRIED,
  GP_RANGE_BEING_TRIED, /* by one thread; the others go on without a range */
  GP_RANGE_USED,
  GP_RANGE_REFUSED, /* for good */
} gp_range_use_t;

#endif
