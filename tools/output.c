#include "tools/output.h"

#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/printable.h"
#include "tools/output_file.h"
#include "tools/tool.h"

static bool wants_colour(const gp_output_t *output, bool no_color)
{
  const char *variable = getenv("NO_COLOR");
  const char *terminal = getenv("TERM");
  return !no_color && !output->path && !(variable && variable[0]) && isatty(STDOUT_FILENO) && terminal &&
         strcmp(terminal, "dumb") != 0;
}

#define LEAST_COLUMNS 40

/* Width of running text in columns: GP_OUTPUT_COLUMNS, or the terminal's width if that is smaller. */
static size_t wrap_columns = GP_OUTPUT_COLUMNS;

static size_t terminal_columns(const gp_output_t *output)
{
  struct winsize size;
  if (output->path || !isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col < LEAST_COLUMNS)
    return GP_OUTPUT_COLUMNS;
  return (size_t)size.ws_col - 1;
}

int gp_output_open(gp_output_t *output, const char *path, bool force, bool no_color)
{
  *output = (gp_output_t){.path = path && strcmp(path, "-") != 0 ? path : NULL, .force = force};
  /* Fails before the work starts. gp_output_file_open checks again at the end. */
  int status = output->path ? gp_output_file_check(output->path, force) : 0;
  if (status)
    return status;
  output->colour = wants_colour(output, no_color);
  output->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  output->columns = terminal_columns(output);
  wrap_columns = output->columns < GP_OUTPUT_COLUMNS ? output->columns : GP_OUTPUT_COLUMNS;
  output->stream = open_memstream(&output->text, &output->length);
  if (!output->stream) {
    gp_message("out of memory");
    return GP_EXIT_INPUT;
  }
  return 0;
}

int gp_write_all(int fd, const char *text, size_t length)
{
  while (length > 0) {
    ssize_t written = write(fd, text, length);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return errno;
    text += written;
    length -= (size_t)written;
  }
  return 0;
}

/* Writes the whole file. On failure leaves the previous file unchanged, and no partial file. */
static int write_file(const gp_output_t *output)
{
  gp_output_file_t file;
  int status = gp_output_file_open(&file, output->path, output->force);
  if (status)
    return status;
  if (fwrite(output->text, 1, output->length, file.stream) != output->length) {
    gp_message("%s: %s", output->path, strerror(errno));
    gp_output_file_discard(&file);
    return GP_EXIT_INPUT;
  }
  return gp_output_file_close(&file);
}

/* Returns the length of the style sequence at the start of text, or 0 if there is none. */
static size_t style_length(const gp_output_t *output, const char *text)
{
  for (int style = GP_STYLE_PLAIN; output->colour && style <= GP_STYLE_ERROR; style++) {
    const char *sequence = gp_output_style(output, (gp_style_t)style);
    if (strncmp(text, sequence, strlen(sequence)) == 0)
      return strlen(sequence);
  }
  return 0;
}

/* Replaces unsafe characters that came from a snapshot and that no command replaced. Every report passes
 * through this function. */
static void make_printable(gp_output_t *output)
{
  char *text = output->text;
  size_t used = 0, length;
  for (size_t at = 0; at < output->length; at += length) {
    gp_character_t character = gp_character_at(text + at, output->length - at);
    length = text[at] == '\033' ? style_length(output, text + at) : 0;
    bool is_ours = length > 0 || text[at] == '\n' || text[at] == '\t';
    length = length ? length : character.length;
    if (character.is_unsafe && !is_ours) {
      text[used++] = '?';
    } else {
      memmove(text + used, text + at, length);
      used += length;
    }
  }
  output->length = used;
}

bool gp_output_settle(gp_output_t *output)
{
  if (fflush(output->stream) != 0)
    return false;
  make_printable(output);
  return true;
}

int gp_output_close(gp_output_t *output)
{
  bool failed = fclose(output->stream) != 0 || output->has_failed;
  int status = 0;

  output->stream = NULL;
  if (!failed)
    make_printable(output);
  if (failed) {
    gp_message("out of memory");
    status = GP_EXIT_INPUT;
  } else if (output->path) {
    status = write_file(output);
  } else {
    fflush(stdout);
    int error = gp_write_all(STDOUT_FILENO, output->text, output->length);
    if (error) {
      gp_message("the output could not be written: %s", strerror(error));
      status = GP_EXIT_INPUT;
    }
  }
  free(output->text);
  output->text = NULL;
  return status;
}

void gp_output_discard(gp_output_t *output)
{
  if (output->stream)
    (void)fclose(output->stream); /* the content is discarded, so errors do not matter */
  output->stream = NULL;
  free(output->text);
  output->text = NULL;
}

const char *gp_output_style(const gp_output_t *output, gp_style_t style)
{
  static const char *const sequences[] = {
      [GP_STYLE_PLAIN] = "\033[0m",
      [GP_STYLE_HEADING] = "\033[1m",
      [GP_STYLE_FAINT] = "\033[2m",
      [GP_STYLE_GOOD] = "\033[32m",
      [GP_STYLE_WARNING] = "\033[33m",
      [GP_STYLE_ERROR] = "\033[1;31m",
  };
  return output->colour ? sequences[style] : "";
}

size_t gp_columns_of(const char *text, size_t length)
{
  size_t columns = 0;
  for (size_t i = 0; i < length; i++)
    columns += ((unsigned char)text[i] & 0xc0) != 0x80;
  return columns;
}

size_t gp_text_columns(const char *text)
{
  return gp_columns_of(text, strlen(text));
}

void gp_output_wrap(FILE *stream, const char *first, const char *rest, const char *text)
{
  size_t column = gp_columns_of(first, strlen(first));
  bool is_line_empty = true;

  fputs(first, stream);
  while (*text) {
    size_t length = strcspn(text, " ");
    size_t width = gp_columns_of(text, length);
    if (!is_line_empty && column + 1 + width > wrap_columns) {
      fprintf(stream, "\n%s", rest);
      column = gp_columns_of(rest, strlen(rest));
      is_line_empty = true;
    }
    fprintf(stream, "%s%.*s", is_line_empty ? "" : " ", (int)length, text);
    column += width + !is_line_empty;
    is_line_empty = false;
    text += length;
    text += strspn(text, " ");
  }
  fputc('\n', stream);
}

char *gp_number_count(uint64_t count, char *buffer)
{
  char digits[24];
  int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
  char *to = buffer;
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0)
      *to++ = ',';
    *to++ = digits[i];
  }
  *to = '\0';
  return buffer;
}

char *gp_number_duration(uint64_t duration_ns, char *buffer)
{
  static const struct {
    uint64_t below_ns;
    double unit_ns;
    const char *unit;
  } units[] = {
      {UINT64_C(1000000), 1e3, "us"},
      {UINT64_C(1000000000), 1e6, "ms"},
      {UINT64_C(120000000000), 1e9, "s"},
  };
  uint64_t seconds = duration_ns / 1000000000;

  if (duration_ns < 1000) {
    snprintf(buffer, GP_NUMBER_BYTES, "%" PRIu64 " ns", duration_ns);
    return buffer;
  }
  for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
    double value = (double)duration_ns / units[i].unit_ns;
    if (duration_ns >= units[i].below_ns)
      continue;
    snprintf(buffer, GP_NUMBER_BYTES, "%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, units[i].unit);
    return buffer;
  }
  if (seconds < 7200)
    snprintf(buffer, GP_NUMBER_BYTES, "%" PRIu64 " min %" PRIu64 " s", seconds / 60, seconds % 60);
  else
    snprintf(buffer, GP_NUMBER_BYTES, "%" PRIu64 " h %" PRIu64 " min", seconds / 3600, seconds / 60 % 60);
  return buffer;
}

char *gp_number_percent(double ratio, char *buffer)
{
  double percent = ratio * 100;
  if (ratio > 0 && percent < 0.1)
    snprintf(buffer, GP_NUMBER_BYTES, "<0.1%%");
  else if (ratio < 1 && percent > 99.9)
    snprintf(buffer, GP_NUMBER_BYTES, "99.9%%");
  else
    snprintf(buffer, GP_NUMBER_BYTES, percent == 0 || percent == 100 ? "%.0f%%" : "%.1f%%", percent);
  return buffer;
}

char *gp_number_plural(uint64_t count, const char *noun, char *buffer)
{
  gp_number_count(count, buffer);
  size_t used = strlen(buffer);
  snprintf(buffer + used, GP_NUMBER_BYTES - used, " %s%s", noun, count == 1 ? "" : "s");
  return buffer;
}

static void add(gp_sentence_t *text, const char *format, va_list arguments)
{
  size_t room = sizeof(text->text) - text->used;
  int length = vsnprintf(text->text + text->used, room, format, arguments);
  if (length > 0)
    text->used += (size_t)length < room ? (size_t)length : room - 1;
}

void gp_sentence_add(gp_sentence_t *text, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  add(text, format, arguments);
  va_end(arguments);
}

void gp_output_say(gp_output_t *output, const char *indent, const char *format, ...)
{
  gp_sentence_t text = {.used = 0};
  va_list arguments;
  va_start(arguments, format);
  add(&text, format, arguments);
  va_end(arguments);
  gp_output_wrap(output->stream, indent, indent, text.text);
}

void gp_output_heading(gp_output_t *output, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fprintf(output->stream, "%s%s", ftell(output->stream) > 0 ? "\n" : "",
      gp_output_style(output, GP_STYLE_HEADING));
  vfprintf(output->stream, format, arguments);
  fprintf(output->stream, "%s\n", gp_output_style(output, GP_STYLE_PLAIN));
  va_end(arguments);
}
