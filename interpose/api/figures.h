/* Lists the statistics of a device under the API's names: PyTorch's name where there is one, and the plain
 * names of gpupool.h. */
#ifndef GP_INTERPOSE_API_FIGURES_H
#define GP_INTERPOSE_API_FIGURES_H

#include "format/stats.h"

typedef void (*gp_figure_fn)(void *arg, const char *name, uint64_t value);

/* Calls fn for each statistic, always in the same order. Names are literals and unique. */
void gp_figures_each(const gp_stats_t *stats, gp_figure_fn fn, void *arg);

/* Subtracts `since`, an earlier copy of the same statistics, from counts and from allocated and freed bytes.
 * Current values and peaks are unchanged. */
void gp_figures_since(gp_stats_t *stats, const gp_stats_t *since);

#endif
