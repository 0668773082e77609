/*
 * Rows of text: the traces of test/prog/replay and of `gpupool export --to csv`, and the logs of RMM's
 * logging_resource_adaptor (rmm/mr/logging_resource_adaptor.hpp). All memory counts as cudaMalloc's on
 * device 0, because such tables do not tell whether one stream's frees are complete for another.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/block_map.h"
#include "tools/replay/workload_parts.h"

#define TRACE_HEADING "op,id,size,stream"
#define RMM_HEADING   "Thread,Time,Action,Pointer,Size,Stream"
#define FIELDS        6
#define SIZE_MOST     ((UINT64_C(1) << 53) - 1)

/* Part of a line, without a NUL. */
typedef struct field {
  const char *text;
  size_t length;
} field_t;

typedef struct rows {
  gp_workload_t *workload;
  gp_block_map_t live; /* key: id or address, + 1; address: number of the block */
  uint64_t first_us;
  bool is_rmm;
  bool has_row;
} rows_t;

static bool is_text(field_t field, const char *text)
{
  return strlen(text) == field.length && memcmp(field.text, text, field.length) == 0;
}

static bool read_number(field_t field, uint64_t most, uint64_t *ret_number)
{
  bool is_hexadecimal = field.length > 2 && field.text[0] == '0' && field.text[1] == 'x';
  char text[24], *end;

  if (field.length == 0 || field.length >= sizeof(text) || field.text[0] < '0' || field.text[0] > '9')
    return false;
  memcpy(text, field.text, field.length);
  text[field.length] = '\0';
  errno = 0;
  *ret_number = strtoull(text, &end, is_hexadecimal ? 16 : 10);
  return *end == '\0' && errno == 0 && *ret_number <= most;
}

/* Returns the number of fields, or FIELDS + 1 if there are more. */
static int split(const char *line, size_t length, field_t fields[FIELDS])
{
  int count = 0;
  const char *end = line + length;
  for (const char *at = line;; at++) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    if (count == FIELDS)
      return FIELDS + 1;
    fields[count++] = (field_t){at, (size_t)((comma ? comma : end) - at)};
    if (!comma)
      return count;
    at = comma;
  }
}

static const char *add_alloc(rows_t *rows, uint64_t id, uint64_t size, uint64_t time_ns)
{
  gp_workload_t *workload = rows->workload;
  const gp_block_entry_t entry = {.key = id + 1, .address = workload->block_count};
  const gp_step_t step = {.size = size,
      .time_ns = time_ns,
      .block = (uint32_t)workload->block_count,
      .stream = GP_STEP_NO_STREAM,
      .kind = GP_STEP_ALLOC};

  if (gp_block_map_find(&rows->live, entry.key))
    return "the block is allocated already, and was not freed";
  if (workload->block_count == UINT32_MAX)
    return "there are more allocations than 2^32 - 1";
  workload->block_count++;
  return gp_block_map_put(&rows->live, &entry) && gp_workload_add(rows->workload, &step) ? NULL
                                                                                         : strerror(ENOMEM);
}

static const char *add_free(rows_t *rows, uint64_t id, uint64_t time_ns)
{
  gp_block_entry_t entry;
  if (!gp_block_map_take(&rows->live, id + 1, &entry)) {
    rows->workload->ill_freed++; /* allocated before the first row */
    return NULL;
  }
  const gp_step_t step = {.time_ns = time_ns,
      .block = (uint32_t)entry.address,
      .stream = GP_STEP_NO_STREAM,
      .kind = GP_STEP_FREE};
  return gp_workload_add(rows->workload, &step) ? NULL : strerror(ENOMEM);
}

static const char *take_trace_row(rows_t *rows, const field_t *fields, int count)
{
  gp_workload_t *workload = rows->workload;
  uint64_t id, size, stream, time_ns = workload->step_count * GP_WORKLOAD_STEP_NS;

  if (count != 4)
    return "a row has the four fields " TRACE_HEADING;
  if (!read_number(fields[1], UINT64_MAX - 1, &id))
    return "the id is no number below 2^64 - 1";
  if (!read_number(fields[2], SIZE_MOST, &size))
    return "the size is no number below 2^53";
  if (!read_number(fields[3], UINT64_MAX, &stream))
    return "the stream is no number";
  if (is_text(fields[0], "A"))
    return add_alloc(rows, id, size, time_ns);
  return is_text(fields[0], "F") ? add_free(rows, id, time_ns) : "the op is neither A nor F";
}

/* Reads microseconds: of the day from "12:34:56.789012", where the point may be a colon; or since 1970
 * from seconds, "1634567890.123456". */
static bool read_clock(field_t field, uint64_t *ret_us)
{
  static const uint64_t weights[] = {3600, 60, 1};
  const char *point = memchr(field.text, '.', field.length);
  uint64_t us = 0, part;

  if (point && !memchr(field.text, ':', field.length) && field.text + field.length == point + 7 &&
      read_number((field_t){field.text, (size_t)(point - field.text)}, UINT32_MAX, &us) &&
      read_number((field_t){point + 1, 6}, 999999, &part)) {
    *ret_us = us * 1000000 + part;
    return true;
  }
  us = 0;
  if (field.length != 15 || field.text[2] != ':' || field.text[5] != ':' ||
      (field.text[8] != '.' && field.text[8] != ':'))
    return false;
  for (size_t i = 0; i < 3; i++) {
    if (!read_number((field_t){field.text + 3 * i, 2}, 60, &part))
      return false;
    us += part * weights[i] * 1000000;
  }
  bool good = read_number((field_t){field.text + 9, 6}, 999999, &part);
  *ret_us = us + part;
  return good;
}

static const char *take_rmm_row(rows_t *rows, const field_t *fields, int count)
{
  gp_workload_t *workload = rows->workload;
  uint64_t last_ns = workload->step_count ? workload->steps[workload->step_count - 1].time_ns : 0;
  uint64_t time_us, pointer = 0, size;

  if (count != 6)
    return "a row has the six fields " RMM_HEADING;
  if (!read_clock(fields[1], &time_us))
    return "the time is not like 12:34:56.789012";
  if (!read_number(fields[3], UINT64_MAX - 1, &pointer) &&
      !is_text(fields[3], "(nil)")) /* a failure: the C library prints NULL like this */
    return "the pointer is no number";
  if (!read_number(fields[4], SIZE_MOST, &size))
    return "the size is no number below 2^53";
  if (!rows->has_row)
    rows->first_us = time_us;
  rows->has_row = true;
  uint64_t time_ns = time_us > rows->first_us ? (time_us - rows->first_us) * 1000 : 0;
  time_ns = time_ns < last_ns ? last_ns : time_ns; /* midnight, or another thread */
  if (is_text(fields[2], "allocate"))
    return add_alloc(rows, pointer, size, time_ns);
  if (is_text(fields[2], "free") || is_text(fields[2], "deallocate"))
    return add_free(rows, pointer, time_ns);
  if (!is_text(fields[2], "allocate failure"))
    return "the action is none of allocate, allocate failure and free";
  const gp_step_t step = {
      .size = size, .time_ns = time_ns, .stream = GP_STEP_NO_STREAM, .kind = GP_STEP_ATTEMPT};
  return gp_workload_add(rows->workload, &step) ? NULL : strerror(ENOMEM);
}

static const char *read_rows(rows_t *rows, const char *text, size_t length, size_t *ret_line)
{
  const char *end = text + length, *problem = NULL;

  *ret_line = 0;
  while (text < end && !problem) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    size_t bytes = (size_t)((newline ? newline : end) - text);
    field_t fields[FIELDS];
    if (bytes > 0 && text[bytes - 1] == '\r')
      bytes--;
    if ((*ret_line)++ > 0 && bytes > 0) {
      int count = split(text, bytes, fields);
      problem = rows->is_rmm ? take_rmm_row(rows, fields, count) : take_trace_row(rows, fields, count);
      if (rows->is_rmm && !newline) /* the program was killed while it wrote the last line */
        problem = NULL;
    }
    text = newline ? newline + 1 : end;
  }
  return problem;
}

static bool begins_with(const gp_input_t *input, const char *heading)
{
  size_t length = strlen(heading);
  return input->length >= length && memcmp(input->text, heading, length) == 0 &&
         (input->length == length || input->text[length] == '\n' || input->text[length] == '\r');
}

const char *gp_workload_of_rows(
    gp_workload_t *workload, gp_input_t *input, bool *ret_is_rows, size_t *ret_line)
{
  rows_t rows = {.workload = workload};

  gp_input_begin(input, sizeof(RMM_HEADING) + 1);
  rows.is_rmm = begins_with(input, RMM_HEADING);
  *ret_is_rows = rows.is_rmm || begins_with(input, TRACE_HEADING);
  *ret_line = 0;
  if (!*ret_is_rows)
    return NULL;
  if (!gp_input_read_all(input))
    return input->error;
  workload->has_times = rows.is_rmm;
  workload->present = 1;
  const char *problem = read_rows(&rows, input->text, input->length, ret_line);
  gp_block_map_fini(&rows.live);
  return problem;
}
