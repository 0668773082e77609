#include "tools/read/logs/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool gp_rows_have_heading(gp_input_t *input, const char *heading)
{
  size_t length = strlen(heading);
  gp_input_begin(input, length + 1);
  return input->length >= length && memcmp(input->text, heading, length) == 0 &&
         (input->length == length || input->text[length] == '\n' || input->text[length] == '\r');
}

bool gp_field_is(gp_field_t field, const char *text)
{
  return strlen(text) == field.length && memcmp(field.text, text, field.length) == 0;
}

bool gp_field_number(gp_field_t field, uint64_t most, uint64_t *ret_number)
{
  bool is_hexadecimal = field.length > 2 && field.text[0] == '0' && field.text[1] == 'x';
  char text[24], *end;

  if (field.length == 0 || field.length >= sizeof(text) || field.text[0] < '0' || field.text[0] > '9')
    return false;
  memcpy(text, field.text, field.length);
  text[field.length] = '\0';
  errno = 0;
  *ret_number = strtoull(text, &end, is_hexadecimal ? 16 : 10);
  return *end == '\0' && errno == 0 && *ret_number <= most;
}

/* Splits a row into fields. Returns their number, or GP_ROW_FIELDS + 1 if there are more fields. */
static int split(const char *line, size_t length, gp_field_t fields[GP_ROW_FIELDS])
{
  int count = 0;
  const char *end = line + length;
  for (const char *at = line;; at++) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    if (count == GP_ROW_FIELDS)
      return GP_ROW_FIELDS + 1;
    fields[count++] = (gp_field_t){at, (size_t)((comma ? comma : end) - at)};
    if (!comma)
      return count;
    at = comma;
  }
}

const char *gp_rows_read(
    const char *text, size_t length, bool may_be_cut, gp_row_take_fn take, void *self, size_t *ret_line)
{
  const char *end = text + length, *problem = NULL;

  *ret_line = 0;
  while (text < end && !problem) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    size_t bytes = (size_t)((newline ? newline : end) - text);
    gp_field_t fields[GP_ROW_FIELDS];
    if (bytes > 0 && text[bytes - 1] == '\r')
      bytes--;
    if ((*ret_line)++ > 0 && bytes > 0)
      problem = take(self, fields, split(text, bytes, fields));
    if (may_be_cut && !newline)
      problem = NULL;
    text = newline ? newline + 1 : end;
  }
  return problem;
}

/* Reads a time in microseconds. The field is either a time of day, "12:34:56.789012" (a colon may replace the
 * point), or seconds since 1970, "1634567890.123456". */
static bool read_clock(gp_field_t field, uint64_t *ret_us)
{
  static const uint64_t weights[] = {3600, 60, 1};
  const char *point = memchr(field.text, '.', field.length);
  uint64_t us = 0, part;

  if (point && !memchr(field.text, ':', field.length) && field.text + field.length == point + 7 &&
      gp_field_number((gp_field_t){field.text, (size_t)(point - field.text)}, UINT32_MAX, &us) &&
      gp_field_number((gp_field_t){point + 1, 6}, 999999, &part)) {
    *ret_us = us * 1000000 + part;
    return true;
  }
  us = 0;
  if (field.length != 15 || field.text[2] != ':' || field.text[5] != ':' ||
      (field.text[8] != '.' && field.text[8] != ':'))
    return false;
  for (size_t i = 0; i < 3; i++) {
    if (!gp_field_number((gp_field_t){field.text + 3 * i, 2}, 60, &part))
      return false;
    us += part * weights[i] * 1000000;
  }
  bool good = gp_field_number((gp_field_t){field.text + 9, 6}, 999999, &part);
  *ret_us = us + part;
  return good;
}

const char *gp_rmm_row(const gp_field_t *fields, int count, gp_rmm_row_t *ret_row)
{
  ret_row->pointer = 0;
  if (count != 6)
    return "a row has the six fields " GP_RMM_HEADING;
  if (!read_clock(fields[1], &ret_row->time_us))
    return "the time is not like 12:34:56.789012";
  if (!gp_field_number(fields[3], UINT64_MAX - 1, &ret_row->pointer) &&
      !gp_field_is(fields[3], "(nil)")) /* the C library prints NULL as "(nil)" for a failed allocation */
    return "the pointer is not a number";
  if (!gp_field_number(fields[4], GP_ROW_NUMBER_MOST, &ret_row->size))
    return "the size is not a number below 2^53";
  if (gp_field_is(fields[2], "allocate"))
    ret_row->action = GP_RMM_ALLOCATE;
  else if (gp_field_is(fields[2], "free") || gp_field_is(fields[2], "deallocate"))
    ret_row->action = GP_RMM_FREE;
  else if (gp_field_is(fields[2], "allocate failure"))
    ret_row->action = GP_RMM_FAILURE;
  else
    return "the action is not allocate, allocate failure or free";
  return NULL;
}
