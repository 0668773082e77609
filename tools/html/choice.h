/*
 * Chooses which part of a recording goes into a page, and numbers the page's moments: those at which
 * something that it shows happens. If there are too many lives for a browser, leaves out the smallest and
 * shortest, and keeps their sum over time.
 */
#ifndef GP_TOOLS_HTML_CHOICE_H
#define GP_TOOLS_HTML_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/model/lifetimes.h"

/* Most lives in a page. A recording of 1,000,000 events has about 500,000 and stays whole. */
#define GP_CHOICE_LIVES 600000

/* The most that left-out lives held on a device since the previous row. Bytes of pooled memory;
 * other memory is never left out. */
typedef struct gp_choice_rest {
  uint32_t moment; /* of the page; the end of the row's time */
  int device;
  uint64_t requested;
  uint64_t allocated; /* the same, rounded */
  uint64_t pending;
} gp_choice_rest_t;

typedef struct gp_choice {
  const gp_lifetimes_t *lifetimes; /* borrowed */
  uint32_t from;                   /* moments of the lifetimes: the range to show */
  uint32_t to;
  size_t *lives; /* indexes of the lives to show, sorted by begin */
  size_t life_count;
  uint32_t *moments;         /* by moment of the lifetimes: the nearest moment of the page that is not
                                later */
  uint32_t *events;          /* by moment of the page: moment of the lifetimes */
  uint32_t end;              /* the last moment of the page; the first is 0 */
  size_t left_out;           /* number of lives */
  uint64_t left_out_largest; /* bytes, rounded */
  gp_choice_rest_t *rest;
  size_t rest_count;
} gp_choice_t;

/*
 * Chooses the lives of a page from lifetimes (borrowed): those on device (GP_REQUEST_ALL_DEVICES) between
 * the two moments, at most `most`. Always keeps memory outside the pool, and lives held at `to` or at one
 * of the first `needed` moments of marked. marked: the marked_count moments that the page must have.
 * Returns 0 or ENOMEM. Call fini in any case.
 */
int gp_choice_init(gp_choice_t *choice, const gp_lifetimes_t *lifetimes, int device, uint32_t from,
    uint32_t to, size_t most, const uint32_t *marked, size_t marked_count, size_t needed);
void gp_choice_fini(gp_choice_t *choice);

/* Converts a moment of the lifetimes to one of the page: 0 before the range; end + 1
 * after the range, or for never. */
uint32_t gp_choice_moment(const gp_choice_t *choice, uint32_t moment);

/* True if it exists during the range; a life exists until it is done. */
static inline bool gp_choice_has(const gp_choice_t *choice, uint32_t begin, uint32_t end)
{
  return begin <= choice->to && (end > choice->from || end == GP_LIFETIMES_NEVER);
}

#endif
