/*
 * gpupool tune: finds the settings that would have served recordings best.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tools/output_file.h"
#include "tools/report/report.h"
#include "tools/report/tune_report.h"
#include "tools/tool.h"

typedef struct own {
  gp_settings_t settings;
  gp_place_t place;
  const char *profile;
  int goal; /* gp_tune_goal_t */
  bool is_exhaustive;
  bool adds_prewarm;
} own_t;

static const gp_parameter_t own_parameters[] = {
    {"goal", 0, NULL, GP_PARAMETER_CHOICE, offsetof(own_t, goal), "memory|time", 0, 0,
        "memory: to hold least, with no more time in the driver than now (the default); time: least time in the driver, with no more memory held than now"},
    {"write-profile", 0, "FILE", GP_PARAMETER_TEXT, offsetof(own_t, profile), NULL, 0, 0,
        "write the settings to FILE, for GPUPOOL_PROFILE; an existing file is kept without --force"},
    {"exhaustive", 0, NULL, GP_PARAMETER_FLAG, offsetof(own_t, is_exhaustive), NULL, 0, 0,
        "try all settings instead of at most a tenth of them"},
    {"with-prewarm", 0, NULL, GP_PARAMETER_FLAG, offsetof(own_t, adds_prewarm), NULL, 0, 0,
        "add GPUPOOL_PREWARM: the memory that the pool has in the end, obtained at the first allocation, before the program's kernels; of one FILE"},
};
#define OWN_COUNT (sizeof(own_parameters) / sizeof(own_parameters[0]))

static gp_parameter_t parameters[GP_SETTINGS_COUNT + GP_PLACE_COUNT + OWN_COUNT];

static void make_parameters(void)
{
  memcpy(parameters, own_parameters, sizeof(own_parameters));
  gp_place_parameters(parameters + OWN_COUNT, offsetof(own_t, place));
  gp_settings_parameters(parameters + OWN_COUNT + GP_PLACE_COUNT, offsetof(own_t, settings));
}

static int check(const gp_request_t *request, void *arg)
{
  own_t *own = arg;
  if (own->adds_prewarm && request->file_count > 1) {
    gp_message("tune: --with-prewarm is for one program: give one FILE, not %d", request->file_count);
    return GP_EXIT_USAGE;
  }
  if (own->adds_prewarm && own->settings.texts[GP_OPTION_prewarm]) {
    gp_message("tune: --with-prewarm finds what --prewarm gives: use one of them");
    return GP_EXIT_USAGE;
  }
  int status = gp_place_check(&own->place, request->command);
  if (!status)
    status = gp_settings_check(&own->settings, request->command);
  return status || !own->profile ? status : gp_output_file_check(own->profile, request->force);
}

static const gp_request_form_t form = {
    .command = "tune",
    .files = "FILE...",
    .least_files = 1,
    .is_of_requests = true,
    .about = "Tries types and settings of the pool on recordings, without a GPU, and prints\n"
             "those that serve best: all files together, each from an empty pool. Files are\n"
             "as of gpupool replay. Settings that are given stay as they are.\n",
    .parameters = parameters,
    .parameter_count = GP_SETTINGS_COUNT + GP_PLACE_COUNT + OWN_COUNT,
    .check = check,
};

static void show_progress(int tried, int most)
{
  fprintf(stderr, "\rgpupool: %d of at most %d settings tried ", tried, most > tried ? most : tried);
}

static void end_progress(void)
{
  fputs("\r\033[K", stderr);
}

/* Writes the file that GPUPOOL_PROFILE reads. */
static int write_profile(const gp_tuning_t *tuning, const char *path, bool force)
{
  gp_output_file_t file;
  const gp_score_t *now = &tuning->now, *best = gp_tune_final_score(tuning);

  int status = gp_output_file_open(&file, path, force);
  if (status)
    return status;
  fprintf(file.stream,
      "# gpupool tune: %s held instead of %s, %" PRIu64 " calls of the driver instead of %" PRIu64 "\n",
      GP_AS_SIZE(best->held), GP_AS_SIZE(now->held), best->calls, now->calls);
  gp_tune_print_settings(tuning, "\n", file.stream);
  fputc('\n', file.stream);
  return gp_output_file_close(&file);
}

static void tell(const gp_tuning_t *tuning, const gp_request_t *request, gp_output_t *output, cJSON *object)
{
  if (!request->json) {
    gp_tune_print(tuning, output);
    return;
  }
  cJSON *files = cJSON_AddArrayToObject(object, "files");
  for (int i = 0; i < request->file_count; i++) {
    const char *file = request->files[i];
    cJSON_AddItemToArray(files, cJSON_CreateString(strcmp(file, "-") == 0 ? "stdin" : file));
  }
  gp_tune_add_json(tuning, object);
}

static int tune(gp_workload_t *workloads, const gp_request_t *request, const own_t *own, gp_output_t *output,
    cJSON *object)
{
  gp_tuning_t tuning = {
      .workloads = workloads,
      .workload_count = (size_t)request->file_count,
      .given = &own->settings,
      .capacity = own->place.capacity,
      .goal = (gp_tune_goal_t)own->goal,
      .is_exhaustive = own->is_exhaustive,
      .adds_prewarm = own->adds_prewarm,
      .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
  };

  int error = gp_tune(&tuning);
  if (tuning.progress)
    end_progress();
  if (error == ENOENT)
    gp_message("tune: the settings that were given leave nothing to choose");
  else if (error == ENODATA)
    gp_message("tune: no request is recorded that the pool would serve");
  else if (error)
    gp_message("tune: %s", strerror(error));
  if (error)
    return error == ENOENT ? GP_EXIT_USAGE : GP_EXIT_INPUT;
  tell(&tuning, request, output, object);
  return own->profile ? write_profile(&tuning, own->profile, request->force) : 0;
}

static int report(const gp_request_t *request, const void *arg, gp_output_t *output, cJSON *object)
{
  const own_t *own = arg;
  gp_workload_t *workloads = calloc((size_t)request->file_count, sizeof(*workloads));
  int loaded = 0, status = workloads ? 0 : GP_EXIT_INPUT;

  gp_log_init(0, open("/dev/null", O_WRONLY | O_CLOEXEC)); /* drops the pool's messages, which are for a
                                                              program's user */
  if (!workloads)
    gp_message("tune: %s", strerror(ENOMEM));
  while (!status && loaded < request->file_count) {
    status = gp_workload_load(&workloads[loaded], request->files[loaded],
        own->place.ready_text ? &own->place.ready : NULL, request->device);
    loaded++;
  }
  if (!status)
    status = tune(workloads, request, own, output, object);
  for (int i = 0; i < loaded; i++)
    gp_workload_fini(&workloads[i]);
  free(workloads);
  return status;
}

int gp_command_tune(int argc, char **argv)
{
  own_t own = {.goal = GP_TUNE_MEMORY};
  make_parameters();
  return gp_report_run_files(&form, argc, argv, &own, report);
}
