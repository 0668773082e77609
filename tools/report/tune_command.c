/*
 * gpupool tune: simulates how each pool type would have served a recording, and prints the settings to use.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"
#include "tools/output_file.h"
#include "tools/report/report.h"
#include "tools/table.h"
#include "tools/tool.h"
#include "tools/tune/tune.h"

typedef struct own {
  gp_settings_t settings;
  gp_place_t place;
  const char *profile;
  bool adds_prewarm;
} own_t;

static const gp_parameter_t own_parameters[] = {
    {"write-profile", 0, "FILE", GP_PARAMETER_TEXT, offsetof(own_t, profile), NULL, 0, 0,
        "write the settings to FILE, for GPUPOOL_PROFILE; an existing file is kept without --force"},
    {"with-prewarm", 0, NULL, GP_PARAMETER_FLAG, offsetof(own_t, adds_prewarm), NULL, 0, 0,
        "add GPUPOOL_PREWARM: the memory that the pool has at the end, with one spare block of each size, allocated in advance at the first allocation, before the program's kernels"},
};
#define OWN_COUNT (sizeof(own_parameters) / sizeof(own_parameters[0]))

static gp_parameter_t parameters[GP_SETTINGS_COUNT + GP_PLACE_COUNT + OWN_COUNT];

static int check(const gp_request_t *request, void *arg)
{
  own_t *own = arg;
  const char *type = own->settings.texts[GP_OPTION_type];
  if (type && strcmp(type, "unpooled") == 0)
    return gp_message_usage("tune", "tune: --type=unpooled leaves nothing to choose");
  if (own->adds_prewarm && own->settings.texts[GP_OPTION_prewarm])
    return gp_message_usage("tune", "tune: --with-prewarm finds what --prewarm sets: use one of them");
  int status = gp_place_check(&own->place, request->command);
  if (!status)
    status = gp_settings_check(&own->settings, request->command);
  return status || !own->profile ? status : gp_output_file_check(own->profile, request->force);
}

static const gp_request_form_t form = {
    .command = "tune",
    .files = "FILE",
    .least_files = 1,
    .most_files = 1,
    .is_of_requests = true,
    .about = "Replays a recording, FILE as of gpupool replay, with each type of pool. Prints\n"
             "the settings to use: the type that holds least and takes no more time in\n"
             "the driver than now. Settings that are given stay as they are. No GPU is needed.\n",
    .parameters = parameters,
    .parameter_count = GP_SETTINGS_COUNT + GP_PLACE_COUNT + OWN_COUNT,
    .check = check,
};

static void print_settings(const gp_tuning_t *tuning, char separator, FILE *stream)
{
  fprintf(stream, "GPUPOOL_TYPE=%s", tuning->scores[tuning->best].name);
  if (tuning->prewarm[0])
    fprintf(stream, "%cGPUPOOL_PREWARM=%s", separator, tuning->prewarm);
  fputc('\n', stream);
}

static void print(const gp_tuning_t *tuning, const char *file, bool adds_prewarm, gp_output_t *output)
{
  const gp_score_t *best = &tuning->scores[tuning->best];
  gp_table_t table = {.output = output, .indent = "", .format = "llrrrrr"};
  char name[256];

  gp_output_heading(output, "gpupool tune: %s", gp_printable(file, name, sizeof(name)));
  fprintf(output->stream,
      "the program used at most %s\n"
      "\n",
      GP_AS_SIZE(best->live));
  gp_table_row(&table, "", "type", "held", "/ live", "calls", "cost", "busy", NULL);
  for (int i = 0; i < tuning->count; i++) {
    const gp_score_t *score = &tuning->scores[i];
    char ratio[32];
    snprintf(ratio, sizeof(ratio), "%.2f", (double)score->held / (double)score->live);
    gp_table_row(&table, i == tuning->best ? "*" : "", score->name, GP_AS_SIZE(score->held), ratio,
        GP_AS_COUNT(score->calls), GP_AS_DURATION((uint64_t)score->cost_ns),
        GP_AS_DURATION((uint64_t)score->busy_ns), NULL);
  }
  gp_table_print(&table);
  if (best->refused)
    fprintf(output->stream, "\nNothing fits: the best refuses %s\n", GP_AS_PLURAL(best->refused, "request"));
  fputc('\n', output->stream);
  print_settings(tuning, ' ', output->stream);
  if (tuning->cuts)
    fputs("Programs that share memory with cudaIpcGetMemHandle need type round or naive.\n", output->stream);
  if (tuning->prewarm[0])
    fputs("GPUPOOL_PREWARM is for runs of this size: a smaller one reserves as much.\n", output->stream);
  else if (adds_prewarm)
    fputs("Nothing to prewarm: the pool has no memory of cudaMalloc at the end.\n", output->stream);
  fputc('\n', output->stream);
  gp_output_say(output, "",
      "*: the best: holds least among those that cost no more than now; cost, busy: what the driver calls for memory take on an idle H100, and while kernels run");
}

static void add_json(const gp_tuning_t *tuning, const char *file, cJSON *object)
{
  GP_JSON_DOCUMENT(tune);
  GP_PUT_TEXT(object, "file", file, "the file as given");
  cJSON *settings =
      GP_PUT_MAP(object, "settings", text, "the environment variables that serve the recording best");
  cJSON_AddStringToObject(settings, "GPUPOOL_TYPE", tuning->scores[tuning->best].name);
  if (tuning->prewarm[0])
    cJSON_AddStringToObject(settings, "GPUPOOL_PREWARM", tuning->prewarm);
  cJSON *scores =
      GP_PUT_MAP(object, "scores", tune_score, "by type of pool, and `now`: the settings of the recording");
  for (int i = 0; i < tuning->count; i++) {
    const gp_score_t *score = &tuning->scores[i];
    cJSON *item = cJSON_AddObjectToObject(scores, score->name);
    GP_JSON_SHAPE(tune_score);
    GP_PUT_UINT(item, "held", score->held,
        "most bytes from the driver, in whole pages: reserved by the pool, and forwarded");
    GP_PUT_UINT(item, "live", score->live, "most bytes that the program had allocated");
    GP_PUT_UINT(item, "calls", score->calls, "calls of the driver");
    GP_PUT_UINT(item, "cost_ns", (uint64_t)score->cost_ns, "what they take on an idle H100");
    GP_PUT_UINT(item, "busy_cost_ns", (uint64_t)score->busy_ns, "what they take while kernels run");
    GP_PUT_UINT(item, "refused", score->refused, "requests refused for lack of memory");
  }
}

/* Writes the file for GPUPOOL_PROFILE. Returns 0 or, after a message, the exit status. */
static int write_profile(const gp_tuning_t *tuning, const char *path, bool force)
{
  gp_output_file_t file;

  int status = gp_output_file_open(&file, path, force);
  if (status)
    return status;
  print_settings(tuning, '\n', file.stream);
  return gp_output_file_close(&file);
}

static int report(const gp_request_t *request, const void *arg, gp_output_t *output, cJSON *object)
{
  const own_t *own = arg;
  const char *file = strcmp(request->files[0], "-") == 0 ? "stdin" : request->files[0];
  gp_workload_t workload = {.step_count = 0};
  gp_tuning_t tuning = {.workload = &workload, .capacity = own->place.capacity};

  gp_log_init(0, open("/dev/null", O_WRONLY | O_CLOEXEC)); /* drops messages for a program's user */
  int status = gp_workload_load(
      &workload, request->files[0], own->place.ready_text ? &own->place.ready : NULL, request->device);
  int error = status ? 0 : gp_tune(&tuning, &own->settings, own->adds_prewarm);
  gp_workload_fini(&workload);
  if (error) {
    gp_message(
        "tune: %s", error == ENODATA ? "no request is recorded that the pool would serve" : strerror(error));
    return GP_EXIT_INPUT;
  }
  if (!status && request->json)
    add_json(&tuning, file, object);
  else if (!status)
    print(&tuning, file, own->adds_prewarm, output);
  return status || !own->profile ? status : write_profile(&tuning, own->profile, request->force);
}

int gp_command_tune(int argc, char **argv)
{
  own_t own = {.profile = NULL};
  memcpy(parameters, own_parameters, sizeof(own_parameters));
  gp_place_parameters(parameters + OWN_COUNT, offsetof(own_t, place));
  gp_settings_parameters(parameters + OWN_COUNT + GP_PLACE_COUNT, offsetof(own_t, settings));
  return gp_report_run_files(&form, argc, argv, &own, report);
}
