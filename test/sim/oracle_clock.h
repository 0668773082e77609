/*
 * What the two parts of the ordering oracle share.
 */
#ifndef SIM_ORACLE_CLOCK_H
#define SIM_ORACLE_CLOCK_H

#include "oracle.h"
#include "sim.h"

#define SIM_SLOTS 256u

/* at[i]: operations of the stream in slot i that come before. */
struct sim_clock {
  uint64_t at[SIM_SLOTS];
};

/* An access: the operation, and what to call it. */
typedef struct {
  unsigned slot;
  sim_op_kind_t kind;
  uint64_t index, step;
} sim_use_t;

/* Of a host function, from its submission until it runs. */
struct sim_place {
  sim_clock_t begin;
  sim_use_t use;
};

extern unsigned sim_slot_count; /* entries of clocks in use */
extern sim_clock_t sim_known;   /* what the host knows to be complete */
extern _Thread_local uint64_t sim_step;
void sim_clock_join(sim_clock_t *clock, const sim_clock_t *other);

/* ---- oracle_owner.c ---- */

/* The operation begins after what begin covers; its accesses are checked, and remembered as those of the
 * owners. */
void sim_owner_check_op(const sim_op_t *op, const sim_clock_t *begin, const sim_use_t *use);
void sim_oracle_counts(simcuda_oracle_t *ret_counts);

#endif
