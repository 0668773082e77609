/*
 * The result of `gpupool replay` for one file. replay_command.c computes it, and replay_text.c and
 * replay_json.c print it.
 */
#ifndef GP_TOOLS_REPORT_REPLAY_REPORT_H
#define GP_TOOLS_REPORT_REPLAY_REPORT_H

#include "tools/output.h"
#include "tools/replay/figures.h"
#include "tools/replay/settings.h"

#define GP_REPLAY_TYPES 8 /* more than there are pool types */

typedef struct gp_replay_result {
  const char *type; /* pool type */
  gp_options_t options;
  gp_simulation_t simulation;
} gp_replay_result_t;

typedef struct gp_replay {
  const char *file; /* as typed; "stdin" for - */
  gp_workload_t workload;
  uint64_t capacity; /* memory of a device, as typed; 0: not given */
  bool is_last;
  gp_replay_result_t *results;
  size_t result_count;
} gp_replay_t;

void gp_replay_print(const gp_replay_t *replay, gp_output_t *output);
void gp_replay_add_json(const gp_replay_t *replay, cJSON *list);

#endif
