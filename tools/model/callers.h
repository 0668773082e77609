/*
 * Builds a tree of owners and their callers: the owner of each stack is a root, and its callers are below it.
 * The tree contains only the user's functions.
 */
#ifndef GP_TOOLS_MODEL_CALLERS_H
#define GP_TOOLS_MODEL_CALLERS_H

#include "tools/model/sites.h"

#define GP_CALLERS_DEEPEST 64 /* levels; the tree omits callers further out */

typedef struct gp_caller {
  char *name; /* "function file:line" */
  gp_site_amount_t amount;
  struct gp_caller *callers; /* list of the functions that called this one, largest first */
  struct gp_caller *next;    /* next in the same list, which is sorted by size, largest first */
} gp_caller_t;

/*
 * Builds the tree for the stacks of `snapshot`. `sites` supplies the amounts, and is by function or by line.
 * Sorts by bytes or, with `by_count`, by number of allocations. *ret_owners is the first owner, or NULL if
 * there is none. Returns 0 or ENOMEM; call gp_callers_destroy in any case.
 */
int gp_callers_make(const gp_sites_t *sites, const gp_snapshot_t *snapshot, gp_site_measure_t measure,
    bool by_count, gp_caller_t **ret_owners);
void gp_callers_destroy(gp_caller_t *owners); /* NULL is legal */

#endif
