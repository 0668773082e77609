/*
 * Reads PyTorch snapshots as JSON. Each event repeats its frames, so only one event at a time is in memory as
 * a tree.
 */
#include "tools/read/pytorch/import_json.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/read/json_scan.h"

static bool read_value(gp_value_tree_t *tree, gp_json_scan_t *scan, gp_value_t *ret_value);

/* Reads a text with escapes. The text differs from its bytes in the input, so it needs a copy. */
static bool read_escaped(gp_value_tree_t *tree, gp_json_slice_t slice, gp_value_t *ret_value)
{
  size_t at = tree->base + (size_t)(slice.text - tree->text);
  cJSON *item =
      cJSON_ParseWithLengthOpts(slice.text - 1, slice.length + 2, NULL, false); /* with the quotes */
  char *copy = item && cJSON_GetStringValue(item) ? strdup(cJSON_GetStringValue(item)) : NULL;
  cJSON_Delete(item);
  if (!copy)
    return gp_value_tree_fail(tree, at, "a string that cannot be read");
  if (!gp_value_tree_adopt(tree, copy))
    return false;
  ret_value->text = copy;
  ret_value->length = (uint32_t)strlen(copy);
  return true;
}

static bool read_text(gp_value_tree_t *tree, gp_json_slice_t slice, gp_value_t *ret_value)
{
  *ret_value = (gp_value_t){.text = slice.text, .length = (uint32_t)slice.length, .kind = GP_VALUE_TEXT};
  if (slice.length > UINT32_MAX)
    return gp_value_tree_fail(
        tree, tree->base + (size_t)(slice.text - tree->text), "a string of more than 4 GiB");
  return !memchr(slice.text, '\\', slice.length) || read_escaped(tree, slice, ret_value);
}

static bool read_number(gp_value_tree_t *tree, gp_json_scan_t *scan, gp_value_t *ret_value)
{
  gp_json_slice_t text;
  char digits[GP_JSON_SCAN_DIGITS + 1];
  if (!gp_json_scan_value(scan, &text))
    return gp_value_tree_fail(tree, scan->error_at, "%s", scan->error);
  size_t length = text.length < sizeof(digits) ? text.length : sizeof(digits) - 1;
  memcpy(digits, text.text, length);
  digits[length] = '\0';
  errno = 0;
  int64_t integer = strtoll(digits, NULL, 10);
  if (!strpbrk(digits, ".eE") && errno == 0)
    *ret_value = (gp_value_t){.integer = integer, .kind = GP_VALUE_INTEGER};
  else
    *ret_value = (gp_value_t){.number = strtod(digits, NULL), .kind = GP_VALUE_FLOAT};
  return true;
}

static bool read_list(gp_value_tree_t *tree, gp_json_scan_t *scan, gp_value_t *ret_value)
{
  gp_container_t *list = gp_value_tree_container(tree, scan->at);
  *ret_value = (gp_value_t){.container = list, .kind = GP_VALUE_LIST};
  bool good = list && gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan)) {
    gp_value_t value;
    good = read_value(tree, scan, &value) && gp_container_append(tree, list, &value, 1);
  }
  return good;
}

static bool read_dict(gp_value_tree_t *tree, gp_json_scan_t *scan, gp_value_t *ret_value)
{
  gp_container_t *dict = gp_value_tree_container(tree, scan->at);
  gp_json_slice_t name;
  *ret_value = (gp_value_t){.container = dict, .kind = GP_VALUE_DICT};
  bool good = dict && gp_json_scan_begin(scan, '{');
  while (good && gp_json_scan_member(scan, &name)) {
    gp_value_t pair[2];
    good = read_text(tree, name, &pair[0]) && read_value(tree, scan, &pair[1]) &&
           gp_container_append(tree, dict, pair, 2);
  }
  return good;
}

/* Reads a value. The recursion is at most GP_JSON_SCAN_DEPTH deep. */
static bool read_value(gp_value_tree_t *tree, gp_json_scan_t *scan, gp_value_t *ret_value)
{
  gp_json_slice_t slice;
  char first = gp_json_scan_peek(scan);
  bool good;

  switch (first) {
  case '{': good = read_dict(tree, scan, ret_value); break;
  case '[': good = read_list(tree, scan, ret_value); break;
  case '"': good = gp_json_scan_string(scan, &slice) && read_text(tree, slice, ret_value); break;
  case 't':
  case 'f':
    *ret_value = (gp_value_t){.integer = first == 't', .kind = GP_VALUE_BOOL};
    good = gp_json_scan_skip(scan);
    break;
  case 'n':
    *ret_value = (gp_value_t){.kind = GP_VALUE_NONE};
    good = gp_json_scan_skip(scan);
    break;
  default: good = read_number(tree, scan, ret_value); break;
  }
  if (scan->error)
    return gp_value_tree_fail(tree, scan->error_at, "%s", scan->error);
  return good;
}

/* Reads the JSON value at the beginning of the tree's text. The syntax has been checked already. */
static bool read_json(gp_value_tree_t *tree, size_t length, gp_value_t *ret_value)
{
  gp_json_scan_t scan;
  gp_json_scan_init(&scan, tree->text, length);
  scan.base = scan.at = tree->base;
  scan.length = tree->base + length;
  return read_value(tree, &scan, ret_value);
}

/* Reading of the document in parts. A part is one event, or a whole member, which is small. */

typedef struct reader {
  gp_import_t *import;
  gp_json_scan_t scan;
} reader_t;

static bool scan_failed(reader_t *reader)
{
  return gp_value_tree_fail(&reader->import->tree, reader->scan.error_at, "%s", reader->scan.error);
}

/* Reads the next value, which is valid until the next part is read. */
static bool read_part(reader_t *reader, gp_value_t *ret_value, gp_json_slice_t *ret_text)
{
  gp_value_tree_t *tree = &reader->import->tree;
  gp_value_tree_clear(tree);
  if (!gp_json_scan_value(&reader->scan, ret_text))
    return scan_failed(reader);
  gp_value_tree_grow(tree, reader->scan.at);
  tree->text = ret_text->text;
  tree->base = reader->scan.at - ret_text->length;
  return read_json(tree, ret_text->length, ret_value);
}

static bool read_segments(reader_t *reader)
{
  gp_value_tree_t *tree = &reader->import->tree;
  gp_json_slice_t text;
  gp_value_t value;
  if (!read_part(reader, &value, &text))
    return false;
  if (value.kind != GP_VALUE_LIST)
    return gp_value_tree_fail(tree, tree->base, "not a snapshot of PyTorch: segments are not a list");
  (void)gp_import_claim(value.container); /* cannot fail for the first container */
  return gp_import_segments(reader->import, value.container);
}

static bool read_trace(reader_t *reader, int device)
{
  gp_json_slice_t text;
  gp_value_t event;
  size_t index = 0;
  bool good = gp_json_scan_begin(&reader->scan, '[');
  while (good && gp_json_scan_element(&reader->scan))
    good = read_part(reader, &event, &text) && gp_import_event(reader->import, &event, device, index++);
  return reader->scan.error ? scan_failed(reader) : good;
}

static bool read_traces(reader_t *reader)
{
  gp_json_scan_t *scan = &reader->scan;
  int device = 0;
  if (gp_json_scan_peek(scan) == 'n') /* null means no traces */
    return gp_json_scan_skip(scan) || scan_failed(reader);
  bool good = gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan)) {
    if (device == GP_SNAPSHOT_DEVICES)
      return gp_value_tree_fail(
          &reader->import->tree, scan->at, "device_traces: more devices than there can be");
    good = read_trace(reader, device++);
  }
  return scan->error ? scan_failed(reader) : good;
}

/* A small member. Its text is kept until the end, because a value is only valid while its part is read. */
typedef struct kept {
  const char *name;
  char *text;
  size_t length;
  size_t at;
} kept_t;

static bool keep(reader_t *reader, kept_t *kept)
{
  gp_json_slice_t text;
  if (!gp_json_scan_value(&reader->scan, &text))
    return scan_failed(reader);
  free(kept->text); /* the last member of that name wins */
  kept->text = strndup(text.text, text.length);
  kept->length = text.length;
  kept->at = reader->scan.at - text.length;
  return kept->text ? true : gp_import_no_memory(reader->import);
}

static bool read_members(reader_t *reader, kept_t *kept, size_t kept_count)
{
  static const struct {
    const char *name;
    bool (*read)(reader_t *reader);
  } parts[] = {{"segments", read_segments}, {"device_traces", read_traces}};
  bool seen[2] = {false, false};
  gp_json_scan_t *scan = &reader->scan;
  gp_json_slice_t name;

  if (!gp_json_scan_begin(scan, '{'))
    return scan_failed(reader);
  while (gp_json_scan_member(scan, &name)) {
    size_t i = 0, k = 0;
    while (i < 2 && !gp_json_slice_is(name, parts[i].name))
      i++;
    while (k < kept_count && !gp_json_slice_is(name, kept[k].name))
      k++;
    if (i < 2 && seen[i])
      return gp_value_tree_fail(&reader->import->tree, scan->at, "%s appear twice", parts[i].name);
    if (!(i < 2 ? parts[i].read(reader) : k < kept_count ? keep(reader, &kept[k]) : gp_json_scan_skip(scan)))
      return scan->error ? scan_failed(reader) : false;
    if (i < 2)
      seen[i] = true;
  }
  return true;
}

/* Reads the value of a kept member. Texts in the value point into the kept text, and the caller passes
 * ownership of that text to the tree. */
static bool take_kept(gp_import_t *import, kept_t *kept, gp_value_t *ret_value)
{
  gp_value_tree_t *tree = &import->tree;
  if (!kept->text)
    return true;
  tree->text = kept->text;
  tree->base = kept->at;
  return read_json(tree, kept->length, ret_value);
}

/* Calls `take` for each element of an array. Discards the tree of the element after each call. */
static bool read_items(reader_t *reader, gp_import_item_fn take, void *self)
{
  gp_json_slice_t text;
  gp_value_t item;
  bool good = gp_json_scan_begin(&reader->scan, '[');
  while (good && gp_json_scan_element(&reader->scan))
    good = read_part(reader, &item, &text) && take(self, &item);
  return reader->scan.error ? scan_failed(reader) : good;
}

bool gp_import_json_items(
    gp_import_t *import, gp_input_t *input, const char *member, gp_import_item_fn take, void *self)
{
  reader_t reader = {.import = import};
  gp_json_scan_t *scan = &reader.scan;
  gp_json_slice_t name;

  gp_json_scan_init_input(scan, input);
  bool good = !member || gp_json_scan_begin(scan, '{');
  if (good && !member)
    good = read_items(&reader, take, self);
  while (good && member && gp_json_scan_member(scan, &name))
    good = gp_json_slice_is(name, member) ? read_items(&reader, take, self) : gp_json_scan_skip(scan);
  good = good && gp_json_scan_end(scan);
  gp_value_tree_clear(&import->tree);
  return scan->error ? scan_failed(&reader) : good;
}

bool gp_import_read_json(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top)
{
  reader_t reader = {.import = import};
  kept_t kept[] = {{.name = "gpupool"}, {.name = "allocator_settings"}, {.name = "external_annotations"}};
  gp_value_t *values[] = {&ret_top->own, &ret_top->settings, &ret_top->annotations};

  gp_json_scan_init_input(&reader.scan, input);
  bool is_list = gp_json_scan_peek(&reader.scan) == '['; /* PyTorch 1 writes only the segments */
  bool good = is_list ? read_segments(&reader) : read_members(&reader, kept, sizeof(kept) / sizeof(kept[0]));
  good = good && (gp_json_scan_end(&reader.scan) || scan_failed(&reader));
  gp_value_tree_clear(&import->tree);
  for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
    good = good && take_kept(import, &kept[i], values[i]);
    if (!gp_value_tree_adopt(&import->tree, kept[i].text))
      good = false;
  }
  return good;
}

/* Returns the kind of a list: a list of segments is a snapshot of PyTorch 1, a list of lists a timeline. */
static gp_import_kind_t kind_of_list(gp_json_scan_t *scan)
{
  gp_json_slice_t name;
  bool has_size = false, has_blocks = false;
  if (!gp_json_scan_begin(scan, '[') || !gp_json_scan_element(scan))
    return GP_IMPORT_NONE;
  if (gp_json_scan_peek(scan) == '[')
    return GP_IMPORT_TIMELINE;
  if (gp_json_scan_peek(scan) != '{' || !gp_json_scan_begin(scan, '{'))
    return GP_IMPORT_NONE;
  while (!(has_size && has_blocks) && gp_json_scan_member(scan, &name)) {
    has_size |= gp_json_slice_is(name, "total_size");
    has_blocks |= gp_json_slice_is(name, "blocks");
    (void)gp_json_scan_skip(scan); /* an error ends the loop */
  }
  return has_size && has_blocks && !scan->error ? GP_IMPORT_PYTORCH : GP_IMPORT_NONE;
}

gp_import_kind_t gp_import_kind_of_json(gp_input_t *input)
{
  gp_json_scan_t scan;
  gp_json_slice_t name;
  bool has_segments = false, has_traces = false;

  gp_json_scan_init_input(&scan, input);
  scan.keep = 0;
  if (gp_json_scan_peek(&scan) == '[')
    return kind_of_list(&scan);
  if (gp_json_scan_peek(&scan) != '{' || !gp_json_scan_begin(&scan, '{'))
    return GP_IMPORT_NONE;
  while (gp_json_scan_member(&scan, &name)) {
    has_segments |= gp_json_slice_is(name, "segments");
    has_traces |= gp_json_slice_is(name, "device_traces");
    if (gp_json_slice_is(name, "format"))
      return GP_IMPORT_NONE;
    if (gp_json_slice_is(name, "traceEvents"))
      return GP_IMPORT_TRACE;
    if (has_segments && has_traces)
      return GP_IMPORT_PYTORCH;
    (void)gp_json_scan_skip(&scan); /* an error ends the loop */
  }
  return GP_IMPORT_NONE;
}
