/*
 * Where the program allocates memory: sums by function, line, module, size, component or phase. Each site has
 * a sum for itself (flat), and one that includes everything it calls (cumulative).
 */
#ifndef GP_TOOLS_MODEL_SITES_H
#define GP_TOOLS_MODEL_SITES_H

#include <regex.h>

#include "tools/model/moments.h"

typedef enum gp_site_measure {
  GP_SITE_LIVE,      /* in use at the report's moment */
  GP_SITE_PEAK,      /* in use when all devices together had the most memory in use */
  GP_SITE_TOTAL,     /* all allocations */
  GP_SITE_TEMPORARY, /* part of GP_SITE_TOTAL that was freed before any other allocation on the device */
  GP_SITE_MEASURES
} gp_site_measure_t;

typedef enum gp_site_by {
  GP_SITE_BY_FUNCTION,
  GP_SITE_BY_LINE,
  GP_SITE_BY_MODULE,
  GP_SITE_BY_SIZE,
  GP_SITE_BY_COMPONENT,
  GP_SITE_BY_PHASE,
} gp_site_by_t;

/* Allocations and their requested bytes. */
typedef struct gp_site_amount {
  uint64_t bytes;
  uint64_t count;
  uint64_t freed; /* number of blocks freed before the moment; only for GP_SITE_LIVE and GP_SITE_PEAK */
} gp_site_amount_t;

/* A site with its sums. Invariant: for each measure, flat <= cumulative, and flat <= flat[GP_SITE_TOTAL]. */
typedef struct gp_site {
  char *name;
  bool is_unknown; /* the site of memory without a stack */
  gp_site_amount_t flat[GP_SITE_MEASURES];
  gp_site_amount_t cumulative[GP_SITE_MEASURES];
  size_t seen; /* private: index of the stack that was counted last, plus one */
} gp_site_t;

/* The moment at which one device had the most memory in use. */
typedef struct gp_site_peak {
  int device;
  uint64_t time_ns;
  bool is_before; /* the peak precedes the first event; time_ns is 0 */
  uint64_t bytes;
} gp_site_peak_t;

typedef struct gp_sites {
  gp_site_t *sites;
  size_t count;
  gp_site_amount_t (*stacks)[GP_SITE_MEASURES]; /* amounts of each stack; NULL if sites are by size */
  gp_site_amount_t sums[GP_SITE_MEASURES];
  bool lacks_lines;  /* sites are by line, and some owners have no line */
  gp_moments_t peak; /* moment of GP_SITE_PEAK */
  /* As passed to gp_sites_init. By size instead if no stacks were recorded, except by component or phase. */
  gp_site_by_t by;
} gp_sites_t;

#define GP_SITE_NAME_BYTES 1024
#define GP_SITE_NO_STACK   "(no stack recorded)" /* site for memory without a stack */
#define GP_SITE_EMPTY      "(empty stack)"       /* site for stacks without frames */
#define GP_SITE_NO_PHASE   "(no phase)"          /* site for memory allocated outside of all phases */

/* Writes the name of the site whose flat sum counts the stack (by function, line or module). buffer has
 * GP_SITE_NAME_BYTES. Returns buffer. */
char *gp_site_owner(const gp_snapshot_t *snapshot, int stack, gp_site_by_t by, char *buffer);

/*
 * Counts the device memory that `filter` selects. GP_SITE_LIVE counts the memory in use at `moments`. With
 * `focus`, counts only stacks with a frame whose function, file or module matches. With `ignore`, omits
 * stacks with such a frame. Either may be NULL. Returns 0 or ENOMEM; call gp_sites_fini in any case.
 */
int gp_sites_init(gp_sites_t *sites, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_site_by_t by, const regex_t *focus, const regex_t *ignore);
void gp_sites_fini(gp_sites_t *sites);

/* Finds the peak of each device that `filter` selects and on which the program allocated memory. Returns the
 * number of peaks. */
size_t gp_site_peaks(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    gp_site_peak_t ret_peaks[GP_SNAPSHOT_DEVICES]);

/* Sorts by the flat bytes of `measure` (with `by_count`, by flat allocations), largest first; then by
 * cumulative bytes, then by name. Memory without a stack follows; sites where the measure is 0 come last. */
void gp_sites_sort(gp_sites_t *sites, gp_site_measure_t measure, bool by_count);

#endif
