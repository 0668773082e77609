/*
 * The memory of a snapshot: segments with their blocks, and passthrough allocations.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/read/native/snapshot_parts.h"

void *gp_snapshot_append(gp_json_scan_t *scan, void **items, size_t *count, size_t item_size)
{
  size_t used = *count;
  if ((used & (used - 1)) == 0) { /* full: 0, 1, 2, 4 ... */
    void *larger =
        used <= SIZE_MAX / 2 / item_size ? realloc(*items, (used ? 2 * used : 1) * item_size) : NULL;
    if (!larger) {
      (void)gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
      return NULL;
    }
    *items = larger;
  }
  (*count)++;
  return memset((char *)*items + used * item_size, 0, item_size);
}

bool gp_snapshot_read_uint(gp_json_scan_t *scan, uint64_t *ret_number)
{
  int64_t number;
  char c = gp_json_scan_peek(scan);
  size_t at = scan->at;
  if (c == 'n') /* null: not known */
    return gp_json_scan_skip(scan);
  if (!gp_json_scan_integer(scan, &number))
    return false;
  if (number < 0)
    return gp_json_scan_fail(scan, at, "a negative number");
  *ret_number = (uint64_t)number;
  return true;
}

bool gp_snapshot_read_index(gp_json_scan_t *scan, int *ret_index)
{
  int64_t number;
  (void)gp_json_scan_peek(scan); /* for the blanks */
  size_t at = scan->at;
  if (!gp_json_scan_integer(scan, &number))
    return false;
  if (number < -1 || number > INT32_MAX)
    return gp_json_scan_fail(scan, at, "not an index");
  *ret_index = (int)number;
  return true;
}

bool gp_snapshot_read_string(gp_json_scan_t *scan, char **ret_text)
{
  gp_json_slice_t slice;
  (void)gp_json_scan_peek(scan); /* for the blanks */
  size_t at = scan->at;
  if (!gp_json_scan_string(scan, &slice))
    return false;
  char *text = NULL;
  if (!memchr(slice.text, '\\', slice.length)) {
    text = strndup(slice.text, slice.length);
  } else {
    cJSON *item =
        cJSON_ParseWithLengthOpts(slice.text - 1, slice.length + 2, NULL, false); /* with its quotes */
    if (item && cJSON_GetStringValue(item))
      text = strdup(cJSON_GetStringValue(item));
    cJSON_Delete(item);
  }
  if (!text)
    return gp_json_scan_fail(scan, at, "a string that cannot be read");
  free(*ret_text);
  *ret_text = text;
  return true;
}

bool gp_snapshot_read_bool(gp_json_scan_t *scan, bool *ret_bool)
{
  char c = gp_json_scan_peek(scan);
  if (c != 't' && c != 'f')
    return gp_json_scan_fail(scan, scan->at, "neither true nor false");
  *ret_bool = c == 't';
  return gp_json_scan_skip(scan);
}

static bool read_state(gp_json_scan_t *scan, gp_snapshot_state_t *ret_state)
{
  static const char *const names[] = {
      [GP_SNAPSHOT_ALLOCATED] = "active_allocated",
      [GP_SNAPSHOT_PENDING] = "active_pending_free",
      [GP_SNAPSHOT_INACTIVE] = "inactive",
  };
  gp_json_slice_t name;
  if (!gp_json_scan_string(scan, &name))
    return false;
  *ret_state = GP_SNAPSHOT_OTHER;
  for (int i = 0; i < GP_SNAPSHOT_OTHER; i++) {
    if (gp_json_slice_is(name, names[i]))
      *ret_state = (gp_snapshot_state_t)i;
  }
  return true;
}

static bool read_block(gp_json_scan_t *scan, gp_snapshot_block_t *block)
{
  gp_json_slice_t name;

  if (!gp_json_scan_begin(scan, '{'))
    return false;
  while (gp_json_scan_member(scan, &name)) {
    bool good;
    if (gp_json_slice_is(name, "address"))
      good = gp_snapshot_read_uint(scan, &block->address);
    else if (gp_json_slice_is(name, "size"))
      good = gp_snapshot_read_uint(scan, &block->size);
    else if (gp_json_slice_is(name, "requested_size"))
      good = gp_snapshot_read_uint(scan, &block->requested);
    else if (gp_json_slice_is(name, "block"))
      good = gp_snapshot_read_uint(scan, &block->block);
    else if (gp_json_slice_is(name, "time_ns"))
      good = gp_snapshot_read_uint(scan, &block->time_ns);
    else if (gp_json_slice_is(name, "stack"))
      good = gp_snapshot_read_index(scan, &block->stack);
    else if (gp_json_slice_is(name, "stream"))
      good = gp_snapshot_read_index(scan, &block->stream);
    else if (gp_json_slice_is(name, "tainted"))
      good = gp_snapshot_read_bool(scan, &block->tainted);
    else if (gp_json_slice_is(name, "state"))
      good = read_state(scan, &block->state);
    else
      good = gp_json_scan_skip(scan);
    if (!good)
      return false;
  }
  return !scan->error;
}

static bool read_blocks(gp_json_scan_t *scan, gp_snapshot_t *snapshot)
{
  if (!gp_json_scan_begin(scan, '['))
    return false;
  while (gp_json_scan_element(scan)) {
    gp_snapshot_block_t *block =
        gp_snapshot_append(scan, (void **)&snapshot->blocks, &snapshot->block_count, sizeof(*block));
    if (!block)
      return false;
    block->stack = block->stream = -1;
    block->state = GP_SNAPSHOT_OTHER;
    if (!read_block(scan, block))
      return false;
  }
  return !scan->error;
}

/* The device, which may come after what has to know it. */
static bool read_device(gp_json_scan_t *scan, int *ret_device, size_t *ret_at)
{
  uint64_t device = UINT64_MAX;
  (void)gp_json_scan_peek(scan); /* for the blanks */
  *ret_at = scan->at;
  if (!gp_snapshot_read_uint(scan, &device))
    return false;
  *ret_device = device < GP_SNAPSHOT_DEVICES ? (int)device : -1;
  return true;
}

static bool read_segment(gp_json_scan_t *scan, gp_snapshot_t *snapshot)
{
  size_t device_at = scan->at;
  gp_json_slice_t name;
  gp_snapshot_segment_t *segment =
      gp_snapshot_append(scan, (void **)&snapshot->segments, &snapshot->segment_count, sizeof(*segment));

  if (!segment || !gp_json_scan_begin(scan, '{'))
    return false;
  segment->first_block = snapshot->block_count;
  segment->device = segment->stream = -1;
  while (gp_json_scan_member(scan, &name)) {
    bool good;
    if (gp_json_slice_is(name, "device"))
      good = read_device(scan, &segment->device, &device_at);
    else if (gp_json_slice_is(name, "address"))
      good = gp_snapshot_read_uint(scan, &segment->address);
    else if (gp_json_slice_is(name, "total_size"))
      good = gp_snapshot_read_uint(scan, &segment->size);
    else if (gp_json_slice_is(name, "context"))
      good = gp_snapshot_read_uint(scan, &segment->context);
    else if (gp_json_slice_is(name, "stream"))
      good = gp_snapshot_read_index(scan, &segment->stream);
    else if (gp_json_slice_is(name, "blocks"))
      good = read_blocks(scan, snapshot);
    else
      good = gp_json_scan_skip(scan);
    if (!good)
      return false;
  }
  if (scan->error)
    return false;
  if (segment->device < 0)
    return gp_json_scan_fail(scan, device_at, "a segment of no possible device");
  segment->block_count = snapshot->block_count - segment->first_block;
  for (size_t i = segment->first_block; i < snapshot->block_count; i++) {
    snapshot->blocks[i].device = segment->device;
    snapshot->blocks[i].segment = snapshot->segment_count - 1;
  }
  return true;
}

bool gp_snapshot_read_segments(gp_snapshot_parse_t *parse)
{
  gp_json_scan_t *scan = &parse->scan;
  parse->segments_at = scan->at;
  bool good = gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan))
    good = read_segment(scan, parse->snapshot);
  return good && !scan->error;
}

static bool read_passthrough(gp_json_scan_t *scan, gp_snapshot_t *snapshot)
{
  size_t device_at = scan->at;
  gp_json_slice_t name;
  gp_snapshot_passthrough_t *memory =
      gp_snapshot_append(scan, (void **)&snapshot->forwarded, &snapshot->passthrough_count, sizeof(*memory));

  if (!memory || !gp_json_scan_begin(scan, '{'))
    return false;
  memory->device = memory->stack = memory->stream = -1;
  while (gp_json_scan_member(scan, &name)) {
    bool good;
    if (gp_json_slice_is(name, "device"))
      good = read_device(scan, &memory->device, &device_at);
    else if (gp_json_slice_is(name, "address"))
      good = gp_snapshot_read_uint(scan, &memory->address);
    else if (gp_json_slice_is(name, "size"))
      good = gp_snapshot_read_uint(scan, &memory->size);
    else if (gp_json_slice_is(name, "block"))
      good = gp_snapshot_read_uint(scan, &memory->block);
    else if (gp_json_slice_is(name, "time_ns"))
      good = gp_snapshot_read_uint(scan, &memory->time_ns);
    else if (gp_json_slice_is(name, "stack"))
      good = gp_snapshot_read_index(scan, &memory->stack);
    else if (gp_json_slice_is(name, "stream"))
      good = gp_snapshot_read_index(scan, &memory->stream);
    else if (gp_json_slice_is(name, "kind"))
      good = gp_snapshot_read_string(scan, &memory->kind);
    else
      good = gp_json_scan_skip(scan);
    if (!good)
      return false;
  }
  if (scan->error)
    return false;
  if (memory->device < 0)
    return gp_json_scan_fail(scan, device_at, "passthrough memory of no possible device");
  if (!memory->kind)
    return gp_json_scan_fail(scan, device_at, "passthrough memory of no kind");
  return true;
}

bool gp_snapshot_read_passthrough(gp_snapshot_parse_t *parse)
{
  gp_json_scan_t *scan = &parse->scan;
  parse->passthrough_at = scan->at;
  bool good = gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan))
    good = read_passthrough(scan, parse->snapshot);
  return good && !scan->error;
}

bool gp_snapshot_check_memory(gp_snapshot_parse_t *parse)
{
  const gp_snapshot_t *snapshot = parse->snapshot;
  int streams = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(snapshot->root, "streams"));

  for (size_t i = 0; i < snapshot->segment_count; i++) {
    if (snapshot->segments[i].stream >= streams)
      return gp_snapshot_fail(parse, parse->segments_at, "segment %zu has a stream that is not there", i);
  }
  for (size_t i = 0; i < snapshot->block_count; i++) {
    const gp_snapshot_block_t *block = &snapshot->blocks[i];
    if (block->stream >= streams || (block->stack >= 0 && (size_t)block->stack >= snapshot->stacks.count))
      return gp_snapshot_fail(
          parse, parse->segments_at, "block %zu has a stream or stack that is not there", i);
  }
  for (size_t i = 0; i < snapshot->passthrough_count; i++) {
    const gp_snapshot_passthrough_t *memory = &snapshot->forwarded[i];
    if (memory->stream >= streams || (memory->stack >= 0 && (size_t)memory->stack >= snapshot->stacks.count))
      return gp_snapshot_fail(
          parse, parse->passthrough_at, "passthrough memory %zu has a stream or stack that is not there", i);
  }
  return true;
}

void gp_snapshot_memory_fini(gp_snapshot_t *snapshot)
{
  for (size_t i = 0; i < snapshot->passthrough_count; i++)
    free(snapshot->forwarded[i].kind);
  free(snapshot->forwarded);
  free(snapshot->segments);
  free(snapshot->blocks);
}
