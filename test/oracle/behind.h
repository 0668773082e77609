/*
 * Kernels that wait: for a flag that the host writes, or for each other (a collective of two streams). Which
 * streams, events, graphs and allocations have work behind one of them that has not ended: what natively
 * waits for that work does not return before the flag is written, or the other half is launched.
 *
 * Sets of these kernels are masks. A set may be larger than the truth: then a legal program is refused.
 */
#ifndef ORACLE_BEHIND_H
#define ORACLE_BEHIND_H

#include "program.h"

typedef struct {
  int count; /* of the kernels so far; their numbers are 0 to count - 1 */
  struct {
    bool open; /* the flag is not written, the other half is not launched */
    bool meets;
    uint32_t needs; /* those that have to end before it can begin */
    int lane;       /* of its first launch */
    int step;       /* that launched it last */
  } kernels[MAX_WAITS];
  uint32_t lanes[LANES], events[MAX_EVENTS], graphs[MAX_GRAPHS], mems[MAX_MEMS];
} behind_t;

/* Of the set and of all that those need: the ones that cannot end yet. 0: all of the
 * set end by themselves. */
uint32_t behind_open(const behind_t *behind, uint32_t set);
/* All that have not ended, but for the host or another launch. */
uint32_t behind_all(const behind_t *behind);
/* The union over a mask of lanes. */
uint32_t behind_lanes(const behind_t *behind, uint64_t lanes);
/* Adds the set. True: something that cannot end yet is new. */
bool behind_add(const behind_t *behind, uint32_t *to, uint32_t set);
/* Whether the other half of the collective can begin behind the set. */
bool behind_may_meet(const behind_t *behind, int number, uint32_t set);
/* A kernel is launched in the lane; the step is its last launch. The lane's set holds
 * what it comes behind. */
void behind_launch(behind_t *behind, int number, bool meets, int lane, int step);

#endif
