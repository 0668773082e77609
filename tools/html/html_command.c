/*
 * gpupool html: makes a page for a browser from snapshots.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "tools/html/page.h"
#include "tools/tool.h"

typedef struct own {
  const char *range; /* as typed */
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
    .about = "Makes one page of snapshots that any browser opens, without a network: what\n"
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

/* A number may contain a point itself, so splits at the two points in a row that a moment follows. */
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
      status = gp_message_usage("html", "html: a page is not for a terminal; -o names a file");
    else
      status = make(&request, &own, is_stdout ? NULL : path);
  }
  free(path);
  gp_request_fini(&request);
  return status;
}
