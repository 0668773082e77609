/*
 * Settings of the pool from a file (settings_text.h) that GPUPOOL_PROFILE names. `gpupool tune` writes such
 * files.
 *
 * A profile is one whole: if another type was set where the profile was named, or in a place that goes before
 * it, all of the profile is ignored.
 */
#ifndef GP_BASE_PROFILE_H
#define GP_BASE_PROFILE_H

#include "base/options.h"

#define GP_PROFILE_BYTES 8192 /* of the longest profile */

/* True of an option that a profile can set: how memory is pooled. Profiles do not set
 * limits, files or recording. */
bool gp_profile_has(gp_option_id_t id);

/*
 * Reads the file that *options names, if any, and sets the options that are not set where it was named,
 * or in a place that goes before it (gp_option_source_t). Problems
 * are reported as by gp_options_parse, with the file and the line before the text. Returns the number of
 * problems. One thread at a time; allocates nothing.
 */
int gp_profile_apply(gp_options_t *options, gp_option_problem_fn problem, void *problem_arg);

#endif
