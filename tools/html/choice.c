#include "tools/html/choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/model/memory.h"

#define REST_ROWS 16384 /* most rows for one device */

typedef struct candidate {
  uint64_t bytes;
  uint32_t lasts; /* lifetime, as a number of moments */
  uint32_t life;
  bool is_needed; /* must be shown: in use at a needed moment or at the end of the range, or forwarded */
} candidate_t;

static int compare_candidates(const void *a, const void *b)
{
  const candidate_t *x = a, *y = b;
  if (x->is_needed != y->is_needed)
    return x->is_needed ? -1 : 1;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  if (x->lasts != y->lasts)
    return x->lasts > y->lasts ? -1 : 1;
  return x->life < y->life ? -1 : x->life > y->life;
}

static int compare_begins(const void *a, const void *b, void *arg)
{
  const gp_life_t *lives = arg;
  size_t x = *(const size_t *)a, y = *(const size_t *)b;
  if (lives[x].begin != lives[y].begin)
    return lives[x].begin < lives[y].begin ? -1 : 1;
  return x < y ? -1 : x > y;
}

static bool is_wanted(const gp_choice_t *choice, const gp_life_t *life, int device)
{
  return (device == GP_REQUEST_ALL_DEVICES || life->device == device) &&
         gp_choice_has(choice, life->begin, life->done);
}

static bool is_needed(
    const gp_choice_t *choice, const gp_life_t *life, const uint32_t *needed, size_t needed_count)
{
  bool is = life->is_held || life->done > choice->to || life->kind != GP_LIFE_POOLED;
  for (size_t i = 0; i < needed_count && !is; i++)
    is = gp_life_is_held_at(life, needed[i]);
  return is;
}

static candidate_t *list_candidates(const gp_choice_t *choice, int device, size_t *ret_count)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  candidate_t *candidates = calloc(lifetimes->life_count + 1, sizeof(*candidates));
  size_t count = 0;

  for (size_t i = 0; candidates && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    uint32_t done = life->done < choice->to ? life->done : choice->to;
    if (is_wanted(choice, life, device))
      candidates[count++] = (candidate_t){.bytes = gp_life_rounded(life),
          .lasts = done > life->begin ? done - life->begin : 0,
          .life = (uint32_t)i};
  }
  *ret_count = count;
  return candidates;
}

/*
 * Sums over time of the lives that were left out.
 */

static uint64_t larger(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

/* Adds the rows of one device, each for a part of the range. `is_kept` is indexed by life. Lives outside the
 * range need no special treatment, because they end before the range begins or begin after it ends. */
static void add_rest(gp_choice_t *choice, const bool *is_kept, int device)
{
  uint32_t step = (choice->to - choice->from) / REST_ROWS + 1;
  gp_memory_walk_t walk;

  gp_memory_walk_begin(&walk, choice->lifetimes, NULL, is_kept, device);
  while (walk.moment < choice->from)
    gp_memory_walk_next(&walk);
  do {
    if ((walk.moment - choice->from) % step == 0)
      choice->rest[choice->rest_count++] = (gp_choice_rest_t){.device = device};
    gp_choice_rest_t *row = &choice->rest[choice->rest_count - 1];
    row->moment = walk.moment;
    row->requested = larger(row->requested, walk.memory.requested);
    row->allocated = larger(row->allocated, walk.memory.allocated);
    row->pending = larger(row->pending, walk.memory.deferred);
  } while (walk.moment < choice->to && gp_memory_walk_next(&walk));
}

static int find_rest(gp_choice_t *choice, int device)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  bool *is_kept = calloc(lifetimes->life_count + 1, sizeof(*is_kept));
  bool lacks[GP_SNAPSHOT_DEVICES] = {false};
  size_t devices = 0;

  for (size_t i = 0; is_kept && i < choice->life_count; i++)
    is_kept[choice->lives[i]] = true;
  for (size_t i = 0; is_kept && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (is_kept[i] || !is_wanted(choice, life, device))
      continue;
    gp_assert(life->kind == GP_LIFE_POOLED); /* find_rest is called for pooled lives only, see is_needed */
    devices += !lacks[life->device];
    lacks[life->device] = true;
  }
  choice->rest = is_kept ? calloc(devices * (REST_ROWS + 1), sizeof(*choice->rest)) : NULL;
  for (int i = 0; choice->rest && i < GP_SNAPSHOT_DEVICES; i++) {
    if (lacks[i])
      add_rest(choice, is_kept, i);
  }
  free(is_kept);
  return choice->rest ? 0 : ENOMEM;
}

/* Chooses all lives or, if there are more than `most`, the largest. Returns 0 or ENOMEM. */
static int choose_lives(
    gp_choice_t *choice, int device, size_t most, const uint32_t *needed, size_t needed_count)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  size_t count, kept = 0;
  candidate_t *candidates = list_candidates(choice, device, &count);
  bool is_close = count > most;

  choice->lives = calloc(count + 1, sizeof(*choice->lives));
  if (!candidates || !choice->lives) {
    free(candidates);
    return ENOMEM;
  }
  for (size_t i = 0; is_close && i < count; i++)
    candidates[i].is_needed = is_needed(choice, &lifetimes->lives[candidates[i].life], needed, needed_count);
  if (is_close)
    qsort(candidates, count, sizeof(*candidates), compare_candidates);
  while (kept < count && (!is_close || kept < most || candidates[kept].is_needed)) {
    choice->lives[kept] = candidates[kept].life;
    kept++;
  }
  choice->life_count = kept;
  choice->left_out = count - kept;
  for (size_t i = kept; i < count; i++)
    choice->left_out_largest = larger(choice->left_out_largest, candidates[i].bytes);
  free(candidates);
  qsort_r(choice->lives, kept, sizeof(*choice->lives), compare_begins, lifetimes->lives);
  return choice->left_out ? find_rest(choice, device) : 0;
}

/*
 * Numbering of the page's moments.
 */

static void use(gp_choice_t *choice, uint32_t moment)
{
  if (moment >= choice->from && moment <= choice->to)
    choice->moments[moment - choice->from] = 1;
}

/* Assigns numbers to the page's moments. If no life is left out, the page has every moment, so that users can
 * inspect each event. Returns 0 or ENOMEM. */
static int number_moments(gp_choice_t *choice, const uint32_t *marked, size_t marked_count)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  size_t length = (size_t)(choice->to - choice->from) + 1;
  uint32_t next = 0;

  choice->moments = calloc(length, sizeof(*choice->moments));
  choice->events = calloc(length, sizeof(*choice->events));
  if (!choice->moments || !choice->events)
    return ENOMEM;
  for (size_t i = 0; i < choice->life_count; i++) {
    use(choice, lifetimes->lives[choice->lives[i]].begin);
    use(choice, lifetimes->lives[choice->lives[i]].freed);
    use(choice, lifetimes->lives[choice->lives[i]].done);
  }
  for (size_t i = 0; i < lifetimes->segment_count; i++) {
    use(choice, lifetimes->segments[i].begin);
    use(choice, lifetimes->segments[i].end);
  }
  for (size_t i = 0; i < marked_count; i++)
    use(choice, marked[i]);
  for (size_t i = 0; i < choice->rest_count; i++)
    use(choice, choice->rest[i].moment);
  use(choice, choice->from);
  use(choice, choice->to);
  for (size_t i = 0; i < length; i++) {
    if (choice->moments[i] || !choice->left_out)
      choice->events[next++] = choice->from + (uint32_t)i;
    choice->moments[i] = next - 1;
  }
  choice->end = next - 1;
  for (size_t i = 0; i < choice->rest_count; i++)
    choice->rest[i].moment = gp_choice_moment(choice, choice->rest[i].moment);
  return 0;
}

uint32_t gp_choice_moment(const gp_choice_t *choice, uint32_t moment)
{
  if (moment > choice->to)
    return choice->end + 1;
  return moment <= choice->from ? 0 : choice->moments[moment - choice->from];
}

int gp_choice_init(gp_choice_t *choice, const gp_lifetimes_t *lifetimes, int device, uint32_t from,
    uint32_t to, size_t most, const uint32_t *marked, size_t marked_count, size_t needed)
{
  *choice = (gp_choice_t){.lifetimes = lifetimes, .from = from, .to = to};
  gp_assert(from <= to && to <= lifetimes->end);
  gp_assert(needed <= marked_count);
  int error = choose_lives(choice, device, most, marked, needed);
  return error ? error : number_moments(choice, marked, marked_count);
}

void gp_choice_fini(gp_choice_t *choice)
{
  free(choice->lives);
  free(choice->moments);
  free(choice->events);
  free(choice->rest);
  *choice = (gp_choice_t){0};
}
