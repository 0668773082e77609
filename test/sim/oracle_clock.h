/*
 * What the parts of the ordering oracle share.
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
  bool is_late; /* its owner had freed the memory */
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
sim_use_t sim_oracle_last_use(sim_stream_t *stream); /* its last operation */

/* ---- oracle_uses.c: who used a piece of memory; of each stream the last use ---- */

typedef struct {
  sim_use_t *list;
  unsigned count, room;
} sim_uses_t;

void sim_uses_note(sim_uses_t *uses, const sim_use_t *use);
void sim_uses_prune(sim_uses_t *uses); /* drops what is known to be complete */
void sim_uses_clear(sim_uses_t *uses);
static inline bool sim_use_is_before(const sim_use_t *use, const sim_clock_t *clock)
{
  return use->index <= clock->at[use->slot];
}
const char *sim_use_name(const sim_use_t *use); /* for reports */

/* ---- oracle_owner.c ---- */

/* The operation begins after what begin covers; its accesses are checked, and remembered as those of the
 * owners. */
void sim_owner_check_op(const sim_op_t *op, const sim_clock_t *begin, const sim_use_t *use);
void sim_oracle_counts(simcuda_oracle_t *ret_counts);
bool sim_owner_has(uint64_t address, uint64_t bytes); /* some of it */

/* ---- oracle_late.c ---- */

extern uint64_t sim_gates_open;                      /* a set of the gates that the host has not opened yet */
uint64_t sim_gates_before(const sim_clock_t *begin); /* those of them that come before */
void sim_gate_submitted(const sim_op_t *op, const sim_use_t *use);

/* Something has to come after a late use, and comes behind these gates. */
typedef struct sim_debt {
  sim_use_t use;
  uint64_t gates;
  void (*broken)(const struct sim_debt *debt); /* called if it does not */
  uint64_t address, owner, step;               /* for the report; owner and step: what has to come after it */
} sim_debt_t;

void sim_late_owe(const sim_debt_t *debt);

/* ---- oracle_ordered.c ---- */

void sim_ordered_check_op(const sim_op_t *op, const sim_clock_t *begin, const sim_use_t *use);
void sim_ordered_counts(simcuda_oracle_t *counts); /* fills in what it counts */

#endif
