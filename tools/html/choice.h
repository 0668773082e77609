/*
 * Chooses which part of a recording goes into a page. If there are too many lives for a browser, leaves out
 * the smallest and shortest, and keeps only their sum over time. Also numbers the moments of the page, which
 * are the moments at which something shown changes.
 */
#ifndef GP_TOOLS_HTML_CHOICE_H
#define GP_TOOLS_HTML_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/model/lifetimes.h"

/* Most lives in a page. A recording of 1,000,000 events has about 500,000 lives and is shown completely. */
#define GP_CHOICE_LIVES 600000

/* A row for the lives of a device that were left out: their largest sums since the previous row, in bytes.
 * These lives are pooled memory, because forwarded memory is never left out. */
typedef struct gp_choice_rest {
  uint32_t moment; /* moment of the page at which the row ends */
  int device;
  uint64_t requested;
  uint64_t allocated; /* rounded bytes */
  uint64_t pending;
} gp_choice_rest_t;

typedef struct gp_choice {
  const gp_lifetimes_t *lifetimes; /* borrowed */
  uint32_t from;                   /* first and last moment to show, numbered as in `lifetimes` */
  uint32_t to;
  size_t *lives; /* indexes of the lives to show, sorted by begin */
  size_t life_count;
  uint32_t *moments;         /* by moment in `lifetimes`: the latest moment of the page until then */
  uint32_t *events;          /* by moment of the page: its number in `lifetimes` */
  uint32_t end;              /* the last moment of the page; the first is 0 */
  size_t left_out;           /* number of lives that were left out */
  uint64_t left_out_largest; /* rounded bytes of the largest life that was left out */
  gp_choice_rest_t *rest;
  size_t rest_count;
} gp_choice_t;

/*
 * Chooses the lives of a page from `lifetimes`, which is borrowed: at most `most` lives on `device` (or
 * GP_REQUEST_ALL_DEVICES) between the two moments. Always keeps forwarded memory, and lives in use at `to` or
 * at one of the first `needed` elements of `marked`. `marked` lists the marked_count moments that the page
 * must have. Returns 0 or ENOMEM. Call gp_choice_fini in any case.
 */
int gp_choice_init(gp_choice_t *choice, const gp_lifetimes_t *lifetimes, int device, uint32_t from,
    uint32_t to, size_t most, const uint32_t *marked, size_t marked_count, size_t needed);
void gp_choice_fini(gp_choice_t *choice);

/* Returns the number in the page of a moment in `lifetimes`. Returns 0 for a moment before the range, and end
 * + 1 for a moment after the range or GP_LIFETIMES_NEVER. */
uint32_t gp_choice_moment(const gp_choice_t *choice, uint32_t moment);

/* Returns true if a life with this begin and end exists during the range. A life ends when its memory can be
 * reused (`done`). */
static inline bool gp_choice_has(const gp_choice_t *choice, uint32_t begin, uint32_t end)
{
  return begin <= choice->to && (end > choice->from || end == GP_LIFETIMES_NEVER);
}

#endif
