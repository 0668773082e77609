#include "tools/html/page.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/html/choice.h"
#include "tools/html/page_text.h"
#include "tools/model/summary.h"
#include "tools/output_file.h"
#include "tools/tool.h"

/*
 * The command gpupool html, which makes one page for a browser from one or more snapshots.
 */

typedef struct own {
  const char *range; /* as the user typed it */
  gp_page_range_t moments;
} own_t;

static const gp_parameter_t parameters[] = {
    {"range", 0, "A..B", GP_PARAMETER_TEXT, offsetof(own_t, range), NULL, 0, 0,
        "only what happened from A to B: each a time (1.5s), the number of an event (1234), peak, oom, oom=N or nothing, for the beginning or the end"},
};

static int check(const gp_request_t *request, void *arg);

static const gp_request_form_t form = {
    .command = "html",
    .files = "FILE...",
    .least_files = 1,
    .writes_file = true,
    .about = "Makes one page from snapshots, for any browser, without a network: what\n"
             "happened and what to do, memory over time, each allocation as a band, addresses,\n"
             "the pool's state at any moment, call stacks, tables. Of several files, as ranks\n"
             "of one job, it shows one at a time; gpupool diff compares two. The page is FILE\n"
             "with .html for its ending, in the folder of FILE.\n",
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
    .check = check,
};

static int malformed(const char *range)
{
  return gp_message_usage("html",
      "html: --range=%s is malformed; accepted: A..B, each a time with its unit (1.5s), the number of an event (1234), peak, oom, oom=N, or nothing",
      range);
}

/* Checks the options. Splits the range at the first ".." after a valid moment, which may contain a point. */
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
  if ((from[0] && !gp_parameter_parse_moment(from, &own->moments.from)) ||
      (dots[2] && !gp_parameter_parse_moment(dots + 2, &own->moments.to)))
    return malformed(own->range);
  own->moments.from.text = own->moments.to.text = own->range;
  return 0;
}

static int make(const gp_request_t *request, const own_t *own, const char *path)
{
  uint64_t bytes = 0;
  int status = gp_page_make(request, &own->moments, path, &bytes);

  if (!path || !bytes)
    return status;
  printf("%s: %s; open it in a browser\n", path, GP_AS_SIZE(bytes));
  if (request->file_count == 2)
    printf("It shows one file at a time; gpupool diff %s %s compares them.\n", request->files[0],
        request->files[1]);
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
    path = request.output ? strdup(request.output) : gp_page_path(request.files[0]);
    if (!path)
      status = gp_report_out_of_memory("html");
    else if (is_stdout && isatty(STDOUT_FILENO))
      status = gp_message_usage("html", "html: a page cannot go to a terminal; name a file with -o");
    else
      status = make(&request, &own, is_stdout ? NULL : path);
  }
  free(path);
  gp_request_fini(&request);
  return status;
}

char *gp_page_path(const char *file)
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

/* Adds the files one after another, so that only one snapshot is in memory at a time. */
static int add_files(gp_payload_t *payload, const gp_request_t *request, const gp_page_range_t *range)
{
  cJSON *list = cJSON_AddArrayToObject(payload->header, "files");
  int status = 0, strict = 0;

  for (int i = 0; i < request->file_count && !status; i++) {
    gp_report_input_t input;
    status = gp_report_open(request, NULL, GP_SUMMARY_COLUMNS, i, NULL, &input);
    if (!status)
      status = gp_page_add_recording(payload, list, &input, range, GP_CHOICE_LIVES);
    if (!status)
      strict = gp_report_worse(strict, gp_report_check_strict(&input));
    gp_report_close(&input);
  }
  return status ? status : strict;
}

static int write_page(gp_payload_t *payload, const char *path, bool force, uint64_t *ret_bytes)
{
  gp_output_file_t file;
  uint64_t bytes = 0;

  int status = gp_output_file_open(&file, path, force);
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
  status = gp_output_file_close(&file);
  *ret_bytes = status ? 0 : gp_html_page_begin_length + bytes + gp_html_page_end_length;
  return status;
}

int gp_page_make(
    const gp_request_t *request, const gp_page_range_t *range, const char *path, uint64_t *ret_bytes)
{
  gp_payload_t payload;
  int status = path ? gp_output_file_check(path, request->force) : 0;

  *ret_bytes = 0;
  if (status)
    return status;
  gp_payload_init(&payload);
  cJSON_AddStringToObject(payload.header, "format", "gpupool-page");
  cJSON_AddNumberToObject(payload.header, "version", 1);
  cJSON_AddStringToObject(payload.header, "generator", "gpupool " GP_VERSION);
  status = add_files(&payload, request, range);
  if (status == 0 || status == GP_EXIT_PARTIAL)
    status = gp_report_worse(status, write_page(&payload, path, request->force, ret_bytes));
  gp_payload_fini(&payload);
  return status;
}

int gp_page_make_unsited(const char *file)
{
  char *files[] = {(char *)file};
  const gp_request_t request = {.command = "html",
      .device = GP_REQUEST_ALL_DEVICES,
      .until_ns = UINT64_MAX,
      .files = files,
      .file_count = 1};
  const gp_page_range_t range = {.from.kind = GP_MOMENT_NONE, .to.kind = GP_MOMENT_NONE};
  uint64_t bytes;
  char *path = gp_page_path(file);

  if (!path)
    return gp_report_out_of_memory(file);
  int status = gp_page_make(&request, &range, path, &bytes);
  if (!status)
    gp_message("page for a browser: %s", path);
  free(path);
  return status;
}
