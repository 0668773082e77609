#include "tools/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "tools/folders.h"
#include "tools/output.h"
#include "tools/tool.h"

#define COMMON(member) offsetof(gp_request_t, member)

static const gp_parameter_t common[] = {
    {"device", 0, "N", GP_PARAMETER_DEVICE, COMMON(device), NULL, 0, 0, "only this device"},
    {"stream", 0, "S", GP_PARAMETER_TEXT, COMMON(stream), NULL, 0, 0,
        "only what was asked for on this stream: its number in the snapshot, or its handle, 0x..."},
    {"thread", 0, "T", GP_PARAMETER_TEXT, COMMON(thread), NULL, 0, 0,
        "only what this thread asked for: its id or its name"},
    {"since", 0, "TIME", GP_PARAMETER_TIME, COMMON(since_ns), NULL, 0, 0,
        "only from then on, counted from the beginning of recording: 1.5s, 20ms, 2min"},
    {"until", 0, "TIME", GP_PARAMETER_TIME, COMMON(until_ns), NULL, 0, 0, "only up to then"},
    {"at", 0, "WHEN", GP_PARAMETER_MOMENT, COMMON(at), NULL, 0, 0,
        "what was held then: oom (when memory ran out; oom=N: the Nth time), peak, exit, a time, 1.5s, or the number of an event, 1234"},
    {"json", 0, NULL, GP_PARAMETER_FLAG, COMMON(json), NULL, 0, 0, "one JSON document with the same facts"},
    {"output", 'o', "F", GP_PARAMETER_TEXT, COMMON(output), NULL, 0, 0,
        "write to F (- is stdout); an existing file is kept"},
    {"force", 0, NULL, GP_PARAMETER_FLAG, COMMON(force), NULL, 0, 0, "overwrite the file of -o"},
    {"strict", 0, NULL, GP_PARAMETER_FLAG, COMMON(strict), NULL, 0, 0,
        "exit status 4 if something is missing in a snapshot"},
    {"wide", 0, NULL, GP_PARAMETER_FLAG, COMMON(wide), NULL, 0, 0, "do not cut long names"},
    {"ascii", 0, NULL, GP_PARAMETER_FLAG, COMMON(ascii), NULL, 0, 0, "draw with ASCII characters only"},
    {"no-symbols", 0, NULL, GP_PARAMETER_FLAG, COMMON(no_symbols), NULL, 0, 0,
        "open no file that the snapshot names: stacks have places in files instead of names"},
    {"skip", 0, "PATTERN", GP_PARAMETER_PATTERNS, COMMON(skip), NULL, 0, 0,
        "frames whose function, file or module matches own no memory: their callers do (as in a line of --suppressions; may be given several times)"},
    {"skip-file", 0, "FILE", GP_PARAMETER_TEXT, COMMON(skip_file), NULL, 0, 0,
        "the same for each line of FILE; # begins a comment"},
    {"all-frames", 0, NULL, GP_PARAMETER_FLAG, COMMON(all_frames), NULL, 0, 0,
        "name the innermost frame of each stack, whatever it is, and show stacks whole"},
    {"no-color", 0, NULL, GP_PARAMETER_FLAG, COMMON(no_color), NULL, 0, 0,
        "no colour (nor with NO_COLOR set, nor away from a terminal)"},
    {"help", 'h', NULL, GP_PARAMETER_FLAG, COMMON(help), NULL, 0, 0, "print this"},
};
#define COMMON_COUNT (sizeof(common) / sizeof(common[0]))

/* False for an option that the command lacks: --at if it is not about one moment; those about
 * stacks or text if it has neither. */
static bool is_offered(const gp_request_form_t *form, const gp_parameter_t *parameter)
{
  static const size_t of_requests[] = {
      COMMON(device), COMMON(json), COMMON(output), COMMON(force), COMMON(no_color), COMMON(help), SIZE_MAX};
  static const size_t of_files[] = {COMMON(device), COMMON(output), COMMON(force), COMMON(strict),
      COMMON(no_symbols), COMMON(skip), COMMON(skip_file), COMMON(all_frames), COMMON(help), SIZE_MAX};
  const size_t *some = form->is_of_requests ? of_requests : form->writes_file ? of_files : NULL;
  bool is_common = parameter >= common && parameter < common + COMMON_COUNT;

  for (size_t i = 0; some && is_common; i++) {
    if (some[i] == SIZE_MAX)
      return false;
    if (some[i] == parameter->offset)
      return true;
  }
  return form->takes_moment || parameter->kind != GP_PARAMETER_MOMENT;
}

/* The command's own options come first, both in the help and when an argument is looked up. */
static const gp_parameter_t *parameter_at(const gp_request_form_t *form, size_t i)
{
  if (i < form->parameter_count)
    return &form->parameters[i];
  return i - form->parameter_count < COMMON_COUNT ? &common[i - form->parameter_count] : NULL;
}

static bool parse_time(const char *text, uint64_t *ret_ns)
{
  static const struct {
    const char *name;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};
  char *end;

  if (text[0] < '0' || text[0] > '9' || text[strspn(text, "0123456789.")] == '\0')
    return false;
  double value = strtod(text, &end);
  if (end != text + strspn(text, "0123456789.")) /* rejects 0x10s, 1e5s, 1..2s */
    return false;
  end += strspn(end, " ");
  for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
    if (strcmp(end, units[i].name) != 0 || !(value * units[i].ns < 9e15))
      continue;
    *ret_ns = (uint64_t)(value * units[i].ns + 0.5);
    return true;
  }
  return false;
}

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number)
{
  size_t length = strlen(text);
  if (length == 0 || length > 18 || strspn(text, "0123456789") != length)
    return false;
  uint64_t number = strtoull(text, NULL, 10);
  if (number < least || number > most)
    return false;
  *ret_number = number;
  return true;
}

bool gp_request_parse_moment(const char *text, gp_request_moment_t *ret_moment)
{
  gp_request_moment_t moment = {.kind = GP_MOMENT_NONE, .text = text};

  if (strcmp(text, "exit") == 0 || strcmp(text, "end") == 0)
    moment.kind = GP_MOMENT_EXIT;
  else if (strcmp(text, "peak") == 0)
    moment.kind = GP_MOMENT_PEAK;
  else if (strcmp(text, "oom") == 0 ||
           (strncmp(text, "oom=", 4) == 0 && parse_number(text + 4, 1, UINT32_MAX, &moment.number)))
    moment.kind = GP_MOMENT_OOM;
  else if (parse_number(text, 0, UINT32_MAX, &moment.number))
    moment.kind = GP_MOMENT_EVENT;
  else if (parse_time(text, &moment.number))
    moment.kind = GP_MOMENT_TIME;
  else
    return false;
  *ret_moment = moment;
  return true;
}

/* The index of text among choices such as "live|peak", or -1. */
static int find_choice(const char *choices, const char *text)
{
  int index = 0;
  for (const char *choice = choices; choice; index++) {
    size_t length = strcspn(choice, "|");
    if (strlen(text) == length && strncmp(choice, text, length) == 0)
      return index;
    choice = choice[length] ? choice + length + 1 : NULL;
  }
  return -1;
}

static int malformed(const char *command, const gp_parameter_t *parameter, bool is_short, const char *text,
    const char *accepted)
{
  if (is_short)
    return gp_message_usage(
        command, "%s: -%c %s is malformed; accepted: %s", command, parameter->letter, text, accepted);
  return gp_message_usage(
      command, "%s: --%s=%s is malformed; accepted: %s", command, parameter->name, text, accepted);
}

static int store(
    const char *command, const gp_parameter_t *parameter, bool is_short, const char *text, void *at)
{
  char accepted[96];
  uint64_t number = 0;

  switch (parameter->kind) {
  case GP_PARAMETER_FLAG: *(bool *)at = true; return 0;
  case GP_PARAMETER_TEXT:
    if (!text[0])
      return malformed(command, parameter, is_short, text, "anything but nothing");
    *(const char **)at = text;
    return 0;
  case GP_PARAMETER_PATTERNS:
    if (gp_pattern_is_empty(text))
      return malformed(command, parameter, is_short, text, "a pattern that does not match everything");
    if (!gp_patterns_add(at, text)) {
      gp_message("%s", strerror(ENOMEM));
      return GP_EXIT_INPUT;
    }
    return 0;
  case GP_PARAMETER_COUNT:
  case GP_PARAMETER_OPTIONAL_COUNT:
    snprintf(accepted, sizeof(accepted), "%" PRIu64 " to %" PRIu64, parameter->least, parameter->most);
    if (!text)
      *(uint64_t *)at = parameter->least;
    else if (!parse_number(text, parameter->least, parameter->most, at))
      return malformed(command, parameter, is_short, text, accepted);
    return 0;
  case GP_PARAMETER_DEVICE:
    snprintf(accepted, sizeof(accepted), "0 to %d", GP_OPTION_DEVICES - 1);
    if (!parse_number(text, 0, GP_OPTION_DEVICES - 1, &number))
      return malformed(command, parameter, is_short, text, accepted);
    *(int *)at = (int)number;
    return 0;
  case GP_PARAMETER_TIME:
    if (!parse_time(text, at))
      return malformed(
          command, parameter, is_short, text, "a time with its unit (ns, us, ms, s, min or h): 1.5s");
    return 0;
  case GP_PARAMETER_CHOICE:
    if (find_choice(parameter->choices, text) < 0)
      return malformed(command, parameter, is_short, text, parameter->choices);
    *(int *)at = find_choice(parameter->choices, text);
    return 0;
  case GP_PARAMETER_MOMENT:
    if (!gp_request_parse_moment(text, at))
      return malformed(command, parameter, is_short, text,
          "oom, oom=N, peak, exit, a time with its unit (1.5s), or the number of an event (1234)");
    return 0;
  }
  return 0;
}

static const gp_parameter_t *find(
    const gp_request_form_t *form, const char *argument, size_t length, size_t *ret_index)
{
  const gp_parameter_t *parameter;
  for (size_t i = 0; (parameter = parameter_at(form, i)); i++) {
    *ret_index = i;
    bool is_long = argument[1] == '-' && strlen(parameter->name) == length - 2 &&
                   strncmp(parameter->name, argument + 2, length - 2) == 0;
    if (is_offered(form, parameter) &&
        (is_long || (parameter->letter && argument[1] == parameter->letter && length == 2)))
      return parameter;
  }
  return NULL;
}

static int unknown(const gp_request_form_t *form, const char *argument)
{
  const char *names[64];
  size_t count = 0;
  const gp_parameter_t *parameter;
  for (size_t i = 0; (parameter = parameter_at(form, i)) && count < sizeof(names) / sizeof(names[0]); i++) {
    if (is_offered(form, parameter))
      names[count++] = parameter->name;
  }
  return gp_message_unknown_option(form->command, argument, names, count);
}

static int check_files(const gp_request_form_t *form, const gp_request_t *request)
{
  if (request->file_count < form->least_files)
    return gp_message_usage(form->command, "%s: %s is missing", form->command,
        form->least_files > 1 && request->file_count > 0 ? "a second file" : "a file");
  if (form->most_files && request->file_count > form->most_files)
    return gp_message_usage(
        form->command, "%s: unexpected argument %s", form->command, request->files[form->most_files]);
  int stdins = 0;
  for (int i = 0; i < request->file_count; i++)
    stdins += strcmp(request->files[i], "-") == 0;
  if (stdins > 1)
    return gp_message_usage(form->command, "%s: stdin (-) can be read only once", form->command);
  if (request->since_ns > request->until_ns)
    return gp_message_usage(form->command, "%s: --since is after --until", form->command);
  return 0;
}

int gp_request_parse(const gp_request_form_t *form, int argc, char **argv, gp_request_t *request, void *own)
{
  bool options_end = false;

  *request = (gp_request_t){
      .command = form->command, .device = GP_REQUEST_ALL_DEVICES, .until_ns = UINT64_MAX, .files = argv + 1};
  for (int i = 1; i < argc; i++) {
    char *argument = argv[i];
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] ? argument + length + 1 : NULL;
    size_t index;

    if (options_end || argument[0] != '-' || strcmp(argument, "-") == 0) {
      request->files[request->file_count++] = argument;
      continue;
    }
    if (strcmp(argument, "--") == 0) {
      options_end = true;
      continue;
    }
    const gp_parameter_t *parameter = find(form, argument, length, &index);
    if (!parameter)
      return unknown(form, argument);
    bool takes_value = parameter->kind != GP_PARAMETER_FLAG;
    if (value && !takes_value)
      return gp_message_usage(form->command, "%s: --%s takes no value", form->command, parameter->name);
    if (takes_value && !value && parameter->kind != GP_PARAMETER_OPTIONAL_COUNT) {
      if (i + 1 == argc)
        return gp_message_usage(form->command, "%s: %s needs a value", form->command, argument);
      value = argv[++i];
    }
    char *base = index < form->parameter_count ? own : (char *)request;
    int status = store(form->command, parameter, argument[1] != '-', value, base + parameter->offset);
    if (status || request->help)
      return status;
  }
  int status = check_files(form, request);
  if (!status && form->most_files == 0)
    status = gp_folders_expand(request);
  if (!status && form->check)
    status = form->check(request, own);
  return status || !request->skip_file ? status : gp_patterns_load(&request->skip, request->skip_file);
}

void gp_request_fini(gp_request_t *request)
{
  gp_folders_fini(request);
  gp_patterns_fini(&request->skip);
}

static bool is_selection(const gp_parameter_t *parameter)
{
  return parameter >= common && parameter < common + COMMON_COUNT &&
         (parameter->offset == COMMON(stream) || parameter->offset == COMMON(thread) ||
             parameter->offset == COMMON(since_ns) || parameter->offset == COMMON(until_ns));
}

void gp_request_help(const gp_request_form_t *form)
{
  const gp_parameter_t *parameter;
  char first[64];

  printf("usage: gpupool %s %s [options]\n\n%s%s\n", form->command, form->files, form->about,
      form->most_files ? "" : "A folder stands for the files .json and .pickle in it.\n");
  for (size_t i = 0; (parameter = parameter_at(form, i)); i++) {
    if ((form->hides_selection && is_selection(parameter)) || !is_offered(form, parameter))
      continue;
    char names[96], letter[8] = "";
    const char *argument = parameter->kind == GP_PARAMETER_CHOICE ? parameter->choices : parameter->argument;
    if (parameter->letter)
      snprintf(letter, sizeof(letter), "-%c, ", parameter->letter);
    bool is_optional = parameter->kind == GP_PARAMETER_OPTIONAL_COUNT;
    snprintf(names, sizeof(names), "%s--%s%s%s%s", letter, parameter->name,
        !argument     ? ""
        : is_optional ? "[="
                      : " ",
        argument ? argument : "", is_optional ? "]" : "");
    if (strlen(names) > 18) { /* no room for a blank before the help */
      printf("  %s\n", names);
      names[0] = '\0';
    }
    snprintf(first, sizeof(first), "  %-19s", names);
    gp_output_wrap(stdout, first, "                     ", parameter->help);
  }
  printf("\nExit status: 0 done; %s2 usage; 3 a file that cannot be read or is corrupt%s.\n",
      form->statuses ? form->statuses : "", form->is_of_requests ? "" : ";\n4 with --strict");
}
