/*
 * gpupool html: snapshots as a page for a browser.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/util/size.h"
#include "tools/html/page_text.h"
#include "tools/html/payload.h"
#include "tools/html/choice.h"
#include "tools/html/recording.h"
#include "tools/model/summary.h"
#include "tools/output_file.h"
#include "tools/report/diff_report.h"
#include "tools/tool.h"

typedef struct own {
  const char *range; /* as typed */
  gp_page_range_t moments;
} own_t;

static const gp_parameter_t parameters[] = {
    {"range", 0, "A..B", GP_PARAMETER_TEXT, offsetof(own_t, range), NULL, 0, 0,
        "only what happened from A to B: each a time (1.5s), the number of an event (1234), peak, oom, oom=N "
        "or nothing, for the beginning or the end"},
};

static int check(const gp_request_t *request, void *arg);

static const gp_request_form_t form = {
    .command = "html",
    .files = "FILE...",
    .least_files = 1,
    .writes_file = true,
    .about = "Makes one page of snapshots that any browser opens, without a network: what\n"
             "happened and what to do, memory over time, each allocation as a band, addresses,\n"
             "the pool's state at any moment, call stacks, tables. Several files are ranks of\n"
             "one job, or moments of one run; of two the page also shows the difference. The\n"
             "page is FILE with .html for its ending, in the folder of FILE.\n",
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
    .check = check,
};

void gp_command_html_help(void)
{
  gp_request_help(&form);
}

static int malformed(const char *range)
{
  return gp_message_usage("html",
      "html: --range=%s is malformed; accepted: A..B, each a time with its unit (1.5s), the number of an "
      "event (1234), peak, oom, oom=N, or nothing",
      range);
}

/* A number may have a point of its own: the two in a row that are followed by a moment are meant. */
static int check(const gp_request_t *request, void *arg)
{
  own_t *own = arg;
  char from[64];
  (void)request;

  if (!own->range)
    return 0;
  const char *dots = strstr(own->range, "..");
  if (!dots || (size_t)(dots - own->range) >= sizeof(from))
    return malformed(own->range);
  memcpy(from, own->range, (size_t)(dots - own->range));
  from[dots - own->range] = '\0';
  if ((from[0] && !gp_request_parse_moment(from, &own->moments.from)) ||
      (dots[2] && !gp_request_parse_moment(dots + 2, &own->moments.to)))
    return malformed(own->range);
  own->moments.from.text = own->moments.to.text = own->range;
  return 0;
}

/* "run.json" and "run.json.gz" become "run.html". Given back with free(); NULL: no memory. */
static char *default_output(const char *file)
{
  static const char *const endings[] = {".gz", ".zst", ".json", ".pickle", ".pkl"};
  char *path = malloc(strlen(file) + sizeof(".html"));
  if (!path)
    return NULL;
  strcpy(path, file);
  for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
    size_t length = strlen(path), ending = strlen(endings[i]);
    if (length > ending && path[length - ending - 1] != '/' &&
        strcmp(path + length - ending, endings[i]) == 0)
      path[length - ending] = '\0';
  }
  return strcat(path, ".html");
}

/* One file after the other, so that only one is in memory; two are compared, too. */
static int add_files(gp_payload_t *payload, const gp_request_t *request, const own_t *own)
{
  cJSON *list = cJSON_AddArrayToObject(payload->header, "files");
  gp_report_input_t inputs[2] = {{0}, {0}};
  bool are_compared = request->file_count == 2;
  int status = 0, strict = 0;

  for (int i = 0; i < request->file_count && !status; i++) {
    gp_report_input_t *input = &inputs[are_compared ? i : 0];
    status = gp_report_open(request, own, GP_SUMMARY_COLUMNS, i, NULL, input);
    if (!status)
      status = gp_page_add_recording(payload, list, input, &own->moments, GP_CHOICE_LIVES);
    if (!status)
      strict = gp_report_worse(strict, gp_report_check_strict(input));
    if (!are_compared)
      gp_report_close(input);
  }
  if (are_compared && !status)
    status = gp_diff_add_json(inputs, cJSON_AddObjectToObject(payload->header, "diff"));
  for (int i = 0; i < 2 && are_compared; i++)
    gp_report_close(&inputs[i]);
  return status ? status : strict;
}

static int write_page(gp_payload_t *payload, const char *path, const gp_request_t *request)
{
  gp_output_file_t file;
  char size[GP_SIZE_TEXT_BYTES];
  uint64_t bytes = 0;

  int status = gp_output_file_open(&file, path, request->force, 0666);
  if (status)
    return status;
  size_t begin = fwrite(gp_html_page_begin, 1, gp_html_page_begin_length, file.stream);
  int error = begin == gp_html_page_begin_length ? gp_payload_write(payload, file.stream, &bytes) : errno;
  if (!error && fwrite(gp_html_page_end, 1, gp_html_page_end_length, file.stream) != gp_html_page_end_length)
    error = errno;
  if (error) {
    gp_message("%s: %s", path ? path : "the output", strerror(error));
    gp_output_file_discard(&file);
    return GP_EXIT_INPUT;
  }
  bool is_named = file.path != NULL;
  status = gp_output_file_close(&file);
  if (!status && is_named)
    printf("%s: %s; open it in a browser\n", path,
        gp_size_format(gp_html_page_begin_length + bytes + gp_html_page_end_length, size));
  return status;
}

static int run(const gp_request_t *request, const own_t *own, const char *path)
{
  gp_payload_t payload;
  int status = path ? gp_output_file_check(path, request->force) : 0;

  if (status)
    return status;
  gp_payload_init(&payload);
  cJSON_AddStringToObject(payload.header, "format", "gpupool-page");
  cJSON_AddNumberToObject(payload.header, "version", 1);
  cJSON_AddStringToObject(payload.header, "generator", "gpupool " GP_VERSION);
  status = add_files(&payload, request, own);
  if (status == 0 || status == GP_EXIT_PARTIAL)
    status = gp_report_worse(status, write_page(&payload, path, request));
  gp_payload_fini(&payload);
  return status;
}

int gp_command_html(int argc, char **argv)
{
  own_t own = {0};
  gp_request_t request;
  char *path = NULL;

  int status = gp_request_parse(&form, argc, argv, &request, &own);
  if (!status && request.help) {
    gp_request_help(&form);
  } else if (!status) {
    bool is_stdout = request.output ? strcmp(request.output, "-") == 0 : strcmp(request.files[0], "-") == 0;
    path = request.output ? strdup(request.output) : default_output(request.files[0]);
    if (!path)
      status = gp_report_out_of_memory("html");
    else if (is_stdout && isatty(STDOUT_FILENO))
      status = gp_message_usage("html", "html: a page is not for a terminal; -o names a file");
    else
      status = run(&request, &own, is_stdout ? NULL : path);
  }
  free(path);
  gp_request_fini(&request);
  return status;
}
