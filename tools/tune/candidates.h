/*
 * The settings that `gpupool tune` chooses from: a grid for each type of pool. doc/tune.md lists it.
 */
#ifndef GP_TOOLS_TUNE_CANDIDATES_H
#define GP_TOOLS_TUNE_CANDIDATES_H

#include "tools/replay/settings.h"

/* Along an axis candidates differ in one setting, in the order of its values. */
typedef enum gp_axis { GP_AXIS_FIRST, GP_AXIS_SECOND, GP_AXES } gp_axis_t;

/* Places on the two axes of a type. */
typedef struct gp_candidate {
  int type; /* a row of the grid */
  int places[GP_AXES];
} gp_candidate_t;

#define GP_CANDIDATE_TEXTS 3 /* most settings that one has, its type included */

/* The settings of a candidate: those that are not the library's defaults, and its type. */
typedef struct gp_candidate_settings {
  struct {
    gp_option_id_t id;
    char text[32];
  } items[GP_CANDIDATE_TEXTS];
  int count;
} gp_candidate_settings_t;

/* How many types there are, how many places an axis of one has (at least 1), and the name of the type. */
int gp_candidate_types(void);
int gp_candidate_places(int type, gp_axis_t axis);
const char *gp_candidate_type_name(int type);

/* The type with all else at the library's defaults. */
gp_candidate_t gp_candidate_initial(int type);

/* The option that differs along an axis; GP_OPTION_COUNT: the axis has one place. */
gp_option_id_t gp_candidate_option(int type, gp_axis_t axis);

/* live_peak: most that a recording's program held on a device, which what is prewarmed is a share of. */
void gp_candidate_describe(
    const gp_candidate_t *candidate, uint64_t live_peak, gp_candidate_settings_t *ret_settings);

/* Bytes that the candidate takes ahead of need; 0: it does not. */
uint64_t gp_candidate_prewarm(const gp_candidate_t *candidate, uint64_t live_peak);

/* False: it is not as the user wants it. */
bool gp_candidate_is_allowed(const gp_candidate_t *candidate, const gp_settings_t *given);

#endif
