#include "tools/replay/settings.h"

#include <stdio.h>

#include "tools/arguments.h"
#include "tools/tool.h"

static const gp_option_id_t heeded[GP_SETTINGS_COUNT] = {GP_OPTION_type, GP_OPTION_limit, GP_OPTION_reserve,
    GP_OPTION_max_cached, GP_OPTION_slack, GP_OPTION_idle_release, GP_OPTION_round_cutoff, GP_OPTION_page,
    GP_OPTION_large_round, GP_OPTION_prewarm, GP_OPTION_reuse, GP_OPTION_patience, GP_OPTION_max_deferred,
    GP_OPTION_async};

/* Names of the arguments, such as "max-cached". They are made once. */
static char names[GP_SETTINGS_COUNT][GP_ARGUMENT_NAME_BYTES];

bool gp_settings_has(gp_option_id_t id)
{
  for (size_t i = 0; i < GP_SETTINGS_COUNT; i++) {
    if (heeded[i] == id)
      return true;
  }
  return false;
}

void gp_settings_parameters(gp_parameter_t *ret_parameters, size_t offset)
{
  static char help[GP_SETTINGS_COUNT][64];
  for (size_t i = 0; i < GP_SETTINGS_COUNT; i++) {
    gp_option_id_t id = heeded[i];
    snprintf(help[i], sizeof(help[i]), "as %s%s", gp_option_table[id].variable,
        id == GP_OPTION_type ? "; all: each in turn" : "");
    ret_parameters[i] = (gp_parameter_t){
        .name = gp_argument_name(id, names[i]),
        .argument = "VALUE",
        .kind = GP_PARAMETER_TEXT,
        .offset = offset + offsetof(gp_settings_t, texts) + (size_t)id * sizeof(const char *),
        .help = help[i],
    };
  }
}

/* Prints a message about an option. The environment variable at the beginning of the message is replaced by
 * the argument's name. */
static void report(void *arg, bool malformed, const char *message)
{
  const char *value = strchr(message, '='), *consequence = strstr(message, ". ");
  char name[GP_ARGUMENT_NAME_BYTES];
  (void)malformed;

  int length = (int)(consequence ? (size_t)(consequence - message) : strlen(message));
  for (size_t i = 0; i < GP_SETTINGS_COUNT && value; i++) {
    const char *variable = gp_option_table[heeded[i]].variable;
    if (strlen(variable) == (size_t)(value - message) && strncmp(message, variable, strlen(variable)) == 0) {
      gp_message("%s: --%s%.*s", (const char *)arg, gp_argument_name(heeded[i], name),
          length - (int)(value - message), value);
      return;
    }
  }
  gp_message("%s: %.*s", (const char *)arg, length, message);
}

static const char *look_up_given(void *arg, const char *variable)
{
  const gp_settings_t *settings = arg;
  for (size_t i = 0; i < GP_SETTINGS_COUNT; i++) {
    const char *text = settings->texts[heeded[i]];
    if (text && strcmp(gp_option_table[heeded[i]].variable, variable) == 0)
      return heeded[i] == GP_OPTION_type && strcmp(text, "all") == 0 ? NULL : text;
  }
  return NULL;
}

int gp_settings_check(const gp_settings_t *settings, const char *command)
{
  static gp_options_t options; /* too large for the stack */
  gp_settings_t copy = *settings;
  return gp_options_parse(&options, look_up_given, &copy, report, (void *)(uintptr_t)command) > 0
             ? GP_EXIT_USAGE
             : 0;
}

void gp_place_parameters(gp_parameter_t *ret_parameters, size_t offset)
{
  ret_parameters[0] = (gp_parameter_t){"capacity", 0, "SIZE", GP_PARAMETER_TEXT,
      offset + offsetof(gp_place_t, capacity_text), NULL, 0, 0,
      "memory of each device, such as 80GiB; by default that of the recording's device, less what other processes used, or no bound if the recording lacks it"};
  ret_parameters[1] = (gp_parameter_t){"ready", 0, "WHEN", GP_PARAMETER_TEXT,
      offset + offsetof(gp_place_t, ready_text), NULL, 0, 0,
      "when the device is known to be done with freed memory: recorded (as in the recording), at-once, sync=N (the program synchronizes after each N requests), lag=N (the device is N requests behind, and the program never synchronizes); by default recorded, for tables of requests at-once"};
}

int gp_place_check(gp_place_t *place, const char *command)
{
  const char *text = place->capacity_text;
  if (text && (!gp_size_parse(text, strlen(text), &place->capacity) || !place->capacity))
    return gp_message_usage(
        command, "%s: --capacity=%s is malformed; accepted: a size such as 80GiB", command, text);
  if (place->ready_text && !gp_ready_parse(place->ready_text, &place->ready))
    return gp_message_usage(command,
        "%s: --ready=%s is malformed; accepted: recorded, at-once, sync=N or lag=N", command,
        place->ready_text);
  return 0;
}

typedef struct sources {
  gp_settings_t given;
  const cJSON *recorded;
} sources_t;

static const char *look_up(void *arg, const char *variable)
{
  sources_t *sources = arg;
  const char *given = look_up_given(&sources->given, variable);

  for (size_t i = 0; i < GP_SETTINGS_COUNT && !given && sources->recorded; i++) {
    char name[GP_ARGUMENT_NAME_BYTES];
    if (strcmp(gp_option_table[heeded[i]].variable, variable) != 0)
      continue;
    gp_argument_name(heeded[i], name);
    for (char *at = name; *at; at++)
      *at = *at == '-' ? '_' : *at;
    const char *text = gp_snapshot_text(sources->recorded, name);
    return text[0] ? text : NULL;
  }
  return given;
}

void gp_settings_resolve(
    const gp_settings_t *settings, const gp_workload_t *workload, gp_options_t *ret_options)
{
  sources_t sources = {*settings, workload->settings};
  /* The given settings are valid. In a damaged recording, invalid settings are replaced by defaults. */
  (void)gp_options_parse(ret_options, look_up, &sources, NULL, NULL);
}
