/*
 * The ordering oracle, part three: memory of cuMemAllocAsync, from the driver's allocation to its free.
 *
 * "The allocation must not be accessed until the allocation operation completes", and "after stream execution
 * reaches the free" no more (cuda.h, cuMemAllocAsync, cuMemFreeAsync). So each access has to come after the
 * allocation, and before the free: a free by cuMemFreeAsync comes after all accesses in the order of streams;
 * cuMemFree, which waits for nothing here, after all that the host knows to be complete, the allocation
 * included. This holds for whoever called the driver: of a library that hands out pieces of the memory, too.
 *
 * A new allocation begins a new history: that the driver gives memory to a second owner in time is its own
 * business.
 */
#include "oracle_clock.h"

#include <stdlib.h>

/* Of a block of a pool since it was allocated, of a block of cuMemAlloc since its first access. Of each kind
 * one access is reported. */
struct sim_history {
  bool is_async;
  sim_use_t alloc; /* is_async */
  sim_uses_t uses;
  uint64_t freed_step, freed_behind; /* a free, also of the owner before; gates in front of it */
  bool early_reported, late_reported;
};

static uint64_t early, late;

static sim_history_t *history_of(sim_block_t *block)
{
  if (!block->history && !(block->history = calloc(1, sizeof *block->history)))
    abort();
  return block->history;
}

void sim_ordered_forget(sim_block_t *block)
{
  if (!block->history)
    return;
  sim_uses_clear(&block->history->uses);
  free(block->history);
  block->history = NULL;
}

void sim_ordered_allocated(sim_block_t *block, sim_stream_t *stream)
{
  if (!sim_oracle_on)
    return;
  sim_history_t before = block->history ? *block->history : (sim_history_t){0};
  sim_ordered_forget(block);
  sim_history_t *history = history_of(block);
  history->freed_step = before.freed_step;
  history->freed_behind = before.freed_behind;
  history->is_async = true;
  history->alloc = sim_oracle_last_use(stream);
}

/* use NULL: a free by the host, now. */
static void check_early(const sim_block_t *block, const sim_clock_t *begin, const sim_use_t *use)
{
  sim_history_t *history = block->history;
  if (!history->is_async || sim_use_is_before(&history->alloc, begin))
    return;
  early++;
  if (history->early_reported)
    return;
  history->early_reported = true;
  sim_violation("step %llu, a %s at %llx, is not ordered after the allocation of that memory, step %llu",
      (unsigned long long)(use ? use->step : sim_step), use ? sim_use_name(use) : "free by the host",
      (unsigned long long)block->node.key, (unsigned long long)history->alloc.step);
}

static void report_late(const sim_debt_t *debt)
{
  late++;
  sim_violation("step %llu, a late %s at %llx, is not ordered before the free of that memory, step %llu",
      (unsigned long long)debt->use.step, sim_use_name(&debt->use), (unsigned long long)debt->address,
      (unsigned long long)debt->step);
}

/* A late use comes before the free by the gates in front of that. */
static void check_late(const sim_block_t *block, const sim_clock_t *begin, const sim_use_t *use)
{
  sim_history_t *history = block->history;
  for (unsigned i = 0; i < history->uses.count; i++) {
    const sim_use_t *access = &history->uses.list[i];
    if (sim_use_is_before(access, begin))
      continue;
    if (access->is_late) {
      sim_late_owe(&(sim_debt_t){.use = *access,
          .gates = sim_gates_before(begin),
          .broken = report_late,
          .address = block->node.key,
          .step = use ? use->step : sim_step});
      continue;
    }
    late++;
    if (history->late_reported)
      continue;
    history->late_reported = true;
    sim_violation("step %llu, a %s at %llx, is not ordered before the free of that memory, step %llu",
        (unsigned long long)access->step, sim_use_name(access), (unsigned long long)block->node.key,
        (unsigned long long)(use ? use->step : sim_step));
  }
}

/* Of two owners the first one's free counts, as long as the stream has not reached it. */
static void note_free(sim_history_t *history, const sim_clock_t *begin, const sim_use_t *use)
{
  if (history->freed_behind & sim_gates_open)
    return;
  history->freed_behind = sim_gates_before(begin);
  history->freed_step = use->step;
}

static void check_span(const sim_span_t *span, const sim_clock_t *begin, const sim_use_t *use)
{
  sim_block_t *block = span->block ? sim_arena_find(span->address) : NULL;
  if (!block || (block->kind != SIM_MEM_POOL && block->kind != SIM_MEM_DEVICE))
    return;
  sim_history_t *history = history_of(block);
  if (sim_late_owner != SIM_NO_OWNER && (block->free_called || history->freed_behind & sim_gates_open)) {
    sim_late_owe(&(sim_debt_t){.use = *use,
        .gates = history->freed_behind & sim_gates_open,
        .broken = report_late,
        .address = block->node.key,
        .step = history->freed_step});
    return;
  }
  check_early(block, begin, use);
  sim_use_t noted = *use;
  noted.is_late = sim_late_owner != SIM_NO_OWNER; /* although the driver has not heard of the free */
  sim_uses_note(&block->history->uses, &noted);
}

void sim_ordered_check_op(const sim_op_t *op, const sim_clock_t *begin, const sim_use_t *use)
{
  if (op->kind == SIM_OP_FREE) {
    sim_block_t *block = sim_arena_find(op->dst.address);
    if (block->history) {
      check_early(block, begin, use);
      check_late(block, begin, use);
    }
    note_free(history_of(block), begin, use);
    return;
  }
  if (op->width && (op->kind == SIM_OP_COPY || op->kind == SIM_OP_FILL || op->kind == SIM_OP_WRITE_VALUE))
    check_span(&op->dst, begin, use);
  if (op->width && ((op->kind == SIM_OP_COPY && !op->staged) || op->kind == SIM_OP_EXPECT))
    check_span(&op->src, begin, use);
}

void sim_ordered_freed_by_host(const sim_block_t *block)
{
  if (!sim_oracle_on || !block->history)
    return;
  check_early(block, &sim_known, NULL);
  check_late(block, &sim_known, NULL);
}

void sim_ordered_counts(simcuda_oracle_t *counts)
{
  counts->early_accesses = early;
  counts->late_accesses = late;
}
