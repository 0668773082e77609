/*
 * Memory by component, as summary, sites and diff say it.
 */
#ifndef GP_TOOLS_REPORT_COMPONENT_REPORT_H
#define GP_TOOLS_REPORT_COMPONENT_REPORT_H

#include <cjson/cJSON.h>

#include "tools/model/component_use.h"
#include "tools/output.h"

/* The part of a device's section of a summary, in text; nothing where all
 * that is known is the program's own. */
void gp_component_print(const gp_component_use_t *use, gp_output_t *output);

/* The same as members of the device in the JSON. */
void gp_component_json(const gp_component_use_t *use, cJSON *object);

/*
 * What there is beside sites by component, a line each under those of sites: at moments, or at the peak. For
 * the rest as gp_beside_find.
 */
void gp_beside_print(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    bool at_peak, gp_output_t *output);

/* The same as "beside" of object. */
void gp_beside_json(
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments, cJSON *object);

#endif
