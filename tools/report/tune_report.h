/*
 * The result of tuning, as text and as JSON.
 */
#ifndef GP_TOOLS_REPORT_TUNE_REPORT_H
#define GP_TOOLS_REPORT_TUNE_REPORT_H

#include <stdio.h>

#include "tools/output.h"
#include "tools/tune/search.h"

void gp_tune_print(const gp_tuning_t *tuning, gp_output_t *output);

/* The score of all settings that were found, prewarmed memory included. */
const gp_score_t *gp_tune_final_score(const gp_tuning_t *tuning);

/* Adds goal, tried, candidates, settings and the scores. */
void gp_tune_add_json(const gp_tuning_t *tuning, cJSON *object);

/* Prints NAME=VALUE for each setting of the best candidate, with separator between them. */
void gp_tune_print_settings(const gp_tuning_t *tuning, const char *separator, FILE *stream);

#endif
