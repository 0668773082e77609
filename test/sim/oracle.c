/*
 * The ordering oracle, part one: which operation comes after which, whatever the schedule.
 *
 * A vector clock has an entry for each stream: how many of its operations come before. The clock of an
 * operation is computed when it is submitted, from what CUDA promises and nothing else: its place in the
 * stream, the events waited for, and the legacy stream's rule. `known` is what the host knows to be
 * complete (a successful synchronization or query, of the program or of a library below it; a synchronous
 * copy to the host); what was known when an operation was submitted comes before it. What merely happens to
 * be complete counts for nothing, so that a report does not depend on the seed of the scheduler.
 *
 * Streams have slots. A slot passes to another stream when its stream is gone and all its work is known to be
 * complete. Its numbers go on, so that old clocks stay right.
 */
#include "oracle_clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  bool used; /* by a stream, or by work of one that is not known to be complete */
  bool gone; /* its stream */
  bool nonblocking, legacy;
  bool after_kernel; /* the last operation is one that a programmatic launch may overlap */
  uint64_t ctx_id;
  uint64_t primary_id;      /* of a green context's stream: the primary context, which covers it; else 0 */
  uint64_t last, last_step; /* operation, and the program's step that submitted it */
  sim_clock_t before;       /* the last operation began */
  sim_clock_t after;        /* it ended */
  sim_clock_t worked;       /* the last operation ended that the default stream's rule knows */
} slot_t;

bool sim_oracle_on;
unsigned sim_slot_count;
sim_clock_t sim_known;
_Thread_local uint64_t sim_step;

static slot_t slots[SIM_SLOTS];

void sim_clock_join(sim_clock_t *clock, const sim_clock_t *other)
{
  for (unsigned i = 0; i < sim_slot_count; i++) {
    if (clock->at[i] < other->at[i])
      clock->at[i] = other->at[i];
  }
}

static bool is_complete(unsigned slot)
{
  return sim_known.at[slot] >= slots[slot].last;
}

static unsigned take_slot(void)
{
  for (unsigned i = 0; i < sim_slot_count; i++) {
    if (!slots[i].used || (slots[i].gone && is_complete(i)))
      return i;
  }
  if (sim_slot_count < SIM_SLOTS)
    return sim_slot_count++;
  sim_violation(
      "the oracle is off: more than %u streams have work that is not known to be complete", SIM_SLOTS);
  sim_oracle_on = false;
  return 0;
}

static slot_t *slot_of(sim_stream_t *stream)
{
  if (!stream->slot) {
    unsigned i = take_slot();
    uint64_t last = slots[i].last;
    memset(&slots[i], 0, sizeof slots[i]);
    slots[i].used = true;
    slots[i].nonblocking = stream->nonblocking;
    slots[i].legacy = stream->kind == SIM_STREAM_LEGACY;
    slots[i].ctx_id = stream->ctx_id;
    slots[i].primary_id = stream->ctx->green_of ? stream->ctx->green_of->id : 0;
    slots[i].last = last;
    slots[i].after = slots[i].before = slots[i].worked = sim_known; /* also of the slot's earlier stream */
    stream->slot = i + 1;
  }
  return &slots[stream->slot - 1];
}

void sim_oracle_stream_gone(sim_stream_t *stream)
{
  if (stream->slot)
    slots[stream->slot - 1].gone = true;
  stream->slot = 0;
}

/* The legacy stream and blocking streams wait for each other (CUDA C++ Programming Guide, default stream). */
static void join_default_stream(sim_clock_t *clock, const slot_t *own)
{
  if (own->nonblocking)
    return;
  for (unsigned i = 0; i < sim_slot_count; i++) {
    const slot_t *other = &slots[i];
    if (other != own && other->used && other->ctx_id == own->ctx_id && !other->nonblocking &&
        (own->legacy || other->legacy))
      sim_clock_join(clock, sim_knobs.pool_orders ? &other->after : &other->worked);
  }
}

static void remember(sim_op_t *op, const sim_clock_t *begin, const sim_use_t *use)
{
  if (!(op->place = malloc(sizeof *op->place)))
    abort();
  op->place->begin = *begin;
  op->place->use = *use;
}

/*
 * A programmatic launch does not wait for the kernel in front of it, only for what that one waited for; the
 * stream goes on when both are complete ("Programmatic Dependent Launch", CUDA C++ Programming Guide).
 */
void sim_oracle_submit(sim_stream_t *stream, sim_op_t *op)
{
  slot_t *slot = slot_of(stream);
  sim_use_t use = {.slot = (unsigned)(slot - slots), .kind = op->kind, .step = sim_step};
  sim_clock_t begin = op->programmatic && slot->after_kernel ? slot->before : slot->after;

  if (!sim_oracle_on)
    return;
  sim_clock_join(&begin, &sim_known);
  if (sim_knobs.pool_orders || !op->is_pool)
    join_default_stream(&begin, slot);
  slot->before = begin;
  slot->after_kernel = op->is_kernel;
  use.index = ++slot->last;
  sim_clock_join(&slot->after, &begin);
  slot->after.at[use.slot] = use.index;
  if (!sim_knobs.pool_orders && !op->is_pool)
    slot->worked = slot->after;
  slot->last_step = sim_step;
  if (op->kind == SIM_OP_HOST || op->kind == SIM_OP_CALLBACK) {
    remember(op, &begin, &use); /* it says what it touches when it runs */
  } else {
    sim_owner_check_op(op, &begin, &use);
    sim_ordered_check_op(op, &begin, &use);
    if (op->kind == SIM_OP_WAIT_VALUE)
      sim_gate_submitted(op, &use);
  }
}

sim_use_t sim_oracle_last_use(sim_stream_t *stream)
{
  const slot_t *slot = slot_of(stream);
  return (sim_use_t){
      .slot = (unsigned)(slot - slots), .kind = SIM_OP_NOP, .index = slot->last, .step = slot->last_step};
}

sim_clock_t *sim_oracle_clock_copy(const sim_clock_t *clock)
{
  if (!clock)
    return NULL;
  sim_clock_t *copy = malloc(sizeof *copy);
  if (!copy)
    abort();
  *copy = *clock;
  return copy;
}

sim_clock_t *sim_oracle_stream_clock(sim_stream_t *stream)
{
  return sim_oracle_on ? sim_oracle_clock_copy(&slot_of(stream)->after) : NULL;
}

sim_clock_t *sim_oracle_ctx_clock(const sim_ctx_t *ctx)
{
  if (!sim_oracle_on)
    return NULL;
  sim_clock_t *clock = sim_oracle_clock_copy(&sim_known);
  for (unsigned i = 0; i < sim_slot_count; i++) {
    if (slots[i].used && (slots[i].ctx_id == ctx->id || slots[i].primary_id == ctx->id))
      sim_clock_join(clock, &slots[i].after);
  }
  return clock;
}

void sim_oracle_know(const sim_clock_t *clock)
{
  if (sim_oracle_on && clock)
    sim_clock_join(&sim_known, clock);
}

/* Not an operation itself: what is submitted next waits, and a programmatic launch as well. */
void sim_oracle_wait(sim_stream_t *stream, const sim_clock_t *clock)
{
  if (!sim_oracle_on || !clock)
    return;
  slot_t *slot = slot_of(stream);
  sim_clock_join(&slot->before, clock);
  sim_clock_join(&slot->after, clock);
}

void simcuda_step(uint64_t step)
{
  sim_step = step;
}

void simcuda_seed(uint64_t seed)
{
  pthread_mutex_lock(&sim_mutex);
  sim_sched_seed(seed);
  pthread_mutex_unlock(&sim_mutex);
}
