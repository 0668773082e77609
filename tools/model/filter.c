#include "tools/model/filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

#define LIST_BYTES 256

/* Writes the value of `key` of each row of `table` for a message: "a, b, c". */
static void list_names(const cJSON *table, const char *key, char *buffer)
{
  const cJSON *item;
  size_t used = 0;
  buffer[0] = '\0';
  cJSON_ArrayForEach(item, table)
  {
    const char *name = gp_snapshot_text(item, key);
    if (used + strlen(name) + 8 > LIST_BYTES) {
      snprintf(buffer + used, LIST_BYTES - used, ", ...");
      return;
    }
    used += (size_t)snprintf(buffer + used, LIST_BYTES - used, "%s%s", used ? ", " : "", name);
  }
}

/* Parses a whole number, either decimal or hexadecimal with 0x. */
static bool parse_handle(const char *text, uint64_t *ret_number)
{
  char *end;
  if (text[0] < '0' || text[0] > '9')
    return false;
  errno = 0;
  *ret_number = strtoull(text, &end, 0);
  return !*end && !errno;
}

static bool is_stream(const cJSON *item, size_t index, const char *text)
{
  uint64_t wanted, handle;
  if (!parse_handle(text, &wanted))
    return false;
  if (text[0] != '0' || !text[1])
    return wanted == index;
  return parse_handle(gp_snapshot_text(item, "handle"), &handle) && handle == wanted;
}

static bool is_thread(const cJSON *item, size_t index, const char *text)
{
  uint64_t wanted, tid;
  (void)index;
  if (parse_handle(text, &wanted) && gp_snapshot_uint(item, "tid", &tid) == 1 && tid == wanted)
    return true;
  return strcmp(gp_snapshot_text(item, "name"), text) == 0;
}

static int find(const cJSON *table, const char *text, bool (*is)(const cJSON *, size_t, const char *),
    bool **ret_set, size_t *ret_count)
{
  const cJSON *item;
  size_t index = 0;
  bool *set = calloc((size_t)cJSON_GetArraySize(table) + 1, sizeof(*set));
  if (!set)
    return ENOMEM;
  *ret_count = 0;
  cJSON_ArrayForEach(item, table)
  {
    set[index] = is(item, index, text);
    *ret_count += set[index++];
  }
  *ret_set = set;
  return 0;
}

static int find_named(const gp_request_t *request, const gp_snapshot_t *snapshot, const char *file,
    const char *table, const char *noun, const char *key, const char *text, bool **ret_set)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(snapshot->root, table);
  char known[LIST_BYTES];
  size_t count;

  if (!text)
    return 0;
  if (find(list, text, key[0] == 'h' ? is_stream : is_thread, ret_set, &count)) {
    gp_message("%s: %s", file, strerror(ENOMEM));
    return GP_EXIT_INPUT;
  }
  if (count)
    return 0;
  list_names(list, key, known);
  return gp_message_usage(request->command, "%s: there is no %s %s in it (%s)", file, noun, text,
      known[0] ? known : "it has none");
}

int gp_filter_init(
    gp_filter_t *filter, const gp_request_t *request, const gp_snapshot_t *snapshot, const char *file)
{
  bool found = request->device == GP_REQUEST_ALL_DEVICES;
  *filter =
      (gp_filter_t){.device = request->device, .since_ns = request->since_ns, .until_ns = request->until_ns};
  for (size_t i = 0; i < snapshot->device_count; i++)
    found = found || snapshot->devices[i].device == request->device;
  if (!found) {
    gp_message("%s: there is no device %d in it (%zu in all)", file, request->device, snapshot->device_count);
    return GP_EXIT_USAGE;
  }
  /* If the file has no times, --since and --until would select nothing. */
  if (snapshot->times_are_numbers && (request->since_ns || request->until_ns != UINT64_MAX))
    return gp_message_usage(
        request->command, "%s: its events have no times, so --since and --until select none of them", file);
  int status =
      find_named(request, snapshot, file, "streams", "stream", "handle", request->stream, &filter->streams);
  if (!status)
    status =
        find_named(request, snapshot, file, "threads", "thread", "name", request->thread, &filter->threads);
  return status;
}

void gp_filter_fini(gp_filter_t *filter)
{
  free(filter->streams);
  free(filter->threads);
  filter->streams = filter->threads = NULL;
}
