/*
 * The events of a snapshot as lives of blocks and segments, each with the moments of its beginning and end.
 * Lives answer all questions about a moment: what was live at the peak, when memory ran out, now.
 *
 * A moment is a place between events: moment m is after the first m events, so 0 is before all of them and
 * `end` after all. What began before the recorded events begins at moment 0; what has not ended has
 * GP_LIFETIMES_NEVER.
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

/* The columns that lifetimes are made of. */
#define GP_LIFETIMES_COLUMNS                                                                                 \
  (1u << GP_COLUMN_ACTION | 1u << GP_COLUMN_TIME_NS | 1u << GP_COLUMN_DEVICE | 1u << GP_COLUMN_STREAM |      \
      1u << GP_COLUMN_THREAD | 1u << GP_COLUMN_ADDRESS | 1u << GP_COLUMN_SIZE |                              \
      1u << GP_COLUMN_ROUNDED_SIZE | 1u << GP_COLUMN_BLOCK | 1u << GP_COLUMN_LIFETIME_NS |                   \
      1u << GP_COLUMN_STACK | 1u << GP_COLUMN_DETAIL)

typedef enum gp_life_kind {
  GP_LIFE_POOLED,
  GP_LIFE_FORWARDED, /* memory of the device that is not pooled */
  GP_LIFE_HOST,      /* page-locked memory of the host */
} gp_life_kind_t;

/*
 * One ownership of a block. Sizes in bytes.
 *   begin <= freed <= done; each is at most the last moment, or GP_LIFETIMES_NEVER
 *   is_held: done is GP_LIFETIMES_NEVER;   is_temporary: 0 < begin, and it was freed
 * There are millions, and each pass over them waits for memory, so they are kept small.
 */
typedef struct gp_life {
  uint64_t device : 6;
  uint64_t kind : 2;         /* gp_life_kind_t */
  uint64_t is_temporary : 1; /* freed before anything else was allocated on the device */
  uint64_t is_held : 1;      /* the snapshot says that the program holds it */
  uint64_t block : 54;       /* number of this use of the address; a snapshot's are below 2^53 */
  uint64_t address;
  uint64_t requested;
  union {
    uint64_t rounded; /* GP_LIFE_POOLED; see gp_life_rounded */
    const char *what; /* otherwise; see gp_life_what */
  };
  uint64_t begin_ns;
  uint32_t begin; /* moments: when the program got it, */
  uint32_t freed; /* when the program freed it, */
  uint32_t done;  /* when the device was done with it */
  int32_t stack;
  int32_t stream;
  int32_t thread; /* GP_FILTER_UNKNOWN if it began before the events */
} gp_life_t;

_Static_assert(GP_SNAPSHOT_DEVICES <= 64, "gp_life_t has a number for each device");

/* A piece of memory from the driver: begin <= end. */
typedef struct gp_segment_life {
  uint64_t address;
  uint64_t size;
  uint32_t begin;
  uint32_t end;
  int32_t stream;
  int32_t pool; /* as of gp_snapshot_segment_t */
  uint8_t device;
  bool is_expandable; /* one segment with those that are adjacent and expandable, too */
} gp_segment_life_t;

typedef struct gp_lifetimes {
  const gp_snapshot_t *snapshot; /* borrowed */
  gp_life_t *lives;              /* in the order in which events first mention them */
  size_t life_count;
  gp_segment_life_t *segments;
  size_t segment_count;
  uint32_t end;       /* the last moment */
  uint32_t *of_event; /* index of the life that each event concerns; GP_LIFETIMES_NEVER: none */
} gp_lifetimes_t;

/* Makes the lifetimes of snapshot, which was read with GP_LIFETIMES_COLUMNS and is borrowed. Returns 0,
 * ENOMEM, or EOVERFLOW for more than 2^32 - 2 events. Call fini in any case. */
int gp_lifetimes_init(gp_lifetimes_t *lifetimes, const gp_snapshot_t *snapshot);
void gp_lifetimes_fini(gp_lifetimes_t *lifetimes);

/* The life that an event concerns; NULL: none. */
static inline const gp_life_t *gp_lifetimes_life(const gp_lifetimes_t *lifetimes, size_t event)
{
  gp_assert_internal(event < lifetimes->end);
  uint32_t at = lifetimes->of_event[event];
  gp_assert_internal(at == GP_LIFETIMES_NEVER || at < lifetimes->life_count);
  return at == GP_LIFETIMES_NEVER ? NULL : &lifetimes->lives[at];
}

/* The bytes that it takes: outside the pool as requested. */
static inline uint64_t gp_life_rounded(const gp_life_t *life)
{
  return life->kind == GP_LIFE_POOLED ? life->rounded : life->requested;
}

/* Outside the pool the kind, as in the snapshot; else NULL. */
static inline const char *gp_life_what(const gp_life_t *life)
{
  return life->kind == GP_LIFE_POOLED ? NULL : life->what;
}

/* True if the program held it at that moment. */
static inline bool gp_life_is_held_at(const gp_life_t *life, uint32_t moment)
{
  return life->begin <= moment && life->freed > moment;
}

/* True if filter selects the allocation. */
static inline bool gp_lifetimes_has(const gp_filter_t *filter, const gp_life_t *life)
{
  return gp_filter_has(filter, life->device, life->stream, life->thread, life->begin_ns);
}

#endif
