/*
 * Makes a failing program small: takes away whole objects, then runs of steps, then single ones, as long as
 * what is left is legal and fails.
 */
#include "program.h"

typedef struct {
  program_t *program;
  bool (*still_fails)(const program_t *program);
} shrinker_t;

/* The steps that keep says, and no others */
static bool try_without(shrinker_t *shrinker, const bool *drop)
{
  static program_t smaller;
  const program_t *program = shrinker->program;
  smaller.seed = program->seed;
  smaller.options = program->options;
  smaller.count = 0;
  int around = -1; /* the kept step that further ones stand inside */
  int left = 0;
  for (int i = 0; i < program->count; i++) {
    bool is_inside = left > 0;
    if (is_inside)
      left--;
    if (program->steps[i].inside) {
      left = program->steps[i].inside;
      around = drop[i] ? -1 : smaller.count;
    }
    if (drop[i]) {
      if (is_inside && around >= 0)
        smaller.steps[around].inside--;
      continue;
    }
    smaller.steps[smaller.count++] = program->steps[i];
  }
  if (smaller.count == program->count || !model_check(&smaller) || !shrinker->still_fails(&smaller))
    return false;
  *shrinker->program = smaller;
  return true;
}

static bool drop_object(shrinker_t *shrinker, unsigned flag, int number)
{
  bool drop[MAX_STEPS] = {false};
  const program_t *program = shrinker->program;
  bool any = false;
  for (int i = 0; i < program->count; i++) {
    const step_t *step = &program->steps[i];
    unsigned flags = step_infos[step->kind].flags;
    drop[i] = (flags & flag & F_MEM && step->mem == number) ||
              (flags & F_SOURCE && flag == F_MEM && step->mem2 == number) ||
              (flags & flag & F_LANE && step->lane == number) ||
              (flags & flag & F_EVENT && step->event == number) ||
              (flags & flag & F_GRAPH && step->graph == number);
    any |= drop[i];
  }
  return any && try_without(shrinker, drop);
}

static bool drop_run(shrinker_t *shrinker, int from, int count)
{
  bool drop[MAX_STEPS] = {false};
  for (int i = from; i < from + count && i < shrinker->program->count; i++)
    drop[i] = true;
  return try_without(shrinker, drop);
}

static bool pass(shrinker_t *shrinker)
{
  bool smaller = false;
  for (int count = shrinker->program->count / 2; count > 0; count /= 2) {
    for (int from = 0; from < shrinker->program->count;) {
      if (drop_run(shrinker, from, count))
        smaller = true;
      else
        from += count;
    }
  }
  for (int m = 0; m < MAX_MEMS; m++)
    smaller |= drop_object(shrinker, F_MEM, m);
  for (int l = 0; l < LANES; l++)
    smaller |= drop_object(shrinker, F_LANE, l);
  for (int e = 0; e < MAX_EVENTS; e++)
    smaller |= drop_object(shrinker, F_EVENT, e);
  for (int g = 0; g < MAX_GRAPHS; g++)
    smaller |= drop_object(shrinker, F_GRAPH, g);
  return smaller;
}

/* One thread is easier to read than three. */
static bool join_threads(shrinker_t *shrinker)
{
  static program_t one;
  one = *shrinker->program;
  bool several = false;
  for (int i = 0; i < one.count; i++) {
    step_t *step = &one.steps[i];
    several |= step->thread != 0;
    step->thread = 0;
    if (step_infos[step->kind].flags & F_LANE && step->lane >= CTXS && step->lane < LANE_CREATED)
      step->lane = (uint8_t)LANE_THREAD((step->lane - CTXS) / THREADS, 0);
    step->inside = 0;
  }
  if (!several || !model_check(&one) || !shrinker->still_fails(&one))
    return false;
  *shrinker->program = one;
  return true;
}

void shrink(program_t *program, bool (*still_fails)(const program_t *program))
{
  shrinker_t shrinker = {program, still_fails};
  (void)join_threads(&shrinker);
  while (pass(&shrinker))
    ;
  (void)join_threads(&shrinker);
}
