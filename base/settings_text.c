#include "base/settings_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

#define LINE_BYTES (2 * GP_OPTION_TEXT_BYTES)

static char file_text[GP_SETTINGS_BYTES + 2];
static char line_text[LINE_BYTES];

void gp_settings_text_report(gp_settings_text_t *text, bool malformed, const char *format, ...)
{
  char message[1024];
  va_list arguments;
  int length = snprintf(message, sizeof(message), "%.300s", text->title);

  if (text->line)
    length += snprintf(message + length, sizeof(message) - (size_t)length, ", line %d", text->line);
  length += snprintf(message + length, sizeof(message) - (size_t)length, ": ");
  va_start(arguments, format);
  vsnprintf(message + length, sizeof(message) - (size_t)length, format, arguments);
  va_end(arguments);
  text->problems += malformed;
  if (text->problem)
    text->problem(text->problem_arg, malformed, message);
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
    gp_settings_text_report(text, true, "it is no regular file; the program runs without it");
    (void)close(fd); /* only read */
    return false;
  }
  do {
    got = read(fd, file_text + used, most_bytes + 1 - used);
    used += got > 0 ? (size_t)got : 0;
  } while (used <= most_bytes && (got > 0 || (got < 0 && errno == EINTR)));
  int error = errno;
  (void)close(fd); /* only read */
  file_text[used] = '\0';
  if (got < 0)
    gp_settings_text_report(text, true, "%s; the program runs without it", strerror(error));
  else if (used > most_bytes)
    gp_settings_text_report(
        text, true, "it is longer than %zu bytes; the program runs without it", most_bytes);
  else if (strlen(file_text) != used)
    gp_settings_text_report(text, true, "it is no text; the program runs without it");
  else
    good = true;
  gp_settings_text_rewind(text);
  return good;
}

void gp_settings_text_rewind(gp_settings_text_t *text)
{
  text->rest = file_text;
  text->line = 0;
}

/* Copies the next line to line_text. False: it is too long, which was reported. */
static bool take_line(gp_settings_text_t *text)
{
  size_t length = strcspn(text->rest, "\n");
  const char *line = text->rest;

  text->line++;
  text->rest += length;
  text->rest = *text->rest ? text->rest + 1 : NULL;
  if (length >= LINE_BYTES && line[0] == '#')
    length = 1; /* a comment may be of any length */
  if (length >= LINE_BYTES) {
    gp_settings_text_report(text, true, "it is longer than %d characters, and is ignored", LINE_BYTES - 1);
    return false;
  }
  memcpy(line_text, line, length);
  line_text[length] = '\0';
  return true;
}

/* NAME=VALUE of a line, without blanks around either. False: the line is empty, or is of no use, which this
 * reports. Writes the NULs of both strings into the line. */
static bool read_line(gp_settings_text_t *text, char *line, const char **ret_name, const char **ret_value)
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
    gp_settings_text_report(
        text, true, "\"%.60s\" is malformed; accepted: NAME=VALUE, or a comment after #", line);
    return false;
  }
  char *end = value;
  while (end > line && strchr(blanks, end[-1]))
    end--;
  *end = '\0';
  value += 1 + strspn(value + 1, blanks);
  if (strncmp(line, prefix, sizeof(prefix) - 1) == 0)
    line += sizeof(prefix) - 1;
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
