/*
 * The ranks of a job: their numbers and clocks. Times in a snapshot count from the moment when its process
 * started to record, by its host's clock.
 */
#ifndef GP_TOOLS_REPORT_RANKS_H
#define GP_TOOLS_REPORT_RANKS_H

#include "format/marks.h"
#include "tools/read/snapshot.h"

#define GP_RANK_MARKS 32 /* enough, because the first common mark is an early one */

/* A name that the program marked, or the name of a range. */
typedef struct gp_rank_mark {
  char name[GP_MARK_NAME_BYTES];
  uint64_t time_ns; /* when the name was first marked */
} gp_rank_mark_t;

typedef struct gp_rank {
  int64_t number; /* -1: unknown */
  char host[256];
  uint64_t start_us;                   /* since 1970; 0: unknown */
  gp_rank_mark_t marks[GP_RANK_MARKS]; /* distinct names, in order of first use */
  size_t mark_count;
} gp_rank_t;

/* Returns the rank that the launcher assigned, or -1 if it is unknown. */
int64_t gp_rank_number(const gp_snapshot_t *snapshot);

/* Copies the rank's data from the snapshot. Truncates long names. */
void gp_rank_init(gp_rank_t *rank, const gp_snapshot_t *snapshot);

/* What makes the times of several ranks comparable. */
typedef enum gp_clock {
  GP_CLOCK_NONE,  /* nothing: the clocks are unrelated or unknown */
  GP_CLOCK_HOST,  /* all ran on one host */
  GP_CLOCK_MARK,  /* all have a mark of one name, which aligns their clocks */
  GP_CLOCK_HOSTS, /* the ranks ran on several hosts, each with its own clock */
} gp_clock_t;

/* Finds the clock that the ranks share. With GP_CLOCK_MARK sets *ret_mark to the mark's name, borrowed
 * from ranks[0]. */
gp_clock_t gp_ranks_clock(const gp_rank_t *const *ranks, size_t count, const char **ret_mark);

/* Converts a time of rank to nanoseconds since the mark or, without a mark, since 1970. */
int64_t gp_rank_time(const gp_rank_t *rank, gp_clock_t clock, const char *mark, uint64_t time_ns);

#endif
