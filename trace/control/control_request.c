#include "trace/control/control_request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "trace/snapshot/document.h"
#include "trace/record/recorder_state.h"

typedef void (*command_fn)(gp_control_target_t *target, const char *argument, gp_json_t *answer);

void gp_control_refuse(gp_json_t *answer, const char *format, ...)
{
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof(text), format, arguments); /* truncates text that does not fit */
  va_end(arguments);
  gp_json_begin(answer, '{');
  gp_json_key(answer, "ok");
  gp_json_bool(answer, false);
  gp_json_key_string(answer, "error", text);
  gp_json_end(answer, '}');
}

static void begin(gp_json_t *answer)
{
  gp_json_begin(answer, '{');
  gp_json_key(answer, "ok");
  gp_json_bool(answer, true);
}

static void end(gp_json_t *answer)
{
  gp_json_end(answer, '}');
}

static void snapshot(gp_control_target_t *target, const char *argument, gp_json_t *answer)
{
  char text[128];

  if (argument[0] && argument[0] != '/') {
    gp_control_refuse(answer,
        "the path %s is not absolute: it would be relative to the program's working directory", argument);
    return;
  }
  struct stat status;
  if (argument[0] && stat(argument, &status) == 0 && S_ISDIR(status.st_mode)) {
    gp_control_refuse(answer, "%s is a folder; give the name of a file", argument);
    return;
  }
  target->written.path[0] = '\0'; /* keeps an earlier snapshot from being removed */
  int error =
      gp_snapshot_write_named(target->writer, "request", argument[0] ? argument : NULL, &target->written);
  if (error == ECANCELED)
    gp_control_refuse(answer,
        "no snapshot is written: GPUPOOL_OUTPUT_MAX is reached, GPUPOOL_OUTPUT is /dev/null, or the program is exiting. Snapshots with a path are not limited");
  else if (error)
    gp_control_refuse(answer, "the snapshot cannot be written: %s", strerror_r(error, text, sizeof(text)));
  else {
    begin(answer);
    gp_json_key_string(answer, "path", target->written.path);
    end(answer);
  }
}

/* Writes a device as in a snapshot, but without its blocks, because a client may request this every
 * second. */
static void write_device(gp_control_target_t *target, int device, gp_json_t *answer)
{
  gp_engine_t *engine = target->engine;
  gp_device_copy_t copy = {.limit = gp_engine_limit(engine, device)};

  copy.has_use = gp_engine_device_use(engine, device, &copy.use);
  copy.largest_idle = gp_engine_largest_idle(engine, device);
  gp_engine_stats(engine, device, &copy.stats);
  copy.idle_bytes = copy.stats.cached_bytes.current;
  if (copy.largest_idle > copy.idle_bytes) /* possible, because the two values are from different moments */
    copy.largest_idle = copy.idle_bytes;
  gp_document_write_device(answer, target->recorder->base_ns, device, &copy);
}

static const char *trace_mode(const gp_recorder_t *recorder)
{
  return gp_recording_name((gp_recording_t)gp_recorder_mode(recorder));
}

static void stats(gp_control_target_t *target, const char *argument, gp_json_t *answer)
{
  const gp_recorder_t *recorder = target->recorder;

  begin(answer);
  gp_json_key_int(answer, "pid", recorder->pid);
  gp_json_key_string(answer, "program", program_invocation_short_name);
  gp_json_key_uint(answer, "start_time_us", recorder->start_time_us);
  gp_json_key_uint(answer, "time_ns", gp_recorder_now_ns(recorder) - recorder->base_ns);
  gp_json_key_string(answer, "trace", trace_mode(recorder));
  gp_json_key_string(answer, "output", gp_option_text(recorder->options, GP_OPTION_output));
  gp_json_key(answer, "devices");
  gp_json_begin(answer, '[');
  for (uint64_t devices = gp_engine_devices(target->engine); devices; devices &= devices - 1)
    write_device(target, __builtin_ctzll(devices), answer);
  gp_json_end(answer, ']');
  end(answer);
}

/* Writes how many bytes were released to the driver, and how many could not be released because the devices
 * are busy. */
static void write_given_back(gp_control_target_t *target, uint64_t given, gp_json_t *answer)
{
  uint64_t kept = 0;

  for (uint64_t devices = gp_engine_devices(target->engine); devices; devices &= devices - 1) {
    gp_stats_t stats;
    gp_engine_stats(target->engine, __builtin_ctzll(devices), &stats);
    kept += stats.surplus_bytes.current;
  }
  gp_json_key_uint(answer, "given_back", given);
  gp_json_key_uint(answer, "kept", kept);
}

static void empty_cache(gp_control_target_t *target, const char *argument, gp_json_t *answer)
{
  uint64_t given = gp_engine_empty_cache(target->engine);
  begin(answer);
  write_given_back(target, given, answer);
  gp_json_key(answer, "suspended"); /* if true, the pool has not tried to release memory */
  gp_json_bool(answer, gp_engine_is_suspended(target->engine));
  end(answer);
}

static void reset_peaks(gp_control_target_t *target, const char *argument, gp_json_t *answer)
{
  gp_engine_reset_peaks(target->engine, gp_engine_devices(target->engine));
  begin(answer);
  end(answer);
}

static void limit(gp_control_target_t *target, const char *argument, gp_json_t *answer)
{
  gp_engine_t *engine = target->engine;

  if (!gp_option_parse(GP_OPTION_limit, argument, &target->options, NULL, NULL)) {
    gp_control_refuse(answer,
        "limit %.100s is malformed; accepted: a size (8GiB), a share of the device (50%%), one for each device (0=8GiB,1=50%%), or none",
        argument);
    return;
  }
  uint64_t given = gp_engine_set_limits(engine, target->options.limits);
  begin(answer);
  write_given_back(target, given, answer);
  gp_json_key(answer, "devices");
  gp_json_begin(answer, '[');
  for (uint64_t devices = gp_engine_devices(engine); devices; devices &= devices - 1) {
    int device = __builtin_ctzll(devices);
    uint64_t bytes = gp_engine_limit(engine, device);
    gp_stats_t held;
    gp_engine_stats(engine, device, &held);
    gp_json_begin(answer, '{');
    gp_json_key_int(answer, "device", device);
    gp_json_key(answer, "limit");
    if (bytes)
      gp_json_uint(answer, bytes);
    else
      gp_json_null(answer);
    gp_json_key_uint(answer, "held", held.reserved_bytes.current + held.passthrough_bytes.current);
    gp_json_end(answer, '}');
  }
  gp_json_end(answer, ']');
  end(answer);
}

static void trace(gp_control_target_t *target, const char *argument, gp_json_t *answer)
{
  if (!gp_option_parse(GP_OPTION_trace, argument, &target->options, NULL, NULL)) {
    gp_control_refuse(answer, "trace %.100s is malformed; accepted: off, state or all", argument);
    return;
  }
  gp_recorder_set_mode(target->recorder, (int)gp_option_number(&target->options, GP_OPTION_trace));
  begin(answer);
  gp_json_key_string(answer, "trace", trace_mode(target->recorder));
  end(answer);
}

typedef enum argument_rule { ARGUMENT_NONE, ARGUMENT_MAY, ARGUMENT_MUST } argument_rule_t;

static const struct {
  const char *name;
  argument_rule_t rule;
  const char *usage;
  command_fn fn;
} commands[] = {
    {"snapshot", ARGUMENT_MAY, "snapshot [PATH]", snapshot},
    {"stats", ARGUMENT_NONE, "stats", stats},
    {"empty-cache", ARGUMENT_NONE, "empty-cache", empty_cache},
    {"reset-peaks", ARGUMENT_NONE, "reset-peaks", reset_peaks},
    {"limit", ARGUMENT_MUST, "limit SIZE", limit},
    {"trace", ARGUMENT_MUST, "trace off|state|all", trace},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* Splits the text in place into a command and its argument. Returns NULL, or a text that describes the
 * error. */
static const char *split(char *text, size_t length, char **ret_argument)
{
  if (length > 0 && text[length - 1] == '\n')
    length--;
  if (memchr(text, '\0', length) || memchr(text, '\n', length))
    return "a request is one line of text";
  text[length] = '\0';
  char *space = strchr(text, ' ');
  *ret_argument = text + length;
  if (space) {
    *space = '\0';
    *ret_argument = space + 1 + strspn(space + 1, " ");
  }
  return NULL;
}

void gp_control_request(gp_control_target_t *target, const char *text, size_t length, gp_json_t *answer)
{
  char *argument;

  gp_assert(gp_locks_held() == 0);
  if (length >= sizeof(target->text)) {
    gp_control_refuse(answer, "the request is too long; the longest has %zu bytes", sizeof(target->text) - 1);
    return;
  }
  memcpy(target->text, text, length);
  const char *problem = split(target->text, length, &argument);
  if (problem) {
    gp_control_refuse(answer, "%s", problem);
    return;
  }
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(commands[i].name, target->text) != 0)
      continue;
    if (argument[0] ? commands[i].rule == ARGUMENT_NONE : commands[i].rule == ARGUMENT_MUST)
      gp_control_refuse(answer, "%s: usage: %s", commands[i].name, commands[i].usage);
    else
      commands[i].fn(target, argument, answer);
    return;
  }
  gp_control_refuse(answer,
      "unknown request \"%.40s\"; known: snapshot [PATH], stats, empty-cache, reset-peaks, limit SIZE, trace MODE",
      target->text);
}
