#include "tools/html/choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/saturated.h"

#define REST_ROWS 16384 /* most rows of one device */

typedef struct candidate {
  uint64_t bytes;
  uint32_t lasts; /* moments from begin to done */
  uint32_t life;
  bool is_needed; /* held at one of the most requested moments */
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

static candidate_t *list_candidates(gp_choice_t *choice, int device, const uint32_t *needed,
    size_t needed_count, bool is_close, size_t *ret_count)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  candidate_t *candidates = calloc(lifetimes->life_count + 1, sizeof(*candidates));
  size_t count = 0;

  for (size_t i = 0; candidates && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    uint32_t done = life->done < choice->to ? life->done : choice->to;
    if (is_wanted(choice, life, device))
      candidates[count++] = (candidate_t){gp_life_rounded(life), done > life->begin ? done - life->begin : 0,
          (uint32_t)i, is_close && is_needed(choice, life, needed, needed_count)};
  }
  *ret_count = count;
  return candidates;
}

static size_t count_wanted(const gp_choice_t *choice, int device)
{
  size_t count = 0;
  for (size_t i = 0; i < choice->lifetimes->life_count; i++)
    count += is_wanted(choice, &choice->lifetimes->lives[i], device);
  return count;
}

/*
 * What was left out, over time.
 */

typedef struct change {
  int64_t requested;
  int64_t allocated;
  int64_t pending;
} change_t;

static uint64_t bytes_of(int64_t bytes)
{
  return bytes > 0 ? (uint64_t)bytes : 0;
}

static void most_of(gp_choice_rest_t *row, const change_t *now)
{
#define MOST(member) row->member = bytes_of(now->member) > row->member ? bytes_of(now->member) : row->member
  MOST(requested);
  MOST(allocated);
  MOST(pending);
#undef MOST
}

static void add_change(change_t *changes, const gp_choice_t *choice, uint32_t moment, const change_t *change)
{
  if (moment > choice->to)
    return;
  change_t *at = &changes[moment < choice->from ? 0 : moment - choice->from];
  at->requested += change->requested;
  at->allocated += change->allocated;
  at->pending += change->pending;
}

static void add_life(change_t *changes, const gp_choice_t *choice, const gp_life_t *life)
{
  int64_t requested = (int64_t)life->requested, rounded = (int64_t)gp_life_rounded(life);
  const change_t begin = {.requested = requested, .allocated = rounded};
  const change_t freed = {.requested = -requested, .allocated = -rounded, .pending = rounded};
  const change_t done = {.pending = -rounded};

  gp_assert(life->kind == GP_LIFE_POOLED); /* others are never left out, see is_needed */
  add_change(changes, choice, life->begin, &begin);
  add_change(changes, choice, life->freed, &freed);
  add_change(changes, choice, life->done, &done);
}

/* Adds the rows of one device; each covers a part of the range. is_kept: by life. */
static int add_rest(gp_choice_t *choice, const bool *is_kept, int device, int wanted_device)
{
  size_t length = (size_t)(choice->to - choice->from) + 1, step = length / REST_ROWS + 1;
  change_t *changes = calloc(length, sizeof(*changes));
  bool is_there = false;
  change_t now = {0};

  if (!changes)
    return ENOMEM;
  for (size_t i = 0; i < choice->lifetimes->life_count; i++) {
    const gp_life_t *life = &choice->lifetimes->lives[i];
    if (life->device != device || is_kept[i] || !is_wanted(choice, life, wanted_device))
      continue;
    add_life(changes, choice, life);
    is_there = true;
  }
  for (size_t begin = 0; is_there && begin < length; begin += step) {
    size_t end = begin + step < length ? begin + step : length;
    gp_choice_rest_t *row = &choice->rest[choice->rest_count++];
    *row = (gp_choice_rest_t){.moment = (uint32_t)(choice->from + end - 1), .device = device};
    for (size_t i = begin; i < end; i++) {
      now.requested += changes[i].requested;
      now.allocated += changes[i].allocated;
      now.pending += changes[i].pending;
      most_of(row, &now);
    }
  }
  free(changes);
  return 0;
}

static int find_rest(gp_choice_t *choice, int device)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  bool *is_kept = calloc(lifetimes->life_count + 1, sizeof(*is_kept));
  bool is_used[GP_SNAPSHOT_DEVICES] = {false};
  size_t devices = 0;
  int error = is_kept ? 0 : ENOMEM;

  for (size_t i = 0; !error && i < choice->life_count; i++)
    is_kept[choice->lives[i]] = true;
  for (size_t i = 0; !error && i < lifetimes->life_count; i++) {
    devices += !is_used[lifetimes->lives[i].device];
    is_used[lifetimes->lives[i].device] = true;
  }
  choice->rest = error ? NULL : calloc(devices * (REST_ROWS + 1), sizeof(*choice->rest));
  error = choice->rest ? error : ENOMEM;
  for (int i = 0; !error && i < GP_SNAPSHOT_DEVICES; i++)
    error = is_used[i] ? add_rest(choice, is_kept, i, device) : 0;
  free(is_kept);
  return error;
}

/* Chooses all lives, or the largest. */
static int choose_lives(
    gp_choice_t *choice, int device, size_t most, const uint32_t *needed, size_t needed_count)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  bool is_close = count_wanted(choice, device) > most;
  size_t count, kept = 0;
  candidate_t *candidates = list_candidates(choice, device, needed, needed_count, is_close, &count);

  choice->lives = calloc(count + 1, sizeof(*choice->lives));
  if (!candidates || !choice->lives) {
    free(candidates);
    return ENOMEM;
  }
  if (is_close)
    qsort(candidates, count, sizeof(*candidates), compare_candidates);
  while (kept < count && (!is_close || kept < most || candidates[kept].is_needed)) {
    choice->lives[kept] = candidates[kept].life;
    kept++;
  }
  choice->life_count = kept;
  choice->left_out = count - kept;
  for (size_t i = kept; i < count; i++)
    choice->left_out_largest =
        candidates[i].bytes > choice->left_out_largest ? candidates[i].bytes : choice->left_out_largest;
  free(candidates);
  qsort_r(choice->lives, kept, sizeof(*choice->lives), compare_begins, lifetimes->lives);
  return choice->left_out ? find_rest(choice, device) : 0;
}

/*
 * Numbers moments.
 */

static void use(gp_choice_t *choice, uint32_t moment)
{
  if (moment >= choice->from && moment <= choice->to)
    choice->moments[moment - choice->from] = 1;
}

/* If nothing is left out, the page has every moment, so that users can look at each event. */
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
