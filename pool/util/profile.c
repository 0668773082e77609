#include "pool/util/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct profile {
  gp_options_t *options;
  const char *path;
  int line; /* from 1; 0: the file as a whole */
  int problems;
  bool is_for_other_type;
  gp_option_problem_fn problem;
  void *problem_arg;
} profile_t;

bool gp_profile_has(gp_option_id_t id)
{
  switch (id) {
  case GP_OPTION_type:
  case GP_OPTION_reserve:
  case GP_OPTION_max_cached:
  case GP_OPTION_slack:
  case GP_OPTION_idle_release:
  case GP_OPTION_round_divisions:
  case GP_OPTION_round_cutoff:
  case GP_OPTION_page:
  case GP_OPTION_large_round:
  case GP_OPTION_small:
  case GP_OPTION_prewarm:
  case GP_OPTION_max_deferred: return true;
  default: return false;
  }
}

static void report(profile_t *profile, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void report(profile_t *profile, const char *format, ...)
{
  char message[768];
  va_list arguments;
  int length = snprintf(message, sizeof(message), "GPUPOOL_PROFILE=%.300s", profile->path);

  if (profile->line)
    length += snprintf(message + length, sizeof(message) - (size_t)length, ", line %d", profile->line);
  length += snprintf(message + length, sizeof(message) - (size_t)length, ": ");
  va_start(arguments, format);
  vsnprintf(message + length, sizeof(message) - (size_t)length, format, arguments);
  va_end(arguments);
  profile->problems++;
  if (profile->problem)
    profile->problem(profile->problem_arg, true, message);
}

/* Reports a bad value of the file, with its place in front of the message. */
static void report_value(void *arg, bool malformed, const char *message)
{
  (void)malformed;
  report(arg, "%s", message);
}

/* Returns the bytes read into text, which holds GP_PROFILE_BYTES + 2; -1: a problem, which was reported. */
static ssize_t read_file(profile_t *profile, char *text)
{
  struct stat status;
  size_t used = 0;
  ssize_t got = 0;
  int fd = open(profile->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

  if (fd < 0) {
    report(profile, "%s; the program runs without it", strerror(errno));
    return -1;
  }
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    report(profile, "it is no regular file; the program runs without it");
    close(fd);
    return -1;
  }
  do {
    got = read(fd, text + used, GP_PROFILE_BYTES + 1 - used);
    used += got > 0 ? (size_t)got : 0;
  } while (used <= GP_PROFILE_BYTES && (got > 0 || (got < 0 && errno == EINTR)));
  if (got < 0)
    report(profile, "%s; the program runs without it", strerror(errno));
  else if (used > GP_PROFILE_BYTES)
    report(profile, "it is longer than %d bytes; the program runs without it", GP_PROFILE_BYTES);
  close(fd);
  return got < 0 || used > GP_PROFILE_BYTES ? -1 : (ssize_t)used;
}

/* NAME=VALUE of a line, without blanks around either. False: the line is empty, or is of no use, which this
 * reports. Writes the NULs of both strings into the line. */
static bool read_line(profile_t *profile, char *line, gp_option_id_t *ret_id, const char **ret_value)
{
  static const char blanks[] = " \t\r", prefix[] = "GPUPOOL_";
  size_t length = strlen(line);

  while (length > 0 && strchr(blanks, line[length - 1]))
    line[--length] = '\0';
  line += strspn(line, blanks);
  char *value = strchr(line, '=');
  if (line[0] == '\0' || line[0] == '#')
    return false;
  if (!value) {
    report(profile, "\"%.60s\" is malformed; accepted: NAME=VALUE, or a comment after #", line);
    return false;
  }
  char *end = value;
  while (end > line && strchr(blanks, end[-1]))
    end--;
  *end = '\0';
  value += 1 + strspn(value + 1, blanks);
  if (strncmp(line, prefix, sizeof(prefix) - 1) == 0)
    line += sizeof(prefix) - 1;
  *ret_id = gp_option_find(line);
  *ret_value = value;
  if (*ret_id == GP_OPTION_COUNT)
    report(profile, "%.60s is no option", line);
  else if (!gp_profile_has(*ret_id))
    report(profile, "%.60s is no setting of a profile, which are those of the pool", line);
  return *ret_id != GP_OPTION_COUNT && gp_profile_has(*ret_id);
}

/* Calls visit for each setting. Changes text as read_line does. */
static void for_each(
    profile_t *profile, char *text, void (*visit)(profile_t *profile, gp_option_id_t id, const char *value))
{
  profile->line = 0;
  for (char *line = text; line;) {
    char *end = strchr(line, '\n');
    gp_option_id_t id;
    const char *value;
    if (end)
      *end = '\0';
    profile->line++;
    if (read_line(profile, line, &id, &value))
      visit(profile, id, value);
    line = end ? end + 1 : NULL;
  }
  profile->line = 0;
}

static void set(profile_t *profile, gp_option_id_t id, const char *value)
{
  gp_option_value_t *option = &profile->options->values[id];

  if (option->source == GP_OPTION_FROM_ENVIRONMENT)
    return;
  option->source = GP_OPTION_FROM_PROFILE;
  if (gp_option_parse(id, value, profile->options, report_value, profile))
    return;
  (void)gp_option_parse(id, gp_option_table[id].default_text, profile->options, NULL, NULL);
  option->source = GP_OPTION_FROM_DEFAULT;
}

static void compare_type(profile_t *profile, gp_option_id_t id, const char *value)
{
  const gp_option_value_t *type = &profile->options->values[GP_OPTION_type];
  profile->is_for_other_type |= id == GP_OPTION_type && type->source == GP_OPTION_FROM_ENVIRONMENT &&
                                gp_option_choice(GP_OPTION_type, value) != (int)type->number;
}

int gp_profile_apply(gp_options_t *options, gp_option_problem_fn problem, void *problem_arg)
{
  static char text[GP_PROFILE_BYTES + 2], copy[GP_PROFILE_BYTES + 2];
  profile_t profile = {.options = options,
      .path = gp_option_text(options, GP_OPTION_profile),
      .problem = problem,
      .problem_arg = problem_arg};

  if (strcmp(profile.path, "none") == 0)
    return 0;
  ssize_t length = read_file(&profile, text);
  if (length < 0)
    return profile.problems;
  text[length] = '\0';
  if (strlen(text) != (size_t)length) {
    report(&profile, "it is no text; the program runs without it");
    return profile.problems;
  }
  memcpy(copy, text, (size_t)length + 1);
  profile.problem = NULL; /* a line's problems are reported when it is set */
  for_each(&profile, copy, compare_type);
  profile.problem = problem;
  profile.problems = 0;
  if (profile.is_for_other_type)
    report(&profile, "it is for another type than GPUPOOL_TYPE=%.30s; none of it is used",
        gp_option_text(options, GP_OPTION_type));
  else
    for_each(&profile, text, set);
  return profile.problems;
}
