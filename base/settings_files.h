/*
 * Settings from files, for processes whose environment gets lost on the way: the user's gpupool.conf, and the
 * machine's /etc/gpupool.conf. The environment has precedence over the user's file, and the user's file over
 * the machine's. But the machine's limits are ceilings: other sources may only lower them.
 */
#ifndef GP_BASE_SETTINGS_FILES_H
#define GP_BASE_SETTINGS_FILES_H

#include "base/options.h"
#include "base/path.h"

#define GP_SYSTEM_SETTINGS "/etc/gpupool.conf"

/* The paths of the files; "": no such file is read. */
typedef struct gp_settings_files {
  char user[GP_PATH_BYTES];
  char system[GP_PATH_BYTES];
} gp_settings_files_t;

/* Finds the files. The user's file is in $XDG_CONFIG_HOME, or in ~/.config if that is unset or relative. A
 * program with another user's rights (setuid) has no user's file. The files need not exist. */
void gp_settings_files_find(gp_settings_files_t *ret_files, gp_option_lookup_fn lookup, void *lookup_arg);

/*
 * Fills *ret_options from all sources: the variables that lookup returns, the files, MXNet's variables, the
 * profile. Problems are reported as by gp_options_parse; in files, the text is prefixed with path and line. A
 * file is read only if it belongs to this user or to root and no others may write to it; otherwise a message
 * says so. Unreadable text may be a limit and counts as a malformed one: a line, a second value for a limit
 * in the same file, and the machine's file as a whole. Returns the number of malformed values. One thread at
 * a time; allocates nothing.
 */
int gp_settings_read(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    const gp_settings_files_t *files, gp_option_problem_fn problem, void *problem_arg);

/*
 * Settings of the pool from a file (settings_text.h) that GPUPOOL_PROFILE names. `gpupool tune` writes such
 * files.
 *
 * A profile is applied as a whole: if another pool type was set in the source that names the profile, or in a
 * source with precedence over it, the entire profile is ignored.
 */

#define GP_PROFILE_BYTES 8192 /* size of the longest profile */

/* Returns true for an option that a profile can set: how memory is pooled. Profiles do not set limits,
 * files or recording. */
bool gp_profile_has(gp_option_id_t id);

/*
 * Reads the file that *options names, if any, and sets the options that are not set in the source that names
 * the profile, or in a source with precedence over it (gp_option_source_t). Problems are reported as by
 * gp_options_parse, with the file and the line before the text. Returns the number of problems. One thread at
 * a time; allocates nothing.
 */
int gp_profile_apply(gp_options_t *options, gp_option_problem_fn problem, void *problem_arg);

#endif
