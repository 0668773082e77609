/*
 * Reads JSON into values.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/import/import.h"
#include "tools/import/import_value.h"
#include "tools/snapshot/json_scan.h"

static bool read_value(gp_document_t *document, gp_json_scan_t *scan, gp_value_t *ret_value);

/* A text with escapes is not in the input as it is. */
static bool read_escaped(gp_document_t *document, gp_json_slice_t slice, gp_value_t *ret_value)
{
  size_t count = document->copy_count, at = (size_t)(slice.text - document->text);
  if (!gp_document_account(document, slice.length + 2 * sizeof(char *)))
    return false;
  if ((count & (count - 1)) == 0) { /* full: 0, 1, 2, 4 ... */
    char **larger = realloc(document->copies, (count ? 2 * count : 1) * sizeof(char *));
    if (!larger)
      return gp_document_fail(document, at, "not enough memory to read this");
    document->copies = larger;
  }
  cJSON *item = cJSON_ParseWithLengthOpts(slice.text - 1, slice.length + 2, NULL, false); /* with its quotes */
  char *copy = item && cJSON_GetStringValue(item) ? strdup(cJSON_GetStringValue(item)) : NULL;
  cJSON_Delete(item);
  if (!copy)
    return gp_document_fail(document, at, "a string that cannot be read");
  document->copies[document->copy_count++] = copy;
  ret_value->text = copy;
  ret_value->length = (uint32_t)strlen(copy);
  return true;
}

static bool read_text(gp_document_t *document, gp_json_slice_t slice, gp_value_t *ret_value)
{
  *ret_value = (gp_value_t){.text = slice.text, .length = (uint32_t)slice.length, .kind = GP_VALUE_TEXT};
  if (slice.length > UINT32_MAX)
    return gp_document_fail(document, (size_t)(slice.text - document->text), "a string of more than 4 GiB");
  return !memchr(slice.text, '\\', slice.length) || read_escaped(document, slice, ret_value);
}

static bool read_number(gp_document_t *document, gp_json_scan_t *scan, gp_value_t *ret_value)
{
  size_t at = scan->at;
  char digits[GP_JSON_SCAN_DIGITS + 1];
  if (!gp_json_scan_skip(scan))
    return gp_document_fail(document, scan->error_at, "%s", scan->error);
  size_t length = scan->at - at < sizeof(digits) ? scan->at - at : sizeof(digits) - 1;
  memcpy(digits, scan->text + at, length);
  digits[length] = '\0';
  errno = 0;
  int64_t integer = strtoll(digits, NULL, 10);
  if (!strpbrk(digits, ".eE") && errno == 0)
    *ret_value = (gp_value_t){.integer = integer, .kind = GP_VALUE_INTEGER};
  else
    *ret_value = (gp_value_t){.number = strtod(digits, NULL), .kind = GP_VALUE_FLOAT};
  return true;
}

static bool read_list(gp_document_t *document, gp_json_scan_t *scan, gp_value_t *ret_value)
{
  gp_container_t *list = gp_document_container(document, scan->at);
  *ret_value = (gp_value_t){.container = list, .kind = GP_VALUE_LIST};
  bool good = list && gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan)) {
    gp_value_t value;
    good = read_value(document, scan, &value) && gp_container_append(document, list, &value, 1);
  }
  return good;
}

static bool read_dict(gp_document_t *document, gp_json_scan_t *scan, gp_value_t *ret_value)
{
  gp_container_t *dict = gp_document_container(document, scan->at);
  gp_json_slice_t name;
  *ret_value = (gp_value_t){.container = dict, .kind = GP_VALUE_DICT};
  bool good = dict && gp_json_scan_begin(scan, '{');
  while (good && gp_json_scan_member(scan, &name)) {
    gp_value_t pair[2];
    good = read_text(document, name, &pair[0]) && read_value(document, scan, &pair[1]) &&
           gp_container_append(document, dict, pair, 2);
  }
  return good;
}

/* Goes at most GP_JSON_SCAN_DEPTH deep. */
static bool read_value(gp_document_t *document, gp_json_scan_t *scan, gp_value_t *ret_value)
{
  gp_json_slice_t slice;
  char first = gp_json_scan_peek(scan);
  bool good;

  switch (first) {
  case '{': good = read_dict(document, scan, ret_value); break;
  case '[': good = read_list(document, scan, ret_value); break;
  case '"': good = gp_json_scan_string(scan, &slice) && read_text(document, slice, ret_value); break;
  case 't':
  case 'f':
    *ret_value = (gp_value_t){.integer = first == 't', .kind = GP_VALUE_BOOL};
    good = gp_json_scan_skip(scan);
    break;
  case 'n':
    *ret_value = (gp_value_t){.kind = GP_VALUE_NONE};
    good = gp_json_scan_skip(scan);
    break;
  default: good = read_number(document, scan, ret_value); break;
  }
  if (scan->error)
    return gp_document_fail(document, scan->error_at, "%s", scan->error);
  return good;
}

bool gp_import_read_json(gp_document_t *document, gp_value_t *ret_value)
{
  gp_json_scan_t scan;
  gp_json_scan_init(&scan, document->text, document->length);
  if (!read_value(document, &scan, ret_value))
    return false;
  return gp_json_scan_end(&scan) || gp_document_fail(document, scan.error_at, "%s", scan.error);
}

bool gp_import_is_pytorch_json(gp_input_t *input)
{
  gp_json_scan_t scan;
  gp_json_slice_t name;
  bool has_segments = false, has_traces = false, has_format = false;

  gp_json_scan_init_input(&scan, input);
  scan.keep = 0;
  if (gp_json_scan_peek(&scan) != '{' || !gp_json_scan_begin(&scan, '{'))
    return false;
  while (!has_format && !(has_segments && has_traces) && gp_json_scan_member(&scan, &name)) {
    has_segments |= gp_json_slice_is(name, "segments");
    has_traces |= gp_json_slice_is(name, "device_traces");
    has_format |= gp_json_slice_is(name, "format");
    if (!(has_segments && has_traces))
      (void)gp_json_scan_skip(&scan); /* its error ends the loop */
  }
  return has_segments && has_traces && !has_format && !scan.error;
}
