/*
 * gpupool sites --tree: prints owners with their callers.
 */
#ifndef GP_TOOLS_REPORT_SITES_TREE_H
#define GP_TOOLS_REPORT_SITES_TREE_H

#include "tools/model/callers.h"
#include "tools/report/report.h"

/* Prints at most `most` owners (0: all), and those of their callers that have at least 1% of `sum`. */
void gp_sites_tree_print(const gp_report_input_t *input, const gp_caller_t *owners,
    const gp_site_amount_t *sum, bool by_count, uint64_t most, gp_output_t *output);

/* Adds the member "tree" with all owners. */
void gp_sites_tree_json(const gp_caller_t *owners, cJSON *object);

#endif
