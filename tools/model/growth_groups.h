/*
 * The groups in which to look for growth: allocations of one owner or, without stacks, of about one size.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_GROUPS_H
#define GP_TOOLS_MODEL_GROWTH_GROUPS_H

#include "tools/model/growth.h"

/* Instead of owners: everything held on a device is one group. */
#define GP_GROUPS_DEVICES (-1)

/* What identifies a group. */
typedef struct gp_group {
  gp_growth_by_t by;
  int stack;     /* a stack of the owner, -1: none */
  char *name;    /* the function that replaced an owner; else NULL */
  char *through; /* the function that it replaced */
} gp_group_t;

typedef struct gp_groups {
  uint32_t *of;      /* by life: its group, or GP_GROUP_NONE */
  int *frames;       /* by stack: the frame that names its group, -1: none */
  gp_group_t *kinds; /* group g is kinds[g % kind_count], on device g / kind_count */
  size_t kind_count;
  size_t count;
  int gave_way; /* number of levels, from the first on, on which callers replaced at least one owner */
} gp_groups_t;

/*
 * Groups what filter selects from lifetimes: by owner, as gp_owners_init tells owners apart, and without a
 * stack by size. Memory of a script without recorded frames is grouped by owner and size. Host memory has
 * no group. levels: how often callers replace an owner that has several; 0 keeps the owners. Returns 0 or
 * ENOMEM. Call fini in any case.
 */
int gp_groups_init(
    gp_groups_t *groups, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int levels);
void gp_groups_fini(gp_groups_t *groups);

#endif
