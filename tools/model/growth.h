/*
 * Finds growth: lines of the program that allocate more than they free, in blocks of about one size, all
 * through the recorded history. doc/growth.md has the rule, and why it is so simple.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_H
#define GP_TOOLS_MODEL_GROWTH_H

#include "tools/model/holding.h"

#define GP_GROWTH_LINES 3 /* lines reported per device, those that grew most */
#define GP_GROWTH_MOST  (GP_GROWTH_LINES * GP_SNAPSHOT_DEVICES)

/* A line of the program whose memory grows. If the line grows as a whole, its figures cover all its memory in
 * use, else only the size classes that grow. Memory without a stack, or of a script whose frames were not
 * recorded, is a grower for each of its size classes. "The end" is the last allocation on the device. Bytes
 * are as requested. */
typedef struct gp_grower {
  int device;
  int stack;             /* one of the line's stacks; -1: none was recorded */
  bool accumulates;      /* it still has early blocks; else later blocks, usually larger, replaced them */
  bool is_of_size;       /* it is a size class, not a line: no stack, or no frames of the script */
  gp_holding_t holding;  /* at the end */
  uint64_t bytes;        /* in use at the end */
  uint64_t bytes_before; /* in use before its first recorded allocation */
  uint64_t since_ns;     /* time of that allocation */
  uint64_t until_ns;     /* the end */
  double bytes_per_ns;   /* 0: the events have no times */
} gp_grower_t;

/* A device with growers, and how much room is left on it. */
typedef struct gp_growth_room {
  int device;
  size_t more;           /* number of growing lines beyond those in growers */
  uint64_t grown;        /* bytes by which all growing lines grew */
  uint64_t held;         /* bytes that all growing lines have in use */
  double bytes_per_ns;   /* growth of all growing lines */
  uint64_t others;       /* bytes in use at the end by everything else on the device */
  bool is_known;         /* the next three are known */
  bool is_limit;         /* the limit will be reached before the device's memory is full */
  uint64_t bytes;        /* bytes that can still be requested */
  uint64_t capacity;     /* the limit, or the device's memory */
  uint64_t exhausted_ns; /* time from the end until memory runs out at this growth; 0: unknown, or memory has
                            already run out or was freed */
} gp_growth_room_t;

typedef struct gp_growth {
  gp_grower_t growers[GP_GROWTH_MOST]; /* by device, the largest growth first */
  size_t count;
  gp_growth_room_t rooms[GP_SNAPSHOT_DEVICES];
  size_t room_count;
} gp_growth_t;

/* Finds the growers among the memory of kind `owned` that filter selects. All page-locked memory counts as
 * one device, whose room is unknown. Returns 0 or ENOMEM; nothing has to be freed. Thread-safe. */
int gp_growth_init(
    gp_growth_t *growth, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, gp_owned_t owned);

/* Returns the room of a device, or NULL if nothing grows on it. */
const gp_growth_room_t *gp_growth_room(const gp_growth_t *growth, int device);

#endif
