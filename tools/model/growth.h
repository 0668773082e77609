/*
 * Finds growth: lines of the program that keep allocating more than they free, in blocks of about one size,
 * through the whole recorded history. doc/growth.md has the rule, and explains why it is so simple.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_H
#define GP_TOOLS_MODEL_GROWTH_H

#include "tools/model/holding.h"

#define GP_GROWTH_LINES 3 /* number of lines reported per device, those that grew most */
#define GP_GROWTH_MOST  (GP_GROWTH_LINES * GP_SNAPSHOT_DEVICES)

/* A line of the program whose memory grows. If the line grows as a whole, its figures cover all its memory in
 * use, otherwise only the size classes that grow. Memory without a stack, or of a script whose frames were
 * not recorded, has a grower for each size class. "The end" is the last allocation on the device. Bytes are
 * requested bytes. */
typedef struct gp_grower {
  int device;
  int stack;             /* one of the line's stacks; -1: none was recorded */
  bool accumulates;      /* early blocks are still in use; false: later, usually larger ones replaced them */
  bool is_of_size;       /* true for a size class instead of a line: no stack, or a script without frames */
  gp_holding_t holding;  /* blocks in use at the end */
  uint64_t bytes;        /* bytes in use at the end */
  uint64_t bytes_before; /* bytes in use before the line's first recorded allocation */
  uint64_t since_ns;     /* time of the line's first recorded allocation */
  uint64_t until_ns;     /* time of the end */
  double bytes_per_ns;   /* growth rate; 0: the events have no times */
} gp_grower_t;

/* A device with growers, and the memory that is left on it. */
typedef struct gp_growth_room {
  int device;
  size_t more;         /* number of growing lines that are not in `growers` */
  uint64_t grown;      /* bytes by which all growing lines grew */
  uint64_t held;       /* bytes in use by all growing lines */
  double bytes_per_ns; /* growth rate of all growing lines */
  uint64_t others;     /* bytes that everything else on the device has in use at the end */
  bool is_known;       /* true if the next three are known */
  bool is_limit;       /* true if the pool's limit will be reached before the device is full */
  uint64_t bytes;      /* bytes that can still be requested */
  uint64_t capacity;   /* the limit, or the size of the device's memory */
  uint64_t
      exhausted_ns; /* from the end until memory runs out at this rate; 0: unknown, already out, or freed */
} gp_growth_room_t;

typedef struct gp_growth {
  gp_grower_t growers[GP_GROWTH_MOST]; /* sorted by device, then by growth, largest first */
  size_t count;
  gp_growth_room_t rooms[GP_SNAPSHOT_DEVICES];
  size_t room_count;
} gp_growth_t;

/* Finds the growers among the memory of kind `owned` that `filter` selects. All page-locked memory counts as
 * one device, for which the room is unknown. Returns 0 or ENOMEM; there is nothing to free. Thread-safe. */
int gp_growth_init(
    gp_growth_t *growth, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, gp_owned_t owned);

/* Returns the room left on a device, or NULL if nothing grows there. */
const gp_growth_room_t *gp_growth_room(const gp_growth_t *growth, int device);

#endif
