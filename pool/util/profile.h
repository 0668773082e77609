/*
 * Settings from a file, which GPUPOOL_PROFILE names: lines NAME=VALUE, with GPUPOOL_ before the name or
 * without, empty lines, and comments that begin with #. `gpupool tune` writes such files.
 *
 * A profile is one whole: if the environment sets another type than the profile, all
 * of the profile is ignored.
 */
#ifndef GP_POOL_UTIL_PROFILE_H
#define GP_POOL_UTIL_PROFILE_H

#include "pool/util/options.h"

#define GP_PROFILE_BYTES 8192 /* of the longest profile */

/* True of an option that a profile can set: how memory is pooled. Profiles do not set
 * limits, files or recording. */
bool gp_profile_has(gp_option_id_t id);

/*
 * Reads the file that *options names, if any, and sets the options that the environment does not. Problems
 * are reported as by gp_options_parse, with the file and the line before the text. Returns the number of
 * problems. One thread at a time; allocates nothing.
 */
int gp_profile_apply(gp_options_t *options, gp_option_problem_fn problem, void *problem_arg);

#endif
