/*
 * The pool's settings on the command line of replay and tune: those of the library that a simulation heeds.
 * What is not given is as the recording had it, or the default; the environment says nothing here.
 */
#ifndef GP_TOOLS_REPLAY_SETTINGS_H
#define GP_TOOLS_REPLAY_SETTINGS_H

#include "tools/replay/workload.h"
#include "tools/request.h"

typedef struct gp_settings {
  const char *texts[GP_OPTION_COUNT]; /* as typed, or set by the caller; borrowed, NULL: not given */
} gp_settings_t;

#define GP_SETTINGS_COUNT 14 /* options that a simulation heeds */

/* True of an option that a simulation heeds. */
bool gp_settings_has(gp_option_id_t id);

/* Writes GP_SETTINGS_COUNT parameters, whose values go to a gp_settings_t at `offset`
 * of the command's own. */
void gp_settings_parameters(gp_parameter_t *ret_parameters, size_t offset);

/* Checks those that were given; "all" is legal as a type. Returns 0, or after messages GP_EXIT_USAGE. */
int gp_settings_check(const gp_settings_t *settings, const char *command);

/* On what device a workload is simulated: --capacity and --ready. */
typedef struct gp_place {
  const char *capacity_text; /* as typed; NULL: not given, as the next */
  const char *ready_text;
  uint64_t capacity; /* bytes; 0: not given */
  gp_ready_t ready;
} gp_place_t;

#define GP_PLACE_COUNT 2

/* The same two for them. */
void gp_place_parameters(gp_parameter_t *ret_parameters, size_t offset);
int gp_place_check(gp_place_t *place, const char *command);

/* The options that a simulation of the workload runs with. */
void gp_settings_resolve(
    const gp_settings_t *settings, const gp_workload_t *workload, gp_options_t *ret_options);

#endif
