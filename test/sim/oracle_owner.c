/*
 * The ordering oracle, part two: who owns which memory, and whether a new owner came too early.
 *
 * The program announces its allocations, so that memory which a library below it hands out again is seen to
 * change hands. Each owner's last access in each stream is kept until it is known to be complete, beyond the
 * end of the ownership. An access of a later owner has to come after all of them. Owners are compared as a
 * whole, not byte by byte: a kernel may touch all that it was given.
 *
 * With SIMCUDA_FILLS=1 a library below the program fills memory before the program announces it. Such a fill
 * is an owner of its own, between the one before and the next: it has to come after all accesses of that, and
 * those of the next after it.
 *
 * Memory that the driver itself takes back or hands out begins anew: drivers know what they do.
 */
#include "oracle_clock.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct range {
  uint64_t address, bytes;
  uint64_t owner;
  uint64_t ended_step; /* of an earlier owner */
  uint64_t reported;   /* the later owner that was reported last */
  bool is_fill, is_accessed;
  uint64_t gates; /* is_accessed: those that every access comes behind */
  uint64_t accessed_step;
  sim_uses_t uses;
  struct range *next;
} range_t;

static range_t *owned, *ended; /* present and earlier owners */
static simcuda_oracle_t counts;

static bool overlaps(const range_t *range, uint64_t address, uint64_t bytes)
{
  return range->address < address + bytes && address < range->address + range->bytes;
}

static void delete (range_t **link)
{
  range_t *range = *link;
  *link = range->next;
  sim_uses_clear(&range->uses);
  free(range);
}

#define LIBRARY (UINT64_MAX - 1) /* the owner while it fills */

static void report_early(const sim_debt_t *debt)
{
  counts.early_reuse++;
  sim_log_complain("early reuse of %llx: step %llu, by owner %llu, is not ordered after step %llu, a late %s",
      (unsigned long long)debt->address, (unsigned long long)debt->step, (unsigned long long)debt->owner,
      (unsigned long long)debt->use.step, sim_use_name(&debt->use));
}

static void owe(const sim_use_t *late, uint64_t gates, const range_t *later, uint64_t step)
{
  sim_late_owe(&(sim_debt_t){.use = *late,
      .gates = gates & sim_gates_open,
      .broken = report_early,
      .address = later->address,
      .owner = later->owner,
      .step = step});
}

static void note_access(range_t *range, const sim_clock_t *begin)
{
  uint64_t gates = sim_gates_before(begin);
  range->gates = range->is_accessed ? range->gates & gates : gates;
  if (!range->is_accessed)
    range->accessed_step = sim_step;
  range->is_accessed = true;
}

/* use NULL: the host, now. */
static void check_against(range_t *before, const range_t *now, const sim_clock_t *begin, const sim_use_t *use)
{
  for (unsigned i = 0; i < before->uses.count; i++) {
    const sim_use_t *old = &before->uses.list[i];
    if (sim_use_is_before(old, begin) || before->reported == now->owner)
      continue;
    if (old->is_late && use && sim_gates_before(begin)) {
      owe(old, sim_gates_before(begin), now, use->step);
      continue;
    }
    before->reported = now->owner;
    counts.early_reuse++;
    sim_log_complain(
        "early reuse of %llx: step %llu, a %s by owner %llu, is not ordered after step %llu, a %s by owner %llu, which ended in step %llu",
        (unsigned long long)now->address, (unsigned long long)(use ? use->step : sim_step),
        use ? sim_use_name(use) : "host access", (unsigned long long)now->owner,
        (unsigned long long)old->step, sim_use_name(old), (unsigned long long)before->owner,
        (unsigned long long)before->ended_step);
  }
}

static void check_fill(uint64_t address, uint64_t bytes, const sim_clock_t *begin, const sim_use_t *use)
{
  range_t *range = calloc(1, sizeof *range);
  if (!range)
    abort();
  *range = (range_t){.address = address,
      .bytes = bytes,
      .owner = LIBRARY,
      .ended_step = sim_step,
      .reported = UINT64_MAX,
      .is_fill = true};
  for (range_t *before = ended; before; before = before->next) {
    if (overlaps(before, address, bytes))
      check_against(before, range, begin, use);
  }
  sim_uses_note(&range->uses, use);
  note_access(range, begin);
  range->next = ended;
  ended = range;
}

/* Those who have had the memory since may have used it already. */
static void owe_later(const range_t *list, const range_t *end, const range_t *own, const sim_use_t *late)
{
  for (const range_t *later = list; later != end; later = later->next) {
    if (later->is_accessed && overlaps(later, own->address, own->bytes))
      owe(late, later->gates, later, later->accessed_step);
  }
}

/* By an owner that has freed the memory. */
static void check_late_access(
    uint64_t address, uint64_t bytes, const sim_clock_t *begin, const sim_use_t *use)
{
  range_t *own = ended;
  sim_use_t late = *use;
  while (own && !(own->owner == sim_late_owner && overlaps(own, address, bytes)))
    own = own->next;
  if (!own) /* the driver has taken the memory back, and knows of the use */
    return;
  counts.accesses++;
  late.is_late = true;
  for (range_t *before = own->next; before; before = before->next) {
    if (overlaps(before, own->address, own->bytes))
      check_against(before, own, begin, use);
  }
  owe_later(owned, NULL, own, &late);
  owe_later(ended, own, own, &late);
  sim_uses_note(&own->uses, &late);
}

static void check_access(uint64_t address, uint64_t bytes, const sim_clock_t *begin, const sim_use_t *use)
{
  bool anyones = false;
  if (use && sim_late_owner != SIM_NO_OWNER) {
    check_late_access(address, bytes, begin, use);
    return;
  }
  for (range_t *range = owned; range; range = range->next) {
    if (!overlaps(range, address, bytes))
      continue;
    anyones = true;
    counts.accesses++;
    for (range_t *before = ended; before; before = before->next) {
      if (overlaps(before, range->address, range->bytes))
        check_against(before, range, begin, use);
    }
    note_access(range, begin);
    if (use)
      sim_uses_note(&range->uses, use);
  }
  if (anyones)
    return;
  bool is_search =
      use && use->kind == SIM_OP_COPY && sim_arena_of(address) && sim_arena_of(address) != &sim_host_arena;
  if (sim_knobs.fills && use && (use->kind == SIM_OP_FILL || is_search)) {
    check_fill(address, bytes, begin, use);
    return;
  }
  for (const range_t *before = ended; before; before = before->next) {
    if (overlaps(before, address, bytes)) {
      counts.strays++;
      sim_log_complain("stray access to %llx: step %llu uses memory of owner %llu, which ended in step %llu",
          (unsigned long long)address, (unsigned long long)(use ? use->step : sim_step),
          (unsigned long long)before->owner, (unsigned long long)before->ended_step);
      return;
    }
  }
}

static void check_span(
    const sim_span_t *span, const sim_op_t *op, const sim_clock_t *begin, const sim_use_t *use)
{
  if (span->address)
    check_access(span->address, (op->depth - 1) * span->slice + (op->height - 1) * span->pitch + op->width,
        begin, use);
}

void sim_owner_check_op(const sim_op_t *op, const sim_clock_t *begin, const sim_use_t *use)
{
  if (!op->width || (!owned && !ended && !sim_knobs.fills))
    return;
  if (op->kind == SIM_OP_COPY || op->kind == SIM_OP_FILL || op->kind == SIM_OP_WRITE_VALUE)
    check_span(&op->dst, op, begin, use);
  if ((op->kind == SIM_OP_COPY && !op->staged) || op->kind == SIM_OP_EXPECT || op->kind == SIM_OP_WAIT_VALUE)
    check_span(&op->src, op, begin, use);
}

void simcuda_touch(uint64_t address, uint64_t bytes)
{
  pthread_mutex_lock(&sim_mutex);
  if (sim_oracle_on) {
    const sim_place_t *place = sim_thread_self()->place;
    check_access(address, bytes, place ? &place->begin : &sim_known, place ? &place->use : NULL);
  }
  pthread_mutex_unlock(&sim_mutex);
}

/* Earlier owners of what the new one has. */
static void count_reuse(const range_t *range)
{
  bool reused = false, pending = false;
  for (range_t **link = &ended; *link;) {
    range_t *before = *link;
    if (!overlaps(before, range->address, range->bytes)) {
      link = &before->next;
      continue;
    }
    reused |= !before->is_fill;
    sim_uses_prune(&before->uses);
    pending |= !before->is_fill && before->uses.count > 0;
    if (!sim_gates_open && !before->uses.count && before->address >= range->address &&
        before->address + before->bytes <= range->address + range->bytes)
      delete (link); /* nothing is left to be said of it, and no late use can come */
    else
      link = &before->next;
  }
  counts.owned++;
  counts.reuses += reused;
  counts.pending_reuses += pending;
}

void simcuda_own(uint64_t address, uint64_t bytes, uint64_t owner)
{
  pthread_mutex_lock(&sim_mutex);
  if (sim_oracle_on) {
    range_t *range = calloc(1, sizeof *range);
    if (!range)
      abort();
    *range = (range_t){.address = address, .bytes = bytes, .owner = owner, .reported = UINT64_MAX};
    for (const range_t *other = owned; other; other = other->next) {
      if (overlaps(other, address, bytes)) {
        counts.strays++;
        sim_log_complain("two owners of %llx: %llu and, since step %llu, %llu", (unsigned long long)address,
            (unsigned long long)other->owner, (unsigned long long)sim_step, (unsigned long long)owner);
      }
    }
    count_reuse(range);
    range->next = owned;
    owned = range;
  }
  pthread_mutex_unlock(&sim_mutex);
}

void simcuda_disown(uint64_t address)
{
  pthread_mutex_lock(&sim_mutex);
  range_t **link = &owned;
  while (*link && (*link)->address != address)
    link = &(*link)->next;
  if (*link) {
    range_t *range = *link;
    *link = range->next;
    range->ended_step = sim_step;
    range->next = ended;
    ended = range;
  }
  pthread_mutex_unlock(&sim_mutex);
}

bool sim_owner_has(uint64_t address, uint64_t bytes)
{
  for (const range_t *range = owned; range; range = range->next) {
    if (overlaps(range, address, bytes))
      return true;
  }
  return false;
}

static void forget(range_t **list, uint64_t address, uint64_t bytes)
{
  for (range_t **link = list; *link;) {
    if (overlaps(*link, address, bytes))
      delete (link);
    else
      link = &(*link)->next;
  }
}

void sim_oracle_forget(uint64_t address, uint64_t bytes)
{
  forget(&owned, address, bytes);
  forget(&ended, address, bytes);
}

/* Memory that the library below the program has mapped may go while the program's work is pending. */
void sim_oracle_unmap(uint64_t address, uint64_t bytes)
{
  for (range_t *range = ended; range; range = range->next) {
    if (!overlaps(range, address, bytes))
      continue;
    sim_uses_prune(&range->uses);
    if (range->uses.count == 0)
      continue;
    counts.early_reuse++;
    sim_log_complain(
        "memory of owner %llu is unmapped while its work may be pending", (unsigned long long)range->owner);
  }
  sim_oracle_forget(address, bytes);
}

void sim_oracle_counts(simcuda_oracle_t *ret_counts)
{
  *ret_counts = counts;
  sim_ordered_counts(ret_counts);
  ret_counts->violations = sim_violations;
  ret_counts->corrupt_stamps = sim_corrupt_stamps;
}

void simcuda_counts(simcuda_oracle_t *ret_counts)
{
  pthread_mutex_lock(&sim_mutex);
  sim_oracle_counts(ret_counts);
  pthread_mutex_unlock(&sim_mutex);
}
