/*
 * Where memory is allocated: sums by function, line, module, size, component or phase. Each site counts alone
 * (flat) and with everything that it calls (cumulative).
 */
#ifndef GP_TOOLS_MODEL_SITES_H
#define GP_TOOLS_MODEL_SITES_H

#include <regex.h>

#include "tools/model/moments.h"

typedef enum gp_site_measure {
  GP_SITE_LIVE,      /* in use at the report's moment */
  GP_SITE_PEAK,      /* in use when all devices together had most in use */
  GP_SITE_TOTAL,     /* ever requested */
  GP_SITE_TEMPORARY, /* part of GP_SITE_TOTAL: freed before anything else was allocated on the device */
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

/* Bytes as requested. */
typedef struct gp_site_amount {
  uint64_t bytes;
  uint64_t count;
  uint64_t freed; /* blocks freed before the moment; only for GP_SITE_LIVE and GP_SITE_PEAK */
} gp_site_amount_t;

/* Invariant: for each measure, flat <= cumulative, and flat <= flat[GP_SITE_TOTAL]. */
typedef struct gp_site {
  char *name;
  bool is_unknown; /* memory without a stack */
  gp_site_amount_t flat[GP_SITE_MEASURES];
  gp_site_amount_t cumulative[GP_SITE_MEASURES];
  size_t seen; /* private: the stack that was counted last, plus one */
} gp_site_t;

/* The moment at which a device had most memory in use. */
typedef struct gp_site_peak {
  int device;
  uint64_t time_ns;
  bool is_before; /* before the first event; time_ns is 0 */
  uint64_t bytes;
} gp_site_peak_t;

typedef struct gp_sites {
  gp_site_t *sites;
  size_t count;
  gp_site_amount_t (*stacks)[GP_SITE_MEASURES]; /* by stack; NULL if sites are by size */
  gp_site_amount_t sums[GP_SITE_MEASURES];
  bool lacks_lines;  /* by line: some owners have none */
  gp_moments_t peak; /* the moments of GP_SITE_PEAK */
  gp_site_by_t
      by; /* as passed to init; GP_SITE_BY_SIZE if no stacks were recorded, except by component and phase */
} gp_sites_t;

#define GP_SITE_NAME_BYTES 1024
#define GP_SITE_NO_STACK   "(no stack recorded)" /* site of memory without a stack */
#define GP_SITE_EMPTY      "(empty stack)"       /* site of stacks without a frame */
#define GP_SITE_NO_PHASE   "(no phase)"          /* site of memory allocated outside of all phases */

/* Writes the name of the site (by function, line or module) that counts the stack as flat. buffer has
 * GP_SITE_NAME_BYTES. Returns buffer. */
char *gp_site_owner(const gp_snapshot_t *snapshot, int stack, gp_site_by_t by, char *buffer);

/*
 * Counts the device memory that filter selects from lifetimes; GP_SITE_LIVE is what was in use at moments.
 * With focus, counts only stacks with a frame whose function, file or module matches; with ignore, omits such
 * stacks. Both may be NULL. Returns 0 or ENOMEM; call fini in any case.
 */
int gp_sites_init(gp_sites_t *sites, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_site_by_t by, const regex_t *focus, const regex_t *ignore);
void gp_sites_fini(gp_sites_t *sites);

/* Finds the peak of each device that filter selects and on which the program allocated memory. Returns the
 * number of these devices. */
size_t gp_site_peaks(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    gp_site_peak_t ret_peaks[GP_SNAPSHOT_DEVICES]);

/* Sorts by flat bytes of a measure (with by_count, by allocations), most first; then by cumulative bytes,
 * then by name. Memory without a stack comes after these, and sites without any of the measure come last. */
void gp_sites_sort(gp_sites_t *sites, gp_site_measure_t measure, bool by_count);

#endif
