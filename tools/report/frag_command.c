/*
 * gpupool frag: prints a map of the memory that the pool has reserved, and what fragmentation costs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/model/memory_map.h"
#include "tools/model/moments.h"
#include "tools/model/oom_moment.h"
#include "tools/saturated.h"
#include "tools/report/report.h"
#include "tools/tool.h"

#define SHOWN_ROWS   20
#define LEAD_COLUMNS 36 /* columns before a row's bar */
#define BAR_LEAST    10
#define BAR_MOST     512

typedef struct own {
  uint64_t most; /* most rows; 0: all */
} own_t;

/* The inputs of the report. */
typedef struct view {
  const gp_report_input_t *input;
  const gp_lifetimes_t *lifetimes;
  const gp_moments_t *moments;
  const gp_map_t *map;
} view_t;

static const gp_parameter_t parameters[] = {
    {"top", 'n', "N", GP_PARAMETER_COUNT, offsetof(own_t, most), NULL, 0, 1000000000,
        "only the first N rows of each device; 0: all (default: 20, with --json all)"},
};

static int check(const gp_request_t *request, void *arg)
{
  (void)arg;
  if (request->stream || request->thread || request->since_ns || request->until_ns != UINT64_MAX)
    return gp_message_usage("frag", "frag: only a device can be selected; --at chooses the moment");
  return 0;
}

static const gp_request_form_t form = {
    .command = "frag",
    .files = "FILE...",
    .least_files = 1,
    .takes_moment = true,
    .hides_selection = true,
    .about = "Maps the pool's reserved memory: allocated by the program, freed but still in\n"
             "use by the device, idle; what rounding up costs; and how the largest idle block\n"
             "compares with the request for which memory ran out. Segments of one size that\n"
             "are each a single block are one row, drawn in proportion; others a row each,\n"
             "drawn by address. The largest rows come first. The map is that of the end, or of\n"
             "the moment of --at: with --at oom that of the device that ran out, unless\n"
             "--device names another. Streams, threads and times cannot be selected here.\n",
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
    .check = check,
};

static const struct {
  const char *name; /* key in JSON */
  const char *words;
  const char *mark; /* character in the legend of a map */
  const char *utf8;
  char ascii;
} states[] = {
    [GP_SNAPSHOT_ALLOCATED] = {"live", "allocated", "live", "\u2588", '#'},
    [GP_SNAPSHOT_PENDING] = {"pending_free", "freed, still in use", "freed", "\u2592", '+'},
    [GP_SNAPSHOT_IDLE] = {"idle", "idle", "idle", "\u2591", '.'},
    [GP_SNAPSHOT_OTHER] = {"other", "in another state", "other", "?", '?'},
};
#define STATE_COUNT (sizeof(states) / sizeof(states[0]))

static double ratio(uint64_t part, uint64_t whole)
{
  return whole ? (double)part / (double)whole : 0;
}

/* Returns the share of idle memory that is outside of the largest idle block. An idle block that is a whole
 * driver allocation serves only requests of about its own size. This figure shows the loss. */
static double fragmentation(const gp_map_device_t *device)
{
  uint64_t idle = device->states[GP_SNAPSHOT_IDLE].bytes;
  return idle ? 1 - ratio(device->largest_idle, idle) : 0;
}

/* Finds the size of the failed request, and the largest idle block at that time. Returns false if the map
 * does not show the moment when the device ran out of memory. */
static bool find_request(
    const view_t *view, const gp_map_device_t *device, uint64_t *ret_requested, uint64_t *ret_largest)
{
  const gp_snapshot_t *snapshot = view->input->snapshot;
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(snapshot->root, "oom");
  gp_oom_events_t ooms;
  bool found = false;

  int error = gp_oom_events_init(&ooms, view->lifetimes);
  if (error) {
    gp_message("frag: the refused request is left out: %s", strerror(error));
    return false;
  }
  size_t index = view->moments->oom ? view->moments->oom - 1 : gp_oom_events_main(&ooms, device->device);
  bool is_then = view->moments->oom || (view->moments->is_end && ooms.is_written_then);
  if (is_then && index < ooms.count && ooms.events[index].device == device->device) {
    found = true;
    *ret_requested = ooms.events[index].requested;
    *ret_largest = device->largest_idle;
    if (ooms.events[index].is_reported)
      (void)gp_snapshot_uint(oom, "largest_free", ret_largest); /* before all idle memory was released */
  }
  gp_oom_events_fini(&ooms);
  return found;
}

/*
 * Text
 */

static void put_cells(gp_output_t *output, gp_snapshot_state_t state, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (output->utf8)
      fputs(states[state].utf8, output->stream);
    else
      fputc(states[state].ascii, output->stream);
  }
}

/* Draws the states of a group in order and in proportion to their counts. Each state that occurs gets at
 * least one cell. */
static void draw_group(const gp_map_group_t *group, size_t cells, gp_output_t *output)
{
  size_t widths[STATE_COUNT] = {0}, sum = 0, widest = 0;
  for (size_t state = 0; state < STATE_COUNT; state++) {
    if (!group->states[state].count)
      continue;
    widths[state] = (size_t)(ratio(group->states[state].count, group->count) * (double)cells + 0.5);
    widths[state] = widths[state] ? widths[state] : 1;
    sum += widths[state];
    widest = widths[state] > widths[widest] ? state : widest;
  }
  widths[widest] += cells - sum; /* the widest state can spare cells; the unsigned wrap is intended */
  for (size_t state = 0; state < STATE_COUNT; state++)
    put_cells(output, (gp_snapshot_state_t)state, widths[state]);
}

/* Draws a segment by address. A cell shows the state that covers most of it. If several states cover the same
 * amount, allocated comes before freed, and freed before idle. */
static void draw_segment(
    const gp_map_t *map, const gp_map_segment_t *segment, size_t cells, gp_output_t *output)
{
  size_t part = segment->first_part, end = segment->first_part + segment->part_count;
  for (size_t cell = 0; cell < cells; cell++) {
    double from = (double)segment->size * (double)cell / (double)cells;
    double to = (double)segment->size * (double)(cell + 1) / (double)cells;
    double covered[STATE_COUNT] = {0};
    gp_snapshot_state_t most = GP_SNAPSHOT_ALLOCATED;
    while (part + 1 < end && (double)map->parts[part + 1].offset <= from)
      part++;
    for (size_t i = part; i < end && (double)map->parts[i].offset < to; i++) {
      double begin = (double)map->parts[i].offset, stop = begin + (double)map->parts[i].size;
      double overlap = (stop < to ? stop : to) - (begin > from ? begin : from);
      covered[map->parts[i].state] += overlap > 0 ? overlap : 0;
    }
    for (size_t state = 0; state < STATE_COUNT; state++)
      most = covered[state] > covered[most] ? (gp_snapshot_state_t)state : most;
    put_cells(output, most, 1);
  }
}

static size_t bar_cells(const gp_output_t *output)
{
  size_t cells =
      output->columns > LEAD_COLUMNS + 2 + BAR_LEAST ? output->columns - LEAD_COLUMNS - 2 : BAR_LEAST;
  return cells < BAR_MOST ? cells : BAR_MOST;
}

static void print_segment(
    const gp_map_t *map, const gp_map_segment_t *segment, size_t cells, gp_output_t *output)
{
  char size[GP_SIZE_TEXT_BYTES];
  fprintf(output->stream, "%12s %9s %11s  ", gp_size_format(segment->size, size), "1", size);
  draw_segment(map, segment, cells, output);
  fputc('\n', output->stream);
}

static void print_group(const gp_map_group_t *group, size_t cells, gp_output_t *output)
{
  fprintf(output->stream, "%12s %9s %11s  ", GP_AS_SIZE(group->size), GP_AS_COUNT(group->count),
      GP_AS_SIZE(group->bytes));
  draw_group(group, cells, output);
  fputc('\n', output->stream);
}

/* Prints split segments, and groups of unsplit segments. Sorts them by bytes with the largest first, so that
 * a limit omits the smallest. */
static void print_rows(const gp_map_t *map, const gp_map_device_t *device, uint64_t most, gp_output_t *output)
{
  size_t cells = bar_cells(output), rows = 0, all = device->group_count + device->split_count;

  fprintf(output->stream, "\n%12s %9s %11s  map (", "size", "number", "in all");
  for (size_t state = 0, shown = 0; state < STATE_COUNT; state++) {
    if (!device->states[state].count)
      continue;
    fputs(shown++ ? ", " : "", output->stream);
    put_cells(output, (gp_snapshot_state_t)state, 1);
    fprintf(output->stream, " %s", states[state].mark);
  }
  fprintf(output->stream, ")\n");
  for (size_t split = 0, group = 0; rows < all && (most == 0 || rows < most); rows++) {
    bool is_split = group == device->group_count ||
                    (split < device->split_count &&
                        map->segments[device->split[split]].size >= device->groups[group].bytes);
    if (is_split)
      print_segment(map, &map->segments[device->split[split++]], cells, output);
    else
      print_group(&device->groups[group++], cells, output);
  }
  if (rows < all)
    fprintf(output->stream, "and %s; -n 0 shows all\n", GP_AS_PLURAL(all - rows, "smaller row"));
}

/* Returns the idle bytes that the pool can release to the driver: those in segments without a used block. */
static uint64_t idle_in_whole_segments(const gp_map_device_t *device)
{
  uint64_t bytes = 0;
  for (size_t i = 0; i < device->group_count; i++)
    bytes = gp_add_saturated(bytes, device->groups[i].states[GP_SNAPSHOT_IDLE].bytes);
  return bytes;
}

static void print_request(const view_t *view, const gp_map_device_t *device, gp_output_t *output)
{
  char asked[GP_SIZE_TEXT_BYTES], largest[GP_SIZE_TEXT_BYTES], text[512];
  uint64_t requested, largest_free, cached = device->states[GP_SNAPSHOT_IDLE].bytes;
  uint64_t returnable = idle_in_whole_segments(device);

  if (!find_request(view, device, &requested, &largest_free))
    return;
  gp_size_format(requested, asked);
  gp_size_format(largest_free, largest);
  if (!largest_free)
    snprintf(text, sizeof(text), "Memory ran out for %s: no idle memory could have been released.", asked);
  else if (largest_free < requested && cached > 0 && !returnable)
    snprintf(text, sizeof(text),
        "Memory ran out for %s: the largest idle block was %s, too small for it, and none of the %s of idle memory could be released: its segments have blocks in use.",
        asked, largest, GP_AS_SIZE(cached));
  else if (largest_free < requested && returnable < cached)
    snprintf(text, sizeof(text),
        "Memory ran out for %s: the largest idle block was %s, too small for it, and of the %s of idle memory only %s could be released: the rest is in segments with blocks in use.",
        asked, largest, GP_AS_SIZE(cached), GP_AS_SIZE(returnable));
  else if (largest_free < requested && cached > 0)
    snprintf(text, sizeof(text),
        "Memory ran out for %s: the largest idle block was %s, too small for it, and releasing all idle memory (%s) would not have made room.",
        asked, largest, GP_AS_SIZE(cached));
  else if (largest_free < requested)
    snprintf(text, sizeof(text),
        "Memory ran out for %s: the largest idle block was %s, too small for it; releasing all idle memory was not enough.",
        asked, largest);
  else if (device->split_count)
    snprintf(text, sizeof(text),
        "Memory ran out for %s, though a block of %s was idle: it could not be reused.", asked, largest);
  else
    snprintf(text, sizeof(text),
        "Memory ran out for %s, though a block of %s was idle: it was too large to be reused for that.",
        asked, largest);
  fputs(gp_output_style(output, GP_STYLE_ERROR), output->stream);
  gp_output_wrap(output->stream, "  ! ", "    ", text);
  fputs(gp_output_style(output, GP_STYLE_PLAIN), output->stream);
}

static void print_device(const view_t *view, const gp_map_device_t *device, gp_output_t *output)
{
  const own_t *own = view->input->own;
  uint64_t held = device->states[GP_SNAPSHOT_ALLOCATED].bytes;
  uint64_t lost = gp_subtract_saturated(held, device->requested);

  gp_output_heading(output, "Device %d: %s reserved in %s", device->device, GP_AS_SIZE(device->reserved),
      GP_AS_PLURAL(device->segment_count, "segment"));
  print_request(view, device, output);
  for (size_t state = 0; state < STATE_COUNT; state++) {
    const gp_map_amount_t *amount = &device->states[state];
    if (!amount->count)
      continue;
    fprintf(output->stream, "  %-20s %11s %7s  in %s\n", states[state].words, GP_AS_SIZE(amount->bytes),
        GP_AS_PERCENT(ratio(amount->bytes, device->reserved)), GP_AS_PLURAL(amount->count, "block"));
  }
  if (held)
    gp_output_say(output, "  ", "Of the allocated memory, rounding up costs %s (%s).", GP_AS_SIZE(lost),
        GP_AS_PERCENT(ratio(lost, held)));
  if (device->largest_idle)
    gp_output_say(output, "  ", "The largest idle block is %s: %s of the idle memory is in smaller pieces.",
        GP_AS_SIZE(device->largest_idle), GP_AS_PERCENT(fragmentation(device)));
  print_rows(view->map, device, own->most == UINT64_MAX ? SHOWN_ROWS : own->most, output);
}

/*
 * JSON
 */

static void add_states(cJSON *object, const gp_map_amount_t *amounts)
{
  const gp_map_amount_t *live = &amounts[GP_SNAPSHOT_ALLOCATED], *pending = &amounts[GP_SNAPSHOT_PENDING],
                        *idle = &amounts[GP_SNAPSHOT_IDLE], *other = &amounts[GP_SNAPSHOT_OTHER];
  GP_JSON_SHAPE(states);
  GP_PUT_AMOUNT(object, "live", live->bytes, live->count, "parts that are allocated, rounded up");
  GP_PUT_AMOUNT(object, "pending_free", pending->bytes, pending->count, "freed, but perhaps still in use");
  GP_PUT_AMOUNT(object, "idle", idle->bytes, idle->count, "cached");
  GP_PUT_AMOUNT(object, "other", other->bytes, other->count, "in a state that this version does not know");
}

static void add_segment(cJSON *item, const gp_map_t *map, const gp_map_segment_t *segment)
{
  GP_JSON_SHAPE(map_segment);
  GP_PUT_UINT(item, "address", segment->address, "where it begins");
  GP_PUT_UINT(item, "size", segment->size, "its bytes");
  cJSON *parts = GP_PUT_LIST(item, "parts", part, "its parts, by address");
  GP_JSON_SHAPE(part);
  for (size_t i = segment->first_part; i < segment->first_part + segment->part_count; i++) {
    const gp_map_part_t *part = &map->parts[i];
    cJSON *object = gp_json_add_item(parts);
    GP_PUT_UINT(object, "offset", part->offset, "from the address of the segment");
    GP_PUT_UINT(object, "size", part->size, "its bytes");
    GP_PUT_UINT(object, "requested_size", part->requested, "bytes requested; 0: not allocated");
    GP_PUT_CHOICE(object, "state", "live|pending_free|idle|other", states[part->state].name, "as above");
  }
}

static void add_device(cJSON *item, const view_t *view, const gp_map_device_t *device)
{
  const own_t *own = view->input->own;
  uint64_t most = own->most == UINT64_MAX ? 0 : own->most, requested, largest;
  GP_JSON_SHAPE(frag_device);
  GP_PUT_DEVICE(item, "device", device->device, "ordinal of the device");
  GP_PUT_UINT(item, "reserved", device->reserved, "bytes reserved from the driver");
  GP_PUT_UINT(item, "segment_count", device->segment_count, "in how many segments");
  GP_PUT_SHAPE(states, add_states(item, device->states));
  GP_PUT_UINT(item, "requested", device->requested, "bytes requested for what is allocated");
  GP_PUT_UINT(item, "largest_idle", device->largest_idle, "bytes of the largest idle block");
  GP_PUT_NUMBER(
      item, "fragmentation", fragmentation(device), "share of the idle memory that is not in that block");
  bool has_request = find_request(view, device, &requested, &largest);
  cJSON *request = GP_PUT_OBJECT_OR_NULL(item, "request", has_request, failed_request,
      "the request that failed, if the map shows when memory ran out on the device");
  cJSON *groups =
      GP_PUT_LIST(item, "groups", map_group, "segments that are a single block, by size, most bytes first");
  cJSON *split = GP_PUT_LIST(item, "segments", map_segment, "segments with several parts, the largest first");
  if (request) {
    GP_JSON_SHAPE(failed_request);
    GP_PUT_UINT(request, "requested", requested, "its bytes");
    GP_PUT_UINT(request, "largest_free", largest, "bytes of the largest idle block then");
  }
  for (size_t i = 0; i < device->group_count && (most == 0 || i < most); i++) {
    cJSON *group = gp_json_add_item(groups);
    GP_JSON_SHAPE(map_group);
    GP_PUT_UINT(group, "size", device->groups[i].size, "bytes of each");
    GP_PUT_UINT(group, "count", device->groups[i].count, "how many");
    GP_PUT_SHAPE(states, add_states(group, device->groups[i].states));
  }
  for (size_t i = 0; i < device->split_count && (most == 0 || i < most); i++)
    add_segment(gp_json_add_item(split), view->map, &view->map->segments[device->split[i]]);
}

/* Returns true if the device has a map: its reserved memory at that moment is known. */
static bool is_known(const view_t *view, int device)
{
  return gp_memory_knows_reserved(view->lifetimes, view->moments, device);
}

/* Prints which of the selected devices have no map. Returns false if there are any. */
static bool print_unknown(const view_t *view, gp_output_t *output)
{
  const gp_snapshot_t *snapshot = view->input->snapshot;
  int asked = gp_moments_device(view->moments, view->input->filter);
  bool is_whole = true;
  for (size_t i = 0; i < snapshot->device_count; i++) {
    int device = snapshot->devices[i].device;
    if (is_known(view, device) || (asked != GP_REQUEST_ALL_DEVICES && asked != device))
      continue;
    fprintf(output->stream, "\nDevice %d: %s, so its map then is not known.\n", device,
        view->input->snapshot->lacks_segments ? "the log has no segments" : "recorded events are missing");
    is_whole = false;
  }
  return is_whole;
}

static void print_text(const view_t *view, gp_output_t *output)
{
  const gp_map_t *map = view->map;
  const char *file = view->input->file;
  bool is_of_then = view->moments->kind != GP_MOMENT_NONE;
  char when[128], text[160];

  gp_report_heading(output, view->input);
  if (is_of_then) {
    gp_moments_describe(view->moments, view->lifetimes, when, sizeof(when));
    gp_output_say(output, "", "This is the map %s.", when);
  }
  bool is_whole = print_unknown(view, output);
  if (!map->device_count && is_whole)
    fprintf(output->stream, "The pool had nothing reserved then.\n");
  for (size_t i = 0; i < map->device_count; i++) {
    if (is_known(view, map->devices[i].device))
      print_device(view, &map->devices[i], output);
  }
  uint64_t held = 0;
  for (size_t i = 0; i < map->device_count; i++)
    held += map->devices[i].states[GP_SNAPSHOT_ALLOCATED].count;
  if (is_of_then) {
    snprintf(text, sizeof(text), "--by size --at %s", view->input->request->at.text);
    gp_report_next(output, "sites", file, text);
  } else if (held) {
    gp_report_next(output, "sites", file, "--by size --sort live");
  } else {
    gp_report_next(output, "frag", file, "--at peak");
  }
}

static void add_json(const view_t *view, cJSON *object)
{
  uint64_t time_ns;
  bool has_time = gp_moments_time(view->moments, view->lifetimes, &time_ns) && !view->moments->is_end;
  GP_JSON_SHAPE(frag_snapshot);
  GP_PUT_SHAPE(snapshot, gp_report_json_file(object, view->input->file, view->input->snapshot));
  GP_PUT_UINT_OR_NULL(object, "time_ns", has_time, time_ns, "when the map is of; null: the end");
  GP_PUT_BY(gp_json_add_moment, object, "at", moment, "the moment of the map: that of `--at`, else the end",
      view->moments, view->lifetimes);
  cJSON *list =
      GP_PUT_LIST(object, "devices", frag_device, "those whose map is known: not where events are missing");
  for (size_t i = 0; i < view->map->device_count; i++) {
    if (is_known(view, view->map->devices[i].device))
      add_device(gp_json_add_item(list), view, &view->map->devices[i]);
  }
}

static int report(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object)
{
  static gp_map_t map; /* too large for a stack */
  const gp_report_input_t *input = &inputs[0];
  gp_lifetimes_t lifetimes;
  gp_moments_t moments;
  const view_t view = {input, &lifetimes, &moments, &map};
  int status = 0;
  (void)count;

  map = (gp_map_t){.segment_count = 0};
  int error = gp_lifetimes_init(&lifetimes, input->snapshot);
  if (!error)
    status = gp_moments_find(&moments, &lifetimes, input->filter, input->request, input->file);
  if (!error && !status)
    error = gp_map_init(&map, &lifetimes, moments.at, gp_moments_device(&moments, input->filter));
  if (!error && !status && input->request->json)
    add_json(&view, object);
  else if (!error && !status)
    print_text(&view, output);
  gp_map_fini(&map);
  gp_lifetimes_fini(&lifetimes);
  if (error)
    gp_message("%s: %s", input->file, strerror(error));
  return error ? GP_EXIT_INPUT : status;
}

int gp_command_frag(int argc, char **argv)
{
  own_t own = {.most = UINT64_MAX};
  return gp_report_run(&form, argc, argv, &own, GP_LIFETIMES_COLUMNS, true, report);
}
