#include "base/settings_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

#define LINE_BYTES (2 * GP_OPTION_TEXT_BYTES)

static const char blanks[] = " \t\r";
static char file_text[GP_SETTINGS_BYTES + 2];
static char line_text[LINE_BYTES];

static void report(
    gp_settings_text_t *text, bool malformed, const char *effect, const char *format, va_list arguments)
{
  char message[1024];
  int length = snprintf(message, sizeof(message), "%.300s", text->title);

  if (text->line)
    length += snprintf(message + length, sizeof(message) - (size_t)length, ", line %d", text->line);
  length += snprintf(message + length, sizeof(message) - (size_t)length, ": ");
  int written = vsnprintf(message + length, sizeof(message) - (size_t)length, format, arguments);
  if (written >= 0 && (size_t)(length + written) < sizeof(message))
    snprintf(message + length + written, sizeof(message) - (size_t)(length + written), "%s", effect);
  text->problems += malformed;
  if (text->problem)
    text->problem(text->problem_arg, malformed, message);
}

void gp_settings_text_report(gp_settings_text_t *text, bool malformed, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  report(text, malformed, "", format, arguments);
  va_end(arguments);
}

void gp_settings_text_report_unreadable(gp_settings_text_t *text, const char *format, ...)
{
  va_list arguments;
  text->unreadable++;
  va_start(arguments, format);
  report(text, true, text->effect, format, arguments);
  va_end(arguments);
}

void gp_settings_text_report_value(void *arg, bool malformed, const char *message)
{
  gp_settings_text_report(arg, malformed, "%s", message);
}

bool gp_settings_text_read(gp_settings_text_t *text, int fd, size_t most_bytes)
{
  struct stat status;
  size_t used = 0;
  ssize_t got = 0;
  bool good = false;

  gp_assert(most_bytes <= GP_SETTINGS_BYTES);
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    gp_settings_text_report_unreadable(text, "it is no regular file");
    (void)close(fd); /* cannot lose data: it was opened for reading */
    return false;
  }
  do {
    got = read(fd, file_text + used, most_bytes + 1 - used);
    used += got > 0 ? (size_t)got : 0;
  } while (used <= most_bytes && (got > 0 || (got < 0 && errno == EINTR)));
  int error = errno;
  (void)close(fd); /* cannot lose data: it was opened for reading */
  file_text[used] = '\0';
  if (got < 0)
    gp_settings_text_report_unreadable(text, "it cannot be read (%s)", strerror(error));
  else if (used > most_bytes)
    gp_settings_text_report_unreadable(text, "it is longer than %zu bytes", most_bytes);
  else if (strlen(file_text) != used)
    gp_settings_text_report_unreadable(text, "it is no text");
  else
    good = true;
  gp_settings_text_rewind(text);
  return good;
}

void gp_settings_text_rewind(gp_settings_text_t *text)
{
  static const char mark[] = "\xEF\xBB\xBF"; /* UTF-8 byte order mark, which editors on Windows write */
  bool has_mark = strncmp(file_text, mark, strlen(mark)) == 0;

  text->rest = file_text + (has_mark ? strlen(mark) : 0);
  text->line = 0;
}

/* Copies the next line to line_text. If the line is too long, reports this and returns false. */
static bool take_line(gp_settings_text_t *text)
{
  size_t length = strcspn(text->rest, "\n");
  const char *line = text->rest;

  text->line++;
  text->rest += length;
  text->rest = *text->rest ? text->rest + 1 : NULL;
  if (length >= LINE_BYTES && line[0] == '#')
    length = 1; /* shortened, because a comment may have any length */
  if (length >= LINE_BYTES) {
    gp_settings_text_report_unreadable(text, "it is longer than %d characters", LINE_BYTES - 1);
    return false;
  }
  memcpy(line_text, line, length);
  line_text[length] = '\0';
  return true;
}

static char *skip_blanks(char *text)
{
  return text + strspn(text, blanks);
}

static void cut_blanks(char *text)
{
  size_t length = strlen(text);
  while (length > 0 && strchr(blanks, text[length - 1]))
    text[--length] = '\0';
}

/* Returns the end of the value. The value is in quotes, or ends before a comment. Returns NULL if the quotes
 * are not closed, or if anything but a comment follows them. */
static char *find_end(char *value)
{
  if (*value == '"' || *value == '\'') {
    char *end = strchr(value + 1, *value);
    char *rest = end ? skip_blanks(end + 1) : NULL;
    return rest && (*rest == '\0' || *rest == '#') ? end : NULL;
  }
  for (char *p = value; (p = strchr(p, '#')); p++) {
    if (strchr(blanks, p[-1])) /* a # within a word is an ordinary character */
      return p;
  }
  return value + strlen(value);
}

/* Splits a line into NAME and VALUE, without blanks around either, and writes their NULs into the line.
 * Returns false if the line is empty, or if it is unreadable, which is reported. */
static bool read_line(gp_settings_text_t *text, char *line, const char **ret_name, const char **ret_value)
{
  static const char prefix[] = "GPUPOOL_", export[] = "export";

  cut_blanks(line);
  line = skip_blanks(line);
  char *equals = strchr(line, '=');
  if (line[0] == '\0' || line[0] == '#')
    return false;
  char *value = equals ? skip_blanks(equals + 1) : NULL;
  char *end = value ? find_end(value) : NULL;
  if (!end) {
    gp_settings_text_report_unreadable(
        text, "\"%.60s\" is malformed; accepted: NAME=VALUE, or a comment after #", line);
    return false;
  }
  *end = '\0';
  if (*value == '"' || *value == '\'')
    value++;
  else
    cut_blanks(value);
  *equals = '\0';
  cut_blanks(line);
  if (strncmp(line, export, strlen(export)) == 0 && line[strlen(export)] &&
      strchr(blanks, line[strlen(export)]))
    line = skip_blanks(line + strlen(export));
  if (strncasecmp(line, prefix, strlen(prefix)) == 0)
    line += strlen(prefix);
  *ret_name = line;
  *ret_value = value;
  return true;
}

bool gp_settings_text_next(gp_settings_text_t *text, const char **ret_name, const char **ret_value)
{
  while (text->rest) {
    if (take_line(text) && read_line(text, line_text, ret_name, ret_value))
      return true;
  }
  text->line = 0;
  return false;
}
