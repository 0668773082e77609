/*
 * Reads the memory in a snapshot: segments with their blocks, and forwarded allocations.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/read/native/snapshot_parts.h"

static bool read_state(gp_json_scan_t *scan, void *to)
{
  gp_json_slice_t name;
  if (!gp_json_scan_string(scan, &name))
    return false;
  *(gp_snapshot_state_t *)to = gp_snapshot_state_of(name.text, name.length);
  return true;
}

#define BLOCK(name, read, field) GP_SNAPSHOT_MEMBER(name, read, gp_snapshot_block_t, field)

static const gp_snapshot_member_t block_members[] = {
    BLOCK("address", gp_snapshot_read_uint, address),
    BLOCK("size", gp_snapshot_read_uint, size),
    BLOCK("requested_size", gp_snapshot_read_uint, requested),
    BLOCK("block", gp_snapshot_read_uint, block),
    BLOCK("time_ns", gp_snapshot_read_uint, time_ns),
    BLOCK("stack", gp_snapshot_read_index, stack),
    BLOCK("stream", gp_snapshot_read_index, stream),
    BLOCK("tainted", gp_snapshot_read_bool, tainted),
    BLOCK("state", read_state, state),
    {.name = NULL},
};

/* A segment or forwarded allocation that is being read. Members that depend on "device" may precede it. */
typedef struct segment_parse {
  gp_snapshot_segment_t segment;
  gp_snapshot_t *snapshot;
  size_t device_at;
} segment_parse_t;

typedef struct forwarded_parse {
  gp_snapshot_forwarded_t memory;
  size_t device_at;
} forwarded_parse_t;

static bool read_blocks(gp_json_scan_t *scan, void *to)
{
  gp_snapshot_t *snapshot = ((segment_parse_t *)to)->snapshot;
  if (!gp_json_scan_begin(scan, '['))
    return false;
  while (gp_json_scan_element(scan)) {
    gp_snapshot_block_t *block =
        gp_snapshot_append(scan, &snapshot->blocks, &snapshot->block_count, sizeof(*block));
    if (!block)
      return false;
    block->stack = block->stream = -1;
    block->state = GP_SNAPSHOT_OTHER;
    if (!gp_snapshot_read_object(scan, block_members, block))
      return false;
  }
  return !scan->error;
}

/* Reads "device", and stores its offset in *ret_at for errors found later. */
static bool read_device(gp_json_scan_t *scan, int *ret_device, size_t *ret_at)
{
  uint64_t device = UINT64_MAX;
  (void)gp_json_scan_peek(scan); /* skip blanks */
  *ret_at = scan->at;
  if (!gp_snapshot_read_uint(scan, &device))
    return false;
  *ret_device = device < GP_SNAPSHOT_DEVICES ? (int)device : -1;
  return true;
}

static bool read_segment_device(gp_json_scan_t *scan, void *to)
{
  segment_parse_t *parse = to;
  return read_device(scan, &parse->segment.device, &parse->device_at);
}

#define SEGMENT(name, read, field) GP_SNAPSHOT_MEMBER(name, read, segment_parse_t, segment.field)
static const gp_snapshot_member_t segment_members[] = {
    GP_SNAPSHOT_WHOLE("device", read_segment_device),
    SEGMENT("address", gp_snapshot_read_uint, address),
    SEGMENT("total_size", gp_snapshot_read_uint, size),
    SEGMENT("context", gp_snapshot_read_uint, context),
    SEGMENT("stream", gp_snapshot_read_index, stream),
    GP_SNAPSHOT_WHOLE("blocks", read_blocks),
    {.name = NULL},
};

static bool read_segment(gp_json_scan_t *scan, gp_snapshot_t *snapshot)
{
  segment_parse_t parse = {.segment = {.first_block = snapshot->block_count, .device = -1, .stream = -1},
      .snapshot = snapshot,
      .device_at = scan->at};
  gp_snapshot_segment_t *segment =
      gp_snapshot_append(scan, &snapshot->segments, &snapshot->segment_count, sizeof(*segment));

  if (!segment || !gp_snapshot_read_object(scan, segment_members, &parse))
    return false;
  if (parse.segment.device < 0)
    return gp_json_scan_fail(scan, parse.device_at, "a segment of no possible device");
  *segment = parse.segment;
  segment->block_count = snapshot->block_count - segment->first_block;
  for (size_t i = segment->first_block; i < snapshot->block_count; i++) {
    snapshot->blocks[i].device = segment->device;
    snapshot->blocks[i].segment = snapshot->segment_count - 1;
  }
  return true;
}

bool gp_snapshot_read_segments(gp_snapshot_parse_t *parse)
{
  parse->segments_at = parse->scan.at;
  return gp_snapshot_read_array(parse, read_segment);
}

static bool read_forwarded_device(gp_json_scan_t *scan, void *to)
{
  forwarded_parse_t *parse = to;
  return read_device(scan, &parse->memory.device, &parse->device_at);
}

#define FORWARDED(name, read, field) GP_SNAPSHOT_MEMBER(name, read, forwarded_parse_t, memory.field)
static const gp_snapshot_member_t forwarded_members[] = {
    GP_SNAPSHOT_WHOLE("device", read_forwarded_device),
    FORWARDED("address", gp_snapshot_read_uint, address),
    FORWARDED("size", gp_snapshot_read_uint, size),
    FORWARDED("block", gp_snapshot_read_uint, block),
    FORWARDED("time_ns", gp_snapshot_read_uint, time_ns),
    FORWARDED("stack", gp_snapshot_read_index, stack),
    FORWARDED("stream", gp_snapshot_read_index, stream),
    FORWARDED("kind", gp_snapshot_read_string, kind),
    {.name = NULL},
};

static bool read_forwarded(gp_json_scan_t *scan, gp_snapshot_t *snapshot)
{
  forwarded_parse_t parse = {.memory = {.device = -1, .stack = -1, .stream = -1}, .device_at = scan->at};
  gp_snapshot_forwarded_t *memory =
      gp_snapshot_append(scan, &snapshot->forwarded, &snapshot->forwarded_count, sizeof(*memory));

  if (!memory)
    return false;
  bool good = gp_snapshot_read_object(scan, forwarded_members, &parse);
  *memory = parse.memory; /* after an error, too, so that gp_snapshot_destroy frees the texts */
  if (!good)
    return false;
  if (memory->device < 0)
    return gp_json_scan_fail(scan, parse.device_at, "passthrough memory of no possible device");
  if (!memory->kind)
    return gp_json_scan_fail(scan, parse.device_at, "passthrough memory of no kind");
  return true;
}

bool gp_snapshot_read_forwarded(gp_snapshot_parse_t *parse)
{
  parse->forwarded_at = parse->scan.at;
  return gp_snapshot_read_array(parse, read_forwarded);
}

bool gp_snapshot_check_memory(gp_snapshot_parse_t *parse)
{
  const gp_snapshot_t *snapshot = parse->snapshot;
  int streams = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(snapshot->root, "streams"));

  for (size_t i = 0; i < snapshot->segment_count; i++) {
    if (snapshot->segments[i].stream >= streams)
      return gp_snapshot_fail(parse, parse->segments_at, "segment %zu refers to a missing stream", i);
  }
  for (size_t i = 0; i < snapshot->block_count; i++) {
    const gp_snapshot_block_t *block = &snapshot->blocks[i];
    if (block->stream >= streams || (block->stack >= 0 && (size_t)block->stack >= snapshot->stacks.count))
      return gp_snapshot_fail(parse, parse->segments_at, "block %zu refers to a missing stream or stack", i);
  }
  for (size_t i = 0; i < snapshot->forwarded_count; i++) {
    const gp_snapshot_forwarded_t *memory = &snapshot->forwarded[i];
    if (memory->stream >= streams || (memory->stack >= 0 && (size_t)memory->stack >= snapshot->stacks.count))
      return gp_snapshot_fail(
          parse, parse->forwarded_at, "passthrough memory %zu refers to a missing stream or stack", i);
  }
  return true;
}
