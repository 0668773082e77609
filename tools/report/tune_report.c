#include "tools/report/tune_report.h"

#include <string.h>

#include "base/size.h"
#include "tools/report/report.h"

static void print_row(const char *name, const gp_score_t *score, gp_output_t *output)
{
  fprintf(output->stream, "  %-18s %10s %7.2f %10s %10s %10s\n", name, GP_AS_SIZE(score->held), score->ratio,
      GP_AS_COUNT(score->calls), GP_AS_DURATION((uint64_t)score->cost_ns),
      GP_AS_DURATION((uint64_t)score->busy_ns));
}

void gp_tune_print_settings(const gp_tuning_t *tuning, const char *separator, FILE *stream)
{
  gp_candidate_settings_t settings;
  gp_candidate_describe(&tuning->best, tuning->live_peak, &settings);
  for (int i = 0; i < settings.count; i++)
    fprintf(stream, "%s%s=%s", i ? separator : "", gp_option_table[settings.items[i].id].variable,
        settings.items[i].text);
  if (tuning->prewarm[0])
    fprintf(stream, "%s%s=%s", separator, gp_option_table[GP_OPTION_prewarm].variable, tuning->prewarm);
}

const gp_score_t *gp_tune_final_score(const gp_tuning_t *tuning)
{
  return tuning->prewarm[0] ? &tuning->prewarmed : &tuning->score;
}

/* True if the type cuts or maps memory. */
static bool is_cut(const gp_tuning_t *tuning)
{
  const char *type = gp_candidate_type_name(tuning->best.type);
  return strcmp(type, "segment") == 0 || strcmp(type, "vmm") == 0;
}

static void print_types(const gp_tuning_t *tuning, gp_output_t *output)
{
  int count = 0;

  for (int type = 0; type < gp_candidate_types(); type++)
    count += tuning->is_scored[type];
  if (count < 2)
    return;
  fputs("\n  by type, with its defaults\n", output->stream);
  for (int type = 0; type < gp_candidate_types(); type++)
    if (tuning->is_scored[type])
      print_row(gp_candidate_type_name(type), &tuning->types[type], output);
}

static void print_prewarm(const gp_tuning_t *tuning, gp_output_t *output)
{
  const gp_score_t *score = gp_tune_final_score(tuning);

  if (!tuning->prewarm[0] && gp_candidate_prewarm(&tuning->best, tuning->live_peak) == 0) {
    if (tuning->adds_prewarm)
      fputs(
          "Nothing to prewarm: GPUPOOL_PREWARM makes memory of cudaMalloc, and the pool had none in the end.\n",
          output->stream);
    return;
  }
  fprintf(output->stream, "%s of %s are made at the first allocation, before the program's kernels.\n",
      GP_AS_COUNT(score->early), GP_AS_PLURAL(score->calls, "call"));
  fputs("GPUPOOL_PREWARM is for runs of that size: one that needs less holds it all the same.\n",
      output->stream);
}

void gp_tune_print(const gp_tuning_t *tuning, gp_output_t *output)
{
  static const char *const goals[] = {"least memory held, with no more time in the driver than now",
      "least time in the driver, with no more memory held than now"};

  gp_output_heading(output, "gpupool tune: %zu recording%s", tuning->workload_count,
      tuning->workload_count == 1 ? "" : "s");
  fprintf(output->stream, "goal    %s\n", goals[tuning->goal]);
  fprintf(output->stream, "tried   %d of %d settings%s\n", tuning->tried, tuning->allowed,
      tuning->is_exhaustive ? "" : " (--exhaustive: all)");
  fprintf(output->stream, "live    %s at most%s\n\n", GP_AS_SIZE(tuning->now.live),
      tuning->workload_count == 1 ? "" : ", the recordings together");
  fprintf(output->stream, "  %-18s %10s %7s %10s %10s %10s\n", "", "held", "/ live", "calls", "cost", "busy");
  print_row("now", &tuning->now, output);
  print_row("default", &tuning->library, output);
  print_row("best", &tuning->score, output);
  if (tuning->prewarm[0])
    print_row("best, prewarmed", &tuning->prewarmed, output);
  print_types(tuning, output);
  if (tuning->score.refused)
    fprintf(output->stream, "\nNothing fits: the best refuses %s%s\n",
        GP_AS_PLURAL(tuning->score.refused, "request"),
        tuning->score.missed == 0                       ? ""
        : tuning->score.missed == tuning->score.refused ? ", as the recorded run did"
                                                        : ", some of which the recorded run refused, too");
  fputc('\n', output->stream);
  gp_tune_print_settings(tuning, " ", output->stream);
  fputs("\n\n", output->stream);
  if (is_cut(tuning))
    fputs("This memory is not made of whole allocations, which cudaIpcGetMemHandle asks for: a program that\n"
          "shares memory so is better served by --type round or --type naive.\n",
        output->stream);
  print_prewarm(tuning, output);
  fputs("held: most that the driver had given; / live: over the most that the program held, geometric mean;\n"
        "calls: those that get, map and give back memory; cost, busy: what they take on an idle H100,\n"
        "and beside kernels\n",
      output->stream);
}

static void add_score(cJSON *item, const gp_score_t *score)
{
  cJSON_AddNumberToObject(item, "ratio", score->ratio);
  gp_json_add_uint(item, "held", score->held);
  gp_json_add_uint(item, "live", score->live);
  gp_json_add_uint(item, "calls", score->calls);
  gp_json_add_uint(item, "early_calls", score->early);
  gp_json_add_uint(item, "cost_ns", (uint64_t)score->cost_ns);
  gp_json_add_uint(item, "busy_cost_ns", (uint64_t)score->busy_ns);
  gp_json_add_uint(item, "refused", score->refused);
  gp_json_add_uint(item, "missed", score->missed);
}

void gp_tune_add_json(const gp_tuning_t *tuning, cJSON *object)
{
  static const char *const goals[] = {"memory", "time"};
  gp_candidate_settings_t settings;

  cJSON_AddStringToObject(object, "goal", goals[tuning->goal]);
  gp_json_add_int(object, "tried", tuning->tried);
  gp_json_add_int(object, "candidates", tuning->allowed);
  cJSON *list = cJSON_AddObjectToObject(object, "settings");
  gp_candidate_describe(&tuning->best, tuning->live_peak, &settings);
  for (int i = 0; i < settings.count; i++)
    cJSON_AddStringToObject(list, gp_option_table[settings.items[i].id].variable, settings.items[i].text);
  if (tuning->prewarm[0])
    cJSON_AddStringToObject(list, gp_option_table[GP_OPTION_prewarm].variable, tuning->prewarm);
  add_score(cJSON_AddObjectToObject(object, "now"), &tuning->now);
  add_score(cJSON_AddObjectToObject(object, "default"), &tuning->library);
  add_score(cJSON_AddObjectToObject(object, "best"), &tuning->score);
  if (tuning->prewarm[0])
    add_score(cJSON_AddObjectToObject(object, "prewarmed"), &tuning->prewarmed);
  else
    cJSON_AddNullToObject(object, "prewarmed");
  cJSON *types = cJSON_AddObjectToObject(object, "types");
  for (int type = 0; type < gp_candidate_types(); type++)
    if (tuning->is_scored[type])
      add_score(cJSON_AddObjectToObject(types, gp_candidate_type_name(type)), &tuning->types[type]);
}
