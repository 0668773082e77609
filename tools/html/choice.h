/*
 * What of a recording goes into a page, and the moments by which the page counts: those at which something
 * that it shows happens. Where there are more lives than a browser takes well, the smallest and shortest are
 * left out, and their sum over time is kept.
 */
#ifndef GP_TOOLS_HTML_CHOICE_H
#define GP_TOOLS_HTML_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/model/lifetimes.h"

/* Lives in a page: 1,000,000 events make half as many, whole. */
#define GP_CHOICE_LIVES 600000

/* What was left out held that much at most, on a device, since the row before. Bytes, of pooled memory: the
 * other stays. */
typedef struct gp_choice_rest {
  uint32_t moment; /* of the page, the end of the time that the row is of */
  int device;
  uint64_t requested;
  uint64_t allocated; /* the same, rounded up */
  uint64_t pending;
} gp_choice_rest_t;

typedef struct gp_choice {
  const gp_lifetimes_t *lifetimes; /* borrowed */
  uint32_t from;                   /* moments of the lifetimes: the range that is shown */
  uint32_t to;
  size_t *lives; /* indexes of those that are shown, by their begin */
  size_t life_count;
  uint32_t *moments;         /* by moment of the lifetimes: that of the page, the nearest that is not later */
  uint32_t *events;          /* by moment of the page: that of the lifetimes */
  uint32_t end;              /* the last moment of the page; its first is 0 */
  size_t left_out;           /* lives */
  uint64_t left_out_largest; /* bytes, rounded */
  gp_choice_rest_t *rest;
  size_t rest_count;
} gp_choice_t;

/*
 * Chooses of lifetimes, which are borrowed, what lies on device (GP_REQUEST_ALL_DEVICES) between the two
 * moments: at most `most` lives, and whatever is not pooled, or held at `to` or at one of the first `needed`
 * moments of marked: these are all that the page has to know, marked_count of them. Returns 0 or ENOMEM. Fini
 * it in any case.
 */
int gp_choice_init(gp_choice_t *choice, const gp_lifetimes_t *lifetimes, int device, uint32_t from,
    uint32_t to, size_t most, const uint32_t *marked, size_t marked_count, size_t needed);
void gp_choice_fini(gp_choice_t *choice);

/* A moment of the lifetimes as one of the page: 0 for what was before the range; end + 1 for what comes after
 * it or never. */
uint32_t gp_choice_moment(const gp_choice_t *choice, uint32_t moment);

/* True if it is there during the range: a life until it is done with. */
static inline bool gp_choice_has(const gp_choice_t *choice, uint32_t begin, uint32_t end)
{
  return begin <= choice->to && (end > choice->from || end == GP_LIFETIMES_NEVER);
}

#endif
