/*
 * gpupool config: prints the options in effect.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "base/settings_files.h"
#include "tools/arguments.h"
#include "tools/json_print.h"
#include "tools/output.h"
#include "tools/tool.h"

static void print_help(void)
{
  printf("usage: gpupool config [--json] [options]\n"
         "\n"
         "Prints the options that a program would run with: value, default, where the\n"
         "value comes from, and what it means. Values come from options of the same names\n"
         "(--limit), else from the environment (GPUPOOL_LIMIT), else from the file\n"
         "$XDG_CONFIG_HOME/gpupool.conf (~/.config/gpupool.conf), else from\n" GP_SYSTEM_SETTINGS
         ", whose limit others can only lower. The file of\n"
         "GPUPOOL_PROFILE and MXNet's variables come after these. Exit status 2 if a value\n"
         "is malformed.\n"
         "\n"
         "  --json\n"
         "      one JSON document: {\"options\": [{\"name\", \"variable\", \"type\", \"value\",\n"
         "      \"default\", \"source\", \"malformed\", \"syntax\", \"help\"}]}\n");
  gp_arguments_print_help();
}

static const char *source_name(gp_arguments_t *arguments, const gp_options_t *options, int id, bool for_json)
{
  static gp_settings_files_t files;

  gp_settings_files_find(&files, gp_arguments_lookup, arguments);
  if (arguments->texts[id] && options->values[id].source == GP_OPTION_FROM_ENVIRONMENT)
    return "option";
  switch (options->values[id].source) {
  case GP_OPTION_FROM_DEFAULT: return "default";
  case GP_OPTION_FROM_ENVIRONMENT: return "environment";
  case GP_OPTION_FROM_USER_FILE: return for_json ? "user_file" : files.user;
  case GP_OPTION_FROM_SYSTEM_FILE: return for_json ? "system_file" : files.system;
  case GP_OPTION_FROM_PROFILE: return "profile";
  case GP_OPTION_FROM_MXNET: return for_json ? "mxnet" : "MXNet";
  }
  return "";
}

/* Returns true if a value was given for the option but is malformed, so that the default is in use. A
 * malformed MXNet variable only causes a warning, and a malformed file entry only a message. A malformed
 * limit in a file does count here. */
static bool is_malformed(gp_arguments_t *arguments, const gp_options_t *options, int id)
{
  if (id == GP_OPTION_limit)
    return options->limit_malformed;
  if (id == GP_OPTION_host_limit)
    return options->host_limit_malformed;
  return options->values[id].source == GP_OPTION_FROM_DEFAULT &&
         gp_arguments_lookup(arguments, gp_option_table[id].variable) != NULL;
}

static void print_table(gp_arguments_t *arguments, const gp_options_t *options)
{
  char name[GP_ARGUMENT_NAME_BYTES];
  char value[GP_OPTION_TEXT_BYTES];

  printf("%-16s %-25s %-25s %s\n", "name", "value", "default", "source");
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    const gp_option_t *option = &gp_option_table[id];
    bool malformed = is_malformed(arguments, options, id);
    const char *text = gp_printable(gp_option_text(options, (gp_option_id_t)id), value, sizeof(value));
    if (malformed && (id == GP_OPTION_limit || id == GP_OPTION_host_limit))
      text = "nothing can be allocated";
    printf("%-16s %-25s %-25s %s\n", gp_argument_name((gp_option_id_t)id, name), text, option->default_text,
        malformed ? "malformed" : source_name(arguments, options, id, false));
    gp_output_wrap(stdout, "    ", "    ", option->help);
  }
  printf("\ngpupool run raises trace-events to 4194304 where it is not set.\n");
}

static int print_json(gp_arguments_t *arguments, const gp_options_t *options)
{
  static const char *const types[] = {
      [GP_OPTION_BOOL] = "bool",
      [GP_OPTION_INTEGER] = "integer",
      [GP_OPTION_SIZE] = "size",
      [GP_OPTION_SHARE] = "share",
      [GP_OPTION_DEVICE_SIZE] = "device_size",
      [GP_OPTION_CHOICE] = "choice",
      [GP_OPTION_FLAGS] = "flags",
      [GP_OPTION_BLOCKS] = "blocks",
      [GP_OPTION_TEXT] = "text",
  };
  cJSON *root = gp_json_document("config");
  GP_JSON_DOCUMENT(config);
  cJSON *list = GP_PUT_LIST(root, "options", option, "every setting");
  GP_JSON_SHAPE(option);
  for (int id = 0; id < GP_OPTION_COUNT && list; id++) {
    const gp_option_t *option = &gp_option_table[id];
    char name[GP_ARGUMENT_NAME_BYTES];
    cJSON *item = gp_json_add_item(list);
    GP_PUT_TEXT(
        item, "name", gp_argument_name((gp_option_id_t)id, name), "name of the option of `gpupool run`");
    GP_PUT_TEXT(item, "variable", option->variable, "environment variable");
    GP_PUT_CHOICE(item, "type", "bool|integer|size|share|device_size|choice|flags|blocks|text",
        types[option->type], "what kind of value it takes");
    GP_PUT_TEXT(item, "value", gp_option_text(options, (gp_option_id_t)id), "the value in effect");
    GP_PUT_TEXT(item, "default", option->default_text, "the value where nothing is set");
    GP_PUT_CHOICE(item, "source", "default|environment|option|user_file|system_file|profile|mxnet",
        source_name(arguments, options, id, true), "where the value comes from");
    GP_PUT_BOOL(
        item, "malformed", is_malformed(arguments, options, id), "the value that was given cannot be used");
    GP_PUT_TEXT(item, "syntax", option->syntax, "the values it takes");
    GP_PUT_TEXT(item, "help", option->help, "what it is for");
  }
  return gp_json_put(root);
}

int gp_command_config(int argc, char **argv)
{
  gp_arguments_t arguments;
  static gp_options_t options; /* too large for a stack */

  int status = gp_arguments_parse("config", "--json", argc, argv, &arguments);
  if (status)
    return status;
  if (arguments.help) {
    print_help();
    return GP_EXIT_DONE;
  }
  if (arguments.next < argc)
    return gp_message_usage("config", "config: unexpected argument %s", argv[arguments.next]);
  int malformed = gp_arguments_check(&arguments, false, &options);
  if (arguments.flag)
    status = print_json(&arguments, &options);
  else
    print_table(&arguments, &options);
  return status ? status : malformed ? GP_EXIT_USAGE : GP_EXIT_DONE;
}
