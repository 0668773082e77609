/*
 * Functions that print the owner of a stack in reports (doc/owners.md).
 */
#ifndef GP_TOOLS_REPORT_OWNER_REPORT_H
#define GP_TOOLS_REPORT_OWNER_REPORT_H

#include "tools/model/owners.h"
#include "tools/report/report.h"

/*
 * Prints a stack in at most *left bytes, and subtracts the printed bytes from *left. Prints the owner, the
 * user's functions that called it, and one line about other frames; with --all-frames, the stack as recorded.
 */
void gp_report_stack(const gp_report_input_t *input, const gp_snapshot_t *snapshot, int stack, uint64_t *left,
    gp_output_t *output);

/* Adds the owner of a stack as a member. Adds null if the stack has no owner. */
void gp_json_add_stack_owner(cJSON *object, const char *name, const gp_snapshot_t *snapshot, int stack);

/* Adds the members blocks, size_least, size_most and freed (null if unknown). */
void gp_json_add_holding(cJSON *object, const gp_holding_t *holding, const gp_snapshot_t *snapshot);

/* Adds a list of the owners that have allocated the most. */
void gp_json_add_owners(
    cJSON *object, const char *name, const gp_owners_t *owners, const gp_snapshot_t *snapshot);

#endif
