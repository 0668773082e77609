/*
 * Numbers and clocks of the ranks of a job. Times in a snapshot count from the moment when its process
 * started to record, by its host's clock.
 */
#ifndef GP_TOOLS_REPORT_RANKS_H
#define GP_TOOLS_REPORT_RANKS_H

#include "format/marks.h"
#include "tools/read/snapshot.h"

#define GP_RANK_MARKS 32 /* enough, because ranks usually share one of their first marks */

/* The name of a mark or range in the program. */
typedef struct gp_rank_mark {
  char name[GP_MARK_NAME_BYTES];
  uint64_t time_ns; /* time when the name was first marked */
} gp_rank_mark_t;

typedef struct gp_rank {
  int64_t number; /* rank's number; -1: unknown */
  char host[256];
  uint64_t start_us;                   /* start of recording, since 1970; 0: unknown */
  gp_rank_mark_t marks[GP_RANK_MARKS]; /* marks with distinct names, in order of first use */
  size_t mark_count;
} gp_rank_t;

/* Returns the rank that the launcher assigned, or -1 if it is unknown. */
int64_t gp_rank_number(const gp_snapshot_t *snapshot);

/* Copies the rank's data from the snapshot. Truncates long names. */
void gp_rank_init(gp_rank_t *rank, const gp_snapshot_t *snapshot);

/* The way in which the times of several ranks can be compared. */
typedef enum gp_clock {
  GP_CLOCK_NONE,  /* not at all: the start of a rank is unknown */
  GP_CLOCK_HOST,  /* all ranks ran on one host */
  GP_CLOCK_MARK,  /* all ranks have a mark of the same name, which aligns their clocks */
  GP_CLOCK_HOSTS, /* the ranks ran on several hosts, each with its own clock, and share no mark */
} gp_clock_t;

/* Finds how the ranks' times can be compared. With GP_CLOCK_MARK sets *ret_mark to the mark's name, which is
 * borrowed from ranks[0]. */
gp_clock_t gp_ranks_clock(const gp_rank_t *const *ranks, size_t count, const char **ret_mark);

/* Converts a time of `rank` to nanoseconds since the mark or, without a mark, since 1970. */
int64_t gp_rank_time(const gp_rank_t *rank, gp_clock_t clock, const char *mark, uint64_t time_ns);

#endif
