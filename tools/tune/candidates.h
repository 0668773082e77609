/*
 * The settings that `gpupool tune` chooses from: a grid for each type of pool. doc/tune.md lists it.
 */
#ifndef GP_TOOLS_TUNE_CANDIDATES_H
#define GP_TOOLS_TUNE_CANDIDATES_H

#include "tools/replay/settings.h"

/* Neighbours along an axis differ in one setting; places follow the order of its values. */
typedef enum gp_axis { GP_AXIS_FIRST, GP_AXIS_SECOND, GP_AXES } gp_axis_t;

/* A pool type and a place on each of its two axes. */
typedef struct gp_candidate {
  int type; /* row of the grid */
  int places[GP_AXES];
} gp_candidate_t;

#define GP_CANDIDATE_TYPES_MOST 8

#define GP_CANDIDATE_TEXTS 3 /* most settings of one candidate, its type included */

/* A candidate's settings: its type, and those that differ from the library's defaults. */
typedef struct gp_candidate_settings {
  struct {
    gp_option_id_t id;
    char text[32];
  } items[GP_CANDIDATE_TEXTS];
  int count;
} gp_candidate_settings_t;

/* The number of types, the number of places on an axis of a type (at least 1), and the name of a type. */
int gp_candidate_types(void);
int gp_candidate_places(int type, gp_axis_t axis);
const char *gp_candidate_type_name(int type);

/* The candidate of this type with all else at the library's defaults. */
gp_candidate_t gp_candidate_initial(int type);

/* The option that varies along an axis; GP_OPTION_COUNT: none, the axis has one place. */
gp_option_id_t gp_candidate_option(int type, gp_axis_t axis);

/* live_peak: the most that a recorded program held on one device; the prewarmed amount is a share of it. */
void gp_candidate_describe(
    const gp_candidate_t *candidate, uint64_t live_peak, gp_candidate_settings_t *ret_settings);

/* Bytes that the candidate prewarms; 0: none. */
uint64_t gp_candidate_prewarm(const gp_candidate_t *candidate, uint64_t live_peak);

/* False: the candidate contradicts the user's settings. */
bool gp_candidate_is_allowed(const gp_candidate_t *candidate, const gp_settings_t *given);

#endif
