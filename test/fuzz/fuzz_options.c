/*
 * The options of the library: lines NAME=VALUE, as an environment. A malformed value is reported and leaves a
 * value that the library can work with.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "base/options.h"
#include "base/path.h"

#define LINES_MOST 64

typedef struct environment {
  char *lines[LINES_MOST + 1];
  int problems;
} environment_t;

static const char *lookup(void *arg, const char *variable)
{
  environment_t *environment = arg;
  size_t length = strlen(variable);
  for (char **line = environment->lines; *line; line++) {
    if (strncmp(*line, variable, length) == 0 && (*line)[length] == '=')
      return *line + length + 1;
  }
  return NULL;
}

static void problem(void *arg, bool malformed, const char *message)
{
  environment_t *environment = arg;
  FUZZ_CHECK(message[0]);
  environment->problems += malformed; /* a warning is none */
}

static void check(const gp_options_t *options)
{
  FUZZ_CHECK(gp_path_check(options->values[GP_OPTION_output].text) == NULL);
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    const gp_option_t *option = &gp_option_table[id];
    const gp_option_value_t *value = &options->values[id];
    FUZZ_CHECK(memchr(value->text, '\0', sizeof(value->text)) != NULL);
    if (option->type == GP_OPTION_BOOL)
      FUZZ_CHECK(value->number <= 1);
    if (option->type == GP_OPTION_INTEGER && value->number != UINT64_MAX)
      FUZZ_CHECK(value->number >= option->minimum && (!option->maximum || value->number <= option->maximum));
  }
}

/* A name of which every placeholder is known can be made, unless it is too long. */
static void check_path(const char *data, size_t size)
{
  char buffer[256];
  char *pattern = strndup(data, size < 64 ? size : 64);
  FUZZ_CHECK(pattern != NULL);
  bool is_known = gp_path_check(pattern) == NULL;
  int result = gp_path_expand(pattern, 0, "exit", buffer, sizeof(buffer));
  FUZZ_CHECK(is_known || result != 0);
  FUZZ_CHECK(memchr(buffer, '\0', sizeof(buffer)) != NULL);
  free(pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static gp_options_t options; /* too large for a stack */
  environment_t environment = {.problems = 0};
  char *text = fuzz_copy(data, size), *rest = text;
  uint64_t bytes;

  for (size_t i = 0; i < LINES_MOST && (environment.lines[i] = strsep(&rest, "\n"));)
    i++;
  int problems = gp_options_parse(&options, lookup, &environment, problem, &environment);
  FUZZ_CHECK(problems == environment.problems);
  check(&options);
  (void)gp_options_check_names(environment.lines, problem, &environment); /* counted in the environment */
  (void)gp_size_parse((const char *)data, size, &bytes);                  /* any bytes */
  check_path((const char *)data, size);
  free(text);
  return 0;
}
