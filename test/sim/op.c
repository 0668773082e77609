/*
 * Units of queued work and their effect on memory.
 *
 * The oracle. Each operation is applied twice: at submission to the shadow of the memory, as if the GPU were
 * done at once, and to the memory itself when the scheduler runs it. In a program whose conflicting accesses
 * are ordered both orders agree, so a copy to the host that reads other bytes than the shadow held at its
 * submission (counted in corrupt_stamps) proves that two uses of the same memory were not ordered. And each
 * operation remembers the allocations it was submitted for: running when they are gone is a violation.
 */
#include "mempool.h"
#include "oracle.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPECT_MAX (64u * 1024u) /* more of a copy to the host is not compared */

uint64_t sim_clock;

static sim_op_t *free_ops;
static bool oracle_off; /* host code may have written what the shadow cannot see */

sim_op_t *sim_op_new(sim_op_kind_t kind)
{
  sim_op_t *op = free_ops;
  if (op) {
    free_ops = op->next;
    sim_dep_t *deps = op->deps;
    unsigned room = op->dep_room;
    *op = (sim_op_t){.kind = kind, .deps = deps, .dep_room = room};
    return op;
  }
  op = calloc(1, sizeof *op);
  if (!op)
    abort();
  op->kind = kind;
  return op;
}

void sim_op_delete(sim_op_t *op)
{
  free(op->staged);
  free(op->expect);
  free(op->place);
  op->next = free_ops;
  free_ops = op;
}

sim_op_t *sim_op_clone(const sim_op_t *op)
{
  sim_op_t *copy = sim_op_new(op->kind);
  sim_dep_t *deps = copy->deps;
  unsigned room = copy->dep_room;
  *copy = *op;
  copy->deps = deps;
  copy->dep_room = room;
  copy->dep_count = 0;
  copy->next = NULL;
  copy->staged = copy->expect = NULL;
  copy->place = NULL;
  copy->expect_bytes = 0;
  copy->end_ns = 0;
  copy->met = false;
  return copy;
}

void sim_op_depend(sim_op_t *op, sim_dep_t dep)
{
  if (sim_dep_done(&dep))
    return;
  if (op->dep_count == op->dep_room) {
    op->dep_room = op->dep_room ? 2 * op->dep_room : 4;
    op->deps = realloc(op->deps, op->dep_room * sizeof *op->deps);
    if (!op->deps)
      abort();
  }
  op->deps[op->dep_count++] = dep;
}

/* ---- spans ---- */

static uint64_t span_bytes(const sim_span_t *span, const sim_op_t *op)
{
  return (op->depth - 1) * span->slice + (op->height - 1) * span->pitch + op->width;
}

static bool has_dst(const sim_op_t *op)
{
  return op->kind == SIM_OP_COPY || op->kind == SIM_OP_FILL || op->kind == SIM_OP_WRITE_VALUE;
}

static bool has_src(const sim_op_t *op)
{
  return op->kind == SIM_OP_COPY || op->kind == SIM_OP_EXPECT;
}

/* Of memory that is mapped, piece by piece: all of it is there, and a device has access. *ret_newest: the
 * newest mapping. */
static bool is_mapped(const sim_span_t *span, const sim_op_t *op, uint64_t *ret_newest)
{
  uint64_t end = span->address + span_bytes(span, op);
  *ret_newest = 0;
  for (uint64_t at = span->address; at < end;) {
    const sim_block_t *block = sim_arena_find(at);
    if (!block || block->kind != SIM_MEM_VMM || block->access == 0)
      return false;
    if (block->id > *ret_newest)
      *ret_newest = block->id;
    at = block->node.key + block->size;
  }
  return true;
}

/* With SIMCUDA_ACCESS. Memory of cuMemAlloc is its context's, and of contexts on other devices that have
 * enabled access; that of a pool is for all contexts of its device, and for the devices that the pool gives
 * access; of mapped memory each device needs access by itself. */
static bool has_access(const sim_ctx_t *ctx, const sim_block_t *block)
{
  const sim_device_t *device = ctx->device;
  uint64_t bit = (uint64_t)1 << (device->ordinal & 31);

  if (block->on_host)
    return true;
  switch (block->kind) {
  case SIM_MEM_DEVICE:
    if (block->device != device)
      return (ctx->peers & (uint64_t)1 << block->device->ordinal) != 0;
    return sim_ctx_covers(block->ctx, ctx) || sim_ctx_covers(ctx, block->ctx);
  case SIM_MEM_POOL:
    return block->device == device || block->pool->access[device->ordinal] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  case SIM_MEM_VMM: return (block->access & bit) != 0;
  default: return true;
  }
}

/* A kernel may use all of it. Copies may use what they like: a driver without access takes a way by the host.
 */
static bool may_use(const sim_span_t *span, const sim_op_t *op)
{
  uint64_t end = span->address + span_bytes(span, op);

  for (uint64_t at = span->address; sim_knobs.access && op->ctx && at < end;) {
    const sim_block_t *block = sim_arena_find(at);
    if (!block || !has_access(op->ctx, block))
      return false;
    at = block->node.key + block->size;
  }
  return true;
}

static bool bind_mapped(sim_span_t *span, const sim_op_t *op)
{
  return is_mapped(span, op, &span->block) && may_use(span, op);
}

static bool is_late(void)
{
  return sim_late_owner != SIM_NO_OWNER;
}

/* An owner has freed it in the order of a stream that has not reached the free. */
static bool may_be_late(const sim_block_t *block)
{
  if (block->kind == SIM_MEM_POOL)
    return !block->released && (block->free_called || block->valid_from < block->id);
  return block->kind == SIM_MEM_DEVICE && block->free_called;
}

static bool bind(sim_span_t *span, const sim_op_t *op)
{
  span->block = 0;
  span->is_late = false;
  if (!sim_arena_of(span->address))
    return true; /* the program's own memory */
  sim_block_t *block = sim_arena_find(span->address);
  if (block && block->kind == SIM_MEM_VMM)
    return bind_mapped(span, op);
  if (!block || span_bytes(span, op) > block->node.key + block->size - span->address || !may_use(span, op))
    return false;
  if (is_late() && may_be_late(block)) {
    span->block = block->free_called ? block->id : block->valid_from;
    span->is_late = true;
    return true;
  }
  span->block = block->id;
  return !block->free_called;
}

static void mark_dirty(sim_block_t *block, const sim_span_t *span, const sim_op_t *op)
{
  uint64_t from = span->address - block->node.key, bytes = span_bytes(span, op);
  sim_grid_t rows = {.from = from, .pitch = span->pitch, .width = op->width, .rows = op->height};
  sim_grid_t all = {.from = from, .pitch = bytes, .width = bytes, .rows = 1};
  sim_block_dirty(block, op->depth == 1 && op->height > 1 ? &rows : &all);
}

/* The allocation must still be the one the operation was submitted for. */
static bool holds(const sim_span_t *span, const char *what, const sim_op_t *op)
{
  if (!span->block)
    return true;
  sim_block_t *block = sim_arena_find(span->address);
  if (block && block->kind == SIM_MEM_VMM) {
    uint64_t newest;
    if (is_mapped(span, op, &newest) && newest <= span->block)
      return true;
    sim_violation("%s %llx ran after that memory was unmapped", what, (unsigned long long)span->address);
    return false;
  }
  if (!block || span->block < block->valid_from || span->block > block->id) {
    sim_violation("%s %llx ran after that memory was freed", what, (unsigned long long)span->address);
    return false;
  }
  if (block->kind == SIM_MEM_POOL && !block->opened && span->block == block->id && !span->is_late &&
      !sim_dep_done(&block->alloc_at)) {
    sim_violation("%s %llx ran before that memory was allocated", what, (unsigned long long)span->address);
    return false;
  }
  if (span == &op->dst)
    mark_dirty(block, span, op);
  return true;
}

/* The twin of an address in the shadow; 0 when it has none and the memory itself tells. */
static uint64_t shadow_of(const sim_span_t *span)
{
  const sim_arena_t *arena = sim_arena_of(span->address);
  return arena && arena->to_shadow ? span->address + (uint64_t)arena->to_shadow : 0;
}

static void fill_row(unsigned char *to, uint64_t bytes, uint64_t value, unsigned unit)
{
  if (unit == 1 || value == 0) {
    memset(to, (int)value, bytes);
    return;
  }
  for (uint64_t i = 0; i + unit <= bytes; i += unit)
    memcpy(to + i, &value, unit); /* little endian, as every host of this driver is */
}

static void move(const sim_op_t *op, uint64_t dst, uint64_t src)
{
  for (uint64_t z = 0; z < op->depth; z++) {
    for (uint64_t y = 0; y < op->height; y++) {
      unsigned char *to = (unsigned char *)(uintptr_t)(dst + z * op->dst.slice + y * op->dst.pitch);
      if (op->kind == SIM_OP_COPY)
        memmove(to, (const void *)(uintptr_t)(src + z * op->src.slice + y * op->src.pitch), op->width);
      else
        fill_row(to, op->width, op->value, op->unit);
    }
  }
}

static uint64_t gather(const sim_op_t *op, uint64_t src, unsigned char *to, uint64_t room)
{
  uint64_t n = 0;
  for (uint64_t z = 0; z < op->depth; z++) {
    for (uint64_t y = 0; y < op->height; y++) {
      uint64_t take = op->width < room - n ? op->width : room - n;
      memcpy(to + n, (const void *)(uintptr_t)(src + z * op->src.slice + y * op->src.pitch), take);
      n += take;
      if (n == room)
        return n;
    }
  }
  return n;
}

/* Words of 8 bytes, the last perhaps shorter */
static uint64_t count_differences(const unsigned char *a, const unsigned char *b, uint64_t bytes)
{
  if (memcmp(a, b, bytes) == 0)
    return 0;
  uint64_t count = 0;
  for (uint64_t i = 0; i < bytes; i += 8)
    count += memcmp(a + i, b + i, bytes - i < 8 ? bytes - i : 8) != 0;
  return count;
}

/* By the host or another process: the shadow does not follow. */
static bool is_written_unseen(const sim_span_t *span)
{
  const sim_block_t *block = span->block ? sim_arena_find(span->address) : NULL;
  return block && (block->shared || !sim_memory_is_plain(block));
}

/* Whether queued work may still change host-visible memory that `reader` is going to read */
static bool may_change_source(const sim_op_t *op, const void *reader)
{
  const sim_op_t *copy = reader;
  if (op->kind == SIM_OP_HOST || op->kind == SIM_OP_CALLBACK || op->kind == SIM_OP_WAIT_VALUE)
    return true;
  return has_dst(op) && op->width && op->dst.address < copy->src.address + span_bytes(&copy->src, copy) &&
         copy->src.address < op->dst.address + span_bytes(&op->dst, op);
}

/* The shadow of memory that the host, or another process, can write is the memory itself: right unless work
 * that writes it is pending. */
static void mirror(sim_op_t *op)
{
  if (oracle_off || op->width == 0)
    return;
  if (is_late()) /* a later owner's work may be in the shadow already */
    return;
  if (op->kind == SIM_OP_COPY && !op->staged && sim_pending &&
      (!shadow_of(&op->src) || is_written_unseen(&op->src)) && sim_sched_any(may_change_source, op)) {
    oracle_off = true;
    return;
  }
  uint64_t src = op->src.address, dst = has_dst(op) ? shadow_of(&op->dst) : 0;
  if (has_src(op)) {
    if (op->staged)
      src = (uintptr_t)op->staged;
    else if (shadow_of(&op->src) && !is_written_unseen(&op->src))
      src = shadow_of(&op->src);
    if (op->kind == SIM_OP_COPY && op->src.block && !shadow_of(&op->dst) && !is_written_unseen(&op->src)) {
      uint64_t total = op->width * op->height * op->depth;
      op->expect_bytes = total < EXPECT_MAX ? total : EXPECT_MAX;
      op->expect = malloc(op->expect_bytes);
      if (!op->expect)
        abort();
      (void)gather(op, src, op->expect, op->expect_bytes);
    }
  }
  if (dst) {
    sim_block_t *block = sim_arena_find(op->dst.address);
    if (block->kind != SIM_MEM_VMM) /* its addresses are wiped as a whole */
      mark_dirty(block, &op->dst, op);
    if (!is_written_unseen(&op->dst))
      move(op, dst, src);
  }
}

CUresult sim_op_prepare(sim_op_t *op)
{
  if (op->width && has_dst(op) && !bind(&op->dst, op))
    return CUDA_ERROR_INVALID_VALUE;
  if (op->width && has_src(op) && !bind(&op->src, op))
    return CUDA_ERROR_INVALID_VALUE;
  mirror(op);
  return CUDA_SUCCESS;
}

/* Another thread of the program may write it meanwhile. */
static uint64_t load_value(const sim_op_t *op)
{
  const void *address = (const void *)(uintptr_t)op->src.address;
  return op->unit == 4 ? __atomic_load_n((const uint32_t *)address, __ATOMIC_ACQUIRE)
                       : __atomic_load_n((const uint64_t *)address, __ATOMIC_ACQUIRE);
}

uint64_t sim_now_ns(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool sim_op_is_timed(const sim_op_t *op)
{
  return op->kind == SIM_OP_BUSY || op->kind == SIM_OP_MEET;
}

bool sim_op_is_ready(const sim_op_t *op)
{
  if (op->kind == SIM_OP_BUSY)
    return op->end_ns && sim_now_ns() >= op->end_ns;
  if (op->kind == SIM_OP_MEET)
    return op->met;
  if (op->kind != SIM_OP_WAIT_VALUE)
    return true;
  uint64_t value = load_value(op);
  switch (op->flags & 3) {
  case CU_STREAM_WAIT_VALUE_EQ: return value == op->value;
  case CU_STREAM_WAIT_VALUE_AND: return (value & op->value) != 0;
  case CU_STREAM_WAIT_VALUE_NOR:
    return op->unit == 4 ? (uint32_t) ~(value | op->value) != 0 : ~(value | op->value) != 0;
  default: return op->unit == 4 ? (int32_t)(value - op->value) >= 0 : (int64_t)(value - op->value) >= 0;
  }
}

static void check_expected(const sim_op_t *op)
{
  const unsigned char *p = (const unsigned char *)(uintptr_t)op->src.address;
  for (uint64_t i = 0; i + op->unit <= op->width; i += op->unit)
    sim_corrupt_stamps += memcmp(p + i, &op->value, op->unit) != 0;
}

static void run_copy(const sim_op_t *op)
{
  uint64_t src = op->staged ? (uintptr_t)op->staged : op->src.address;
  if (op->expect && !oracle_off) {
    unsigned char *real = malloc(op->expect_bytes);
    if (!real)
      abort();
    (void)gather(op, src, real, op->expect_bytes);
    uint64_t wrong = count_differences(real, op->expect, op->expect_bytes);
    if (wrong)
      sim_log_complain("a copy to the host from %llx read %llu words that earlier calls did not leave there",
          (unsigned long long)op->src.address, (unsigned long long)wrong);
    sim_corrupt_stamps += wrong;
    free(real);
  }
  move(op, op->dst.address, src);
}

/* Host functions are run by the scheduler, which must release the mutex. */
void sim_op_run(sim_op_t *op, sim_stream_t *stream)
{
  switch (op->kind) {
  case SIM_OP_COPY:
    if (op->width && holds(&op->dst, "a write to", op) && (op->staged || holds(&op->src, "a read of", op)))
      run_copy(op);
    break;
  case SIM_OP_FILL:
  case SIM_OP_WRITE_VALUE:
    if (op->width && holds(&op->dst, "a write to", op))
      move(op, op->dst.address, 0);
    break;
  case SIM_OP_EXPECT:
    if (op->width && holds(&op->src, "a read of", op))
      check_expected(op);
    break;
  case SIM_OP_EVENT: sim_event_completed(op->event, op->event_version); break;
  case SIM_OP_FREE: sim_pool_free_executed(op->dst.address, op->dst.block); break;
  case SIM_OP_WAIT_VALUE: sim_oracle_gate_passed(op); break;
  case SIM_OP_HOST:
  case SIM_OP_CALLBACK:
  case SIM_OP_BUSY:
  case SIM_OP_MEET:
  case SIM_OP_NOP: break;
  }
}
