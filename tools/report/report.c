#include "tools/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/model/component.h"
#include "tools/read/load.h"
#include "tools/report/relation.h"
#include "tools/shorten.h"
#include "tools/side_by_side.h"
#include "tools/symbols/stack_owners.h"
#include "tools/symbols/symbols.h"
#include "tools/tool.h"

int gp_report_out_of_memory(const char *file)
{
  gp_message("%s: %s", file, strerror(ENOMEM));
  return GP_EXIT_INPUT;
}

int gp_report_worse(int a, int b)
{
  static const int order[] = {GP_EXIT_INPUT, GP_EXIT_USAGE, GP_EXIT_PARTIAL};
  for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
    if (a == order[i] || b == order[i])
      return order[i];
  }
  return GP_EXIT_DONE;
}

static int print_json(gp_output_t *output, const cJSON *root)
{
  char *text = gp_json_print(root, false);
  if (!text)
    return gp_report_out_of_memory("JSON");
  fprintf(output->stream, "%s\n", text);
  free(text);
  return 0;
}

static const char *name_of(const char *file)
{
  return strcmp(file, "-") == 0 ? "stdin" : file;
}

int gp_report_open(const gp_request_t *request, const void *own, unsigned columns, int index, int *findings,
    gp_report_input_t *ret_input)
{
  const char *file = request->files[index];
  gp_filter_t *filter = calloc(1, sizeof(*filter));
  *ret_input = (gp_report_input_t){.request = request,
      .own = own,
      .filter = filter,
      .file = name_of(file),
      .number = index,
      .findings = findings};
  if (!filter)
    return gp_report_out_of_memory(ret_input->file);
  gp_snapshot_t *snapshot = gp_snapshot_load(file, columns);
  ret_input->snapshot = snapshot;
  if (!snapshot)
    return GP_EXIT_INPUT;
  if (!request->no_symbols)
    gp_symbols_resolve(snapshot, NULL);
  const gp_owner_options_t owners = {.all_frames = request->all_frames, .skip = &request->skip};
  if (gp_stack_owners_find(snapshot, &owners) || gp_components_find(snapshot))
    return gp_report_out_of_memory(ret_input->file);
  return gp_filter_init(filter, request, ret_input->snapshot, ret_input->file);
}

void gp_report_close(gp_report_input_t *input)
{
  if (input->filter)
    gp_filter_fini((gp_filter_t *)input->filter);
  free((gp_filter_t *)input->filter);
  gp_snapshot_destroy((gp_snapshot_t *)input->snapshot);
}

int gp_report_check_strict(const gp_report_input_t *input)
{
  if (!input->request->strict || !gp_snapshot_is_partial(input->snapshot))
    return 0;
  gp_message("%s: it is incomplete (--strict)", input->file);
  return GP_EXIT_PARTIAL;
}

static cJSON *add_rebuilt_list(cJSON *object)
{
  GP_JSON_SHAPE(rebuilt);
  return GP_PUT_LIST(object, "rebuilt_modules", text,
      "modules whose files were built anew since the program ran, so that their functions have no names");
}

static void add_rebuilt(cJSON *list, const gp_snapshot_t *snapshot)
{
  for (size_t i = 0; i < snapshot->module_count; i++) {
    if (snapshot->modules[i].is_rebuilt)
      cJSON_AddItemToArray(list, cJSON_CreateString(snapshot->modules[i].path));
  }
}

void gp_report_json_file(cJSON *object, const char *file, const gp_snapshot_t *snapshot)
{
  GP_JSON_SHAPE(snapshot);
  GP_PUT_TEXT(object, "file", file, "the file as given; `stdin` for `-`");
  GP_PUT_BOOL(object, "has_times", !snapshot->times_are_numbers,
      "false: no event of the file has a time, as in those of PyTorch 2.0. Then each key that ends in `_ns` has the number of an event, from 0 on");
  GP_PUT_SHAPE(rebuilt, add_rebuilt(add_rebuilt_list(object), snapshot));
}

void gp_report_json_files(cJSON *object, const gp_report_input_t *inputs, int count)
{
  GP_JSON_SHAPE(comparison);
  cJSON *list = GP_PUT_LIST(object, "files", text, "the files as given");
  for (int i = 0; i < count; i++)
    cJSON_AddItemToArray(list, cJSON_CreateString(inputs[i].file));
  GP_PUT_SHAPE(relation, gp_relation_add(object, inputs, count));
  GP_PUT_SHAPE(rebuilt, list = add_rebuilt_list(object));
  for (int i = 0; i < count; i++)
    add_rebuilt(list, inputs[i].snapshot);
}

/* The way in which a command reports its files. */
typedef struct kind {
  unsigned columns;
  bool each;
  gp_report_fn report;
  gp_report_files_fn report_files; /* called instead of `report` if not NULL */
  gp_report_is_fn is_side_by_side; /* NULL: never side by side */
  gp_report_end_fn end;            /* called after the last file; NULL: none */
} kind_t;

/* Reports one file. With --json appends the file's object to `list`, which may be NULL. */
static int report_one(const gp_request_t *request, const void *own, unsigned columns, gp_report_fn report,
    int index, gp_output_t *output, cJSON *list, int *findings)
{
  gp_report_input_t input;
  cJSON *object = cJSON_CreateObject();
  int result = gp_report_open(request, own, columns, index, findings, &input);
  bool is_open = !result;
  if (is_open)
    result = gp_report_worse(report(&input, 1, output, object), gp_report_check_strict(&input));
  if (list && is_open && result != GP_EXIT_INPUT && result != GP_EXIT_USAGE)
    cJSON_AddItemToArray(list, object);
  else
    cJSON_Delete(object);
  gp_report_close(&input);
  return result;
}

/* Reports the files one by one, so that only one is in memory. Adds the number reported to *ret_shown. */
static int report_each(const gp_request_t *request, const void *own, unsigned columns, gp_report_fn report,
    gp_output_t *output, cJSON *root, int *findings, int *ret_shown)
{
  cJSON *list = cJSON_AddArrayToObject(root, "snapshots");
  int status = 0;
  for (int i = 0; i < request->file_count; i++) {
    int result = report_one(request, own, columns, report, i, output, list, findings);
    *ret_shown += result != GP_EXIT_INPUT && result != GP_EXIT_USAGE;
    status = gp_report_worse(status, result);
  }
  return status;
}

/* Data that is shared by the processes that report files side by side. */
typedef struct side {
  const gp_request_t *request;
  const void *own;
  const kind_t *kind;
  gp_output_t *output;
  int *statuses; /* in shared memory, by file: exit status + 1; 0: the process was killed */
} side_t;

static void report_unsited(void *self, size_t number)
{
  const side_t *side = self;
  int findings = 0;
  side->statuses[number] = 1 + report_one(side->request, side->own, side->kind->columns, side->kind->report,
                                   (int)number, side->output, NULL, &findings);
}

static int report_side_by_side(
    const gp_request_t *request, const void *own, const kind_t *kind, gp_output_t *output, int *ret_shown)
{
  size_t count = (size_t)request->file_count;
  side_t side = {request, own, kind, output, gp_shared_alloc(count * sizeof(*side.statuses))};
  int status = 0;

  if (!side.statuses)
    return gp_report_out_of_memory(request->command);
  gp_side_by_side(count, report_unsited, &side);
  for (size_t i = 0; i < count; i++) {
    int result = side.statuses[i] ? side.statuses[i] - 1 : GP_EXIT_INPUT;
    if (!side.statuses[i])
      gp_message("%s: the process that read it was killed", name_of(request->files[i]));
    *ret_shown += result != GP_EXIT_INPUT && result != GP_EXIT_USAGE;
    status = gp_report_worse(status, result);
  }
  gp_shared_free(side.statuses, count * sizeof(*side.statuses));
  return status;
}

static int report_together(const gp_request_t *request, const void *own, unsigned columns,
    gp_report_fn report, gp_output_t *output, cJSON *root, int *findings, int *ret_shown)
{
  gp_report_input_t *inputs = calloc((size_t)request->file_count, sizeof(*inputs));
  int status = inputs ? 0 : gp_report_out_of_memory(request->command);
  int opened = 0;
  while (inputs && !status && opened < request->file_count) {
    status = gp_report_open(request, own, columns, opened, findings, &inputs[opened]);
    opened++;
  }
  if (!status)
    status = report(inputs, opened, output, root);
  *ret_shown = status != GP_EXIT_INPUT && status != GP_EXIT_USAGE;
  for (int i = 0; i < opened; i++) {
    if (*ret_shown)
      status = gp_report_worse(status, gp_report_check_strict(&inputs[i]));
    gp_report_close(&inputs[i]);
  }
  free(inputs);
  return status;
}

static int make(const gp_request_t *request, void *own, const kind_t *kind, gp_output_t *output, cJSON *root,
    int *findings, int *ret_shown)
{
  if (kind->is_side_by_side && kind->is_side_by_side(request, own))
    return report_side_by_side(request, own, kind, output, ret_shown);
  if (!kind->report_files)
    return (kind->each ? report_each : report_together)(
        request, own, kind->columns, kind->report, output, root, findings, ret_shown);
  int status = kind->report_files(request, own, output, root);
  *ret_shown = status != GP_EXIT_INPUT && status != GP_EXIT_USAGE;
  return status;
}

static int run(const gp_request_form_t *form, const gp_request_t *request, void *own, const kind_t *kind)
{
  gp_output_t output;
  int shown = 0, findings = 0;

  int status = gp_output_open(&output, request->output, request->force, request->no_color);
  if (status)
    return status;
  output.utf8 = output.utf8 && !request->ascii;
  cJSON *root = gp_json_document(form->command);
  status = make(request, own, kind, &output, root, &findings, &shown);
  if (shown && kind->end)
    kind->end(own, &output);
  if (shown && request->json)
    status = gp_report_worse(status, print_json(&output, root));
  cJSON_Delete(root);
  if (shown)
    status = gp_report_worse(status, gp_output_close(&output));
  if (shown)
    return status ? status : findings;
  gp_output_discard(&output);
  return status;
}

static int parse_and_run(const gp_request_form_t *form, int argc, char **argv, void *own, const kind_t *kind)
{
  gp_request_t request;
  int status = gp_request_parse(form, argc, argv, &request, own);
  if (!status && request.help)
    gp_request_help(form);
  else if (!status)
    status = run(form, &request, own, kind);
  gp_request_fini(&request);
  return status;
}

int gp_report_run(const gp_request_form_t *form, int argc, char **argv, void *own, unsigned columns,
    bool each, gp_report_fn report)
{
  const kind_t kind = {.columns = columns, .each = each, .report = report};
  return parse_and_run(form, argc, argv, own, &kind);
}

int gp_report_run_each(const gp_request_form_t *form, int argc, char **argv, void *own, unsigned columns,
    gp_report_fn report, gp_report_is_fn is_side_by_side, gp_report_end_fn end)
{
  const kind_t kind = {
      .columns = columns, .each = true, .report = report, .is_side_by_side = is_side_by_side, .end = end};
  return parse_and_run(form, argc, argv, own, &kind);
}

int gp_report_run_files(
    const gp_request_form_t *form, int argc, char **argv, void *own, gp_report_files_fn report)
{
  const kind_t kind = {.report_files = report};
  return parse_and_run(form, argc, argv, own, &kind);
}

/* Prints a word for a shell. Quotes it unless it consists of plain characters only. */
static void print_word(FILE *stream, const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./%@";
  char shown[1024];
  word = gp_printable(word, shown, sizeof(shown));
  if (word[0] && strspn(word, plain) == strlen(word)) {
    fputs(word, stream);
    return;
  }
  fputc('\'', stream);
  for (; *word; word++)
    fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, stream);
  fputc('\'', stream);
}

void gp_report_next(gp_output_t *output, const char *command, const char *file, const char *options)
{
  fprintf(output->stream, "\nNext: gpupool %s ", command);
  print_word(output->stream, strcmp(file, "stdin") == 0 ? "-" : file);
  fprintf(output->stream, "%s%s\n", options[0] ? " " : "", options);
}

void gp_report_next_page(gp_output_t *output, const char *file)
{
  fputs("  or, in a browser: gpupool html ", output->stream);
  print_word(output->stream, strcmp(file, "stdin") == 0 ? "-" : file);
  fputc('\n', output->stream);
}

char *gp_report_written(const gp_snapshot_t *snapshot, char *buffer, size_t capacity)
{
  static const struct {
    const char *reason;
    const char *text;
  } texts[] = {
      {"oom", "written when memory ran out"},
      {"host_oom", "written when page-locked memory ran out"},
      {"PyTorch snapshot", "written by PyTorch"},
      {"damage", "written when a heap check found damage"},
      {"peak", "written at a peak"},
      {"recovered", "recovered after its end"},
      {"request", "written on request"},
      {"signal", "written at a signal"},
  };
  char shown[64];
  const char *reason = gp_snapshot_text(snapshot->root, "reason");

  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    if (strcmp(reason, texts[i].reason) == 0) {
      (void)snprintf(buffer, capacity, "%s", texts[i].text);
      return buffer;
    }
  }
  (void)snprintf(buffer, capacity, snapshot->lacks_segments ? "%s" : "written at %s",
      gp_printable(reason, shown, sizeof(shown)));
  return buffer;
}

void gp_report_heading(gp_output_t *output, const gp_report_input_t *input)
{
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(input->snapshot->root, "process");
  char file[1024], name[256], reason[64], pid_text[32] = "", rebuilt[512];
  uint64_t pid;
  gp_printable(gp_base_name(gp_snapshot_text(process, "program")), name, sizeof(name));
  if (gp_snapshot_uint(process, "pid", &pid) == 1 && pid)
    snprintf(pid_text, sizeof(pid_text), "pid %" PRIu64 ", ", pid);
  fprintf(output->stream, "%s%s%s%s: %s%s%s%s\n", ftell(output->stream) > 0 ? "\n" : "",
      gp_output_style(output, GP_STYLE_HEADING), gp_printable(input->file, file, sizeof(file)),
      gp_output_style(output, GP_STYLE_PLAIN), name, name[0] ? ", " : "", pid_text,
      gp_report_written(input->snapshot, reason, sizeof(reason)));
  if (input->snapshot->dropped_events || input->snapshot->recorded_since_ns) {
    fprintf(output->stream, "Events before %s are not recorded; live memory is complete.\n",
        GP_AS_MOMENT(input->snapshot, input->snapshot->recorded_since_ns));
  }
  if (gp_symbols_describe_rebuilt(input->snapshot, rebuilt, sizeof(rebuilt)))
    gp_output_wrap(output->stream, "", "", rebuilt);
}

void gp_json_add_moment(
    cJSON *object, const char *name, const gp_moments_t *moments, const gp_lifetimes_t *lifetimes)
{
  static const char *const kinds[] = {[GP_MOMENT_NONE] = "exit",
      [GP_MOMENT_EXIT] = "exit",
      [GP_MOMENT_PEAK] = "peak",
      [GP_MOMENT_OOM] = "oom",
      [GP_MOMENT_TIME] = "time",
      [GP_MOMENT_EVENT] = "event"};
  uint64_t time_ns;
  cJSON *item = cJSON_AddObjectToObject(object, name);
  bool has_time = gp_moments_time(moments, lifetimes, &time_ns);
  GP_JSON_SHAPE(moment);
  GP_PUT_CHOICE(item, "what", "exit|peak|oom|time|event", kinds[moments->kind], "which moment");
  GP_PUT_UINT_OR_NULL(item, "oom", moments->oom > 0, moments->oom, "N of `oom=N`");
  GP_PUT_UINT_OR_NULL(item, "event", has_time, moments->at - (has_time ? 1 : 0),
      "number of the last event that is not later; null: the moment is before all events");
  GP_PUT_UINT_OR_NULL(item, "time_ns", has_time, time_ns, "time of that event");
  GP_PUT_DEVICE_OR_NULL(
      item, "device", moments->is_of_one, moments->device, "the only device it is of; null: it is of all");
}
