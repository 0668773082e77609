/*
 * The statistics of a device under the names that users of the API know them by: PyTorch's where it has one,
 * and the plain ones of gpupool.h.
 */
#ifndef GP_INTERPOSE_API_FIGURES_H
#define GP_INTERPOSE_API_FIGURES_H

#include "trace/format/stats.h"

typedef void (*gp_figure_fn)(void *arg, const char *name, uint64_t value);

/* Calls fn for each, in an order that does not change. Names are literals; no name comes twice. */
void gp_figures_each(const gp_stats_t *stats, gp_figure_fn fn, void *arg);

/* What has happened since `since`, an earlier copy of the same: counts, and what was allocated and freed.
 * What is there now, and peaks, stay. */
void gp_figures_since(gp_stats_t *stats, const gp_stats_t *since);

#endif
