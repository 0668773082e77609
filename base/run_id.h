/*
 * Ids of runs. An id identifies the `gpupool run` that started a process. The launcher puts the id into the
 * environment, and the library puts it into its snapshots. So the launcher can distinguish its own snapshots
 * from others in the folder. The id of a run is 16 hexadecimal digits. A run inside another run appends its
 * own id: "OUTER-INNER". This file also declares GPUPOOL_NVTX_NEXT, the launcher's other variable that is not
 * a setting.
 */
#ifndef GP_BASE_RUN_ID_H
#define GP_BASE_RUN_ID_H

#include <stdbool.h>
#include <stddef.h>

#define GP_RUN_VARIABLE "GPUPOOL_RUN"

/* Set by `gpupool run --nvtx`: the tool that NVTX would have loaded if the library had not replaced it. */
#define GP_NVTX_NEXT_VARIABLE "GPUPOOL_NVTX_NEXT"
#define GP_RUN_DIGITS         16
#define GP_RUN_BYTES          (16 * (GP_RUN_DIGITS + 1)) /* 16 runs, each with its '-' or the NUL */

/* Returns true if `text` consists of 1 to 16 ids, joined by '-'. `text` may be any text, or NULL.
 * Thread-safe. */
bool gp_run_id_is_valid(const char *text);

/* Returns true if `id` is one of the ids in `runs`. `runs` must be valid, and `id` must have exactly
 * GP_RUN_DIGITS. Thread-safe. */
bool gp_run_id_holds(const char *runs, const char *id);

/* Writes `number` as an id to ret_id. Writes the value of GP_RUN_VARIABLE for the processes of that run to
 * ret_runs: `outer`, which is valid or "", followed by the id. If that value would be invalid, ret_runs gets
 * the id alone. Thread-safe. */
void gp_run_id_append(const char *outer, unsigned long long number, char ret_id[GP_RUN_DIGITS + 1],
    char ret_runs[GP_RUN_BYTES]);

#endif
