/*
 * Decides whether a group grows: doc/growth.md says when, and what each condition excludes.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_JUDGE_H
#define GP_TOOLS_MODEL_GROWTH_JUDGE_H

#include "tools/model/growth_series.h"

#define GP_GROWTH_WINDOWS 8
#define GP_GROWTH_RISES   (GP_GROWTH_WINDOWS - 1)
#define GP_GROWTH_PARTS   64 /* parts of the history, each with its mix of sizes */
#define GP_GROWTH_SIZES   64 /* size classes, each up to twice the one before */

/* The floor of a group at the beginning of each window; floors never fall, and start <= end. start and end
 * are moments. */
typedef struct gp_course {
  uint64_t floors[GP_GROWTH_WINDOWS];
  uint32_t counts[GP_GROWTH_WINDOWS];
  uint64_t late_floor; /* in the middle of the last window */
  uint32_t start;
  uint32_t end;
} gp_course_t;

/* A device, to compare its groups with. */
typedef struct gp_whole {
  const gp_series_t *series;
  uint32_t mix[GP_GROWTH_PARTS][GP_GROWTH_SIZES]; /* number of allocations in each part of the history,
                                                     by size */
  uint32_t first;                                 /* moment of the first change */
  uint32_t last;                                  /* moment of the last allocation */
  bool is_complete;                               /* the history begins with the program */
} gp_whole_t;

/* A group that grows. */
typedef struct gp_candidate {
  gp_course_t course;
  uint32_t group;      /* set by the caller */
  uint32_t steps;      /* in which its floor rises */
  uint64_t rise;       /* bytes, over all windows but the last */
  double share;        /* of the device's rise */
  bool is_replaced;    /* larger blocks replace smaller ones; their number does not grow */
  bool needs_one_size; /* counts only if the kept blocks are of one size */
} gp_candidate_t;

/* Begins the facts of a device; series is the sum of all its groups, borrowed. last:
 * moment of the last allocation. */
void gp_whole_init(gp_whole_t *whole, const gp_series_t *series, uint32_t last, bool is_complete);

/* Counts an allocation of the device that began at moment. */
void gp_whole_add(gp_whole_t *whole, uint32_t moment, uint64_t size);

/* True if the floor of the device rises in the same way, whoever holds the memory and in however few steps,
 * while memory is freed, too. *ret_course: how. */
bool gp_growth_rises(const gp_whole_t *whole, gp_course_t *ret_course);

/* True if the group grows; *candidate says how. Leaves its group unchanged. */
bool gp_growth_judge(const gp_series_t *series, const gp_whole_t *whole, gp_candidate_t *candidate);

#endif
