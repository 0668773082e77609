/*
 * gpupool timeline: draws each device's memory over time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "format/marks.h"
#include "tools/model/phases.h"
#include "tools/model/timeline.h"
#include "tools/output.h"
#include "tools/report/canvas.h"
#include "tools/report/report.h"
#include "tools/tool.h"

/* The line below a memory curve that shows the program's phases. */

#define LETTERS      26
#define NAME_COLUMNS 30

typedef struct band {
  gp_phases_t phases;
  const gp_phase_changes_t *changes;
  uint64_t *spent; /* by phase: time in the current column; all zero between columns */
  const char *names[LETTERS];
  size_t name_count;
  bool has_others;
} band_t;

/* Returns the phase that takes the most time between from_ns and to_ns, or -1 if there is no phase in that
 * interval. *first is an index into the changes, from which the search starts. */
static int32_t phase_between(band_t *band, uint64_t from_ns, uint64_t to_ns, size_t *first)
{
  const gp_phase_change_t *items = band->changes->items;
  size_t count = band->changes->count, i;
  int32_t found = -1;

  while (*first + 1 < count && items[*first + 1].time_ns <= from_ns)
    ++*first;
  for (i = *first; i < count && items[i].time_ns < to_ns; i++) {
    uint64_t begin_ns = items[i].time_ns > from_ns ? items[i].time_ns : from_ns;
    uint64_t end_ns = i + 1 < count && items[i + 1].time_ns < to_ns ? items[i + 1].time_ns : to_ns;
    int32_t phase = items[i].phase;
    if (phase < 0)
      continue;
    band->spent[phase] += end_ns - begin_ns;
    if (found < 0 || band->spent[phase] > band->spent[found])
      found = phase;
  }
  while (i-- > *first) {
    if (items[i].phase >= 0)
      band->spent[items[i].phase] = 0;
  }
  return found;
}

static char letter_of(band_t *band, int32_t phase)
{
  const char *name = band->phases.phases[phase].name;
  size_t i = 0;
  while (i < band->name_count && strcmp(band->names[i], name) != 0)
    i++;
  if (i == LETTERS) {
    band->has_others = true;
    return '.';
  }
  if (i == band->name_count)
    band->names[band->name_count++] = name;
  return (char)('a' + i);
}

static void print_legend(const band_t *band, int indent, gp_output_t *output)
{
  char blank[32], text[LETTERS * (4 * NAME_COLUMNS + 8)] = "", name[4 * NAME_COLUMNS];
  gp_names_t names = {.count = 0};
  size_t used = 0;

  for (size_t i = 0; i < band->name_count; i++)
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c %s", i ? ", " : "", (char)('a' + i),
        gp_names_shorten(&names, band->names[i], NAME_COLUMNS, name, sizeof(name)));
  if (band->has_others)
    (void)snprintf(text + used, sizeof(text) - used, ", . others");
  (void)snprintf(blank, sizeof(blank), "%*s", indent, "");
  gp_output_wrap(output->stream, blank, blank, text);
  gp_names_fini(&names);
}

static int print_band(
    band_t *band, const gp_timeline_t *timeline, size_t columns, int indent, gp_output_t *output)
{
  size_t dots = timeline->point_count / columns, first = 0, length = 0;
  char *line = malloc(columns + 1);

  if (!line)
    return ENOMEM;
  for (size_t column = 0; column < columns; column++) {
    uint64_t from_ns = gp_timeline_time(timeline, column * dots);
    uint64_t to_ns =
        column + 1 < columns ? gp_timeline_time(timeline, (column + 1) * dots) : timeline->to_ns + 1;
    int32_t phase = phase_between(band, from_ns, to_ns, &first);
    line[column] = phase >= 0 ? letter_of(band, phase) : ' ';
    length = phase >= 0 ? column + 1 : length;
  }
  if (length > 0) {
    fprintf(output->stream, "%*s%.*s\n", indent, "", (int)length, line);
    print_legend(band, indent, output);
  }
  free(line);
  return 0;
}

/* Prints a phase letter below each column of the timeline, and a legend. Prints nothing if there are no
 * phases. `indent` is the number of columns before the first one. Returns 0 or ENOMEM. */
static int timeline_phases_print(const gp_snapshot_t *snapshot, const gp_timeline_t *timeline, size_t columns,
    int indent, gp_output_t *output)
{
  band_t band = {.name_count = 0};

  int error = gp_phases_init(&band.phases, snapshot);
  if (!error && band.phases.count > 0) {
    band.spent = calloc(band.phases.count, sizeof(*band.spent));
    band.changes = gp_phases_main(&band.phases, timeline->to_ns);
    error = band.spent ? print_band(&band, timeline, columns, indent, output) : ENOMEM;
  }
  free(band.spent);
  gp_phases_fini(&band.phases);
  return error;
}

#define LABEL_COLUMNS 11 /* width of a label such as "  10.9 GiB " */
#define JSON_POINTS   100
#define SHOWN_OOMS    5
#define COLUMNS_MOST  1000

typedef struct own {
  uint64_t height; /* height of the drawing, in rows of characters */
  uint64_t points; /* number of time intervals in JSON */
} own_t;

static const gp_parameter_t parameters[] = {
    {"height", 0, "N", GP_PARAMETER_COUNT, offsetof(own_t, height), NULL, 2, 100,
        "lines that the curve takes (default: 12)"},
    {"points", 0, "N", GP_PARAMETER_COUNT, offsetof(own_t, points), NULL, 1, 1000,
        "with --json: the parts into which the time is cut (default: 100)"},
};

static const gp_request_form_t form = {
    .command = "timeline",
    .files = "FILE...",
    .least_files = 1,
    .about = "Draws allocated memory on each device over time (filled), and reserved memory\n"
             "(the line above): the difference is cached, or freed and still in use. Forwarded\n"
             "memory is in both. Below are marks: O memory ran out, S a snapshot was written,\n"
             "T idle memory was released, M the reuse rule changed.\n"
             "Small letters are phases: the NVTX ranges and marks of the thread that is in one\n"
             "for the longest (gpupool run --nvtx).\n"
             "--since and --until choose the time that is drawn. With --stream or --thread\n"
             "only their requests are drawn. A marks the moment of --at, with the figures\n"
             "of then.\n",
    .takes_moment = true,
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
};

/* The inputs of the report. */
typedef struct view {
  const gp_report_input_t *input;
  const gp_lifetimes_t *lifetimes;
  const gp_moments_t *moments; /* `kind` is GP_MOMENT_NONE if --at was not given */
  const gp_timeline_t *timeline;
} view_t;

static bool is_marked(const view_t *view, int device)
{
  const gp_moments_t *moments = view->moments;
  return moments->kind != GP_MOMENT_NONE && (!moments->is_of_one || moments->device == device);
}

/* Returns the height of `bytes` in rows of dots, if `top` has `rows` of them. Returns 0 only for 0 bytes. */
static size_t level(uint64_t bytes, uint64_t top, size_t rows)
{
  if (!bytes || !top)
    return 0;
  size_t up = (size_t)((double)bytes / (double)top * (double)rows + 0.5);
  return up < 1 ? 1 : up > rows ? rows : up;
}

static void draw(
    const gp_timeline_t *timeline, const gp_timeline_device_t *device, uint64_t top, gp_canvas_t *canvas)
{
  size_t rows = canvas->rows * GP_CANVAS_DOTS_HIGH;
  for (size_t x = 0; x < timeline->point_count; x++) {
    const gp_timeline_point_t *point = &device->points[x];
    size_t held = level(point->held_most, top, rows), reserved = level(point->reserved_most, top, rows);
    for (size_t y = 0; y < held; y++)
      gp_canvas_set(canvas, x, y);
    if (reserved > held)
      gp_canvas_set(canvas, x, reserved - 1);
  }
}

static size_t point_of(const gp_timeline_t *timeline, uint64_t time_ns)
{
  size_t low = 0, high = timeline->point_count - 1;
  while (low < high) {
    size_t middle = low + (high - low + 1) / 2;
    if (gp_timeline_time(timeline, middle) <= time_ns)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* If the moment of --at is in the drawing, writes an A to `line`. Returns the A's column + 1, or 0. */
static size_t mark_moment(const view_t *view, const gp_timeline_device_t *device, char *line)
{
  const gp_timeline_t *timeline = view->timeline;
  uint64_t time_ns;
  if (!is_marked(view, device->device) || !gp_moments_time(view->moments, view->lifetimes, &time_ns) ||
      time_ns < timeline->from_ns || time_ns > timeline->to_ns)
    return 0;
  size_t column = point_of(timeline, time_ns) / GP_CANVAS_DOTS_WIDE;
  line[column] = 'A';
  return column + 1;
}

static void print_marks(
    const view_t *view, const gp_timeline_device_t *device, size_t columns, gp_output_t *output)
{
  const gp_timeline_t *timeline = view->timeline;
  char line[COLUMNS_MOST + 1];
  gp_event_kind_t drawn[COLUMNS_MOST]; /* lowest event kind in each column, which is drawn */
  bool seen[GP_EVENT_OTHER] = {false};
  size_t length = 0;

  memset(line, ' ', columns);
  for (size_t i = 0; i < device->mark_count; i++) {
    gp_event_kind_t kind = device->marks[i].kind;
    size_t column = point_of(timeline, device->marks[i].time_ns) / GP_CANVAS_DOTS_WIDE;
    if (line[column] == ' ' || kind < drawn[column]) {
      line[column] = gp_event_look(kind).letter;
      drawn[column] = kind;
    }
    seen[kind] = true;
    length = column + 1 > length ? column + 1 : length;
  }
  size_t moment = mark_moment(view, device, line);
  length = moment > length ? moment : length;
  if (!length)
    return;
  fprintf(output->stream, "%*s%.*s\n", LABEL_COLUMNS, "", (int)length, line);
  gp_sentence_t text = {.used = 0};
  gp_sentence_add(&text, "%s", moment ? "A the moment of --at" : "");
  for (gp_event_kind_t kind = 0; kind < GP_EVENT_OTHER; kind++) {
    if (seen[kind])
      gp_sentence_add(
          &text, "%s%c %s", text.used ? ", " : "", gp_event_look(kind).letter, gp_event_look(kind).mark);
  }
  gp_output_say(output, "           ", "%s", text.text);
}

static void print_times(
    const gp_snapshot_t *snapshot, const gp_timeline_t *timeline, size_t columns, gp_output_t *output)
{
  char from[GP_NUMBER_BYTES], to[GP_NUMBER_BYTES];
  gp_snapshot_moment(snapshot, timeline->from_ns, from);
  gp_snapshot_moment(snapshot, timeline->to_ns, to);
  fprintf(output->stream, "%*s%s%*s\n", LABEL_COLUMNS, "", from,
      columns > strlen(from) ? (int)(columns - strlen(from)) : 0, to);
}

/* Prints the memory at the moment of --at, such as "3 GiB allocated at 1.5 s (event 120); 4 GiB reserved". */
static void print_moment(const view_t *view, const gp_timeline_device_t *device, gp_output_t *output)
{
  char when[128];
  gp_sentence_t text = {.used = 0};
  uint64_t held_bytes, reserved_bytes;

  if (!is_marked(view, device->device))
    return;
  gp_timeline_at(view->timeline, view->lifetimes, view->input->filter, view->moments, device->device,
      &held_bytes, &reserved_bytes);
  gp_moments_describe(view->moments, view->lifetimes, when, sizeof(when));
  gp_sentence_add(&text, "%s allocated %s", GP_AS_SIZE(held_bytes), when);
  if (!view->timeline->is_selected && device->knows_reserved)
    gp_sentence_add(&text, "; %s reserved", GP_AS_SIZE(reserved_bytes));
  gp_output_say(output, "  ", "%s", text.text);
}

static int print_device(
    const view_t *view, const gp_timeline_device_t *device, size_t height, gp_output_t *output)
{
  const gp_timeline_t *timeline = view->timeline;
  gp_canvas_t canvas;
  size_t columns = timeline->point_count / GP_CANVAS_DOTS_WIDE;
  uint64_t top = device->held_peak > device->reserved_peak ? device->held_peak : device->reserved_peak;
  gp_sentence_t text = {.used = 0};

  gp_output_heading(output, "Device %d", device->device);
  gp_sentence_add(&text, "%s allocated at most, at %s", GP_AS_SIZE(device->held_peak),
      GP_AS_MOMENT(view->input->snapshot, device->held_peak_ns));
  if (!timeline->is_selected && device->knows_reserved)
    gp_sentence_add(&text, "; %s reserved at most", GP_AS_SIZE(device->reserved_peak));
  else if (!timeline->is_selected)
    gp_sentence_add(&text, "; the reserved memory is unknown, since %s",
        view->input->snapshot->lacks_segments ? "the log has no segments" : "recorded events are missing");
  gp_output_say(output, "  ", "%s", text.text);
  print_moment(view, device, output);
  if (!gp_canvas_init(&canvas, columns, height))
    return ENOMEM;
  draw(timeline, device, top, &canvas);
  for (size_t row = 0; row < height; row++) {
    uint64_t at = (uint64_t)((double)top * (double)(height - row) / (double)height);
    bool is_labelled = row == 0 || row == height / 2;
    bool is_empty = gp_canvas_is_row_empty(&canvas, row);
    if (is_labelled || !is_empty)
      fprintf(
          output->stream, "%*s%s", LABEL_COLUMNS - 1, is_labelled ? GP_AS_SIZE(at) : "", is_empty ? "" : " ");
    gp_canvas_print_row(&canvas, row, output->utf8, output->stream);
    fputc('\n', output->stream);
  }
  gp_canvas_fini(&canvas);
  print_times(view->input->snapshot, timeline, columns, output);
  int error = timeline_phases_print(view->input->snapshot, timeline, columns, LABEL_COLUMNS, output);
  print_marks(view, device, columns, output);
  return error;
}

static void print_ooms(const gp_snapshot_t *snapshot, const gp_timeline_device_t *device, gp_output_t *output)
{
  uint64_t count = 0;
  for (size_t i = 0; i < device->mark_count; i++) {
    if (device->marks[i].kind == GP_EVENT_OOM && count++ < SHOWN_OOMS)
      fprintf(output->stream, "  %s: memory ran out for %s\n",
          GP_AS_MOMENT(snapshot, device->marks[i].time_ns), GP_AS_SIZE(device->marks[i].size));
  }
  if (count > SHOWN_OOMS)
    fprintf(output->stream, "  and %s\n", GP_AS_PLURAL(count - SHOWN_OOMS, "more time"));
}

static int print_text(const view_t *view, gp_output_t *output)
{
  const gp_report_input_t *input = view->input;
  const gp_timeline_t *timeline = view->timeline;
  const own_t *own = input->own;
  bool has_oom = false;
  int error = 0;

  gp_report_heading(output, input);
  if (!timeline->device_count)
    gp_output_say(output, "", "There are no events to draw: none were recorded, or none in that time.");
  for (size_t i = 0; !error && i < timeline->device_count; i++) {
    error = print_device(view, &timeline->devices[i], own->height, output);
    print_ooms(input->snapshot, &timeline->devices[i], output);
    for (size_t k = 0; k < timeline->devices[i].mark_count; k++)
      has_oom = has_oom || timeline->devices[i].marks[k].kind == GP_EVENT_OOM;
  }
  char options[64] = "";
  if (view->moments->kind != GP_MOMENT_NONE)
    snprintf(options, sizeof(options), "--at %s", input->request->at.text);
  gp_report_next(output, has_oom ? "frag" : "sites", input->file, options);
  return error;
}

static void add_device_moment(
    cJSON *item, const char *name, const view_t *view, const gp_timeline_device_t *device)
{
  uint64_t held, reserved;
  cJSON *at = gp_json_add_object_or_null(item, name, is_marked(view, device->device));
  if (!at)
    return;
  gp_timeline_at(
      view->timeline, view->lifetimes, view->input->filter, view->moments, device->device, &held, &reserved);
  GP_JSON_SHAPE(timeline_moment);
  GP_PUT_UINT(at, "held", held, "bytes allocated then, rounded up");
  GP_PUT_UINT_OR_NULL(at, "reserved", device->knows_reserved, reserved, "bytes reserved then");
}

static void add_device(cJSON *item, const view_t *view, const gp_timeline_device_t *device)
{
  const gp_timeline_t *timeline = view->timeline;
  GP_JSON_SHAPE(timeline_device);
  GP_PUT_DEVICE(item, "device", device->device, "ordinal of the device");
  GP_PUT_UINT(item, "held_peak", device->held_peak,
      "most bytes allocated at once, rounded up, with forwarded memory");
  GP_PUT_UINT(item, "held_peak_ns", device->held_peak_ns, "when");
  GP_PUT_UINT_OR_NULL(item, "reserved_peak", device->knows_reserved, device->reserved_peak,
      "most bytes reserved from the driver, with forwarded memory; this and each `reserved` is null where events are missing");
  GP_PUT_BY(add_device_moment, item, "at", timeline_moment_or_null,
      "the figures at the moment of `--at`; null: it is of another device", view, device);
  cJSON *points = GP_PUT_LIST(item, "points", timeline_point, "the parts of the time");
  cJSON *list_of_marks = GP_PUT_LIST(item, "marks", timeline_mark, "events worth a mark");
  GP_JSON_SHAPE(timeline_point);
  for (size_t i = 0; i < timeline->point_count; i++) {
    const gp_timeline_point_t *point = &device->points[i];
    cJSON *at = gp_json_add_item(points);
    GP_PUT_UINT(at, "from_ns", gp_timeline_time(timeline, i), "when the part begins");
    GP_PUT_UINT(at, "held_least", point->held_least, "fewest bytes allocated in it");
    GP_PUT_UINT(at, "held_most", point->held_most, "most bytes allocated in it");
    GP_PUT_UINT(at, "held_end", point->held_end, "bytes allocated at its end");
    GP_PUT_UINT_OR_NULL(
        at, "reserved_most", device->knows_reserved, point->reserved_most, "most bytes reserved in it");
    GP_PUT_UINT_OR_NULL(
        at, "reserved_end", device->knows_reserved, point->reserved_end, "bytes reserved at its end");
  }
  GP_JSON_SHAPE(timeline_mark);
  for (size_t i = 0; i < device->mark_count; i++) {
    cJSON *mark = gp_json_add_item(list_of_marks);
    GP_PUT_UINT(mark, "time_ns", device->marks[i].time_ns, "when");
    GP_PUT_CHOICE(
        mark, "what", "format/actions.def", gp_event_kind_name(device->marks[i].kind), "kind of the event");
    GP_PUT_TEXT(mark, "detail", device->marks[i].detail, "its detail, as in the snapshot");
    GP_PUT_UINT(mark, "size", device->marks[i].size, "its size");
  }
}

static void add_moment(cJSON *object, const char *name, const view_t *view)
{
  if (view->moments->kind == GP_MOMENT_NONE)
    cJSON_AddNullToObject(object, name);
  else
    gp_json_add_moment(object, name, view->moments, view->lifetimes);
}

static void add_json(const view_t *view, cJSON *object)
{
  const gp_report_input_t *input = view->input;
  const gp_timeline_t *timeline = view->timeline;
  bool is_empty = timeline->device_count == 0;
  GP_JSON_SHAPE(timeline_snapshot);
  GP_PUT_SHAPE(snapshot, gp_report_json_file(object, input->file, input->snapshot));
  GP_PUT_UINT_OR_NULL(object, "from_ns", !is_empty, timeline->from_ns,
      "begin of the time that is cut into `--points` equal parts; null: no events");
  GP_PUT_UINT_OR_NULL(object, "to_ns", !is_empty, timeline->to_ns, "its end");
  GP_PUT_BOOL(object, "selected", timeline->is_selected,
      "only some streams or threads: `held` is theirs, and `reserved` is 0");
  GP_PUT_BY(add_moment, object, "at", moment_or_null, "the moment of `--at`; null: not given", view);
  cJSON *list = GP_PUT_LIST(object, "devices", timeline_device, "each device with events");
  for (size_t i = 0; i < timeline->device_count; i++)
    add_device(gp_json_add_item(list), view, &timeline->devices[i]);
}

static int report(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object)
{
  static gp_timeline_t timeline; /* too large for a stack */
  const gp_report_input_t *input = &inputs[0];
  const own_t *own = input->own;
  gp_lifetimes_t lifetimes;
  gp_moments_t moments;
  const view_t view = {input, &lifetimes, &moments, &timeline};
  int status = 0;
  size_t columns = output->columns < COLUMNS_MOST ? output->columns : COLUMNS_MOST;
  size_t points = inputs[0].request->json ? own->points : GP_CANVAS_DOTS_WIDE * (columns - LABEL_COLUMNS);
  (void)count;

  timeline = (gp_timeline_t){0};
  int error = gp_lifetimes_init(&lifetimes, input->snapshot);
  if (!error)
    status = gp_moments_find(&moments, &lifetimes, input->filter, input->request, input->file);
  if (!error && !status)
    error = gp_timeline_init(&timeline, &lifetimes, input->filter, points);
  if (!error && !status && input->request->json)
    add_json(&view, object);
  else if (!error && !status)
    error = print_text(&view, output);
  gp_timeline_fini(&timeline);
  gp_lifetimes_fini(&lifetimes);
  if (error)
    gp_message("%s: %s", input->file, strerror(error));
  return error ? GP_EXIT_INPUT : status;
}

int gp_command_timeline(int argc, char **argv)
{
  own_t own = {.height = 12, .points = JSON_POINTS};
  return gp_report_run(&form, argc, argv, &own, GP_LIFETIMES_COLUMNS, true, report);
}
