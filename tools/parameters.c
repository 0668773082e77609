#include "tools/parameters.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "tools/pattern.h"
#include "tools/tool.h"

#define NAME_MAX_LENGTH 48

static int fold(char c)
{
  return c == '_' ? '-' : tolower((unsigned char)c);
}

/* Returns the edit distance, in which swapping two neighbours is one edit. Both texts have at most
 * NAME_MAX_LENGTH characters. */
static unsigned distance(const char *a, size_t rows, const char *b, size_t columns)
{
  unsigned lines[3][NAME_MAX_LENGTH + 1];
  unsigned *before = lines[0], *last = lines[1], *line = lines[2];

  for (size_t j = 0; j <= columns; j++)
    last[j] = (unsigned)j;
  for (size_t i = 1; i <= rows; i++) {
    line[0] = (unsigned)i;
    for (size_t j = 1; j <= columns; j++) {
      unsigned best = last[j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));
      if (last[j] + 1 < best)
        best = last[j] + 1;
      if (line[j - 1] + 1 < best)
        best = line[j - 1] + 1;
      if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]) &&
          before[j - 2] + 1 < best)
        best = before[j - 2] + 1;
      line[j] = best;
    }
    unsigned *free_line = before;
    before = last;
    last = line;
    line = free_line;
  }
  return last[columns];
}

const char *gp_suggest_nearest(const char *text, const char *const *names, size_t count)
{
  const char *nearest = NULL;
  size_t length = strlen(text);
  unsigned best = length < 5 ? 2 : 3; /* the user is unlikely to mean a name further away */

  if (length > NAME_MAX_LENGTH)
    return NULL;
  for (size_t i = 0; i < count; i++) {
    size_t columns = strlen(names[i]);
    if (columns > NAME_MAX_LENGTH)
      continue;
    unsigned steps = distance(text, length, names[i], columns);
    bool is_start = length >= 3 && columns > length && distance(text, length, names[i], length) == 0;
    if (is_start)
      steps = 1;
    if (steps < best) {
      best = steps;
      nearest = names[i];
    }
  }
  return nearest;
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

bool gp_parameter_parse_moment(const char *text, gp_request_moment_t *ret_moment)
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

/* Returns the index of `text` among `choices`, such as "live|peak", or -1 if it is none of them. */
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
      return malformed(command, parameter, is_short, text, "a value that is not empty");
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
    if (!gp_parameter_parse_moment(text, at))
      return malformed(command, parameter, is_short, text,
          "oom, oom=N, peak, exit, a time with its unit (1.5s), or the number of an event (1234)");
    return 0;
  }
  return 0;
}

/* Returns the parameter for argument[0..length), which is "--NAME" or "-L". Sets *ret_values to the values of
 * the table that contains the parameter. Returns NULL if no table contains it. */
static const gp_parameter_t *find(
    const gp_parameters_t *tables, size_t table_count, const char *argument, size_t length, void **ret_values)
{
  for (size_t i = 0; i < table_count; i++) {
    for (const gp_parameter_t *one = tables[i].items; one < tables[i].items + tables[i].count; one++) {
      bool is_long = argument[1] == '-' && strlen(one->name) == length - 2 &&
                     strncmp(one->name, argument + 2, length - 2) == 0;
      *ret_values = tables[i].values;
      if (is_long || (one->letter && argument[1] == one->letter && length == 2))
        return one;
    }
  }
  return NULL;
}

static int unknown(
    const char *command, const gp_parameters_t *tables, size_t table_count, const char *argument)
{
  const char *names[64];
  size_t count = 0;
  for (size_t i = 0; i < table_count; i++) {
    for (size_t k = 0; k < tables[i].count && count < sizeof(names) / sizeof(names[0]); k++)
      names[count++] = tables[i].items[k].name;
  }
  return gp_message_unknown_option(command, argument, names, count);
}

int gp_parameters_parse(const char *command, const gp_parameters_t *tables, size_t table_count, int argc,
    char **argv, int *ret_words)
{
  bool options_end = false;

  *ret_words = 0;
  for (int i = 1; i < argc; i++) {
    char *argument = argv[i];
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] ? argument + length + 1 : NULL;
    void *values;

    if (options_end || argument[0] != '-' || strcmp(argument, "-") == 0) {
      argv[++*ret_words] = argument;
      continue;
    }
    if (strcmp(argument, "--") == 0) {
      options_end = true;
      continue;
    }
    const gp_parameter_t *parameter = find(tables, table_count, argument, length, &values);
    if (!parameter)
      return unknown(command, tables, table_count, argument);
    bool takes_value = parameter->kind != GP_PARAMETER_FLAG;
    if (value && !takes_value)
      return gp_message_usage(command, "%s: --%s takes no value", command, parameter->name);
    if (takes_value && !value && parameter->kind != GP_PARAMETER_OPTIONAL_COUNT) {
      if (i + 1 == argc)
        return gp_message_usage(command, "%s: %s needs a value", command, argument);
      value = argv[++i];
    }
    int status = store(command, parameter, argument[1] != '-', value, (char *)values + parameter->offset);
    if (status || strcmp(parameter->name, "help") == 0)
      return status;
  }
  return 0;
}

bool gp_words_parse(
    const gp_words_form_t *form, int argc, char **argv, void *own, int *ret_words, int *ret_status)
{
  static const gp_parameter_t help_parameter = {.name = "help", .letter = 'h'};
  bool help = false;
  const gp_parameters_t tables[] = {
      {form->parameters, form->parameter_count, own}, {&help_parameter, 1, &help}};

  *ret_status = gp_parameters_parse(form->command, tables, 2, argc, argv, ret_words);
  if (*ret_status)
    return false;
  if (help)
    form->print_help();
  else if (*ret_words > form->most_words)
    *ret_status = gp_message_usage(
        form->command, "%s: unexpected argument %s", form->command, argv[form->most_words + 1]);
  return !help && !*ret_status;
}
