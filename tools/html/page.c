#include "tools/html/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/html/choice.h"
#include "tools/html/page_text.h"
#include "tools/html/payload.h"
#include "tools/model/summary.h"
#include "tools/output_file.h"
#include "tools/tool.h"

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

/* Adds file by file, so that only one is in memory. */
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

int gp_page_make_beside(const char *file)
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
