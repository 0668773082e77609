/*
 * The groups in which growth is looked for: allocations of one owner, or where no stack tells the owner, of
 * about one size.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_GROUPS_H
#define GP_TOOLS_MODEL_GROWTH_GROUPS_H

#include "tools/model/growth.h"

/* Not by owner: all that is held on a device is a group. */
#define GP_GROUPS_DEVICES (-1)

/* What a group is known by. */
typedef struct gp_group {
  gp_growth_by_t by;
  int stack;     /* one of the owner's, -1: none */
  char *name;    /* of an owner that gave way: the function that took its place; else NULL */
  char *through; /* and the function that gave way */
} gp_group_t;

typedef struct gp_groups {
  uint32_t *of;      /* by life: its group, or GP_GROUP_NONE */
  int *frames;       /* by stack: the frame that its group is named by, -1: none */
  gp_group_t *kinds; /* group g is kinds[g % kind_count], on device g / kind_count */
  size_t kind_count;
  size_t count;
  int gave_way; /* on how many levels owners gave way, and at least one did on each */
} gp_groups_t;

/*
 * Puts what filter wants of lifetimes into groups by owner, told apart as gp_owners_init does, and what has
 * no stack by size; the memory of a script, whose own frames are not recorded, by owner and size. Host memory
 * is in no group. levels: how often an owner that several functions call gives way to those: 0 names the
 * owners themselves. Returns 0 or ENOMEM. Fini it in any case.
 */
int gp_groups_init(
    gp_groups_t *groups, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int levels);
void gp_groups_fini(gp_groups_t *groups);

#endif
