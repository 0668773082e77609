/*
 * Memory by component, as summary, sites and diff show it.
 */
#ifndef GP_TOOLS_REPORT_COMPONENT_REPORT_H
#define GP_TOOLS_REPORT_COMPONENT_REPORT_H

#include <cjson/cJSON.h>

#include "tools/model/component_use.h"
#include "tools/output.h"

/* Prints the part of a device's section in a summary; nothing if only the program's own memory is known. */
void gp_component_print(const gp_component_use_t *use, gp_output_t *output);

/* Adds the same as members of the device in the JSON. */
void gp_component_json(const gp_component_use_t *use, cJSON *object);

/* Prints the memory besides the sites by component, one line each, below those of sites: at moments, or at
 * the peak. Other parameters as for gp_beside_find. */
void gp_beside_print(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    const gp_moments_t *peak, bool at_peak, gp_output_t *output);

/* Adds the same to object as "beside". */
void gp_beside_json(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    const gp_moments_t *peak, cJSON *object);

#endif
