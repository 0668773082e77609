/*
 * Settings from files, for processes whose environment is not passed on: the user's gpupool.conf, and the
 * machine's /etc/gpupool.conf. The environment has precedence over the user's file, and the user's file over
 * the machine's. But the machine's limits are ceilings: other sources can only lower them.
 */
#ifndef GP_BASE_SETTINGS_FILES_H
#define GP_BASE_SETTINGS_FILES_H

#include "base/options.h"
#include "base/path.h"

#define GP_SYSTEM_SETTINGS "/etc/gpupool.conf"

/* The paths of the files; "" means that no such file is read. */
typedef struct gp_settings_files {
  char user[GP_PATH_BYTES];
  char system[GP_PATH_BYTES];
} gp_settings_files_t;

/* Writes the paths of the files to *ret_files. The user's file is in $XDG_CONFIG_HOME, or in ~/.config if
 * that variable is unset or relative. A program with another user's rights (setuid) has no user's file. The
 * files need not exist. */
void gp_settings_files_find(gp_settings_files_t *ret_files, gp_option_lookup_fn lookup, void *lookup_arg);

/*
 * Fills *ret_options from all sources: the variables that `lookup` returns, the files, MXNet's variables and
 * the profile. Returns the number of malformed values. Problems are reported as by gp_options_parse; for a
 * file, the message begins with the path and the line. A file is read only if it belongs to this user or to
 * root and no other user may write to it; otherwise a message is reported. Unreadable text may contain a
 * limit, so it counts as a malformed limit: an unreadable line, a second value for a limit in the same file,
 * or the machine's file as a whole. One thread at a time; allocates nothing.
 */
int gp_settings_read(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    const gp_settings_files_t *files, gp_option_problem_fn problem, void *problem_arg);

/*
 * Profiles: files with settings of the pool (settings_text.h). GPUPOOL_PROFILE specifies the file, and
 * `gpupool tune` writes such files.
 *
 * A profile is applied as a whole. It is ignored if another pool type was set in the source that names the
 * profile, or in a source with precedence over that source.
 */

#define GP_PROFILE_BYTES 8192 /* size of the longest profile */

/* Returns true if a profile can set the option, that is, if the option controls how memory is pooled.
 * Profiles do not set limits, files or recording. */
bool gp_profile_has(gp_option_id_t id);

/*
 * Reads the profile that *options names, if any, and applies its settings. Skips options that were set in the
 * source that names the profile, or in a source with precedence over that source (gp_option_source_t).
 * Problems are reported as by gp_options_parse, with the file and the line before the text. Returns the
 * number of problems. One thread at a time; allocates nothing.
 */
int gp_profile_apply(gp_options_t *options, gp_option_problem_fn problem, void *problem_arg);

#endif
