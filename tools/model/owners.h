/*
 * The functions that are named as having the memory. A program often asks through a function of its own
 * ("check the error, count the bytes"): named alone, it would say nothing. So one that has nearly everything
 * gives way to those that call it.
 */
#ifndef GP_TOOLS_MODEL_OWNERS_H
#define GP_TOOLS_MODEL_OWNERS_H

#include "tools/model/sites.h"

#define GP_OWNERS 3

typedef struct gp_owner {
  char *function; /* as sites by function are called */
  char *through;  /* the function of its own through which it asked, NULL: none */
  uint64_t bytes; /* asked for */
} gp_owner_t;

typedef struct gp_owners {
  gp_owner_t owners[GP_OWNERS]; /* the largest, first */
  size_t count;
} gp_owners_t;

/*
 * Finds the owners of what filter wants of lifetimes: held at the end (GP_SITE_LIVE) or at the peak of each
 * device (GP_SITE_PEAK). What has no stack, and host memory, has none. Returns 0 or ENOMEM; fini it in any
 * case. Thread-safe.
 */
int gp_owners_init(gp_owners_t *owners, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    gp_site_measure_t measure);
void gp_owners_fini(gp_owners_t *owners);

#endif
