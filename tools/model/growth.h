/*
 * What grows: owners that hold more and more memory over the recorded history and give nothing of it back,
 * beside memory that is constant. doc/growth.md says when a group counts as growing, and why.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_H
#define GP_TOOLS_MODEL_GROWTH_H

#include "tools/model/lifetimes.h"

#define GP_GROWTH_OWNERS 3 /* on one device: where more grow, a single pass over something is recorded */
#define GP_GROWTH_MOST   16

/* What one group of allocations is known by. */
typedef enum gp_growth_by {
  GP_GROWTH_BY_OWNER,
  GP_GROWTH_BY_SIZE, /* allocations of about one size: without stacks, or of one script */
} gp_growth_by_t;

/* Bytes are those asked for. Moments are those of lifetimes. */
typedef struct gp_grower {
  gp_growth_by_t by;
  int device;
  int frame;           /* of the owner, index into the snapshot's frames; -1: none */
  char *function;      /* of the owner; else NULL */
  char *name;          /* the same, with the line where that is the owner */
  char *text;          /* all of it in a line, as gp_owner_describe writes it */
  char *through;       /* the function of its own through which it asked; NULL: none */
  uint64_t bytes_from; /* held when the growth began */
  uint64_t bytes_to;   /* held at its end, the last allocation on the device */
  uint64_t count_from;
  uint64_t count_to;
  uint64_t size_least; /* of what was kept, each */
  uint64_t size_most;
  uint64_t steps;  /* in how many steps memory was taken and kept */
  uint64_t others; /* bytes that the rest of the device held then */
  uint32_t since;  /* moment of the first step */
  uint32_t until;  /* of the last allocation on the device */
  uint64_t since_ns;
  uint64_t until_ns;
  double bytes_per_ns; /* 0: the events have no times */
  bool is_replaced;    /* larger blocks take the place of smaller ones, no more of them */
  bool is_held;        /* the program still holds what grew at the end of the snapshot */
  bool is_alone;       /* the rest of the device does not grow */
} gp_grower_t;

/* The room that is left on a device that has a grower. */
typedef struct gp_growth_room {
  int device;
  bool is_known;
  bool is_limit;         /* the limit is what is reached first, not the end of the device's memory */
  uint64_t bytes;        /* that could still be asked for */
  uint64_t capacity;     /* the limit, or the memory of the device */
  uint64_t exhausted_ns; /* after the end, at the rates of all growers of the device; 0: not known, or memory
                            has run out or was freed */
} gp_growth_room_t;

typedef struct gp_growth {
  gp_grower_t growers[GP_GROWTH_MOST]; /* by device, the largest growth first */
  size_t count;
  gp_growth_room_t rooms[GP_GROWTH_MOST];
  size_t room_count;
} gp_growth_t;

/* Finds what grows of what filter wants. Returns 0 or ENOMEM; fini it in any case. Thread-safe. */
int gp_growth_init(gp_growth_t *growth, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter);
void gp_growth_fini(gp_growth_t *growth);

/* The room of a device; NULL: nothing grows there. */
const gp_growth_room_t *gp_growth_room(const gp_growth_t *growth, int device);

/* The sum of what grew on a device, bytes; 0: nothing grows there. */
uint64_t gp_growth_sum(const gp_growth_t *growth, int device);

#endif
