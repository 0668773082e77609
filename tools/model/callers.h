/*
 * Makes a tree of owners and their callers, outwards from the owner of each stack. It has only the user's
 * functions.
 */
#ifndef GP_TOOLS_MODEL_CALLERS_H
#define GP_TOOLS_MODEL_CALLERS_H

#include "tools/model/sites.h"

#define GP_CALLERS_DEEPEST 64 /* levels; the tree omits callers beyond */

typedef struct gp_caller {
  char *name; /* "function file:line" */
  gp_site_amount_t amount;
  struct gp_caller *callers; /* list of its callers, largest first */
  struct gp_caller *next;    /* in the list that this caller is in, largest first, too */
} gp_caller_t;

/*
 * Makes the tree for the stacks of snapshot. sites has the amounts, and names by function or by line. Sorts
 * by bytes or, with by_count, by allocations. *ret_owners is the first owner, or NULL if there is none.
 * Returns 0 or ENOMEM; call gp_callers_destroy in any case.
 */
int gp_callers_make(const gp_sites_t *sites, const gp_snapshot_t *snapshot, gp_site_measure_t measure,
    bool by_count, gp_caller_t **ret_owners);
void gp_callers_destroy(gp_caller_t *owners); /* NULL is legal */

#endif
