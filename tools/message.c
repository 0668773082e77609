#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "tools/tool.h"

#define LINE_BYTES 4096

char *gp_printable(const char *text, char *buffer, size_t capacity)
{
  size_t used = 0;
  for (size_t left = strlen(text); left > 0;) {
    gp_character_t character = gp_character_at(text, left);
    size_t length = character.is_unsafe ? 1 : character.length;
    if (used + length >= capacity)
      break;
    memcpy(buffer + used, character.is_unsafe ? "?" : text, length);
    used += length;
    text += character.length;
    left -= character.length;
  }
  buffer[used] = '\0';
  return buffer;
}

static void print_line(const char *format, va_list arguments, const char *more)
{
  char text[LINE_BYTES];
  char line[LINE_BYTES];
  vsnprintf(text, sizeof(text), format, arguments);
  fflush(stdout); /* so that the message comes after earlier output */
  fprintf(stderr, "gpupool: %s%s\n", gp_printable(text, line, sizeof(line)), more);
}

void gp_message(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments, "");
  va_end(arguments);
}

int gp_message_usage(const char *command, const char *format, ...)
{
  char more[128];
  va_list arguments;

  snprintf(more, sizeof(more), "; try gpupool %s%s--help", command ? command : "", command ? " " : "");
  va_start(arguments, format);
  print_line(format, arguments, more);
  va_end(arguments);
  return GP_EXIT_USAGE;
}

int gp_message_unknown_option(const char *command, const char *option, const char *const *names, size_t count)
{
  char name[128];
  snprintf(name, sizeof(name), "%s", option + strspn(option, "-"));
  name[strcspn(name, "=")] = '\0';
  const char *nearest = gp_suggest_nearest(name, names, count);
  int shown = (int)strcspn(option, "=");
  if (nearest)
    return gp_message_usage(
        command, "%s: unknown option %.*s (did you mean --%s?)", command, shown, option, nearest);
  return gp_message_usage(command, "%s: unknown option %.*s", command, shown, option);
}
