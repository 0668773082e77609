/*
 * The ranks of a job: their numbers, and their clocks. Times in a snapshot count from when its process began
 * to record, by the clock of its host.
 */
#ifndef GP_TOOLS_REPORT_RANKS_H
#define GP_TOOLS_REPORT_RANKS_H

#include "format/marks.h"
#include "tools/read/snapshot.h"

#define GP_RANK_MARKS 32 /* the first common mark is an early one */

/* A name that the program marked, or a range of that name. */
typedef struct gp_rank_mark {
  char name[GP_MARK_NAME_BYTES];
  uint64_t time_ns; /* the first time */
} gp_rank_mark_t;

typedef struct gp_rank {
  int64_t number; /* -1: not known */
  char host[256];
  uint64_t start_us;                   /* since 1970; 0: not known */
  gp_rank_mark_t marks[GP_RANK_MARKS]; /* the first names, in the order of time */
  size_t mark_count;
} gp_rank_t;

/* The number that the launcher gave; -1: not known. */
int64_t gp_rank_number(const gp_snapshot_t *snapshot);

/* Copies what the snapshot says; cuts names. */
void gp_rank_init(gp_rank_t *rank, const gp_snapshot_t *snapshot);

/* What the times of several ranks have in common. */
typedef enum gp_clock {
  GP_CLOCK_NONE,  /* nothing is known */
  GP_CLOCK_HOST,  /* all ran on one host */
  GP_CLOCK_MARK,  /* each has a mark of that name, which counts as the same moment */
  GP_CLOCK_HOSTS, /* each host has a clock of its own */
} gp_clock_t;

/* ret_mark: set to the name with GP_CLOCK_MARK, borrowed from ranks[0]. */
gp_clock_t gp_ranks_clock(const gp_rank_t *const *ranks, size_t count, const char **ret_mark);

/* A time of rank, in nanoseconds since the mark, else since 1970. */
int64_t gp_rank_time(const gp_rank_t *rank, gp_clock_t clock, const char *mark, uint64_t time_ns);

#endif
