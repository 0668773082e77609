/*
 * How a device's memory is divided among components, at a moment and at its peak. Also lists memory that the
 * program did not ask for.
 */
#ifndef GP_TOOLS_MODEL_COMPONENT_USE_H
#define GP_TOOLS_MODEL_COMPONENT_USE_H

#include "tools/model/sites.h"

enum { GP_USE_END, GP_USE_PEAK, GP_USE_MOMENTS };

/* Bytes that no site counts. They cover whole devices, even if streams or threads are selected. */
typedef struct gp_unsited_use {
  uint64_t
      pool[GP_USE_MOMENTS]; /* from the driver, beyond what the program asked for: cached, rounding ... */
  gp_site_amount_t host[GP_USE_MOMENTS]; /* page-locked host memory, allocated with the device current */
  bool has_contexts;                     /* contexts is known, from the driver's free memory */
  uint64_t contexts; /* bytes in use that the program did not ask for: contexts, code, other processes */
} gp_unsited_use_t;

typedef struct gp_component_use {
  int device;
  gp_sites_t sites; /* of the device, by component; sorted by bytes at the peak, largest first */
  gp_unsited_use_t unsited;
  bool has_others; /* a component other than the program has memory */
  bool knows_peak; /* false: no history was recorded, so the peak is what is in use at the end */
} gp_component_use_t;

/* One member of gp_unsited_use_t as a row of a report. The peak has the same `contexts` as the end. */
typedef struct gp_unsited_row {
  const char *name; /* static */
  uint64_t bytes;
  bool is_of_host;
} gp_unsited_row_t;

#define GP_UNSITED_ROWS 3

/* Sums the bytes that no site counts, on the devices that filter selects: at `moments` for GP_USE_END, and at
 * `peak` (of gp_sites_t) for GP_USE_PEAK. */
void gp_unsited_use_find(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, const gp_moments_t *peak, gp_unsited_use_t *ret_unsited);

/* Writes the rows for a moment, GP_USE_END or GP_USE_PEAK: always GP_UNSITED_ROWS of them, even if bytes is
 * 0. */
void gp_unsited_rows(const gp_unsited_use_t *unsited, int moment, gp_unsited_row_t *ret_rows);

/* Counts the memory of a device that filter selects; `moments` serves as GP_USE_END. Returns 0 or ENOMEM;
 * call fini in any case. */
int gp_component_use_init(gp_component_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device);
void gp_component_use_fini(gp_component_use_t *use);

#endif
