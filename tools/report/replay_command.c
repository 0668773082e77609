/*
 * gpupool replay: simulates how the pool would have served the requests of a recording.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tools/report/replay_report.h"
#include "tools/report/report.h"
#include "tools/tool.h"

typedef struct own {
  gp_settings_t settings;
  gp_place_t place;
} own_t;

static gp_parameter_t parameters[GP_SETTINGS_COUNT + GP_PLACE_COUNT];

static int check(const gp_request_t *request, void *arg)
{
  own_t *own = arg;
  int status = gp_place_check(&own->place, request->command);
  return status ? status : gp_settings_check(&own->settings, request->command);
}

static const gp_request_form_t form = {
    .command = "replay",
    .files = "FILE...",
    .least_files = 1,
    .is_of_requests = true,
    .about = "Replays the requests of a recording with the library's own pool on a simulated\n"
             "device: how much memory a type and settings would have reserved, how often the\n"
             "driver would have been called and what that costs on an H100, and whether it\n"
             "fits. No GPU is needed. Each file is a snapshot of gpupool or\n"
             "of PyTorch, a table of requests (op,id,size,stream: gpupool export --to csv),\n"
             "or a log of RMM. Settings that are not given are those of the recording.\n",
    .parameters = parameters,
    .parameter_count = GP_SETTINGS_COUNT + GP_PLACE_COUNT,
    .check = check,
};

static int out_of_memory(const char *file)
{
  gp_message("%s: %s", file, strerror(ENOMEM));
  return GP_EXIT_INPUT;
}

static int simulate(gp_replay_t *replay, const own_t *own, const char *type)
{
  gp_replay_result_t *result = &replay->results[replay->result_count];
  gp_settings_t settings = own->settings;

  settings.texts[GP_OPTION_type] = type;
  gp_settings_resolve(&settings, &replay->workload, &result->options);
  result->type = gp_option_text(&result->options, GP_OPTION_type);
  int error = gp_simulate(
      &result->simulation, &replay->workload, &result->options, replay->capacity, GP_PASS_COUNT, NULL);
  replay->result_count += !error;
  return error ? out_of_memory(replay->file) : 0;
}

/* Simulates the recording with each value of GPUPOOL_TYPE in turn. */
static int simulate_all(gp_replay_t *replay, const own_t *own)
{
  const char *choices = gp_option_table[GP_OPTION_type].syntax;
  int status = 0;

  while (*choices && !status) {
    char type[32];
    size_t length = strcspn(choices, "|");
    snprintf(type, sizeof(type), "%.*s", (int)length, choices);
    status = simulate(replay, own, type);
    choices += length + (choices[length] == '|');
  }
  return status;
}

static int replay_file(
    const gp_request_t *request, const own_t *own, int index, gp_output_t *output, cJSON *list)
{
  const char *path = request->files[index];
  gp_replay_t replay = {
      .file = strcmp(path, "-") == 0 ? "stdin" : path,
      .capacity = own->place.capacity,
      .is_last = index + 1 == request->file_count,
  };
  const char *type = own->settings.texts[GP_OPTION_type];

  int status = gp_workload_load(
      &replay.workload, path, own->place.ready_text ? &own->place.ready : NULL, request->device);
  replay.results = calloc(GP_REPLAY_TYPES, sizeof(*replay.results));
  if (!status && !replay.results)
    status = out_of_memory(replay.file);
  if (!status)
    status = type && strcmp(type, "all") == 0 ? simulate_all(&replay, own) : simulate(&replay, own, type);
  if (!status && request->json)
    gp_replay_add_json(&replay, list);
  else if (!status)
    gp_replay_print(&replay, output);
  free(replay.results);
  gp_workload_fini(&replay.workload);
  return status;
}

/* Replays all files. If a file cannot be read, ends the command without printing a result. */
static int report(const gp_request_t *request, const void *arg, gp_output_t *output, cJSON *object)
{
  const own_t *own = arg;
  GP_JSON_DOCUMENT(replay);
  cJSON *list = GP_PUT_LIST(object, "recordings", replay_recording, "each file that could be read");
  int status = 0;

  int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
  gp_log_init(0, silent); /* drops the pool's messages, which are meant for the user of a program */
  for (int i = 0; i < request->file_count && !status; i++)
    status = replay_file(request, own, i, output, list);
  return status;
}

static void make_parameters(void)
{
  gp_settings_parameters(parameters, offsetof(own_t, settings));
  gp_place_parameters(parameters + GP_SETTINGS_COUNT, offsetof(own_t, place));
}

int gp_command_replay(int argc, char **argv)
{
  own_t own = {.place.capacity = 0};
  make_parameters();
  return gp_report_run_files(&form, argc, argv, &own, report);
}
