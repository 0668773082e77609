/*
 * How the memory of a device is divided among components, at a moment and at its peak, and what there is
 * beside that which the program asked for.
 */
#ifndef GP_TOOLS_MODEL_COMPONENT_USE_H
#define GP_TOOLS_MODEL_COMPONENT_USE_H

#include "tools/model/sites.h"

enum { GP_USE_END, GP_USE_PEAK, GP_USE_MOMENTS };

/* Bytes that are in no site: of whole devices, whatever else is selected. */
typedef struct gp_beside {
  uint64_t
      pool[GP_USE_MOMENTS]; /* from the driver, beyond what the program asked for: cached, rounding ... */
  gp_site_amount_t
      host[GP_USE_MOMENTS]; /* page-locked memory of the host, got while the device was current */
  bool has_contexts;        /* the driver was asked how much of the device is in use: */
  uint64_t contexts;        /* then by nothing that the program asked for: contexts, code, other processes */
} gp_beside_t;

typedef struct gp_component_use {
  int device;
  gp_sites_t sites; /* by component, of that device; most at the peak first */
  gp_beside_t beside;
  bool has_others; /* some of it is known to be not the program's own */
} gp_component_use_t;

/* One of the things in gp_beside_t. What is in use by nothing that the program asked for is the same at the
 * peak. */
typedef struct gp_beside_row {
  const char *name; /* static */
  uint64_t bytes;
  bool is_of_host;
} gp_beside_row_t;

#define GP_BESIDE_ROWS 3

/*
 * Finds what there is beside the sites of the devices that filter wants, in sum: at the end, and when each
 * held most of what filter wants.
 */
void gp_beside_find(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    gp_beside_t *ret_beside);

/* The rows for a moment, GP_USE_END or GP_USE_PEAK: GP_BESIDE_ROWS of them, those without bytes too. */
void gp_beside_rows(const gp_beside_t *beside, int moment, gp_beside_row_t *ret_rows);

/* Counts what filter wants on a device; the end is at moments. Returns 0 or ENOMEM; fini it in any case. */
int gp_component_use_init(gp_component_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device);
void gp_component_use_fini(gp_component_use_t *use);

#endif
