/*
 * Turns the events of a snapshot into lives of blocks and segments, each with the moments of its beginning
 * and end. Lives show what was in use at a moment: at the peak, when memory ran out, or at the end.
 *
 * A moment is a place between events: moment m follows the first m events. Moment 0 precedes all events, and
 * `end` follows all of them. A life that began before the recorded events begins at moment 0. A life that has
 * not ended ends at GP_LIFETIMES_NEVER.
 */
#ifndef GP_TOOLS_MODEL_LIFETIMES_H
#define GP_TOOLS_MODEL_LIFETIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "tools/model/filter.h"
#include "tools/read/snapshot.h"

#define GP_LIFETIMES_NEVER UINT32_MAX

/* The columns that gp_lifetimes_init needs. */
#define GP_LIFETIMES_COLUMNS                                                                                 \
  (1u << GP_COLUMN_ACTION | 1u << GP_COLUMN_TIME_NS | 1u << GP_COLUMN_DEVICE | 1u << GP_COLUMN_STREAM |      \
      1u << GP_COLUMN_THREAD | 1u << GP_COLUMN_ADDRESS | 1u << GP_COLUMN_SIZE |                              \
      1u << GP_COLUMN_ROUNDED_SIZE | 1u << GP_COLUMN_BLOCK | 1u << GP_COLUMN_LIFETIME_NS |                   \
      1u << GP_COLUMN_STACK | 1u << GP_COLUMN_DETAIL)

typedef enum gp_life_kind {
  GP_LIFE_POOLED,
  GP_LIFE_FORWARDED, /* device memory that is not pooled */
  GP_LIFE_HOST,      /* page-locked memory of the host */
} gp_life_kind_t;

/*
 * One use of a block, from its allocation to its free. Sizes are in bytes. Invariants:
 *   begin <= freed <= done; each is at most the last moment, or is GP_LIFETIMES_NEVER
 *   is_held: done is GP_LIFETIMES_NEVER;   is_temporary: 0 < begin, and the block was freed
 * There are millions of lives, and memory bandwidth bounds each pass over them, so the structure is small.
 */
typedef struct gp_life {
  uint64_t device : 6;
  uint64_t kind : 2;         /* a gp_life_kind_t */
  uint64_t is_temporary : 1; /* freed before any other allocation on the device */
  uint64_t is_held : 1;      /* in use by the program in the snapshot's final state */
  uint64_t block : 54;       /* number of this use of the address; the snapshot's numbers are below 2^53 */
  uint64_t address;
  uint64_t requested;
  union {
    uint64_t rounded; /* rounded size, for GP_LIFE_POOLED; see gp_life_rounded */
    const char *what; /* kind of memory, otherwise; see gp_life_what */
  };
  uint64_t begin_ns;
  uint32_t begin; /* moment of the allocation */
  uint32_t freed; /* moment of the free */
  uint32_t done;  /* first moment at which the device's work on the block was known to be complete */
  int32_t stack;
  int32_t stream;
  int32_t thread; /* index of the allocating thread; GP_FILTER_UNKNOWN if the life began before the events */
} gp_life_t;

_Static_assert(GP_SNAPSHOT_DEVICES <= 64, "gp_life_t has a number for each device");

/* Memory that was reserved from the driver in one piece. Invariant: begin <= end. */
typedef struct gp_segment_life {
  uint64_t address;
  uint64_t size;
  uint32_t begin;
  uint32_t end;
  int32_t stream;
  int32_t pool; /* as in gp_snapshot_segment_t */
  uint8_t device;
  bool is_expandable; /* true if adjacent segments of this kind count as one segment */
} gp_segment_life_t;

typedef struct gp_lifetimes {
  const gp_snapshot_t *snapshot; /* borrowed */
  gp_life_t *lives;              /* in the order in which events mention them first */
  size_t life_count;
  gp_segment_life_t *segments;
  size_t segment_count;
  uint32_t end;       /* the last moment */
  uint32_t *of_event; /* index of the life that each event concerns; GP_LIFETIMES_NEVER: none */
} gp_lifetimes_t;

/* Makes the lifetimes of `snapshot`, which is borrowed and was read with GP_LIFETIMES_COLUMNS. Returns 0,
 * ENOMEM, or EOVERFLOW for more than 2^32 - 2 events. Call gp_lifetimes_fini in any case. */
int gp_lifetimes_init(gp_lifetimes_t *lifetimes, const gp_snapshot_t *snapshot);
void gp_lifetimes_fini(gp_lifetimes_t *lifetimes);

/* Returns the life that an event concerns, or NULL. */
static inline const gp_life_t *gp_lifetimes_life(const gp_lifetimes_t *lifetimes, size_t event)
{
  gp_assert_internal(event < lifetimes->end);
  uint32_t at = lifetimes->of_event[event];
  gp_assert_internal(at == GP_LIFETIMES_NEVER || at < lifetimes->life_count);
  return at == GP_LIFETIMES_NEVER ? NULL : &lifetimes->lives[at];
}

/* Returns the rounded size of a pooled life, or the requested size of any other life. */
static inline uint64_t gp_life_rounded(const gp_life_t *life)
{
  return life->kind == GP_LIFE_POOLED ? life->rounded : life->requested;
}

/* Returns the snapshot's name for the kind of forwarded memory, or NULL for pooled memory. */
static inline const char *gp_life_what(const gp_life_t *life)
{
  return life->kind == GP_LIFE_POOLED ? NULL : life->what;
}

/* Returns true if the program had the block in use at that moment. */
static inline bool gp_life_is_held_at(const gp_life_t *life, uint32_t moment)
{
  return life->begin <= moment && life->freed > moment;
}

/* Returns true if filter selects the allocation. */
static inline bool gp_lifetimes_has(const gp_filter_t *filter, const gp_life_t *life)
{
  return gp_filter_has(filter, life->device, life->stream, life->thread, life->begin_ns);
}

#endif
