#include "tools/tune/search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/replay/figures.h"
#include "tools/request.h"
#include "tools/tune/prewarm_list.h"

#define PLACES_MOST 20

/* Measures within this factor count as equal: the other measure decides then. */
#define SAME 1.001

typedef struct search {
  gp_tuning_t *tuning;
  gp_simulation_t *simulation;
  gp_options_t *options;
  gp_score_t scores[GP_CANDIDATE_TYPES_MOST][PLACES_MOST][PLACES_MOST];
  bool is_tried[GP_CANDIDATE_TYPES_MOST][PLACES_MOST][PLACES_MOST];
  int most; /* number of tries at most, for the progress */
} search_t;

/* is_default: ignore the recordings' own settings. */
static int judge(search_t *search, const gp_settings_t *settings, bool is_default, gp_score_t *ret_score)
{
  const gp_tuning_t *tuning = search->tuning;
  double logs = 0;

  *ret_score = (gp_score_t){.ratio = 0};
  for (size_t i = 0; i < tuning->workload_count; i++) {
    gp_workload_t workload = tuning->workloads[i];
    gp_figures_t figures;
    if (is_default)
      workload.settings = NULL;
    gp_settings_resolve(settings, &workload, search->options);
    int error = gp_simulate(search->simulation, &workload, search->options, tuning->capacity, 1, NULL);
    if (error)
      return error;
    gp_figures_of(&figures, search->simulation, &workload, GP_PASS_COLD, GP_REQUEST_ALL_DEVICES);
    logs += figures.asked_peak ? log(gp_figures_ratio(&figures)) : 0;
    ret_score->cost_ns += search->simulation->passes[GP_PASS_COLD].cost_ns;
    ret_score->busy_ns += search->simulation->passes[GP_PASS_COLD].busy_cost_ns;
    ret_score->calls += search->simulation->passes[GP_PASS_COLD].call_count;
    ret_score->early += search->simulation->passes[GP_PASS_COLD].early;
    ret_score->held += figures.held_peak;
    ret_score->live += figures.asked_peak;
    ret_score->refused += figures.refused + figures.declined;
    ret_score->missed += figures.declined;
  }
  ret_score->ratio = exp(logs / (double)tuning->workload_count);
  return 0;
}

/* The user's settings with those of the candidate, whose texts *ret_chosen owns. */
static gp_settings_t settings_of(
    const gp_tuning_t *tuning, const gp_candidate_t *candidate, gp_candidate_settings_t *ret_chosen)
{
  gp_settings_t settings = *tuning->given;

  gp_candidate_describe(candidate, tuning->live_peak, ret_chosen);
  for (int type = 0; type < gp_candidate_types(); type++) {
    for (int axis = 0; axis < GP_AXES; axis++) {
      gp_option_id_t id = gp_candidate_option(type, (gp_axis_t)axis);
      if (id != GP_OPTION_COUNT && !settings.texts[id])
        settings.texts[id] = gp_option_table[id].default_text; /* instead of the recording's */
    }
  }
  for (int i = 0; i < ret_chosen->count; i++)
    settings.texts[ret_chosen->items[i].id] = ret_chosen->items[i].text;
  return settings;
}

/* Scores a candidate, once only. */
static int try(search_t *search, const gp_candidate_t *candidate, gp_score_t **ret_score)
{
  const int *places = candidate->places;
  gp_tuning_t *tuning = search->tuning;
  gp_candidate_settings_t chosen;

  *ret_score = &search->scores[candidate->type][places[0]][places[1]];
  if (search->is_tried[candidate->type][places[0]][places[1]])
    return 0;
  search->is_tried[candidate->type][places[0]][places[1]] = true;
  gp_settings_t settings = settings_of(tuning, candidate, &chosen);
  tuning->tried++;
  if (tuning->progress)
    tuning->progress(tuning->tried, search->most);
  return judge(search, &settings, false, *ret_score);
}

/* The measure to minimize, and below it the measure that must not exceed the present one. */
static double wanted(const gp_tuning_t *tuning, const gp_score_t *score)
{
  return tuning->goal == GP_TUNE_MEMORY ? score->ratio : score->cost_ns;
}

static double bounded(const gp_tuning_t *tuning, const gp_score_t *score)
{
  return tuning->goal == GP_TUNE_MEMORY ? score->cost_ns : score->ratio;
}

/* Time is to be no longer on an idle device nor beside kernels. */
static bool fits(const gp_tuning_t *tuning, const gp_score_t *score)
{
  const gp_score_t *now = &tuning->now;
  return bounded(tuning, score) <= bounded(tuning, now) * SAME &&
         (tuning->goal == GP_TUNE_TIME || score->busy_ns <= now->busy_ns * SAME);
}

static bool is_better(const gp_tuning_t *tuning, const gp_score_t *a, const gp_score_t *b)
{
  if (a->refused != b->refused)
    return a->refused < b->refused;
  if (fits(tuning, a) != fits(tuning, b))
    return fits(tuning, a);
  if (wanted(tuning, a) * SAME < wanted(tuning, b) || wanted(tuning, b) * SAME < wanted(tuning, a))
    return wanted(tuning, a) < wanted(tuning, b);
  return bounded(tuning, a) < bounded(tuning, b);
}

static int consider(search_t *search, const gp_candidate_t *candidate)
{
  gp_tuning_t *tuning = search->tuning;
  gp_score_t *score;

  if (!gp_candidate_is_allowed(candidate, tuning->given))
    return 0;
  int error = try(search, candidate, &score);
  if (!error && (tuning->best.type < 0 || is_better(tuning, score, &tuning->score))) {
    tuning->best = *candidate;
    tuning->score = *score;
  }
  return error;
}

/* Tries all candidates in order. */
static int try_all(search_t *search)
{
  int error = 0;
  for (int type = 0; type < gp_candidate_types(); type++) {
    for (int i = 0; i < gp_candidate_places(type, GP_AXIS_FIRST); i++) {
      for (int j = 0; j < gp_candidate_places(type, GP_AXIS_SECOND) && !error; j++)
        error = consider(search, &(gp_candidate_t){type, {i, j}});
    }
  }
  return error;
}

/* Finds the best amount to prewarm by halving: with less, the pool grows in addition; more is not needed.
 * The amount hardly depends on the type, so the other types that prewarm get the same. */
static int halve(search_t *search)
{
  gp_tuning_t *tuning = search->tuning;
  gp_candidate_t candidate = tuning->best;
  int low = 1, high = gp_candidate_places(candidate.type, GP_AXIS_FIRST) - 1, error = 0;

  while (low <= high && !error) {
    gp_score_t *score;
    int middle = candidate.places[GP_AXIS_FIRST] = (low + high) / 2;
    if (!gp_candidate_is_allowed(&candidate, tuning->given))
      break;
    error = consider(search, &candidate);
    if (error || (error = try(search, &candidate, &score)) != 0)
      break;
    if (score->held > gp_candidate_prewarm(&candidate, tuning->live_peak) * tuning->workload_count)
      low = middle + 1; /* the pool grew */
    else
      high = middle - 1;
  }
  candidate.places[GP_AXIS_FIRST] = low;
  for (int type = 0; type < gp_candidate_types() && !error; type++) {
    candidate.type = type;
    if (gp_candidate_option(type, GP_AXIS_FIRST) == GP_OPTION_prewarm &&
        low < gp_candidate_places(type, GP_AXIS_FIRST))
      error = consider(search, &candidate);
  }
  return error;
}

/* Tries the neighbours of the best candidate along an axis, and goes on in
 * a direction while it improves. */
static int follow(search_t *search, gp_axis_t axis)
{
  gp_tuning_t *tuning = search->tuning;
  int type = tuning->best.type, count = gp_candidate_places(type, axis), error = 0;

  for (int direction = -1; direction <= 1; direction += 2) {
    for (bool is_better_now = true; is_better_now && !error;) {
      gp_candidate_t candidate = tuning->best;
      candidate.places[axis] += direction;
      if (candidate.places[axis] < 0 || candidate.places[axis] >= count)
        break;
      error = consider(search, &candidate);
      is_better_now = tuning->best.places[axis] == candidate.places[axis];
    }
  }
  return error;
}

static int try_some(search_t *search)
{
  int error = 0;
  for (int type = 0; type < gp_candidate_types() && !error; type++) {
    const gp_candidate_t candidate = gp_candidate_initial(type);
    error = consider(search, &candidate);
  }
  for (int axis = 0; axis < GP_AXES && !error && search->tuning->best.type >= 0; axis++) {
    bool is_amount = gp_candidate_option(search->tuning->best.type, (gp_axis_t)axis) == GP_OPTION_prewarm;
    error = is_amount ? halve(search) : follow(search, (gp_axis_t)axis);
  }
  return error;
}

static int score_types(search_t *search)
{
  gp_tuning_t *tuning = search->tuning;
  int error = 0;

  for (int type = 0; type < gp_candidate_types() && !error; type++) {
    const gp_candidate_t candidate = gp_candidate_initial(type);
    gp_score_t *score;
    tuning->is_scored[type] = gp_candidate_is_allowed(&candidate, tuning->given);
    if (!tuning->is_scored[type])
      continue;
    error = try(search, &candidate, &score);
    tuning->types[type] = *score;
  }
  return error;
}

/* Adds the memory that the best settings have in the end to them, unless they have prewarmed memory. */
static int add_prewarm(search_t *search)
{
  gp_tuning_t *tuning = search->tuning;
  const gp_workload_t *workload = &tuning->workloads[0];
  gp_candidate_settings_t chosen;
  gp_final_blocks_t blocks;

  if (gp_candidate_prewarm(&tuning->best, tuning->live_peak) > 0)
    return 0;
  gp_settings_t settings = settings_of(tuning, &tuning->best, &chosen);
  gp_settings_resolve(&settings, workload, search->options);
  int error = gp_simulate(search->simulation, workload, search->options, tuning->capacity, 1, &blocks);
  bool is_cut = gp_candidate_option(tuning->best.type, GP_AXIS_FIRST) == GP_OPTION_prewarm;
  bool has_list = !error && gp_prewarm_list(&blocks, is_cut, tuning->prewarm, sizeof(tuning->prewarm));
  gp_final_blocks_fini(&blocks);
  if (!has_list)
    return error;
  settings.texts[GP_OPTION_prewarm] = tuning->prewarm;
  return judge(search, &settings, false, &tuning->prewarmed);
}

static void count_candidates(gp_tuning_t *tuning)
{
  for (int type = 0; type < gp_candidate_types(); type++) {
    for (int i = 0; i < gp_candidate_places(type, GP_AXIS_FIRST); i++) {
      for (int j = 0; j < gp_candidate_places(type, GP_AXIS_SECOND); j++)
        tuning->allowed += gp_candidate_is_allowed(&(gp_candidate_t){type, {i, j}}, tuning->given);
    }
  }
}

static void find_live_peak(gp_tuning_t *tuning)
{
  tuning->live_peak = 0;
  for (size_t i = 0; i < tuning->workload_count; i++) {
    for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
      uint64_t live = tuning->workloads[i].devices[device].live_peak;
      tuning->live_peak = live > tuning->live_peak ? live : tuning->live_peak;
    }
  }
}

/* Makes a search over zeroed results, and judges the settings in force. Returns 0, ENOMEM or ENODATA; the
 * caller calls end in any case. */
static int begin(search_t **ret_search, gp_tuning_t *tuning, gp_settings_t *ret_given)
{
  static const gp_settings_t nothing_given;
  search_t *search = *ret_search = calloc(1, sizeof(*search));

  if (!search)
    return ENOMEM;
  search->tuning = tuning;
  search->simulation = malloc(sizeof(*search->simulation));
  search->options = malloc(sizeof(*search->options));
  if (!tuning->given)
    tuning->given = &nothing_given;
  *ret_given = *tuning->given;
  if (ret_given->texts[GP_OPTION_type] && strcmp(ret_given->texts[GP_OPTION_type], "all") == 0)
    ret_given->texts[GP_OPTION_type] = NULL;
  tuning->best.type = -1;
  tuning->tried = tuning->allowed = 0;
  count_candidates(tuning);
  find_live_peak(tuning);
  search->most = tuning->is_exhaustive ? tuning->allowed : tuning->allowed / 10;
  if (!search->simulation || !search->options)
    return ENOMEM;
  return tuning->live_peak ? judge(search, ret_given, false, &tuning->now) : ENODATA;
}

static void end(search_t *search)
{
  if (!search)
    return;
  free(search->simulation);
  free(search->options);
  free(search);
}

int gp_tune_types(gp_tuning_t *tuning)
{
  search_t *search;
  gp_settings_t given;

  int error = begin(&search, tuning, &given);
  if (!error)
    error = score_types(search);
  end(search);
  return error;
}

int gp_tune(gp_tuning_t *tuning)
{
  search_t *search;
  gp_settings_t given;

  int error = begin(&search, tuning, &given);
  if (!error)
    error = judge(search, &given, true, &tuning->library);
  if (!error)
    error = tuning->is_exhaustive ? try_all(search) : try_some(search);
  if (!error)
    error = score_types(search);
  if (!error && tuning->best.type < 0)
    error = ENOENT;
  if (!error && tuning->adds_prewarm)
    error = add_prewarm(search);
  end(search);
  return error;
}
