/*
 * The ordering oracle, part four: late uses.
 *
 * "The allocation must not be accessed after stream execution reaches the free" (cuda.h, cuMemFreeAsync). So
 * memory may be used after the call, as long as something in front of the free waits for that use. What can
 * wait for work that is submitted later is a gate: a kernel that waits for a flag (simcuda_wait). The host
 * writes the flag when it knows the use to be complete, and whatever comes behind the gate comes behind all
 * that the host knew then.
 *
 * The program says that it is about to write a flag (simcuda_writes): a store cannot be seen. A late use, and
 * what has to come after it, are a debt: it is paid if a gate in front of the latter is opened when the
 * former is known to be complete.
 */
#include "oracle_clock.h"

#include <stdlib.h>
#include <string.h>

#define GATES 64u /* bits of a set */

typedef struct {
  uint64_t flag;
  unsigned slot;
  uint64_t index;
} gate_t;

uint64_t sim_gates_open;
_Thread_local uint64_t sim_late_owner = SIM_NO_OWNER;

static gate_t gates[GATES];
static unsigned next_gate; /* a number is used again only when no set holds it any more */
static sim_debt_t *debts;
static unsigned debt_count, debt_room;

uint64_t sim_gates_before(const sim_clock_t *begin)
{
  uint64_t set = 0;
  for (unsigned i = 0; sim_gates_open && i < GATES; i++) {
    if (sim_gates_open >> i & 1 && gates[i].index <= begin->at[gates[i].slot])
      set |= UINT64_C(1) << i;
  }
  return set;
}

/* known: what the host knew to be complete; NULL: nothing. */
static void open_gates(uint64_t set, const sim_clock_t *known)
{
  unsigned kept = 0;
  sim_gates_open &= ~set;
  for (unsigned i = 0; i < debt_count; i++) {
    sim_debt_t debt = debts[i];
    if (debt.gates & set && known && sim_use_is_before(&debt.use, known))
      continue;
    debt.gates &= ~set;
    if (debt.gates)
      debts[kept++] = debt;
    else
      debt.broken(&debt);
  }
  debt_count = kept;
}

void sim_gate_submitted(const sim_op_t *op, const sim_use_t *use)
{
  unsigned i = next_gate++ % GATES;
  if (sim_gates_open >> i & 1)
    open_gates(UINT64_C(1) << i, NULL);
  gates[i] = (gate_t){.flag = op->src.address, .slot = use->slot, .index = use->index};
  sim_gates_open |= UINT64_C(1) << i;
}

static uint64_t gates_of(uint64_t flag)
{
  uint64_t set = 0;
  for (unsigned i = 0; sim_gates_open && i < GATES; i++) {
    if (sim_gates_open >> i & 1 && gates[i].flag == flag)
      set |= UINT64_C(1) << i;
  }
  return set;
}

/* If the program did not say when it wrote the flag, what it knew then is not known here. */
void sim_oracle_gate_passed(const sim_op_t *op)
{
  uint64_t set = gates_of(op->src.address);
  if (set)
    open_gates(set, NULL);
}

void sim_late_owe(const sim_debt_t *debt)
{
  if (!debt->gates) {
    debt->broken(debt);
    return;
  }
  if (debt_count == debt_room) {
    debt_room = debt_room ? 2 * debt_room : 64;
    if (!(debts = realloc(debts, debt_room * sizeof *debts)))
      abort();
  }
  debts[debt_count++] = *debt;
}

void simcuda_writes(const volatile void *flag)
{
  pthread_mutex_lock(&sim_mutex);
  uint64_t set = sim_oracle_on ? gates_of((uintptr_t)flag) : 0;
  if (set)
    open_gates(set, &sim_known);
  pthread_mutex_unlock(&sim_mutex);
}

void simcuda_late(uint64_t owner)
{
  sim_late_owner = owner;
}
