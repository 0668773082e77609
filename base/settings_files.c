#include "base/settings_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings_text.h"
#include "base/retired.h"

bool gp_profile_has(gp_option_id_t id)
{
  switch (id) {
  case GP_OPTION_type:
  case GP_OPTION_reserve:
  case GP_OPTION_max_cached:
  case GP_OPTION_slack:
  case GP_OPTION_idle_release:
  case GP_OPTION_prewarm:
  case GP_OPTION_max_deferred: return true;
  default: return false;
  }
}

/* Returns the option with that name, for a line of a profile. If there is no such option, or if a profile may
 * not set it, reports this and returns GP_OPTION_COUNT. */
static gp_option_id_t find_option(gp_settings_text_t *text, const char *name)
{
  gp_option_id_t id = gp_option_find(name);
  const char *used;
  if (id == GP_OPTION_COUNT && gp_retired_report(name, "", gp_settings_text_report_value, text, &used))
    return GP_OPTION_COUNT;
  if (id == GP_OPTION_COUNT)
    gp_settings_text_report(text, true, "%.60s is no option", name);
  else if (!gp_profile_has(id))
    gp_settings_text_report(text, true, "%.60s cannot be set in a profile", name);
  return id != GP_OPTION_COUNT && gp_profile_has(id) ? id : GP_OPTION_COUNT;
}

/* Returns true if the profile may not set the option, because the option was set in the source that names the
 * profile, or in a source with precedence over that source. */
static bool is_decided(const gp_options_t *options, gp_option_id_t id)
{
  gp_option_source_t source = options->values[id].source;
  return source >= GP_OPTION_FROM_SYSTEM_FILE && source >= options->values[GP_OPTION_profile].source;
}

static void set_line(gp_options_t *options, gp_settings_text_t *text, gp_option_id_t id, const char *value)
{
  if (is_decided(options, id))
    return;
  options->values[id].source = GP_OPTION_FROM_PROFILE;
  if (gp_option_parse(id, value, options, gp_settings_text_report_value, text))
    return;
  (void)gp_option_parse(id, gp_option_table[id].default_text, options, NULL, NULL);
  options->values[id].source = GP_OPTION_FROM_DEFAULT;
}

/* Returns true if the profile is for another pool type than the one that is set. Does not report other
 * problems of the lines; they are reported when the lines are applied. */
static bool is_for_other_type(const gp_options_t *options, gp_settings_text_t *text)
{
  gp_settings_text_t silent = *text;
  const char *name, *value;
  bool is_other = false;

  silent.problem = NULL;
  while (gp_settings_text_next(&silent, &name, &value))
    is_other |= gp_option_find(name) == GP_OPTION_type && is_decided(options, GP_OPTION_type) &&
                gp_option_choice(GP_OPTION_type, value) != (int)gp_option_number(options, GP_OPTION_type);
  return is_other;
}

int gp_profile_apply(gp_options_t *options, gp_option_problem_fn problem, void *problem_arg)
{
  const char *path = gp_option_text(options, GP_OPTION_profile);
  char title[GP_OPTION_TEXT_BYTES];
  gp_settings_text_t text = {.title = title,
      .effect = "; the program runs without it",
      .problem = problem,
      .problem_arg = problem_arg};
  const char *name, *value;

  if (strcmp(path, "none") == 0)
    return 0;
  snprintf(title, sizeof(title), "GPUPOOL_PROFILE=%.300s", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    gp_settings_text_report_unreadable(&text, "%s", strerror(errno));
    return text.problems;
  }
  if (!gp_settings_text_read(&text, fd, GP_PROFILE_BYTES))
    return text.problems;
  if (is_for_other_type(options, &text)) {
    gp_settings_text_report(&text, true, "it is for another type than GPUPOOL_TYPE=%.30s; none of it is used",
        gp_option_text(options, GP_OPTION_type));
    return text.problems;
  }
  gp_settings_text_rewind(&text);
  while (gp_settings_text_next(&text, &name, &value)) {
    gp_option_id_t id = find_option(&text, name);
    if (id != GP_OPTION_COUNT)
      set_line(options, &text, id, value);
  }
  return text.problems;
}

#define PAGE_LOCKED_REFUSED ". Until it is corrected, every page-locked allocation fails"
#define ALL_REFUSED         ". Until it is corrected, every allocation fails"

/* The settings read so far. */
typedef struct settings {
  gp_options_t *options;
  bool is_decided[GP_OPTION_COUNT]; /* set, even if malformed, in a source with precedence */
  bool is_stated[GP_OPTION_COUNT];  /* set in the current file */
  gp_option_value_t ceiling;        /* LIMIT in the machine's file; text "": not set */
  gp_option_value_t host_ceiling;   /* HOST_LIMIT in the machine's file */
  gp_settings_text_t text;
} settings_t;

void gp_settings_files_find(gp_settings_files_t *ret_files, gp_option_lookup_fn lookup, void *lookup_arg)
{
  const char *folder = lookup(lookup_arg, "XDG_CONFIG_HOME");
  const char *home = lookup(lookup_arg, "HOME");
  int length = 0;

  ret_files->user[0] = ret_files->system[0] = '\0';
  if (getauxval(AT_SECURE))
    return;
  snprintf(ret_files->system, sizeof(ret_files->system), "%s", GP_SYSTEM_SETTINGS);
  if (folder && folder[0] == '/') /* the XDG specification says that relative paths are invalid */
    length = snprintf(ret_files->user, sizeof(ret_files->user), "%s/gpupool.conf", folder);
  else if (home && home[0] == '/')
    length = snprintf(ret_files->user, sizeof(ret_files->user), "%s/.config/gpupool.conf", home);
  if (length < 0 || (size_t)length >= sizeof(ret_files->user))
    ret_files->user[0] = '\0';
}

/* Returns true if only this user and root can have written the file. Otherwise reports a problem and returns
 * false. */
static bool is_trusted(gp_settings_text_t *text, int fd, bool is_system)
{
  struct stat status;
  char reason[96];

  if (fstat(fd, &status))
    snprintf(reason, sizeof(reason), "it cannot be read (%s)", strerror(errno));
  else if (status.st_uid != 0 && status.st_uid != geteuid())
    snprintf(reason, sizeof(reason), "it belongs to user %u, neither to you nor to root, and is not read",
        (unsigned)status.st_uid);
  else if (status.st_mode & (S_IWGRP | S_IWOTH))
    snprintf(reason, sizeof(reason), "others may write to it, so it is not read; chmod go-w it");
  else
    return true;
  if (is_system)
    gp_settings_text_report_unreadable(text, "%s", reason);
  else
    gp_settings_text_report(text, false, "%s", reason);
  return false;
}

/* Reads a file. Returns false if the file is absent or cannot be used; the latter is reported. A user's file
 * in a folder that cannot be entered is not reported, because programs of other users may inherit HOME. */
static bool read_file(settings_t *settings, const char *path, bool is_system)
{
  static char walked[GP_PATH_BYTES]; /* a copy, because gp_own_path_open overwrites the path */
  gp_settings_text_t *text = &settings->text;
  struct stat status;

  snprintf(walked, sizeof(walked), "%s", path);
  int fd = gp_own_path_open(walked, sizeof(walked), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) {
    int error = errno;
    bool is_absent = error == ENOENT || error == ENOTDIR || (error == EACCES && !is_system);
    const char *reason = error == ELOOP ? "a link of another user is on its way" : strerror(error);
    if (is_system && lstat(path, &status) == 0) /* the file exists, so it counts as unreadable */
      gp_settings_text_report_unreadable(text, "it cannot be read (%s)", reason);
    else if (!is_absent)
      gp_settings_text_report(text, false, "%s; it is not read", reason);
    return false;
  }
  if (!is_trusted(text, fd, is_system)) {
    (void)close(fd); /* cannot lose data: it was opened for reading */
    return false;
  }
  return gp_settings_text_read(text, fd, GP_SETTINGS_BYTES);
}

static void set_default(gp_options_t *options, gp_option_id_t id)
{
  (void)gp_option_parse(id, gp_option_table[id].default_text, options, NULL, NULL);
  options->values[id].source = GP_OPTION_FROM_DEFAULT;
}

static bool is_same(const gp_amount_t *a, const gp_amount_t *b)
{
  return a->is_none == b->is_none && a->is_share == b->is_share && a->number == b->number;
}

/* Parses a value of the current file. Returns false if the value is malformed. If a file sets two different
 * limits, the second counts as malformed, because it is unclear which one was meant. `first` has the limits
 * of all devices so far. */
static bool parse(settings_t *settings, gp_option_id_t id, const char *value, const gp_amount_t *first)
{
  gp_options_t *options = settings->options;
  bool is_again = settings->is_stated[id], is_other = false, is_host = id == GP_OPTION_host_limit;
  const gp_amount_t *second = is_host ? &options->values[id].amount : options->limits;
  int count = is_host ? 1 : id == GP_OPTION_limit ? GP_OPTION_DEVICES : 0;

  settings->is_stated[id] = true;
  if (!gp_option_parse(id, value, options, gp_settings_text_report_value, &settings->text))
    return false;
  for (int i = 0; i < count; i++)
    is_other |= !is_same(&first[i], &second[i]);
  if (!is_again || !is_other)
    return true;
  gp_settings_text_report(&settings->text, true, "%s=%.200s: a line above sets another limit%s",
      gp_option_table[id].variable, value, id == GP_OPTION_limit ? ALL_REFUSED : PAGE_LOCKED_REFUSED);
  return false;
}

static void set(settings_t *settings, gp_option_id_t id, const char *value, gp_option_source_t source)
{
  gp_options_t *options = settings->options;
  gp_amount_t first[GP_OPTION_DEVICES];

  if (settings->is_decided[id])
    return;
  memcpy(first, options->limits, sizeof(first));
  if (id == GP_OPTION_host_limit)
    first[0] = options->values[id].amount;
  if (parse(settings, id, value, first)) {
    options->values[id].source = source;
    return;
  }
  set_default(options, id);
  gp_options_note_malformed(options, id);
}

/* Sets a limit of the machine's file as a ceiling. Parses the limit into the options and then restores their
 * previous value. If the limit is malformed, no setting of the user overrides this, because other users of
 * the device rely on the limit. */
static void set_ceiling(settings_t *settings, gp_option_id_t id, const char *value)
{
  static gp_option_value_t kept;
  gp_amount_t limits[GP_OPTION_DEVICES];
  gp_options_t *options = settings->options;
  bool is_host = id == GP_OPTION_host_limit;
  gp_option_value_t *ceiling = is_host ? &settings->host_ceiling : &settings->ceiling;

  kept = options->values[id];
  memcpy(limits, options->limits, sizeof(limits));
  if (!parse(settings, id, value, is_host ? &ceiling->amount : options->ceilings)) {
    gp_options_note_malformed(options, id);
  } else {
    *ceiling = options->values[id];
    if (!is_host)
      memcpy(options->ceilings, options->limits, sizeof(options->ceilings));
  }
  options->values[id] = kept;
  memcpy(options->limits, limits, sizeof(limits));
}

/* Reports a name that is not an option, together with the nearest valid name. */
static void report_name(settings_t *settings, const char *name)
{
  char line[96];
  char *const environment[] = {line, NULL};

  snprintf(line, sizeof(line), "%.60s=", name);
  if (gp_options_check_names(environment, gp_settings_text_report_value, &settings->text)) /* has warned */
    return;
  snprintf(line, sizeof(line), "GPUPOOL_%.60s=", name);
  (void)gp_options_check_names(environment, gp_settings_text_report_value, &settings->text);
}

static void set_all(settings_t *settings, gp_option_source_t source)
{
  const char *name, *value;

  while (gp_settings_text_next(&settings->text, &name, &value)) {
    gp_option_id_t id = gp_option_find(name);
    bool is_limit = id == GP_OPTION_limit || id == GP_OPTION_host_limit;
    if (id == GP_OPTION_COUNT)
      report_name(settings, name);
    else if (is_limit && source == GP_OPTION_FROM_SYSTEM_FILE)
      set_ceiling(settings, id, value);
    else
      set(settings, id, value, source);
  }
}

/* Reads a file and applies its settings. Unreadable text may contain a limit, so it counts as a malformed
 * limit, unless a source with precedence over the file has set that limit. No source has precedence over the
 * limits in the machine's file. */
static void read_settings(settings_t *settings, const char *path, gp_option_source_t source)
{
  bool is_system = source == GP_OPTION_FROM_SYSTEM_FILE;
  bool all_refused = is_system || !settings->is_decided[GP_OPTION_limit];
  bool page_locked_refused = is_system || !settings->is_decided[GP_OPTION_host_limit];

  if (path[0] == '\0')
    return;
  settings->text.title = path;
  settings->text.line = settings->text.unreadable = 0;
  settings->text.effect = all_refused ? ALL_REFUSED : page_locked_refused ? PAGE_LOCKED_REFUSED : "";
  memset(settings->is_stated, 0, sizeof(settings->is_stated));
  if (read_file(settings, path, is_system))
    set_all(settings, source);
  if (settings->text.unreadable && all_refused)
    gp_options_note_malformed(settings->options, GP_OPTION_limit);
  if (settings->text.unreadable && page_locked_refused)
    gp_options_note_malformed(settings->options, GP_OPTION_host_limit);
  for (int id = 0; id < GP_OPTION_COUNT; id++)
    settings->is_decided[id] |= settings->is_stated[id];
}

/* Writes the limits to the option's text, in the syntax of the setting. Omits limits that do not fit. */
static void write_limits(gp_options_t *options)
{
  char *text = options->values[GP_OPTION_limit].text;
  size_t used = 0, capacity = sizeof(options->values[GP_OPTION_limit].text);

  for (int i = 0; i < GP_OPTION_DEVICES; i++) {
    const gp_amount_t *limit = &options->limits[i];
    char one[64];
    if (limit->is_none)
      continue;
    int length = snprintf(one, sizeof(one), "%s%d=%llu%s", used ? "," : "", i,
        (unsigned long long)limit->number, limit->is_share ? "%" : "");
    if (used + (size_t)length >= capacity)
      return;
    memcpy(text + used, one, (size_t)length + 1);
    used += (size_t)length;
  }
}

/* Lowers the limits to the ceilings if both are bytes or both are shares. The pool compares the others, once
 * it knows the size of the device (gp_limit_of). */
static void apply_ceiling(settings_t *settings)
{
  gp_options_t *options = settings->options;
  gp_option_value_t *value = &options->values[GP_OPTION_limit];
  bool has_lowered = false, had_limit = false, is_ceiling = true;

  for (int i = 0; i < GP_OPTION_DEVICES && settings->ceiling.text[0]; i++) {
    gp_amount_t *limit = &options->limits[i];
    const gp_amount_t *ceiling = &options->ceilings[i];
    bool is_above =
        limit->is_none || (limit->is_share == ceiling->is_share && limit->number > ceiling->number);
    if (!ceiling->is_none && is_above) {
      had_limit |= !limit->is_none;
      has_lowered = true;
      *limit = *ceiling;
    }
    is_ceiling &= is_same(limit, ceiling);
  }
  if (!has_lowered)
    return;
  if (had_limit)
    gp_settings_text_report(
        &settings->text, false, "its LIMIT is lower than GPUPOOL_LIMIT=%.200s, and holds", value->text);
  value->source = GP_OPTION_FROM_SYSTEM_FILE;
  if (is_ceiling)
    memcpy(value->text, settings->ceiling.text, sizeof(value->text));
  else
    write_limits(options);
}

/* Lowers the limit of page-locked memory to its ceiling. Both are bytes, so they can be compared at once. */
static void apply_host_ceiling(settings_t *settings)
{
  gp_option_value_t *value = &settings->options->values[GP_OPTION_host_limit];
  const gp_option_value_t *ceiling = &settings->host_ceiling;

  if (!ceiling->text[0] || ceiling->number >= value->number)
    return;
  if (value->number != UINT64_MAX)
    gp_settings_text_report(&settings->text, false,
        "its HOST_LIMIT is lower than GPUPOOL_HOST_LIMIT=%.200s, and holds", value->text);
  *value = *ceiling;
  value->source = GP_OPTION_FROM_SYSTEM_FILE;
}

int gp_settings_read(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    const gp_settings_files_t *files, gp_option_problem_fn problem, void *problem_arg)
{
  static settings_t settings; /* too large for a small stack */

  memset(&settings, 0, sizeof(settings));
  settings.options = ret_options;
  settings.text.problem = problem;
  settings.text.problem_arg = problem_arg;
  int problems = gp_options_parse_own(ret_options, lookup, lookup_arg, problem, problem_arg);
  for (int id = 0; id < GP_OPTION_COUNT; id++)
    settings.is_decided[id] = lookup(lookup_arg, gp_option_table[id].variable) != NULL;
  read_settings(&settings, files->user, GP_OPTION_FROM_USER_FILE);
  read_settings(&settings, files->system, GP_OPTION_FROM_SYSTEM_FILE);
  apply_ceiling(&settings); /* must come here: text.title is still the machine's file */
  apply_host_ceiling(&settings);
  problems += settings.text.problems;
  problems += gp_options_parse_mxnet(ret_options, lookup, lookup_arg, problem, problem_arg);
  return problems + gp_profile_apply(ret_options, problem, problem_arg);
}
