#include "tools/html/recording.h"

#include <errno.h>
#include <stdlib.h>

#include "format/marks.h"
#include "tools/array.h"
#include "tools/html/choice.h"
#include "tools/html/stacks.h"
#include "tools/model/memory.h"
#include "tools/model/phases.h"
#include "tools/report/summary_report.h"
#include "tools/tool.h"
#include "tools/tune/tune.h"

/*
 * Adds the phases of a recording to a page: ranges and marks of the thread that is in phases the longest.
 */

typedef struct phases_build {
  const gp_choice_t *choice;
  gp_page_names_t *names;
  gp_phases_t phases;
  gp_payload_column_t *begin, *end, *depth, *name;
  uint32_t *begins; /* begins of the open phases, outermost first, numbered as in the lifetimes */
  size_t open_count;
} phases_build_t;

/* Ends the innermost open phase, and adds its row if the page shows a part of it. */
static void end_phase(phases_build_t *build, int32_t phase, uint32_t end)
{
  const gp_choice_t *choice = build->choice;
  uint32_t begin = build->begins[--build->open_count];

  if (!gp_choice_has(choice, begin, end))
    return;
  uint32_t from = gp_choice_moment(choice, begin), to = gp_choice_moment(choice, end);
  to = to > choice->end ? choice->end : to;
  if (from >= to)
    return;
  gp_payload_add(build->begin, from);
  gp_payload_add(build->end, to);
  gp_payload_add(build->depth, build->open_count < UINT8_MAX ? (int64_t)build->open_count : UINT8_MAX);
  gp_payload_add(build->name, (int64_t)gp_page_name(build->names, build->phases.phases[phase].name));
}

/* Begins and ends phases according to the changes. A thread enters or leaves one range at a time, whereas the
 * process goes directly from one phase to another. Returns 0 or ENOMEM. */
static int follow(phases_build_t *build, const gp_phase_changes_t *changes)
{
  const gp_phase_t *phases = build->phases.phases;
  int32_t now = -1;

  for (size_t i = 0; i < changes->count; i++) {
    int32_t next = changes->items[i].phase;
    uint32_t moment = gp_memory_moment(build->choice->lifetimes, changes->items[i].time_ns);
    bool is_inner = next >= 0 && next != now && phases[next].parent == now;
    if (now >= 0 && !is_inner) {
      end_phase(build, now, moment);
      now = phases[now].parent;
    }
    if (next >= 0 && next != now) {
      uint32_t *begin = GP_ARRAY_ADD(build->begins, build->open_count);
      if (!begin)
        return ENOMEM;
      *begin = moment;
    }
    now = next;
  }
  for (; now >= 0; now = phases[now].parent)
    end_phase(build, now, GP_LIFETIMES_NEVER);
  return 0;
}

/* Adds the columns phase.* to `list`. Adds nothing if there are no phases, and leaves out phases without an
 * event. Returns 0 or ENOMEM. */
static int page_add_phases(
    gp_payload_t *payload, cJSON *list, gp_page_names_t *names, const gp_choice_t *choice)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  phases_build_t build = {.choice = choice, .names = names};

  int error = gp_phases_init(&build.phases, lifetimes->snapshot);
  if (!error && build.phases.count > 0) {
    build.begin = gp_payload_column(payload, list, "phase.begin", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA);
    build.end = gp_payload_column(payload, list, "phase.end", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA);
    build.depth = gp_payload_column(payload, list, "phase.depth", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE);
    build.name = gp_payload_column(payload, list, "phase.name", GP_PAYLOAD_U32, GP_PAYLOAD_VARINT);
    error = follow(&build, gp_phases_main(&build.phases, gp_memory_time(lifetimes, lifetimes->end)));
  }
  free(build.begins);
  gp_phases_fini(&build.phases);
  return error;
}

typedef struct build {
  gp_payload_t *payload;
  const gp_report_input_t *input;
  const gp_lifetimes_t *lifetimes;
  const gp_choice_t *choice;
  cJSON *file;    /* the recording's object in the header */
  cJSON *columns; /* the list of columns in file */
  gp_page_names_t names;
} build_t;

/* The moments that the page marks, numbered as in the lifetimes. */
typedef struct marks {
  uint32_t *moments; /* the peak, then the moments when memory ran out, then all others */
  size_t count;
  size_t needed;
} marks_t;

static gp_payload_column_t *column(
    build_t *build, const char *name, gp_payload_array_t array, gp_payload_encoding_t encoding)
{
  return gp_payload_column(build->payload, build->columns, name, array, encoding);
}

/* Returns true if the page shows the mark: marks of the whole process. Ranges of threads are not shown,
 * because there may be any number of them. */
static bool is_shown(const cJSON *mark)
{
  const char *kind = gp_snapshot_text(mark, "kind");
  return strcmp(kind, gp_mark_kind_name(GP_MARK_PUSH)) != 0 &&
         strcmp(kind, gp_mark_kind_name(GP_MARK_POP)) != 0;
}

/* Returns the moment at which the program made the mark. A mark is not an event, so the time decides. */
static uint32_t moment_of(const build_t *build, const cJSON *mark)
{
  uint64_t time_ns = 0;
  (void)gp_snapshot_uint(mark, "time_ns", &time_ns);
  return gp_memory_moment(build->lifetimes, time_ns);
}

static const cJSON *program_marks(const build_t *build)
{
  return cJSON_GetObjectItemCaseSensitive(build->input->snapshot->root, "marks");
}

/* Finds the moments to mark. Puts the needed moments first: the peak, and the moments when memory ran out.
 * Returns 0 or ENOMEM. */
static int find_marks(const build_t *build, const gp_filter_t *filter, marks_t *marks)
{
  const gp_snapshot_events_t *events = &build->input->snapshot->events;
  const cJSON *mark;
  gp_moments_t peak;
  size_t capacity = 1 + 2 * events->count + (size_t)cJSON_GetArraySize(program_marks(build));

  marks->moments = calloc(capacity, sizeof(*marks->moments));
  if (!marks->moments)
    return ENOMEM;
  gp_moments_peak(&peak, build->lifetimes, filter);
  marks->moments[marks->count++] = peak.at;
  for (size_t i = 0; i < events->count && marks->count < 64; i++) {
    if (gp_snapshot_event_kind(events, i) == GP_EVENT_OOM)
      marks->moments[marks->count++] = (uint32_t)i + 1;
  }
  marks->needed = marks->count;
  for (size_t i = 0; i < events->count; i++) {
    if (gp_event_look(gp_snapshot_event_kind(events, i)).letter)
      marks->moments[marks->count++] = (uint32_t)i + 1;
  }
  cJSON_ArrayForEach(mark, program_marks(build))
  {
    if (is_shown(mark))
      marks->moments[marks->count++] = moment_of(build, mark);
  }
  return 0;
}

static void add_moments(build_t *build)
{
  const gp_choice_t *choice = build->choice;
  bool has_times = !build->input->snapshot->times_are_numbers;
  gp_payload_column_t *times =
      has_times ? column(build, "moment.time", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA) : NULL;
  bool is_whole = !choice->left_out && choice->from == 0;
  gp_payload_column_t *events =
      is_whole ? NULL : column(build, "moment.event", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA);

  for (uint32_t i = 0; i <= choice->end; i++) {
    uint32_t moment = choice->events[i];
    /* Moment 0 is before the first event, but is shown with the first event's time. */
    if (times)
      gp_payload_add(times,
          (int64_t)gp_memory_time(build->lifetimes, moment == 0 && build->lifetimes->end ? 1 : moment));
    if (events)
      gp_payload_add(events, (int64_t)moment - 1);
  }
}

static void add_lives(build_t *build)
{
  const gp_choice_t *choice = build->choice;
  gp_payload_column_t *device = column(build, "life.device", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE),
                      *kind = column(build, "life.kind", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE),
                      *flags = column(build, "life.flags", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE),
                      *begin = column(build, "life.begin", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *freed = column(build, "life.freed", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *done = column(build, "life.done", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *stack = column(build, "life.stack", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA),
                      *stream = column(build, "life.stream", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA),
                      *thread = column(build, "life.thread", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA),
                      *address = column(build, "life.address", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
                      *requested = column(build, "life.requested", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
                      *rounded = column(build, "life.rounded", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
                      *block = column(build, "life.block", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
                      *what = column(build, "life.what", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA);

  for (size_t i = 0; i < choice->life_count; i++) {
    const gp_life_t *life = &build->lifetimes->lives[choice->lives[i]];
    bool is_held = choice->to == build->lifetimes->end ? life->is_held : gp_life_is_held_at(life, choice->to);
    gp_payload_add(device, life->device);
    gp_payload_add(kind, life->kind);
    gp_payload_add(flags, (life->is_temporary ? 1 : 0) | (is_held ? 2 : 0));
    gp_payload_add(begin, gp_choice_moment(choice, life->begin));
    gp_payload_add(freed, gp_choice_moment(choice, life->freed));
    gp_payload_add(done, gp_choice_moment(choice, life->done));
    gp_payload_add(stack, life->stack);
    gp_payload_add(stream, life->stream);
    gp_payload_add(thread, life->thread);
    gp_payload_add(address, (int64_t)life->address);
    gp_payload_add(requested, (int64_t)life->requested);
    gp_payload_add(rounded, (int64_t)gp_life_rounded(life));
    gp_payload_add(block, (int64_t)life->block);
    gp_payload_add(what, gp_life_what(life) ? (int64_t)gp_page_name(&build->names, gp_life_what(life)) : -1);
  }
}

static void add_segments(build_t *build)
{
  const gp_choice_t *choice = build->choice;
  gp_payload_column_t *device = column(build, "segment.device", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE),
                      *address = column(build, "segment.address", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
                      *size = column(build, "segment.size", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
                      *begin = column(build, "segment.begin", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *end = column(build, "segment.end", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *expandable = column(build, "segment.expandable", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE);

  for (size_t i = 0; i < build->lifetimes->segment_count; i++) {
    const gp_segment_life_t *segment = &build->lifetimes->segments[i];
    if (!gp_choice_has(choice, segment->begin, segment->end) ||
        !gp_filter_has_device(build->input->filter, segment->device))
      continue;
    gp_payload_add(device, segment->device);
    gp_payload_add(address, (int64_t)segment->address);
    gp_payload_add(size, (int64_t)segment->size);
    gp_payload_add(begin, gp_choice_moment(choice, segment->begin));
    gp_payload_add(end, gp_choice_moment(choice, segment->end));
    gp_payload_add(expandable, segment->is_expandable);
  }
}

typedef struct mark_columns {
  gp_payload_column_t *moment, *kind, *device, *size, *detail;
} mark_columns_t;

static void add_mark(build_t *build, const mark_columns_t *columns, uint32_t moment, const char *kind,
    int64_t device, int64_t size, const char *detail)
{
  const gp_choice_t *choice = build->choice;
  if (moment < choice->from || moment > choice->to ||
      (device >= 0 && !gp_filter_has_device(build->input->filter, (int)device)))
    return;
  gp_payload_add(columns->moment, gp_choice_moment(choice, moment));
  gp_payload_add(columns->kind, (int64_t)gp_page_name(&build->names, kind));
  gp_payload_add(columns->device, device);
  gp_payload_add(columns->size, size);
  gp_payload_add(columns->detail, (int64_t)gp_page_name(&build->names, detail));
}

static void add_marks(build_t *build)
{
  const gp_snapshot_events_t *events = &build->input->snapshot->events;
  const cJSON *mark;
  const mark_columns_t columns = {
      column(build, "mark.moment", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
      column(build, "mark.kind", GP_PAYLOAD_U32, GP_PAYLOAD_VARINT),
      column(build, "mark.device", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA),
      column(build, "mark.size", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
      column(build, "mark.detail", GP_PAYLOAD_U32, GP_PAYLOAD_VARINT),
  };

  for (size_t i = 0; i < events->count; i++) {
    gp_event_kind_t kind = gp_snapshot_event_kind(events, i);
    int64_t detail = gp_snapshot_event(events, GP_COLUMN_DETAIL, i, -1);
    if (gp_event_look(kind).letter)
      add_mark(build, &columns, (uint32_t)i + 1, gp_event_kind_name(kind),
          gp_snapshot_event(events, GP_COLUMN_DEVICE, i, -1), gp_snapshot_event(events, GP_COLUMN_SIZE, i, 0),
          detail >= 0 ? events->details.names[detail] : "");
  }
  cJSON_ArrayForEach(mark, program_marks(build))
  {
    uint64_t device;
    int has_device = gp_snapshot_uint(mark, "device", &device);
    if (is_shown(mark))
      add_mark(build, &columns, moment_of(build, mark), gp_snapshot_text(mark, "kind"),
          has_device == 1 && device < GP_SNAPSHOT_DEVICES ? (int64_t)device : -1, 0,
          gp_snapshot_text(mark, "name"));
  }
}

static void add_rest(build_t *build)
{
  const gp_choice_t *choice = build->choice;
  cJSON *left_out = cJSON_AddObjectToObject(build->file, "left_out");
  gp_json_add_uint(left_out, "count", choice->left_out);
  gp_json_add_uint(left_out, "largest", choice->left_out_largest);
  if (!choice->left_out)
    return;
  gp_payload_column_t *moment = column(build, "rest.moment", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *device = column(build, "rest.device", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE),
                      *requested = column(build, "rest.requested", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
                      *allocated = column(build, "rest.allocated", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA),
                      *pending = column(build, "rest.pending", GP_PAYLOAD_F64, GP_PAYLOAD_DELTA);
  for (size_t i = 0; i < choice->rest_count; i++) {
    const gp_choice_rest_t *row = &choice->rest[i];
    gp_payload_add(moment, row->moment);
    gp_payload_add(device, row->device);
    gp_payload_add(requested, (int64_t)row->requested);
    gp_payload_add(allocated, (int64_t)row->allocated);
    gp_payload_add(pending, (int64_t)row->pending);
  }
}

static int add_columns(build_t *build)
{
  add_moments(build);
  add_lives(build);
  add_segments(build);
  add_marks(build);
  add_rest(build);
  int error = page_add_phases(build->payload, build->columns, &build->names, build->choice);
  if (!error)
    error = gp_page_add_stacks(build->payload, build->columns, build->file, &build->names, build->lifetimes,
        build->input->filter, build->choice->from == 0 && build->choice->to == build->lifetimes->end);
  return error ? error : gp_page_names_add(&build->names, cJSON_AddArrayToObject(build->file, "strings"));
}

/* Converts the range into moments. Returns 0 or, after a message, the exit status. */
static int find_range(
    const build_t *build, const gp_page_range_t *range, uint32_t *ret_from, uint32_t *ret_to)
{
  const gp_report_input_t *input = build->input;
  gp_request_t request = {.command = "html", .device = input->request->device, .at = range->from};
  gp_moments_t moments;

  *ret_from = 0;
  *ret_to = build->lifetimes->end;
  int status = range->from.kind == GP_MOMENT_NONE
                   ? 0
                   : gp_moments_find(&moments, build->lifetimes, input->filter, &request, input->file);
  if (!status && range->from.kind != GP_MOMENT_NONE)
    *ret_from = moments.at;
  request.at = range->to;
  if (!status && range->to.kind != GP_MOMENT_NONE) {
    status = gp_moments_find(&moments, build->lifetimes, input->filter, &request, input->file);
    *ret_to = moments.at;
  }
  if (!status && *ret_from > *ret_to)
    return gp_message_usage("html", "%s: the range ends before it begins", input->file);
  return status;
}

static void describe(build_t *build, uint32_t from, uint32_t to)
{
  const gp_report_input_t *input = build->input;
  cJSON *file = build->file;

  cJSON_AddStringToObject(file, "name", input->file);
  cJSON_AddBoolToObject(file, "has_times", !input->snapshot->times_are_numbers);
  cJSON_AddBoolToObject(file, "has_history", !input->snapshot->lacks_history);
  gp_json_add_uint(file, "end", build->choice->end);
  gp_json_add_uint(file, "event_count", build->lifetimes->end);
  if (from == 0 && to == build->lifetimes->end) {
    cJSON_AddNullToObject(file, "range");
    return;
  }
  cJSON *range = cJSON_AddObjectToObject(file, "range");
  gp_json_add_uint(range, "from", from);
  gp_json_add_uint(range, "to", to);
}

/* Adds the texts and figures of `gpupool summary`. */
static int add_summary(build_t *build, const gp_summary_t *summary)
{
  static gp_findings_t findings; /* too large for a stack */
  cJSON *object = cJSON_AddObjectToObject(build->file, "summary");
  int error = gp_summary_findings(&findings, summary);
  if (!error)
    gp_summary_json(&findings, object);
  gp_findings_fini(&findings);
  return error;
}

static int add_choice(build_t *build, const gp_page_range_t *range, size_t most)
{
  gp_choice_t choice = {0};
  marks_t marks = {0};
  uint32_t from, to;

  int status = find_range(build, range, &from, &to);
  int error = status ? 0 : find_marks(build, build->input->filter, &marks);
  if (!status && !error)
    error = gp_choice_init(&choice, build->lifetimes, build->input->filter->device, from, to, most,
        marks.moments, marks.count, marks.needed);
  build->choice = &choice;
  if (!status && !error) {
    describe(build, from, to);
    error = add_columns(build);
  }
  gp_choice_fini(&choice);
  free(marks.moments);
  return error ? gp_report_out_of_memory(build->input->file) : status;
}

int gp_page_add_recording(gp_payload_t *payload, cJSON *list, const gp_report_input_t *input,
    const gp_page_range_t *range, size_t most)
{
  static gp_summary_t summary; /* too large for a stack */
  build_t build = {.payload = payload, .input = input, .file = cJSON_CreateObject()};
  int status = 0;

  build.columns = cJSON_AddArrayToObject(build.file, "columns");
  if (!build.columns || !cJSON_AddItemToArray(list, build.file)) {
    cJSON_Delete(build.file);
    return gp_report_out_of_memory(input->file);
  }
  int error = gp_summary_init(&summary, input->snapshot, input->file, input->filter);
  build.lifetimes = &summary.lifetimes;
  if (!error)
    error = add_summary(&build, &summary);
  if (!error)
    status = add_choice(&build, range, most);
  gp_page_names_fini(&build.names);
  gp_summary_fini(&summary);
  if (!error)
    return status;
  gp_message("%s: %s", input->file, strerror(error));
  return GP_EXIT_INPUT;
}
