/*
 * The series of groups, against what each event does by itself: random histories, short ones with a change
 * for each event and a long one in which neighbours are one change.
 */
#include <check.h>
#include <stdlib.h>

#include "test/pool/check_main.h"
#include "tools/model/growth_series.h"

#define GROUPS      3u
#define CHANGES     (1u << 18) /* about the most of a group */
#define LONG_EVENTS (3 * CHANGES)

typedef struct history {
  gp_lifetimes_t lifetimes;
  uint32_t *groups;
  uint64_t *held; /* by moment, of group 0 */
  uint32_t *count;
} history_t;

static uint32_t state;

static uint32_t draw(uint32_t below)
{
  state = state * 1664525 + 1013904223;
  return (state >> 8) % below;
}

/* Each event begins a life, or frees one of the last that are held. Some are held before the events. */
static history_t make_history(uint32_t events, uint32_t held_before)
{
  history_t history = {.lifetimes = {.end = events}};
  gp_lifetimes_t *lifetimes = &history.lifetimes;
  uint32_t *held = calloc(events + held_before, sizeof(*held));
  uint32_t held_count = 0;

  lifetimes->lives = calloc(events + held_before, sizeof(*lifetimes->lives));
  lifetimes->of_event = calloc(events + 1, sizeof(*lifetimes->of_event));
  history.groups = calloc(events + held_before, sizeof(*history.groups));
  history.held = calloc(events + 1, sizeof(*history.held));
  history.count = calloc(events + 1, sizeof(*history.count));
  for (uint32_t step = 0; step < held_before + events; step++) {
    uint32_t moment = step < held_before ? 0 : step - held_before + 1, life;
    if (held_count && moment && draw(100) < 48) {
      uint32_t at = held_count - 1 - draw(held_count < 40 ? held_count : 40);
      life = held[at];
      held[at] = held[--held_count];
      lifetimes->lives[life].freed = moment;
    } else {
      life = (uint32_t)lifetimes->life_count++;
      lifetimes->lives[life] = (gp_life_t){.begin = moment,
          .freed = GP_LIFETIMES_NEVER,
          .done = GP_LIFETIMES_NEVER,
          .requested = 1 + draw(1000)};
      history.groups[life] = draw(GROUPS + 1) == GROUPS ? GP_GROUP_NONE : draw(GROUPS);
      held[held_count++] = life;
    }
    if (moment) {
      lifetimes->of_event[moment - 1] = life;
      history.held[moment] = history.held[moment - 1];
      history.count[moment] = history.count[moment - 1];
    }
    if (history.groups[life] != 0)
      continue;
    bool is_begin = lifetimes->lives[life].freed == GP_LIFETIMES_NEVER;
    history.held[moment] += is_begin ? lifetimes->lives[life].requested : -lifetimes->lives[life].requested;
    history.count[moment] += is_begin ? 1 : UINT32_MAX;
  }
  free(held);
  return history;
}

static void end_history(history_t *history)
{
  free(history->groups);
  free(history->held);
  free(history->count);
  free(history->lifetimes.lives);
  free(history->lifetimes.of_event);
}

static void expect_series(const history_t *history, const gp_series_t *series)
{
  uint32_t end = history->lifetimes.end;
  uint64_t floor = history->held[end];
  uint32_t floor_count = history->count[end], moment = end;

  for (size_t k = series->count; k-- > 0;) {
    const gp_change_t *change = &series->changes[k];
    for (; moment > change->moment; moment--) {
      floor = history->held[moment] < floor ? history->held[moment] : floor;
      floor_count = history->count[moment] < floor_count ? history->count[moment] : floor_count;
    }
    floor = history->held[moment] < floor ? history->held[moment] : floor;
    floor_count = history->count[moment] < floor_count ? history->count[moment] : floor_count;
    ck_assert_uint_eq(change->held, history->held[change->moment]);
    ck_assert_uint_eq(change->count, history->count[change->moment]);
    ck_assert_uint_eq(change->floor, floor);
    ck_assert_uint_eq(change->floor_count, floor_count);
  }
  ck_assert_uint_eq(series->changes[0].moment, 0);
}

/* Returns how many changes group 0 has; *ret_events: how many events change it. */
static size_t check(uint32_t events, uint32_t held_before, size_t *ret_events)
{
  history_t history = make_history(events, held_before);
  const uint32_t last = events;
  gp_series_set_t set;

  *ret_events = 0;
  for (uint32_t moment = 1; moment <= events; moment++)
    *ret_events += history.groups[history.lifetimes.of_event[moment - 1]] == 0;
  ck_assert_int_eq(gp_series_set_init(&set, &history.lifetimes, history.groups, GROUPS, &last), 0);
  expect_series(&history, &set.series[0]);
  size_t count = set.series[0].count - 1;
  gp_series_set_fini(&set);
  end_history(&history);
  return count;
}

START_TEST(test_each_change_of_a_short_history)
{
  size_t events;
  state = (uint32_t)_i;
  ck_assert_uint_eq(check(draw(400), (uint32_t)_i % 5, &events), events);
}
END_TEST

START_TEST(test_changes_of_a_long_history_are_fewer)
{
  size_t events;
  state = 1;
  size_t changes = check(LONG_EVENTS, 3, &events);
  ck_assert_uint_le(changes, CHANGES + 1);
  ck_assert_uint_lt(changes, events * 3 / 4);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("growth_series");
  TCase *tcase = tcase_create("series");
  tcase_add_loop_test(tcase, test_each_change_of_a_short_history, 0, 200);
  tcase_add_test(tcase, test_changes_of_a_long_history_are_fewer);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
