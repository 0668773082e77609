#include "interpose/api/text.h"

#include <stdarg.h>
#include <stdio.h>

void gp_text_add(gp_text_t *text, const char *format, ...)
{
  va_list arguments;
  size_t left = text->length < text->capacity ? text->capacity - text->length : 0;

  va_start(arguments, format);
  int added = vsnprintf(left ? text->bytes + text->length : NULL, left, format, arguments);
  va_end(arguments);
  if (added > 0)
    text->length += (size_t)added;
}
