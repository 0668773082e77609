/*
 * Finds what grows: lines of the program whose blocks of about one size are taken and not given back, all
 * along the recorded history. doc/growth.md says when, and why so simply.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_H
#define GP_TOOLS_MODEL_GROWTH_H

#include "tools/model/holding.h"

#define GP_GROWTH_LINES 3 /* of one device, those that grew most */
#define GP_GROWTH_MOST  (GP_GROWTH_LINES * GP_SNAPSHOT_DEVICES)

/* A line of the program, or what was asked for without a stack, or by a script without frames, in one size
 * class. Of a line that grows as a whole all its memory in use, else that of the size classes that grow. The
 * end is the last allocation on the device. Bytes as requested. */
typedef struct gp_grower {
  int device;
  int stack;            /* one of the line's; -1: without a stack */
  bool accumulates;     /* it holds early blocks; else each gave way to a later one, as a rule a larger one */
  bool is_of_size;      /* no line: no stack was recorded, or a script's frames are not */
  gp_holding_t holding; /* at the end */
  uint64_t bytes;       /* held at the end */
  uint64_t bytes_before; /* of these before the first of its recorded allocations */
  uint64_t since_ns;     /* when that was */
  uint64_t until_ns;     /* the end */
  double bytes_per_ns;   /* 0: the events have no times */
} gp_grower_t;

/* A device on which something grows. */
typedef struct gp_growth_room {
  int device;
  size_t more;           /* lines that grow, too, and are not among the growers */
  uint64_t grown;        /* by all that grow */
  uint64_t held;         /* by all that grow */
  double bytes_per_ns;   /* of all that grow */
  uint64_t others;       /* held by the rest of the device at the end */
  bool is_known;         /* the room */
  bool is_limit;         /* the limit is reached before the end of the device's memory */
  uint64_t bytes;        /* that can still be requested */
  uint64_t capacity;     /* the limit, or the device's memory */
  uint64_t exhausted_ns; /* time after the end, at the rates of the growers; 0: unknown, or memory has run out
                            or was freed */
} gp_growth_room_t;

typedef struct gp_growth {
  gp_grower_t growers[GP_GROWTH_MOST]; /* by device, the largest growth first */
  size_t count;
  gp_growth_room_t rooms[GP_SNAPSHOT_DEVICES];
  size_t room_count;
} gp_growth_t;

/* Finds what grows among the memory of that kind that filter selects. Page-locked memory is all of one
 * device, and its room is not known. Returns 0 or ENOMEM; nothing has to be freed. Thread-safe. */
int gp_growth_init(
    gp_growth_t *growth, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, gp_owned_t owned);

/* The room of a device; NULL: nothing grows on it. */
const gp_growth_room_t *gp_growth_room(const gp_growth_t *growth, int device);

#endif
