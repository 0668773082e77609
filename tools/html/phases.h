/*
 * The phases of a recording for a page: the ranges and marks of the thread that is in one for the longest.
 */
#ifndef GP_TOOLS_HTML_PHASES_H
#define GP_TOOLS_HTML_PHASES_H

#include "tools/html/choice.h"
#include "tools/html/names.h"
#include "tools/html/payload.h"

/* Adds the columns phase.* to list; none without phases. A phase without an event in it is left out. Returns
 * 0 or ENOMEM. */
int gp_page_add_phases(gp_payload_t *payload, cJSON *list, gp_page_names_t *names, const gp_choice_t *choice);

#endif
