#include "tools/read/record/record.h"

#include <stdarg.h>
#include <stdio.h>

void gp_record_note_damage(gp_record_t *record)
{
  record->damaged++;
  record->is_partial = true;
}

void gp_record_add_note(gp_record_t *record, const char *format, ...)
{
  va_list arguments;
  size_t count = record->document.note_count;
  if (count == GP_RECORD_NOTES)
    return;
  va_start(arguments, format);
  vsnprintf(record->note_texts[count], GP_RECORD_NOTE_BYTES, format, arguments);
  va_end(arguments);
  record->notes[count] = record->note_texts[count];
  record->document.note_count = count + 1;
}

bool gp_record_refuse(gp_record_t *record, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record->problem, sizeof(record->problem), format, arguments);
  va_end(arguments);
  return false;
}
