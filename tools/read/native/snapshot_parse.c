#include "tools/read/native/snapshot_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"

bool gp_snapshot_fail(gp_snapshot_parse_t *parse, size_t offset, const char *format, ...)
{
  va_list arguments;
  if (!parse->failed) {
    parse->failed = true;
    parse->error->offset = offset;
    va_start(arguments, format);
    vsnprintf(parse->error->text, sizeof(parse->error->text), format, arguments);
    va_end(arguments);
  }
  return false;
}

void *gp_snapshot_append(gp_json_scan_t *scan, void *items, size_t *count, size_t item_size)
{
  void *item = gp_array_add(items, count, item_size);
  if (!item)
    (void)gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
  return item;
}

bool gp_snapshot_read_uint(gp_json_scan_t *scan, void *to)
{
  int64_t number;
  char c = gp_json_scan_peek(scan);
  size_t at = scan->at;
  if (c == 'n') /* null means unknown */
    return gp_json_scan_skip(scan);
  if (!gp_json_scan_integer(scan, &number))
    return false;
  if (number < 0)
    return gp_json_scan_fail(scan, at, "a negative number");
  *(uint64_t *)to = (uint64_t)number;
  return true;
}

bool gp_snapshot_read_index(gp_json_scan_t *scan, void *to)
{
  int64_t number;
  (void)gp_json_scan_peek(scan); /* skip blanks */
  size_t at = scan->at;
  if (!gp_json_scan_integer(scan, &number))
    return false;
  if (number < -1 || number > INT32_MAX)
    return gp_json_scan_fail(scan, at, "not an index");
  *(int *)to = (int)number;
  return true;
}

bool gp_snapshot_read_string(gp_json_scan_t *scan, void *to)
{
  gp_json_slice_t slice;
  (void)gp_json_scan_peek(scan); /* skip blanks */
  size_t at = scan->at;
  if (!gp_json_scan_string(scan, &slice))
    return false;
  char *text = NULL;
  if (!memchr(slice.text, '\\', slice.length)) {
    text = strndup(slice.text, slice.length);
  } else {
    cJSON *item =
        cJSON_ParseWithLengthOpts(slice.text - 1, slice.length + 2, NULL, false); /* with the quotes */
    if (item && cJSON_GetStringValue(item))
      text = strdup(cJSON_GetStringValue(item));
    cJSON_Delete(item);
  }
  if (!text)
    return gp_json_scan_fail(scan, at, "a string that cannot be read");
  char **place = to;
  free(*place);
  *place = text;
  return true;
}

bool gp_snapshot_read_bool(gp_json_scan_t *scan, void *to)
{
  char c = gp_json_scan_peek(scan);
  if (c != 't' && c != 'f')
    return gp_json_scan_fail(scan, scan->at, "neither true nor false");
  *(bool *)to = c == 't';
  return gp_json_scan_skip(scan);
}

bool gp_snapshot_read_array(
    gp_snapshot_parse_t *parse, bool (*read)(gp_json_scan_t *scan, gp_snapshot_t *snapshot))
{
  gp_json_scan_t *scan = &parse->scan;
  bool good = gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan))
    good = read(scan, parse->snapshot);
  return good && !scan->error;
}

bool gp_snapshot_read_object(gp_json_scan_t *scan, const gp_snapshot_member_t *members, void *item)
{
  gp_json_slice_t name;
  if (!gp_json_scan_begin(scan, '{'))
    return false;
  while (gp_json_scan_member(scan, &name)) {
    const gp_snapshot_member_t *member = members;
    while (
        member->name && (member->length != name.length || memcmp(member->name, name.text, name.length) != 0))
      member++;
    if (!(member->name ? member->read(scan, (char *)item + member->offset) : gp_json_scan_skip(scan)))
      return false;
  }
  return !scan->error;
}
