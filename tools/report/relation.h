/*
 * Whether two snapshots that are compared belong together.
 */
#ifndef GP_TOOLS_REPORT_RELATION_H
#define GP_TOOLS_REPORT_RELATION_H

#include "tools/report/report.h"

/*
 * Both take the inputs of a command, and do nothing, or say that it is not known, if `count` is not 2. A
 * program is known by its file's name, a script by its own. Any thread.
 */

/* A sentence, if the snapshots are of two processes or of two programs. */
void gp_relation_print(gp_output_t *output, const gp_report_input_t *inputs, int count);

/* The member "relation": "same_process", "same_program", "different_programs", or null. */
void gp_relation_add(cJSON *object, const gp_report_input_t *inputs, int count);

#endif
