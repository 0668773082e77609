#include "tools/report/ranks.h"

#include <stdio.h>
#include <string.h>

static const cJSON *process_of(const gp_snapshot_t *snapshot)
{
  return cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");
}

int64_t gp_rank_number(const gp_snapshot_t *snapshot)
{
  uint64_t number;
  return gp_snapshot_uint(process_of(snapshot), "rank", &number) == 1 ? (int64_t)number : -1;
}

static const gp_rank_mark_t *find_mark(const gp_rank_t *rank, const char *name)
{
  for (size_t i = 0; i < rank->mark_count; i++) {
    if (strcmp(rank->marks[i].name, name) == 0)
      return &rank->marks[i];
  }
  return NULL;
}

static void add_marks(gp_rank_t *rank, const cJSON *list)
{
  const cJSON *item;
  uint64_t time_ns;

  if (cJSON_GetArraySize(list) >= GP_MARKS_MAX - 1)
    return; /* the list is full, so earlier marks are lost, perhaps with the same name */
  cJSON_ArrayForEach(item, list)
  {
    gp_rank_mark_t mark;
    if (rank->mark_count == GP_RANK_MARKS)
      return;
    (void)snprintf(mark.name, sizeof(mark.name), "%s", gp_snapshot_text(item, "name"));
    if (!mark.name[0] || find_mark(rank, mark.name) || gp_snapshot_uint(item, "time_ns", &time_ns) != 1)
      continue;
    mark.time_ns = time_ns;
    rank->marks[rank->mark_count++] = mark;
  }
}

void gp_rank_init(gp_rank_t *rank, const gp_snapshot_t *snapshot)
{
  *rank = (gp_rank_t){.number = gp_rank_number(snapshot)};
  if (snapshot->times_are_numbers)
    return;
  (void)gp_snapshot_uint(process_of(snapshot), "start_time_us", &rank->start_us);
  (void)snprintf(rank->host, sizeof(rank->host), "%s", gp_snapshot_text(process_of(snapshot), "host"));
  add_marks(rank, cJSON_GetObjectItemCaseSensitive(snapshot->root, "marks"));
}

gp_clock_t gp_ranks_clock(const gp_rank_t *const *ranks, size_t count, const char **ret_mark)
{
  bool is_one = true;

  for (size_t i = 0; i < count; i++) {
    if (!ranks[i]->start_us)
      return GP_CLOCK_NONE;
    is_one = is_one && strcmp(ranks[i]->host, ranks[0]->host) == 0;
  }
  for (size_t k = 0; !is_one && k < ranks[0]->mark_count; k++) {
    size_t i = 1;
    while (i < count && find_mark(ranks[i], ranks[0]->marks[k].name))
      i++;
    *ret_mark = ranks[0]->marks[k].name;
    if (i == count)
      return GP_CLOCK_MARK;
  }
  return is_one ? GP_CLOCK_HOST : GP_CLOCK_HOSTS;
}

int64_t gp_rank_time(const gp_rank_t *rank, gp_clock_t clock, const char *mark, uint64_t time_ns)
{
  const gp_rank_mark_t *zero = clock == GP_CLOCK_MARK ? find_mark(rank, mark) : NULL;
  return zero ? (int64_t)(time_ns - zero->time_ns) : (int64_t)(rank->start_us * 1000 + time_ns);
}
