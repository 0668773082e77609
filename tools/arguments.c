#include "tools/arguments.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings_files.h"
#include "tools/output.h"
#include "tools/tool.h"

char *gp_argument_name(gp_option_id_t id, char *buffer)
{
  const char *name = gp_option_table[id].name;
  size_t i = 0;
  for (; name[i] && i + 1 < GP_ARGUMENT_NAME_BYTES; i++)
    buffer[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
  buffer[i] = '\0';
  return buffer;
}

static int unknown_option(const char *command, const char *flag, const char *option)
{
  char buffers[GP_OPTION_COUNT][GP_ARGUMENT_NAME_BYTES];
  const char *names[GP_OPTION_COUNT + 2];
  for (int id = 0; id < GP_OPTION_COUNT; id++)
    names[id] = gp_argument_name((gp_option_id_t)id, buffers[id]);
  names[GP_OPTION_COUNT] = "help";
  names[GP_OPTION_COUNT + 1] = flag + 2; /* the flag's name without its dashes */
  return gp_message_unknown_option(command, option, names, GP_OPTION_COUNT + 2);
}

/* Returns the option that `argument` ("--name" or "--name=value") sets, or GP_OPTION_COUNT if no option has
 * that name. Sets *ret_value to the text after the '=', or to NULL if there is no '='. */
static gp_option_id_t find_option(const char *argument, const char **ret_value)
{
  char name[GP_ARGUMENT_NAME_BYTES];
  size_t length = strcspn(argument + 2, "=");
  *ret_value = NULL;
  if (length >= sizeof(name))
    return GP_OPTION_COUNT;
  snprintf(name, sizeof(name), "%.*s", (int)length, argument + 2);
  if (argument[2 + length] == '=')
    *ret_value = argument + 2 + length + 1;
  return gp_option_find(name);
}

int gp_arguments_parse(
    const char *command, const char *flag, int argc, char **argv, gp_arguments_t *ret_arguments)
{
  gp_arguments_t arguments = {.next = 1};

  for (; arguments.next < argc; arguments.next++) {
    const char *argument = argv[arguments.next];
    const char *value;
    if (argument[0] != '-' || argument[1] == '\0')
      break;
    if (strcmp(argument, "--") == 0) {
      arguments.next++;
      break;
    }
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
      arguments.help = true;
      break;
    }
    if (strcmp(argument, flag) == 0) {
      arguments.flag = true;
      continue;
    }
    if (argument[1] != '-')
      return unknown_option(command, flag, argument);
    gp_option_id_t id = find_option(argument, &value);
    if (id == GP_OPTION_COUNT)
      return unknown_option(command, flag, argument);
    bool has_next = arguments.next + 1 < argc;
    const char *next = has_next ? argv[arguments.next + 1] : "";
    if (!value && gp_option_table[id].type == GP_OPTION_BOOL) {
      /* A boolean option needs no value: --stats is --stats=1. */
      value = "1";
      if (strcmp(next, "0") == 0 || strcmp(next, "1") == 0)
        value = argv[++arguments.next];
    } else if (!value) {
      if (!has_next || strcmp(next, "--") == 0)
        return gp_message_usage(command, "%s: %s needs a value", command, argument);
      value = argv[++arguments.next];
    }
    arguments.texts[id] = value;
  }
  *ret_arguments = arguments;
  return 0;
}

const char *gp_arguments_lookup(void *arg, const char *variable)
{
  const gp_arguments_t *arguments = arg;
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    if (arguments->texts[id] && strcmp(gp_option_table[id].variable, variable) == 0)
      return arguments->texts[id];
  }
  return getenv(variable);
}

typedef struct check {
  const gp_arguments_t *arguments;
  bool is_final;
  int malformed;
} check_t;

/* Prints a message about an option; a gp_option_problem_fn. The message contains the environment variable. If
 * the value came from an argument, the printed message contains the argument's name instead. */
static void report(void *arg, bool malformed, const char *message)
{
  static const char *const consequences[] = {". The default, ", ". Until "};
  check_t *check = arg;
  char name[GP_ARGUMENT_NAME_BYTES];
  int length = (int)strlen(message);

  check->malformed += malformed;
  for (size_t i = 0; i < 2 && malformed && check->is_final; i++) {
    const char *consequence = strstr(message, consequences[i]);
    if (consequence)
      length = (int)(consequence - message);
  }
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    const char *variable = gp_option_table[id].variable;
    int width = (int)strlen(variable);
    if (check->arguments->texts[id] && strncmp(message, variable, (size_t)width) == 0 &&
        message[width] == '=') {
      gp_message("--%s%.*s", gp_argument_name((gp_option_id_t)id, name), length - width, message + width);
      return;
    }
  }
  gp_message("%.*s", length, message);
}

void gp_arguments_read(
    gp_arguments_t *arguments, gp_options_t *ret_options, gp_option_problem_fn problem, void *problem_arg)
{
  gp_settings_files_t files;

  gp_settings_files_find(&files, gp_arguments_lookup, arguments);
  /* report() counts the problems */
  (void)gp_options_check_names(environ, problem, problem_arg);
  (void)gp_settings_read(ret_options, gp_arguments_lookup, arguments, &files, problem, problem_arg);
}

int gp_arguments_check(gp_arguments_t *arguments, bool is_final, gp_options_t *ret_options)
{
  check_t check = {arguments, is_final, 0};
  gp_arguments_read(arguments, ret_options, report, &check);
  return check.malformed; /* unknown names are only warnings */
}

void gp_arguments_print_help(void)
{
  char name[GP_ARGUMENT_NAME_BYTES];
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    const gp_option_t *option = &gp_option_table[id];
    printf("  --%s", gp_argument_name((gp_option_id_t)id, name));
    switch (option->type) {
    case GP_OPTION_BOOL: break;
    case GP_OPTION_INTEGER: printf(" N"); break;
    case GP_OPTION_SIZE: printf(" SIZE"); break;
    case GP_OPTION_SHARE: printf(" SIZE|SHARE"); break;
    case GP_OPTION_DEVICE_SIZE: printf(" SIZE|SHARE|DEVICE=SIZE,..."); break;
    case GP_OPTION_CHOICE: printf(" %s", option->syntax); break;
    case GP_OPTION_FLAGS: printf(" %s,...|none", option->syntax); break;
    case GP_OPTION_BLOCKS: printf(" SIZE*COUNT,..."); break;
    case GP_OPTION_TEXT: printf(" PATH"); break;
    }
    printf(" (default %s)\n", option->default_text);
    gp_output_wrap(stdout, "      ", "      ", option->help);
  }
}
