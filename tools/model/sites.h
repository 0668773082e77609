/*
 * Who asks for memory: allocations by function, line, module, size or component, each alone (flat) and with
 * all that it calls (cumulative).
 */
#ifndef GP_TOOLS_MODEL_SITES_H
#define GP_TOOLS_MODEL_SITES_H

#include <regex.h>

#include "tools/model/moments.h"

typedef enum gp_site_measure {
  GP_SITE_LIVE,      /* held at the moment that is asked about */
  GP_SITE_PEAK,      /* held when the devices together held most */
  GP_SITE_TOTAL,     /* ever asked for */
  GP_SITE_TEMPORARY, /* of these, freed before anything else was allocated on the device */
  GP_SITE_MEASURES
} gp_site_measure_t;

typedef enum gp_site_by {
  GP_SITE_BY_FUNCTION,
  GP_SITE_BY_LINE,
  GP_SITE_BY_MODULE,
  GP_SITE_BY_SIZE,
  GP_SITE_BY_COMPONENT,
} gp_site_by_t;

/* Bytes asked for. */
typedef struct gp_site_amount {
  uint64_t bytes;
  uint64_t count;
} gp_site_amount_t;

typedef struct gp_site {
  char *name;
  bool is_unknown; /* what has no stack */
  gp_site_amount_t flat[GP_SITE_MEASURES];
  gp_site_amount_t cumulative[GP_SITE_MEASURES];
} gp_site_t;

/* The moment at which a device held most. */
typedef struct gp_site_peak {
  int device;
  uint64_t time_ns;
  bool is_before; /* it was before the first event, and time_ns is 0 */
  uint64_t bytes;
} gp_site_peak_t;

typedef struct gp_sites {
  gp_site_t *sites;
  size_t count;
  gp_site_amount_t (*stacks)[GP_SITE_MEASURES]; /* what each stack asked for; NULL: by size */
  gp_site_amount_t sums[GP_SITE_MEASURES];
  gp_site_peak_t peaks[GP_SNAPSHOT_DEVICES];
  size_t peak_count;
  gp_moments_t peak; /* that of GP_SITE_PEAK */
  gp_site_by_t by;   /* as asked for; GP_SITE_BY_SIZE where no stacks were recorded, except by component */
} gp_sites_t;

#define GP_SITE_NAME_BYTES 1024
#define GP_SITE_NO_STACK   "(no stack recorded)" /* the site of what has none */
#define GP_SITE_EMPTY      "(empty stack)"       /* of what has one without a frame */

/* The site that a stack is flat of, by function, line or module. buffer holds GP_SITE_NAME_BYTES. Returns
 * buffer. */
char *gp_site_owner(const gp_snapshot_t *snapshot, int stack, gp_site_by_t by, char *buffer);

/*
 * Counts what filter wants of lifetimes; live is what the program held at moments. focus: only stacks of
 * which a frame matches; ignore: none of which one does (function, file or module); NULL: neither. Host
 * memory is left out. Returns 0 or ENOMEM; fini it in any case.
 */
int gp_sites_init(gp_sites_t *sites, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_site_by_t by, const regex_t *focus, const regex_t *ignore);
void gp_sites_fini(gp_sites_t *sites);

/* Sorts by flat bytes of a measure (count: by allocations), most first; equal ones by
 * cumulative and by name. */
void gp_sites_sort(gp_sites_t *sites, gp_site_measure_t measure, bool by_count);

#endif
