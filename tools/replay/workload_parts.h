/*
 * The readers of workloads. Each fills a zeroed workload except for synchronizations; only RECORDED takes
 * these from the input.
 */
#ifndef GP_TOOLS_REPLAY_WORKLOAD_PARTS_H
#define GP_TOOLS_REPLAY_WORKLOAD_PARTS_H

#include "tools/read/input.h"
#include "tools/replay/workload.h"

/* workload_snapshot.c. device as for gp_workload_load. Returns 0, ENOMEM, or EOVERFLOW for more events
 * or blocks than can be counted. */
int gp_workload_of_snapshot(
    gp_workload_t *workload, const gp_snapshot_t *snapshot, int device, bool with_facts);

/* workload_load.c: reads rows of text. *ret_is_rows: the input begins with a known table heading; otherwise
 * reads nothing. Returns NULL, or a clause that says what is wrong, with its line number in *ret_line. */
const char *gp_workload_of_rows(
    gp_workload_t *workload, gp_input_t *input, bool *ret_is_rows, size_t *ret_line);

#endif
