/* What the program holds, for the report of an out of memory: allocations by the size asked for. There is
 * room for more sizes than are reported; those with the largest totals stay. */
#ifndef GP_POOL_LIMITS_OOM_GROUPS_H
#define GP_POOL_LIMITS_OOM_GROUPS_H

#include "pool/records.h"

typedef struct gp_oom_groups {
  gp_oom_owner_t groups[64];
  int count;
} gp_oom_groups_t;

void gp_oom_groups_add(gp_oom_groups_t *all, uint64_t size);

/* Fills the array of GP_OOM_OWNERS, the largest total first. Uses the groups up. */
void gp_oom_groups_largest(gp_oom_groups_t *all, gp_oom_owner_t *owners);

#endif
