#include "tools/tune/tune.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/space/size_classes.h"
#include "tools/replay/figures.h"

#define SAME        1.001 /* results within this factor count as equal */
#define SPARE_COUNT 1     /* spare blocks of the largest size, because a missing one costs a segment */

/* The pool types that cache memory. Those from FIRST_CUT on divide segments into blocks. */
static const char *const types[] = {"round", "naive", "segment", "vmm"};
#define TYPE_COUNT 4
#define FIRST_CUT  2

/* Simulates settings and computes their score. `ret_blocks` is as for gp_simulate. Returns as gp_tune. */
static int judge(const gp_tuning_t *tuning, const char *name, const gp_settings_t *settings,
    gp_score_t *ret_score, gp_final_blocks_t *ret_blocks)
{
  static gp_simulation_t simulation; /* static, because both are too large for a stack */
  static gp_options_t options;
  const gp_simulated_pass_t *pass = &simulation.passes[GP_PASS_COLD];
  gp_figures_t figures;

  gp_settings_resolve(settings, tuning->workload, &options);
  int error = gp_simulate(&simulation, tuning->workload, &options, tuning->capacity, 1, ret_blocks);
  gp_figures_of(&figures, &simulation, tuning->workload, GP_PASS_COLD, GP_REQUEST_ALL_DEVICES);
  *ret_score = (gp_score_t){name, figures.held_peak, figures.asked_peak, pass->cost_ns, pass->busy_cost_ns,
      pass->call_count, figures.refused + figures.declined};
  return error || figures.live_peak > 0 ? error : ENODATA;
}

static bool is_better(const gp_score_t *now, const gp_score_t *a, const gp_score_t *b)
{
  const double held = (double)a->held / (double)b->held;
  const bool is_quick[] = {a->cost_ns <= now->cost_ns * SAME && a->busy_ns <= now->busy_ns * SAME,
      b->cost_ns <= now->cost_ns * SAME && b->busy_ns <= now->busy_ns * SAME};

  if (a->refused != b->refused)
    return a->refused < b->refused;
  if (is_quick[0] != is_quick[1])
    return is_quick[0];
  return held * SAME < 1 || (held <= SAME && a->cost_ns < b->cost_ns);
}

static int try_types(gp_tuning_t *tuning, gp_settings_t *settings)
{
  const char *wanted = settings->texts[GP_OPTION_type];

  if (!settings->texts[GP_OPTION_prewarm])
    settings->texts[GP_OPTION_prewarm] = "none"; /* overrides the recorded setting */
  for (int type = 0; type < TYPE_COUNT; type++) {
    gp_score_t *score = &tuning->scores[tuning->count];
    if (wanted && strcmp(wanted, "all") != 0 && strcmp(wanted, types[type]) != 0)
      continue;
    settings->texts[GP_OPTION_type] = types[type];
    int error = judge(tuning, types[type], settings, score, NULL);
    if (error)
      return error;
    if (tuning->best == 0 || is_better(&tuning->scores[0], score, &tuning->scores[tuning->best])) {
      tuning->best = tuning->count;
      tuning->cuts = type >= FIRST_CUT;
    }
    tuning->count++;
  }
  return 0;
}

static int by_size(const void *a, const void *b)
{
  uint64_t first = ((const gp_block_view_t *)a)->size, second = ((const gp_block_view_t *)b)->size;
  return (first < second) - (first > second);
}

/* Writes the sizes of the blocks as a value of GPUPOOL_PREWARM. The largest come first, because the pool
 * skips blocks that do not fit. */
static void print_sizes(gp_block_view_t *views, size_t count, char *text, size_t capacity)
{
  size_t used = 0;

  qsort(views, count, sizeof(*views), by_size);
  for (size_t i = 0, entries = 0; i < count && entries < GP_BLOCK_LIST_ENTRIES; entries++) {
    const uint64_t bytes = views[i].size;
    uint64_t blocks = 0; /* not cudaMallocAsync memory, which the option cannot prewarm */
    for (; i < count && views[i].size == bytes; i++)
      blocks += views[i].context != 0;
    if (blocks == 0 || bytes > GP_BLOCK_LIST_BYTES)
      continue;
    const uint64_t unit = bytes % GP_MIB == 0 ? GP_MIB : bytes % GP_KIB == 0 ? GP_KIB : 1;
    blocks = blocks + SPARE_COUNT < GP_BLOCK_LIST_COUNT ? blocks + SPARE_COUNT : GP_BLOCK_LIST_COUNT;
    int length =
        snprintf(text + used, capacity - used, "%s%" PRIu64 "%s*%" PRIu64, used ? "," : "", bytes / unit,
            unit == GP_MIB   ? "MiB"
            : unit == GP_KIB ? "KiB"
                             : "",
            blocks);
    if ((size_t)length >= capacity - used)
      break;
    used += (size_t)length;
  }
  text[used] = '\0';
}

/* Writes the value of GPUPOOL_PREWARM. The option applies to every device, so the value comes from the device
 * with the most memory. Divided segments serve requests of any size, so the spare block is as large as the
 * largest request. */
static void print_prewarm(gp_tuning_t *tuning, const gp_final_blocks_t *blocks)
{
  uint64_t most = 0, largest = 0;
  int at = 0;

  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < blocks->counts[device]; i++)
      bytes += blocks->views[device][i].context != 0 ? blocks->views[device][i].size : 0;
    at = bytes > most ? device : at;
    most = bytes > most ? bytes : most;
  }
  for (size_t i = 0; i < tuning->workload->step_count; i++) {
    const gp_step_t *step = &tuning->workload->steps[i];
    if (step->kind == GP_STEP_ALLOC && step->device == at && step->size > largest && step->size < most)
      largest = step->size;
  }
  uint64_t amount = gp_round_up(most + SPARE_COUNT * largest, GP_DRIVER_PAGE);
  if (tuning->cuts && most > 0 && amount <= GP_BLOCK_LIST_BYTES)
    snprintf(tuning->prewarm, sizeof(tuning->prewarm), "%" PRIu64 "MiB", amount / GP_MIB);
  else if (!tuning->cuts && most > 0)
    print_sizes(blocks->views[at], blocks->counts[at], tuning->prewarm, sizeof(tuning->prewarm));
}

static int add_prewarm(gp_tuning_t *tuning, gp_settings_t *settings)
{
  gp_score_t *score = &tuning->scores[tuning->count];
  gp_final_blocks_t blocks;

  settings->texts[GP_OPTION_type] = tuning->scores[tuning->best].name;
  int error = judge(tuning, "prewarmed", settings, score, &blocks);
  if (!error)
    print_prewarm(tuning, &blocks);
  gp_final_blocks_fini(&blocks);
  if (error || !tuning->prewarm[0])
    return error;
  settings->texts[GP_OPTION_prewarm] = tuning->prewarm;
  tuning->count++;
  return judge(tuning, "prewarmed", settings, score, NULL);
}

int gp_tune(gp_tuning_t *tuning, const gp_settings_t *given, bool adds_prewarm)
{
  gp_settings_t settings = *given;

  int error = judge(tuning, "now", &settings, &tuning->scores[tuning->count++], NULL);
  error = error ? error : try_types(tuning, &settings);
  return error || !adds_prewarm ? error : add_prewarm(tuning, &settings);
}
