/*
 * Reports memory by component, for summary, sites and diff.
 */
#ifndef GP_TOOLS_REPORT_COMPONENT_REPORT_H
#define GP_TOOLS_REPORT_COMPONENT_REPORT_H

#include <cjson/cJSON.h>

#include "tools/model/component_use.h"
#include "tools/output.h"

/* Prints the component table of a device in a summary. Prints nothing if all memory is the program's own. */
void gp_component_print(const gp_component_use_t *use, gp_output_t *output);

/* Adds the content of gp_component_print to the device's JSON object. */
void gp_component_json(const gp_component_use_t *use, cJSON *object);

/* Prints the memory that belongs to no site below the sites of components, one line for each kind. With
 * `at_peak` prints the memory at the peak, else at `moments`. The other parameters are those of
 * gp_unsited_use_find. */
void gp_unsited_print(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    const gp_moments_t *peak, bool at_peak, gp_output_t *output);

/* Adds the content of gp_unsited_print to `object`, as "beside". */
void gp_unsited_json(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    const gp_moments_t *peak, cJSON *object);

#endif
