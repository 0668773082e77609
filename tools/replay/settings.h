/*
 * The pool's settings on the command line of replay and tune: the library's options that affect a simulation.
 * An option that is not given has its recorded value or else its default. The environment has no effect.
 */
#ifndef GP_TOOLS_REPLAY_SETTINGS_H
#define GP_TOOLS_REPLAY_SETTINGS_H

#include "tools/replay/workload.h"
#include "tools/request.h"

typedef struct gp_settings {
  const char *texts[GP_OPTION_COUNT]; /* as typed, or set by the caller; borrowed; NULL: not given */
} gp_settings_t;

#define GP_SETTINGS_COUNT 14 /* number of options that affect a simulation */

/* Returns true if the option affects a simulation. */
bool gp_settings_has(gp_option_id_t id);

/* Writes GP_SETTINGS_COUNT parameters to ret_parameters. Parsing stores their values in the gp_settings_t at
 * `offset` in the command's own structure. */
void gp_settings_parameters(gp_parameter_t *ret_parameters, size_t offset);

/* Checks the given settings; "all" is legal as a type. Returns 0, or GP_EXIT_USAGE after messages. */
int gp_settings_check(const gp_settings_t *settings, const char *command);

/* The simulated device, from --capacity and --ready. */
typedef struct gp_place {
  const char *capacity_text; /* as typed; NULL: not given */
  const char *ready_text;    /* as typed; NULL: not given */
  uint64_t capacity;         /* in bytes; 0: not given */
  gp_ready_t ready;
} gp_place_t;

#define GP_PLACE_COUNT 2

/* Like gp_settings_parameters and gp_settings_check, but for a gp_place_t. */
void gp_place_parameters(gp_parameter_t *ret_parameters, size_t offset);
int gp_place_check(gp_place_t *place, const char *command);

/* Gets the options with which to simulate the workload. */
void gp_settings_resolve(
    const gp_settings_t *settings, const gp_workload_t *workload, gp_options_t *ret_options);

#endif
