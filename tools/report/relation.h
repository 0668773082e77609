/*
 * Decides whether two compared snapshots come from the same process or program.
 */
#ifndef GP_TOOLS_REPORT_RELATION_H
#define GP_TOOLS_REPORT_RELATION_H

#include "tools/report/report.h"

/* Both functions take the inputs of a command. If `count` is not 2, gp_relation_print does nothing, and
 * gp_relation_add adds null. Programs are compared by file name, Python scripts by the script's name.
 * Thread-safe. */

/* Prints a sentence if the snapshots come from two processes or two programs. */
void gp_relation_print(gp_output_t *output, const gp_report_input_t *inputs, int count);

/* Adds the member "relation": "same_process", "same_program", "different_programs" or null. */
void gp_relation_add(cJSON *object, const gp_report_input_t *inputs, int count);

#endif
