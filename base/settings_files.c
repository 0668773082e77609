#include "base/settings_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_path.h"
#include "base/profile.h"
#include "base/settings_text.h"

/* What is set so far. */
typedef struct settings {
  gp_options_t *options;
  bool is_decided[GP_OPTION_COUNT]; /* by a place that goes before the current one, even if malformed */
  bool is_stated[GP_OPTION_COUNT];  /* in the current file */
  const char *ceiling;              /* as the machine's file has it; NULL: it sets none */
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
  if (folder && folder[0] == '/') /* relative ones are invalid, says the standard of the variable */
    length = snprintf(ret_files->user, sizeof(ret_files->user), "%s/gpupool.conf", folder);
  else if (home && home[0] == '/')
    length = snprintf(ret_files->user, sizeof(ret_files->user), "%s/.config/gpupool.conf", home);
  if (length < 0 || (size_t)length >= sizeof(ret_files->user))
    ret_files->user[0] = '\0';
}

/* True: only this user or root can have written the file. */
static bool is_trusted(gp_settings_text_t *text, int fd)
{
  struct stat status;

  if (fstat(fd, &status))
    return false;
  if (status.st_uid != 0 && status.st_uid != geteuid()) {
    gp_settings_text_report(text, false, "it belongs to user %u, neither to you nor to root, and is not read",
        (unsigned)status.st_uid);
    return false;
  }
  if (status.st_mode & (S_IWGRP | S_IWOTH)) {
    gp_settings_text_report(text, false, "others may write to it, so it is not read; chmod go-w it");
    return false;
  }
  return true;
}

/* False: there is no such file, or it is not to be used, which was reported. Nothing is said of a user's file
 * in a folder that cannot be entered: programs of other users may inherit HOME. */
static bool read_file(settings_t *settings, const char *path, bool is_system)
{
  static char walked[GP_PATH_BYTES]; /* the walk overwrites it */

  snprintf(walked, sizeof(walked), "%s", path);
  int fd = gp_own_path_open(walked, sizeof(walked), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) {
    bool is_absent = errno == ENOENT || errno == ENOTDIR || (errno == EACCES && !is_system);
    if (!is_absent)
      gp_settings_text_report(&settings->text, false, "%s; it is not read",
          errno == ELOOP ? "a link of another user is on its way" : strerror(errno));
    return false;
  }
  if (!is_trusted(&settings->text, fd)) {
    (void)close(fd); /* only read */
    return false;
  }
  return gp_settings_text_read(&settings->text, fd, GP_SETTINGS_BYTES);
}

static void set_default(gp_options_t *options, gp_option_id_t id)
{
  (void)gp_option_parse(id, gp_option_table[id].default_text, options, NULL, NULL);
  options->values[id].source = GP_OPTION_FROM_DEFAULT;
}

static void set(settings_t *settings, gp_option_id_t id, const char *value, gp_option_source_t source)
{
  gp_options_t *options = settings->options;

  settings->is_stated[id] = true;
  if (settings->is_decided[id])
    return;
  if (gp_option_parse(id, value, options, gp_settings_text_report_value, &settings->text)) {
    options->values[id].source = source;
    return;
  }
  set_default(options, id);
  gp_options_note_malformed(options, id);
}

/* The limit of the machine's file. It is parsed where a limit is kept, and then what was there comes back. */
static void set_ceiling(settings_t *settings, const char *value)
{
  static gp_option_value_t kept;
  static char text[GP_OPTION_TEXT_BYTES];
  gp_amount_t limits[GP_OPTION_DEVICES];
  gp_options_t *options = settings->options;

  kept = options->values[GP_OPTION_limit];
  memcpy(limits, options->limits, sizeof(limits));
  if (gp_option_parse(GP_OPTION_limit, value, options, gp_settings_text_report_value, &settings->text)) {
    memcpy(options->ceilings, options->limits, sizeof(options->ceilings));
    memcpy(text, options->values[GP_OPTION_limit].text, sizeof(text));
    settings->ceiling = text;
  } else {
    options->limit_malformed = true; /* it is a promise to others */
  }
  options->values[GP_OPTION_limit] = kept;
  memcpy(options->limits, limits, sizeof(limits));
}

/* The same for page-locked memory: a number, which can be compared at once. */
static void set_host_ceiling(settings_t *settings, const char *value)
{
  static gp_option_value_t kept;
  gp_option_value_t *limit = &settings->options->values[GP_OPTION_host_limit];

  kept = *limit;
  if (!gp_option_parse(
          GP_OPTION_host_limit, value, settings->options, gp_settings_text_report_value, &settings->text))
    settings->options->host_limit_malformed = true;
  else if (limit->number < kept.number) {
    limit->source = GP_OPTION_FROM_SYSTEM_FILE;
    settings->text.line = 0;
    if (kept.number != UINT64_MAX)
      gp_settings_text_report(&settings->text, false,
          "its HOST_LIMIT is lower than GPUPOOL_HOST_LIMIT=%.200s, and holds", kept.text);
    return;
  }
  *limit = kept;
}

/* Reports the name of a line that is no option, with the nearest that is. */
static void report_name(settings_t *settings, const char *name)
{
  char line[96];
  char *const environment[] = {line, NULL};

  snprintf(line, sizeof(line), "GPUPOOL_%.60s=", name);
  (void)gp_options_check_names(environment, gp_settings_text_report_value, &settings->text); /* a warning */
}

static void read_settings(settings_t *settings, const char *path, gp_option_source_t source)
{
  bool is_system = source == GP_OPTION_FROM_SYSTEM_FILE;
  const char *name, *value;

  settings->text.title = path;
  settings->text.line = 0;
  if (path[0] == '\0' || !read_file(settings, path, is_system))
    return;
  memset(settings->is_stated, 0, sizeof(settings->is_stated));
  while (gp_settings_text_next(&settings->text, &name, &value)) {
    gp_option_id_t id = gp_option_find(name);
    if (id == GP_OPTION_COUNT)
      report_name(settings, name);
    else if (id == GP_OPTION_limit && is_system)
      set_ceiling(settings, value);
    else if (id == GP_OPTION_host_limit && is_system)
      set_host_ceiling(settings, value);
    else
      set(settings, id, value, source);
  }
  for (int id = 0; id < GP_OPTION_COUNT; id++)
    settings->is_decided[id] |= settings->is_stated[id];
}

static bool is_same(const gp_amount_t *a, const gp_amount_t *b)
{
  return a->is_none == b->is_none && a->is_share == b->is_share && a->number == b->number;
}

/* Writes the limits as they would be written in a setting. What does not fit is left out of the text. */
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

/* Lowers the limits to the ceilings where the two can be compared: bytes to bytes, shares to shares. The pool
 * compares the others, once it knows the device (gp_limit_of). */
static void apply_ceilings(settings_t *settings, const char *path)
{
  gp_options_t *options = settings->options;
  gp_option_value_t *value = &options->values[GP_OPTION_limit];
  bool has_lowered = false, had_limit = false, is_ceiling = true;

  for (int i = 0; i < GP_OPTION_DEVICES && settings->ceiling; i++) {
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
  settings->text.title = path;
  if (had_limit)
    gp_settings_text_report(
        &settings->text, false, "its LIMIT is lower than GPUPOOL_LIMIT=%.200s, and holds", value->text);
  value->source = GP_OPTION_FROM_SYSTEM_FILE;
  if (is_ceiling)
    memcpy(value->text, settings->ceiling, sizeof(value->text));
  else
    write_limits(options);
}

int gp_settings_read(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    const gp_settings_files_t *files, gp_option_problem_fn problem, void *problem_arg)
{
  settings_t settings = {.options = ret_options, .text = {.problem = problem, .problem_arg = problem_arg}};

  int problems = gp_options_parse_own(ret_options, lookup, lookup_arg, problem, problem_arg);
  for (int id = 0; id < GP_OPTION_COUNT; id++)
    settings.is_decided[id] = lookup(lookup_arg, gp_option_table[id].variable) != NULL;
  read_settings(&settings, files->user, GP_OPTION_FROM_USER_FILE);
  read_settings(&settings, files->system, GP_OPTION_FROM_SYSTEM_FILE);
  apply_ceilings(&settings, files->system);
  problems += settings.text.problems;
  problems += gp_options_parse_mxnet(ret_options, lookup, lookup_arg, problem, problem_arg);
  return problems + gp_profile_apply(ret_options, problem, problem_arg);
}
