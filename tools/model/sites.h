/*
 * Who asks for memory: allocations by function, line, module, size, component or phase, each alone (flat) and
 * with everything that it calls (cumulative).
 */
#ifndef GP_TOOLS_MODEL_SITES_H
#define GP_TOOLS_MODEL_SITES_H

#include <regex.h>

#include "tools/model/moments.h"

typedef enum gp_site_measure {
  GP_SITE_LIVE,      /* held at the moment in question */
  GP_SITE_PEAK,      /* held when all devices together held most */
  GP_SITE_TOTAL,     /* ever requested */
  GP_SITE_TEMPORARY, /* part of total: freed before anything else was allocated on the device */
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
  uint64_t freed; /* of live and peak: blocks freed before that moment */
} gp_site_amount_t;

/* Of each measure, flat counts no more than cumulative does, and no more than flat of GP_SITE_TOTAL. */
typedef struct gp_site {
  char *name;
  bool is_unknown; /* memory without a stack */
  gp_site_amount_t flat[GP_SITE_MEASURES];
  gp_site_amount_t cumulative[GP_SITE_MEASURES];
  size_t seen; /* private: the stack counted last, plus one */
} gp_site_t;

/* The moment at which a device held most. */
typedef struct gp_site_peak {
  int device;
  uint64_t time_ns;
  bool is_before; /* before the first event; time_ns is 0 */
  uint64_t bytes;
} gp_site_peak_t;

typedef struct gp_sites {
  gp_site_t *sites;
  size_t count;
  gp_site_amount_t (*stacks)[GP_SITE_MEASURES]; /* what each stack asked for; NULL: by size */
  gp_site_amount_t sums[GP_SITE_MEASURES];
  bool lacks_lines;  /* by line: some owners have none */
  gp_moments_t peak; /* the moments of GP_SITE_PEAK */
  gp_site_by_t
      by; /* as requested; GP_SITE_BY_SIZE if no stacks were recorded, except by component and phase */
} gp_sites_t;

#define GP_SITE_NAME_BYTES 1024
#define GP_SITE_NO_STACK   "(no stack recorded)" /* site of memory without a stack */
#define GP_SITE_EMPTY      "(empty stack)"       /* site of stacks without a frame */
#define GP_SITE_NO_PHASE   "(no phase)"          /* site of memory from outside of all phases */

/* The site, by function, line or module, to which a stack counts as flat. buffer holds
 * GP_SITE_NAME_BYTES. Returns buffer. */
char *gp_site_owner(const gp_snapshot_t *snapshot, int stack, gp_site_by_t by, char *buffer);

/*
 * Counts what filter selects from lifetimes; live is what the program held at moments. focus: only stacks
 * with a matching frame; ignore: no stacks with a matching frame (function, file or module); NULL: no such
 * condition. Leaves out host memory. Returns 0 or ENOMEM; call fini in any case.
 */
int gp_sites_init(gp_sites_t *sites, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_site_by_t by, const regex_t *focus, const regex_t *ignore);
void gp_sites_fini(gp_sites_t *sites);

/* Finds when each device that filter selects, and that has memory of the program's, held most. Returns how
 * many there are. */
size_t gp_site_peaks(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    gp_site_peak_t ret_peaks[GP_SNAPSHOT_DEVICES]);

/* Sorts by flat bytes of a measure (by_count: by allocations), most first;
 * then by cumulative, then by name. Behind them what is unknown, and then what has none of it. */
void gp_sites_sort(gp_sites_t *sites, gp_site_measure_t measure, bool by_count);

#endif
