/*
 * Finds what grows: owners that hold more and more memory over the recorded history and give none of it
 * back, beside constant memory. doc/growth.md says when a group counts as growing, and why.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_H
#define GP_TOOLS_MODEL_GROWTH_H

#include "tools/model/lifetimes.h"

#define GP_GROWTH_OWNERS 3 /* on one device: if more grow, the recording is a single pass over something */
#define GP_GROWTH_MOST   16

/* What identifies a group of allocations. */
typedef enum gp_growth_by {
  GP_GROWTH_BY_OWNER,
  GP_GROWTH_BY_SIZE, /* allocations of about one size, without stacks or of one script */
} gp_growth_by_t;

/* Bytes as requested. Moments are those of lifetimes. */
typedef struct gp_grower {
  gp_growth_by_t by;
  int device;
  int frame;           /* the owner's, index into the snapshot's frames; -1: none */
  char *function;      /* the owner's; else NULL */
  char *name;          /* the function, with the line if each line is an owner */
  char *text;          /* the whole owner in a line, as gp_owner_describe writes it */
  char *through;       /* the owner's own function through which it asked; NULL: none */
  uint64_t bytes_from; /* held when the growth began */
  uint64_t bytes_to;   /* held at the growth's end, the last allocation on the device */
  uint64_t count_from;
  uint64_t count_to;
  uint64_t size_least; /* size of each kept block */
  uint64_t size_most;
  uint64_t steps;  /* steps that took memory and kept it */
  uint64_t others; /* bytes that the rest of the device held then */
  uint32_t since;  /* moment of the first step */
  uint32_t until;  /* moment of the last allocation on the device */
  uint64_t since_ns;
  uint64_t until_ns;
  double bytes_per_ns; /* 0: the events have no times */
  bool is_replaced;    /* larger blocks replace smaller ones; their number does not grow */
  bool is_held;        /* the program still holds the growth at the end of the snapshot */
  bool is_alone;       /* the rest of the device does not grow */
} gp_grower_t;

/* The room left on a device that has a grower. */
typedef struct gp_growth_room {
  int device;
  bool is_known;
  bool is_limit;         /* the limit is reached before the end of the device's memory */
  uint64_t bytes;        /* bytes that can still be requested */
  uint64_t capacity;     /* the limit, or the device's memory */
  uint64_t exhausted_ns; /* time after the end, at the rates of all growers of the device; 0: unknown, or
                            memory has run out or was freed */
} gp_growth_room_t;

/* A device without a grower, on which memory in use rose all the same up to its last allocation. */
typedef struct gp_rise {
  int device;
  uint64_t bytes_from; /* the least from since_ns on */
  uint64_t bytes_to;   /* held with the last allocation */
  uint64_t since_ns;
} gp_rise_t;

typedef struct gp_growth {
  gp_grower_t growers[GP_GROWTH_MOST]; /* by device, the largest growth first */
  size_t count;
  gp_rise_t rises[GP_GROWTH_MOST];
  size_t rise_count;
  gp_growth_room_t rooms[GP_GROWTH_MOST];
  size_t room_count;
} gp_growth_t;

/* Finds what grows among the memory that filter selects. Returns 0 or ENOMEM; call
 * fini in any case. Thread-safe. */
int gp_growth_init(gp_growth_t *growth, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter);
void gp_growth_fini(gp_growth_t *growth);

/* The room of a device; NULL: nothing grows on it. */
const gp_growth_room_t *gp_growth_room(const gp_growth_t *growth, int device);

#endif
