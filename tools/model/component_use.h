/*
 * How a device's memory is divided among components, at a moment and at its peak. Also what exists besides
 * the memory that the program asked for.
 */
#ifndef GP_TOOLS_MODEL_COMPONENT_USE_H
#define GP_TOOLS_MODEL_COMPONENT_USE_H

#include "tools/model/sites.h"

enum { GP_USE_END, GP_USE_PEAK, GP_USE_MOMENTS };

/* Bytes that no site counts. They are of whole devices, whatever else is selected. */
typedef struct gp_beside {
  uint64_t
      pool[GP_USE_MOMENTS]; /* from the driver, beyond what the program asked for: cached, rounding ... */
  gp_site_amount_t host[GP_USE_MOMENTS]; /* page-locked host memory, allocated with the device current */
  bool has_contexts;                     /* the driver was asked how much of the device is in use: */
  uint64_t contexts; /* bytes that the program did not ask for: contexts, code, other processes */
} gp_beside_t;

typedef struct gp_component_use {
  int device;
  gp_sites_t sites; /* the device's, by component; the largest at the peak first */
  gp_beside_t beside;
  bool has_others; /* at least one component is not the program */
  bool knows_peak; /* false: without a history the peak is what is held at the end */
} gp_component_use_t;

/* One member of gp_beside_t. `contexts` counts for the peak, too. */
typedef struct gp_beside_row {
  const char *name; /* static */
  uint64_t bytes;
  bool is_of_host;
} gp_beside_row_t;

#define GP_BESIDE_ROWS 3

/* Sums what exists besides the sites on the devices that filter selects: at moments, for GP_USE_END, and at
 * peak, for GP_USE_PEAK (gp_sites_t). */
void gp_beside_find(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    const gp_moments_t *peak, gp_beside_t *ret_beside);

/* The rows for a moment, GP_USE_END or GP_USE_PEAK: always GP_BESIDE_ROWS of them, even without bytes. */
void gp_beside_rows(const gp_beside_t *beside, int moment, gp_beside_row_t *ret_rows);

/* Counts what filter selects on a device; the end is at moments. Returns 0 or
 * ENOMEM; call fini in any case. */
int gp_component_use_init(gp_component_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device);
void gp_component_use_fini(gp_component_use_t *use);

#endif
