/*
 * Settings from a file, which GPUPOOL_PROFILE names: lines NAME=VALUE, with GPUPOOL_ before the name or
 * without, empty lines, and comments that begin with #. `gpupool tune` writes such files.
 *
 * A profile was chosen as a whole: where the environment sets another type than the profile does, none of it
 * counts.
 */
#ifndef GP_POOL_UTIL_PROFILE_H
#define GP_POOL_UTIL_PROFILE_H

#include "pool/util/options.h"

#define GP_PROFILE_BYTES 8192 /* of the longest one */

/* True of an option that a profile can set: how memory is pooled. Limits, files and recording are no part of
 * it. */
bool gp_profile_has(gp_option_id_t id);

/*
 * Reads the file that *options names, if any, and sets what the environment left. Problems are reported as
 * by gp_options_parse, with the file and the line before the text. Returns how many there were. One thread at
 * a time; allocates nothing.
 */
int gp_profile_apply(gp_options_t *options, gp_option_problem_fn problem, void *problem_arg);

#endif
