/*
 * Tells whether two compared snapshots belong together.
 */
#ifndef GP_TOOLS_REPORT_RELATION_H
#define GP_TOOLS_REPORT_RELATION_H

#include "tools/report/report.h"

/* Both take the inputs of a command. If `count` is not 2, the first does nothing and the second adds null.
 * The file's name identifies a program, its own name a script. Any thread. */

/* Prints a sentence if the snapshots are of two processes or of two programs. */
void gp_relation_print(gp_output_t *output, const gp_report_input_t *inputs, int count);

/* Adds the member "relation": "same_process", "same_program", "different_programs", or null. */
void gp_relation_add(cJSON *object, const gp_report_input_t *inputs, int count);

#endif
