/*
 * The `gpupool run` that started a process. The launcher puts the run's id into the environment,
 * and the library puts it into its snapshots, so that the launcher can tell its own snapshots
 * from others in the folder. The id of a run is 16 hexadecimal digits; a run inside another one
 * appends its own: "OUTER-INNER". Also what else it tells the library that is no setting.
 */
#ifndef GP_BASE_RUN_ID_H
#define GP_BASE_RUN_ID_H

#include <stdbool.h>
#include <stddef.h>

#define GP_RUN_VARIABLE "GPUPOOL_RUN"

/* Set by gpupool run --nvtx: the tool that NVTX was to load before the library took its place. */
#define GP_NVTX_NEXT_VARIABLE "GPUPOOL_NVTX_NEXT"
#define GP_RUN_DIGITS         16
#define GP_RUN_BYTES          (16 * (GP_RUN_DIGITS + 1)) /* 16 runs, each with its '-' or the NUL */

/* True of 1 to 16 ids, joined by '-'. text is any text, and may be NULL. Any thread. */
bool gp_run_id_is_valid(const char *text);

/* True if one of the ids of runs, which is valid, is id: one of exactly GP_RUN_DIGITS. Any thread. */
bool gp_run_id_holds(const char *runs, const char *id);

/* Writes number as an id to ret_id, and to ret_runs the value for the processes of that run: outer, which
 * is valid or "", followed by the id. If that would be invalid, the chain begins anew. Any thread. */
void gp_run_id_append(const char *outer, unsigned long long number, char ret_id[GP_RUN_DIGITS + 1],
    char ret_runs[GP_RUN_BYTES]);

#endif
