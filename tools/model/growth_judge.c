/*
 * A group grows if its floor (growth_series.h) rises in most windows of its time, and still at the end.
 * Every other condition excludes something that looks like growth: doc/growth.md.
 */
#include "tools/model/growth_judge.h"

#include "base/assert.h"
#include "tools/saturated.h"

#define RISING        5    /* at least so many windows must rise, */
#define RISE_SHARE    0.25 /* each by this share of the mean, */
#define LARGEST_RISE  0.5  /* and none by more than this share of the whole: that is a jump */
#define MANY_STEPS    128  /* more than most models have layers: not a single pass */
#define LEAST_BYTES   (64 * UINT64_C(1024))
#define MOST_SHARE    2.0    /* of the device's growth; a group above it takes over others' memory */
#define COVERED_SHARE 0.1    /* of the history */
#define BASE_SHARE    0.0625 /* of the growth; something else must always hold as much */
#define LAYER_LEAST   8      /* allocations of a layer; fewer are a step of a small loop */
#define STEP_BLOCKS   32     /* a step over a whole model holds so many for a while */
#define ALIKE         0.9    /* cosine */

/* Where growth may begin, as parts of the group's time: skips loading and warming up. */
static const double beginnings[] = {0, 0.125, 0.25, 0.5};

static gp_course_t take_course(const gp_series_t *series, uint32_t start, uint32_t end)
{
  gp_course_t course = {.start = start, .end = end};
  gp_assert(start <= end);
  for (int i = 0; i < GP_GROWTH_WINDOWS; i++) {
    const gp_change_t *change =
        gp_series_at(series, start + (uint32_t)((uint64_t)(end - start) * (uint64_t)i / GP_GROWTH_WINDOWS));
    course.floors[i] = change->floor;
    course.counts[i] = change->floor_count;
    gp_assert_internal(i == 0 || course.floors[i - 1] <= course.floors[i]);
  }
  course.late_floor = gp_series_at(series, end - (end - start) / (2 * GP_GROWTH_WINDOWS))->floor;
  return course;
}

static uint64_t rise_of(const gp_course_t *course)
{
  return course->floors[GP_GROWTH_RISES] - course->floors[0];
}

static bool is_steady(const gp_course_t *course)
{
  uint64_t rise = rise_of(course), largest = 0;
  double least = RISE_SHARE * (double)rise / GP_GROWTH_RISES;
  int rising = 0;

  if (rise < LEAST_BYTES || course->late_floor <= course->floors[GP_GROWTH_RISES])
    return false;
  for (int i = 0; i < GP_GROWTH_RISES; i++) {
    uint64_t one = course->floors[i + 1] - course->floors[i];
    rising += one > 0 && (double)one >= least;
    largest = one > largest ? one : largest;
  }
  return rising >= RISING && (double)largest <= LARGEST_RISE * (double)rise;
}

static uint32_t count_steps(const gp_series_t *series, uint32_t start)
{
  uint32_t steps = 0;
  for (const gp_change_t *at = gp_series_at(series, start) + 1; at < series->changes + series->count; at++)
    steps += at->floor > at[-1].floor;
  return steps;
}

static uint64_t most_until(const gp_series_t *series, uint32_t moment)
{
  uint64_t most = 0;
  for (const gp_change_t *at = series->changes; at < series->changes + series->count && at->moment <= moment;
       at++)
    most = at->held > most ? at->held : most;
  return most;
}

static size_t part_of(const gp_whole_t *whole, uint32_t moment)
{
  return (size_t)((uint64_t)moment * (GP_GROWTH_PARTS - 1) / (whole->last ? whole->last : 1));
}

static void add_mix(const gp_whole_t *whole, size_t first, size_t last, double *mix)
{
  for (size_t i = first; i <= last; i++) {
    for (size_t k = 0; k < GP_GROWTH_SIZES; k++)
      mix[k] += whole->mix[i][k];
  }
}

/* The square of the cosine of the angle between two mixes: 1 for equal
 * proportions, 0 for nothing shared. */
static double likeness(const double *a, const double *b)
{
  double product = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < GP_GROWTH_SIZES; i++) {
    product += a[i] * b[i];
    square_a += a[i] * a[i];
    square_b += b[i] * b[i];
  }
  return square_a > 0 && square_b > 0 ? product * product / (square_a * square_b) : 0;
}

/* True if the program repeats itself, including the last window: in all windows but one the mix
 * of sizes is that of the whole. */
static bool repeats(const gp_whole_t *whole, const gp_course_t *course)
{
  size_t first = part_of(whole, course->start), parts = part_of(whole, course->end) - first;
  double all[GP_GROWTH_SIZES] = {0};
  int alike = 0;
  bool is_alike = false;

  add_mix(whole, first, first + parts, all);
  for (size_t i = 0; i < GP_GROWTH_WINDOWS; i++) {
    double mix[GP_GROWTH_SIZES] = {0};
    add_mix(whole, first + parts * i / GP_GROWTH_WINDOWS, first + parts * (i + 1) / GP_GROWTH_WINDOWS, mix);
    is_alike = likeness(mix, all) >= ALIKE * ALIKE;
    alike += is_alike;
  }
  return is_alike && alike >= GP_GROWTH_WINDOWS - 1;
}

/* True if memory also is freed in most windows; otherwise the program is only starting. */
static bool is_at_work(const gp_series_t *device, const gp_course_t *course)
{
  int windows = 0;
  for (uint32_t i = 0; i < GP_GROWTH_WINDOWS; i++) {
    uint64_t length = course->end - course->start;
    const gp_change_t *from =
        gp_series_at(device, course->start + (uint32_t)(length * i / GP_GROWTH_WINDOWS));
    const gp_change_t *to =
        gp_series_at(device, course->start + (uint32_t)(length * (i + 1) / GP_GROWTH_WINDOWS));
    windows +=
        to->begun - from->begun + from->count > to->count; /* some that were there, or began, are not */
  }
  return windows >= RISING;
}

/* Counts how often the device holds at least STEP_BLOCKS more blocks for a while and frees them. Such steps
 * go over a whole model, not over single layers. */
static uint32_t count_breaths(const gp_series_t *device, const gp_course_t *course)
{
  const gp_change_t *first = gp_series_at(device, course->start), *end = device->changes + device->count;
  uint32_t most = 0, breaths = 0;
  bool is_full = false;

  for (const gp_change_t *at = first; at < end; at++)
    most = at->count - at->floor_count > most ? at->count - at->floor_count : most;
  for (const gp_change_t *at = first; at < end && most >= STEP_BLOCKS; at++) {
    uint32_t more = at->count - at->floor_count;
    breaths += is_full && more < most / 4;
    is_full = is_full ? more >= most / 4 : more >= most / 2;
  }
  return breaths;
}

/* Accumulation needs more evidence than replacement by larger blocks: a single pass over a model's layers
 * accumulates, too, and most programs do while they start. */
static bool is_no_single_pass(
    const gp_series_t *series, const gp_whole_t *whole, const gp_course_t *total, gp_candidate_t *candidate)
{
  const gp_course_t *course = &candidate->course;
  const gp_change_t *from = gp_series_at(whole->series, course->start);
  const gp_change_t *to = gp_series_at(whole->series, course->end);
  uint64_t base = gp_subtract_saturated(total->floors[0], course->floors[0]);
  double of_step = (double)(to->begun - from->begun) / candidate->steps;

  if (!is_at_work(whole->series, course))
    return false;
  bool is_whole = count_breaths(whole->series, course) >= GP_GROWTH_WINDOWS;
  bool is_layer = of_step > LAYER_LEAST && !is_whole;
  bool is_beginning = whole->is_complete && (double)base < BASE_SHARE * (double)candidate->rise;
  if ((is_layer || is_beginning) && candidate->steps < MANY_STEPS)
    return false;
  candidate->needs_one_size = !is_whole || is_beginning; /* the steps of a pass are of many sizes */
  if (course->start > series->changes[1].moment &&
      course->floors[GP_GROWTH_RISES] <= most_until(series, course->start))
    return false;
  return true;
}

static bool judge_from(
    const gp_series_t *series, const gp_whole_t *whole, uint32_t start, gp_candidate_t *candidate)
{
  candidate->course = take_course(series, start, whole->last);
  if (!is_steady(&candidate->course))
    return false;
  gp_course_t total = take_course(whole->series, start, whole->last);
  uint64_t kept = candidate->course.counts[GP_GROWTH_RISES] - candidate->course.counts[0];
  candidate->needs_one_size = false;
  candidate->rise = rise_of(&candidate->course);
  candidate->steps = count_steps(series, start);
  candidate->share = (double)candidate->rise / (double)(rise_of(&total) ? rise_of(&total) : 1);
  candidate->is_replaced = kept <= candidate->steps / 8;
  if (candidate->share > MOST_SHARE)
    return false;
  if ((double)(whole->last - start) < COVERED_SHARE * (double)(whole->last - whole->first) &&
      candidate->steps < MANY_STEPS)
    return false;
  if (!candidate->is_replaced && !repeats(whole, &candidate->course)) /* larger blocks change the mix */
    return false;
  if (!candidate->is_replaced && !is_no_single_pass(series, whole, &total, candidate))
    return false;
  return true;
}

bool gp_growth_judge(const gp_series_t *series, const gp_whole_t *whole, gp_candidate_t *candidate)
{
  uint32_t last = whole->last;
  if (series->count <= GP_GROWTH_WINDOWS)
    return false;
  uint32_t first = series->changes[0].count > 0 ? 0 : series->changes[1].moment - 1;
  for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]) && last > first; i++) {
    uint32_t start = first + (uint32_t)(beginnings[i] * (double)(last - first));
    if (last > start + GP_GROWTH_WINDOWS && judge_from(series, whole, start, candidate))
      return true;
  }
  return false;
}

bool gp_growth_rises(const gp_whole_t *whole, gp_course_t *ret_course)
{
  for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
    uint32_t start = whole->first + (uint32_t)(beginnings[i] * (double)(whole->last - whole->first));
    if (whole->last <= start + GP_GROWTH_WINDOWS)
      return false;
    *ret_course = take_course(whole->series, start, whole->last);
    if (is_steady(ret_course) && is_at_work(whole->series, ret_course))
      return true;
  }
  return false;
}

static size_t class_of(uint64_t size)
{
  size_t size_class = 0;
  while (size_class < GP_GROWTH_SIZES - 1 && (UINT64_C(1) << size_class) < size)
    size_class++;
  return size_class;
}

void gp_whole_init(gp_whole_t *whole, const gp_series_t *series, uint32_t last, bool is_complete)
{
  *whole = (gp_whole_t){.series = series,
      .first = series->count > 1 ? series->changes[1].moment : 0,
      .last = last,
      .is_complete = is_complete};
}

void gp_whole_add(gp_whole_t *whole, uint32_t moment, uint64_t size)
{
  whole->mix[part_of(whole, moment)][class_of(size)]++;
}
