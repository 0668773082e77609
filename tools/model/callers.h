/*
 * Owners and their callers: a tree from the owner of each stack outwards. It has only the user's functions.
 */
#ifndef GP_TOOLS_MODEL_CALLERS_H
#define GP_TOOLS_MODEL_CALLERS_H

#include "tools/model/sites.h"

#define GP_CALLERS_DEEPEST 64 /* leaves out callers further out */

typedef struct gp_caller {
  char *name; /* "function file:line" */
  gp_site_amount_t amount;
  struct gp_caller *callers; /* the largest first, like the next ones */
  struct gp_caller *next;
} gp_caller_t;

/*
 * Makes the tree of what sites (by function or by line) measures for the stacks of snapshot. by_count sorts
 * by allocations. *ret_owners: the first owner, NULL: none. Returns 0 or ENOMEM; call gp_callers_destroy in
 * any case.
 */
int gp_callers_make(const gp_sites_t *sites, const gp_snapshot_t *snapshot, gp_site_measure_t measure,
    bool by_count, gp_caller_t **ret_owners);
void gp_callers_destroy(gp_caller_t *owners); /* NULL is legal */

#endif
