#include "base/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/retired.h"
#include "base/settings_text.h"

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

/* The option of a line; GP_OPTION_COUNT: there is none that a profile may set, which this reports. */
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

/* True if the option was set where the profile was named, or in a place that goes before it. */
static bool is_decided(const gp_options_t *options, gp_option_id_t id)
{
  gp_option_source_t source = options->values[id].source;
  return source >= GP_OPTION_FROM_SYSTEM_FILE && source >= options->values[GP_OPTION_profile].source;
}

static void set(gp_options_t *options, gp_settings_text_t *text, gp_option_id_t id, const char *value)
{
  if (is_decided(options, id))
    return;
  options->values[id].source = GP_OPTION_FROM_PROFILE;
  if (gp_option_parse(id, value, options, gp_settings_text_report_value, text))
    return;
  (void)gp_option_parse(id, gp_option_table[id].default_text, options, NULL, NULL);
  options->values[id].source = GP_OPTION_FROM_DEFAULT;
}

/* A line's other problems are reported when it is set. */
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
      set(options, &text, id, value);
  }
  return text.problems;
}
