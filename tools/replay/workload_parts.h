/*
 * The readers of workloads. Each fills a zeroed workload. Only workload_snapshot.c adds recorded
 * synchronizations.
 */
#ifndef GP_TOOLS_REPLAY_WORKLOAD_PARTS_H
#define GP_TOOLS_REPLAY_WORKLOAD_PARTS_H

#include "tools/read/input.h"
#include "tools/replay/workload.h"

/* Reads a snapshot (workload_snapshot.c). `device` is as for gp_workload_load. With with_facts, adds the
 * recorded completion proofs as synchronizations. Returns 0, ENOMEM, or EOVERFLOW for too many events or
 * blocks. */
int gp_workload_of_snapshot(
    gp_workload_t *workload, const gp_snapshot_t *snapshot, int device, bool with_facts);

/* Reads rows of text (workload_load.c). Sets *ret_is_rows to false, and reads nothing, without a known table
 * heading. Returns NULL, or a clause that describes the error, with the line number in *ret_line. */
const char *gp_workload_of_rows(
    gp_workload_t *workload, gp_input_t *input, bool *ret_is_rows, size_t *ret_line);

#endif
