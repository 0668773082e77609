/*
 * How the memory of a device is divided among components, at the report's moment and at the peak. Includes
 * memory that the program did not request.
 */
#ifndef GP_TOOLS_MODEL_COMPONENT_USE_H
#define GP_TOOLS_MODEL_COMPONENT_USE_H

#include "tools/model/sites.h"

enum { GP_USE_END, GP_USE_PEAK, GP_USE_MOMENTS };

/* Bytes that belong to no site. They cover whole devices, even if the filter selects streams or threads. */
typedef struct gp_unsited_use {
  uint64_t
      pool[GP_USE_MOMENTS]; /* reserved from the driver beyond the requested bytes: cached, rounding ... */
  gp_site_amount_t host[GP_USE_MOMENTS]; /* page-locked host memory, allocated with the device current */
  bool has_contexts; /* true if `contexts` is known, which needs the driver's amount of free memory */
  uint64_t contexts; /* bytes in use that the program did not request: contexts, code, other processes */
} gp_unsited_use_t;

typedef struct gp_component_use {
  int device;
  gp_sites_t sites; /* the device's memory by component; sorted by bytes at the peak, largest first */
  gp_unsited_use_t unsited;
  bool has_others; /* true if a component other than the program has memory */
  bool knows_peak; /* false if no history was recorded; then the peak is the use at the end */
} gp_component_use_t;

/* One member of gp_unsited_use_t as a row of a report. `contexts` is the same at the peak and at the end. */
typedef struct gp_unsited_row {
  const char *name; /* static */
  uint64_t bytes;
  bool is_of_host;
} gp_unsited_row_t;

#define GP_UNSITED_ROWS 3

/* Sums the bytes that belong to no site, on the devices that `filter` selects. GP_USE_END is at `moments`,
 * and GP_USE_PEAK is at `peak`, which comes from gp_sites_t. */
void gp_unsited_use_find(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, const gp_moments_t *peak, gp_unsited_use_t *ret_unsited);

/* Writes the rows for `moment`, GP_USE_END or GP_USE_PEAK. Always writes GP_UNSITED_ROWS rows, including
 * those with 0 bytes. */
void gp_unsited_rows(const gp_unsited_use_t *unsited, int moment, gp_unsited_row_t *ret_rows);

/* Counts the memory of `device` that `filter` selects. GP_USE_END is at `moments`. Returns 0 or ENOMEM; call
 * gp_component_use_fini in any case. */
int gp_component_use_init(gp_component_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device);
void gp_component_use_fini(gp_component_use_t *use);

#endif
