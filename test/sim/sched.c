/*
 * The scheduler: decides, from a seed, when queued work runs and in what order.
 *
 * An operation may run when it is at the head of its stream and every position it depends on is reached.
 * Positions always name earlier submissions, so some head can always run, unless it waits for a value in
 * memory, for the clock, or for kernels that are not there yet.
 *
 * How eagerly work runs changes every few calls: sometimes nothing moves, sometimes one stream is held back
 * while the others advance. That is where programs that forgot a synchronization show.
 */
#include "sim.h"

#include <stdlib.h>
#include <time.h>

unsigned sim_pending;

static sim_stream_t **active; /* streams with queued work, in no order */
static unsigned active_count, active_room;
static unsigned timed_count; /* queued operations that complete by themselves */

static uint64_t rng;
static struct {
  unsigned calls;  /* left in this phase */
  unsigned chance; /* of running one more operation at a call, in 1/8 */
  uint64_t held;   /* id of the stream that does not advance by itself */
} phase;

void sim_sched_seed(uint64_t seed)
{
  rng = seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  phase.calls = 0;
}

static unsigned draw(unsigned below)
{
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return (unsigned)((rng >> 32) % below);
}

bool sim_dep_done(const sim_dep_t *dep)
{
  return dep->stream->id != dep->id || dep->stream->completed >= dep->seq;
}

sim_dep_t sim_dep_now(sim_stream_t *stream)
{
  return (sim_dep_t){stream, stream->id, stream->submitted};
}

/* As far as the default stream's rule knows the work of the stream */
static sim_dep_t work_of(sim_stream_t *stream)
{
  return (sim_dep_t){stream, stream->id, stream->worked};
}

static void activate(sim_stream_t *stream)
{
  if (active_count == active_room) {
    active_room = active_room ? 2 * active_room : 64;
    active = realloc(active, active_room * sizeof(*active));
    if (!active)
      abort();
  }
  stream->active_index = (int)active_count;
  active[active_count++] = stream;
}

static void deactivate(sim_stream_t *stream)
{
  unsigned i = (unsigned)stream->active_index;
  active[i] = active[--active_count];
  active[i]->active_index = (int)i;
  stream->active_index = -1;
}

static const sim_dep_t *first_blocker(const sim_op_t *op)
{
  unsigned start = op->dep_count > 1 ? draw(op->dep_count) : 0;
  for (unsigned i = 0; i < op->dep_count; i++) {
    const sim_dep_t *dep = &op->deps[(start + i) % op->dep_count];
    if (!sim_dep_done(dep))
      return dep;
  }
  return NULL;
}

/* Its head may run, or runs already if it is one that takes time. */
static bool may_run(const sim_stream_t *stream)
{
  if (!stream->head || stream->running)
    return false;
  for (unsigned i = 0; i < stream->head->dep_count; i++) {
    if (!sim_dep_done(&stream->head->deps[i]))
      return false;
  }
  return true;
}

/* With SIMCUDA_OCCUPIED=1: the head is a fill, and a kernel that waits runs on the device. */
static bool is_held_up(const sim_stream_t *stream)
{
  if (!sim_knobs.occupied || stream->head->kind != SIM_OP_FILL)
    return false;
  for (unsigned i = 0; i < active_count; i++) {
    const sim_op_t *head = active[i]->head;
    if (active[i]->ctx->device == stream->ctx->device && may_run(active[i]) &&
        head->kind == SIM_OP_WAIT_VALUE && !sim_op_is_ready(head))
      return true;
  }
  return false;
}

static bool can_run(const sim_stream_t *stream)
{
  return may_run(stream) && sim_op_is_ready(stream->head) && !is_held_up(stream);
}

/* Whether a kernel that meets others is at the head of the stream and meets those that `op` meets */
static bool meets(const sim_stream_t *stream, const sim_op_t *op)
{
  const sim_op_t *head = stream->head;
  return may_run(stream) && head->kind == SIM_OP_MEET && !head->met && head->src.address == op->src.address &&
         head->value == op->value;
}

/* Kernels that wait for each other have met if they are as many as they wait for. */
static void meet(const sim_op_t *op)
{
  uint64_t parties = op->value, count = 0;
  for (unsigned i = 0; i < active_count; i++)
    count += meets(active[i], op);
  for (unsigned i = 0; count >= parties && parties && i < active_count; i++) {
    if (meets(active[i], op)) {
      active[i]->head->met = true;
      parties--;
    }
  }
}

/* After every change of the heads of streams: what takes time begins when it may run. */
static void begin_timed(void)
{
  for (unsigned i = 0; timed_count && i < active_count; i++) {
    sim_op_t *head = active[i]->head;
    if (!sim_op_is_timed(head) || head->end_ns || head->met || !may_run(active[i]))
      continue;
    if (head->kind == SIM_OP_BUSY)
      head->end_ns = sim_now_ns() + head->value;
    else
      meet(head);
  }
}

static bool is_host_work(const sim_op_t *op)
{
  return op->kind == SIM_OP_HOST || op->kind == SIM_OP_CALLBACK;
}

/* Runs the head of a stream. The mutex is released meanwhile if that is a function of the program. */
static void run_head(sim_stream_t *stream)
{
  sim_op_t *op = stream->head;
  if (is_host_work(op)) {
    sim_thread_t *thread = sim_thread_self();
    stream->running = true;
    thread->in_callback = true;
    thread->place = op->place;
    pthread_mutex_unlock(&sim_mutex);
    if (op->kind == SIM_OP_HOST)
      ((CUhostFn)op->fn)(op->user);
    else
      ((CUstreamCallback)op->fn)(op->handle, CUDA_SUCCESS, op->user);
    pthread_mutex_lock(&sim_mutex);
    thread->in_callback = false;
    thread->place = NULL;
    stream->running = false;
    pthread_cond_broadcast(&sim_cond);
  } else {
    sim_op_run(op, stream);
  }
  stream->head = op->next;
  if (!stream->head)
    stream->tail = NULL;
  else if (op->kind == SIM_OP_BUSY && stream->head->kind == SIM_OP_BUSY && stream->head->dep_count == 0)
    stream->head->end_ns = op->end_ns + stream->head->value; /* it began when the one in front ended */
  stream->completed++;
  sim_clock++;
  sim_pending--;
  timed_count -= sim_op_is_timed(op);
  sim_op_delete(op);
  if (!stream->head) {
    deactivate(stream);
    sim_stream_release(stream);
  }
  begin_timed();
}

/* What has completed by itself since the last call. Draws no number: when the clock is read is to change
 * nothing else. */
void sim_sched_notice(void)
{
  for (unsigned i = 0; timed_count && i < active_count;) {
    if (sim_op_is_timed(active[i]->head) && can_run(active[i])) {
      run_head(active[i]);
      i = 0; /* another may follow it, and the list has changed */
    } else {
      i++;
    }
  }
}

/* Runs one operation chosen at random among those that can run. */
static bool run_any(bool host_work, uint64_t held)
{
  if (!active_count)
    return false;
  unsigned start = draw(active_count);
  for (unsigned i = 0; i < active_count; i++) {
    sim_stream_t *stream = active[(start + i) % active_count];
    if (stream->id == held || !can_run(stream) || (!host_work && is_host_work(stream->head)))
      continue;
    run_head(stream);
    return true;
  }
  return false;
}

/* Runs one operation that brings `dep` nearer. */
static bool run_toward(const sim_dep_t *dep)
{
  for (;;) {
    sim_stream_t *stream = dep->stream;
    if (!stream->head || stream->running)
      return false;
    const sim_dep_t *blocker = first_blocker(stream->head);
    if (!blocker) {
      if (!sim_op_is_ready(stream->head) || is_held_up(stream))
        return false;
      run_head(stream);
      return true;
    }
    dep = blocker;
  }
}

/* Leaves the lock to the other threads for a moment. The caller may be cancelled, but not here. */
static void sleep_unlocked(uint64_t ns)
{
  int cancelable;
  const struct timespec time = {.tv_nsec = (long)ns};
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
  pthread_mutex_unlock(&sim_mutex);
  (void)nanosleep(&time, NULL); /* less is as good */
  pthread_mutex_lock(&sim_mutex);
  (void)pthread_setcancelstate(cancelable, NULL);
}

/* Nothing can run: until a function of the program has returned, or, where a kernel waits for the clock, the
 * host or other kernels, for `ns` nanoseconds. */
static void wait_for_others(uint64_t ns)
{
  bool host_only = false;
  for (unsigned i = 0; i < active_count; i++) {
    host_only |= active[i]->running;
    if (may_run(active[i])) {
      host_only = false;
      break;
    }
  }
  if (host_only)
    pthread_cond_wait(&sim_cond, &sim_mutex);
  else
    sleep_unlocked(ns);
}

void sim_sched_wait(sim_dep_t dep)
{
  enum { SHORTEST_NS = 20000, LONGEST_NS = 1000000 };
  uint64_t ns = SHORTEST_NS;
  for (;;) {
    sim_sched_notice();
    if (sim_dep_done(&dep))
      return;
    uint64_t before = rng;
    if ((draw(4) == 0 ? run_any(true, 0) : run_toward(&dep)) || run_toward(&dep) || run_any(true, 0)) {
      ns = SHORTEST_NS;
      continue;
    }
    rng = before; /* how often this thread looks depends on the clock: it is to change nothing else */
    wait_for_others(ns);
    ns = 2 * ns < LONGEST_NS ? 2 * ns : LONGEST_NS;
  }
}

bool sim_ctx_is_idle(const sim_ctx_t *ctx)
{
  for (unsigned i = 0; i < active_count; i++) {
    if (active[i]->ctx == ctx)
      return false;
  }
  return true;
}

bool sim_sched_any(bool (*test)(const sim_op_t *op, const void *data), const void *data)
{
  for (unsigned i = 0; i < active_count; i++) {
    for (const sim_op_t *op = active[i]->head; op; op = op->next) {
      if (test(op, data))
        return true;
    }
  }
  return false;
}

/* All work of the context, or of all contexts, submitted up to now */
void sim_sched_wait_ctx(sim_ctx_t *ctx)
{
  unsigned count = 0;
  sim_dep_t *deps = active_count ? calloc(active_count, sizeof *deps) : NULL;
  if (active_count && !deps)
    abort();
  for (unsigned i = 0; i < active_count; i++) {
    if (!ctx || sim_ctx_covers(ctx, active[i]->ctx))
      deps[count++] = sim_dep_now(active[i]);
  }
  for (unsigned i = count; i > 1; i--) {
    unsigned j = draw(i);
    sim_dep_t swap = deps[i - 1];
    deps[i - 1] = deps[j];
    deps[j] = swap;
  }
  for (unsigned i = 0; i < count; i++)
    sim_sched_wait(deps[i]);
  free(deps);
}

/* At each call: perhaps run something. Functions of the program wait for calls that wait, or that ask: the
 * program may hold a lock that they take. */
void sim_sched_poke(void)
{
  if (sim_knobs.pace != SIM_PACE_RANDOM) {
    while (sim_knobs.pace == SIM_PACE_AT_ONCE && sim_pending && run_any(false, 0))
      ;
    return;
  }
  if (phase.calls-- == 0) {
    static const unsigned char chances[] = {0, 0, 1, 3, 5, 7};
    phase.calls = 1 + draw(64);
    phase.chance = chances[draw(sizeof chances)];
    phase.held = active_count && draw(2) ? active[draw(active_count)]->id : 0;
  }
  while (sim_pending && draw(8) < phase.chance) {
    if (!run_any(false, phase.held))
      break;
  }
}

/* Draws no number. */
static void run_host_work(void)
{
  for (unsigned i = 0; i < active_count; i++) {
    if (is_host_work(active[i]->head) && can_run(active[i])) {
      run_head(active[i]);
      return;
    }
  }
}

/* At a query that found work unfinished: lets a polling loop end, functions of the program included. A kernel
 * that meets another may wait for one behind such a function, in a stream that the query does not ask about.
 */
void sim_sched_nudge(sim_dep_t dep)
{
  if (sim_knobs.pace != SIM_PACE_WAITS && draw(2) && !sim_dep_done(&dep) && !run_toward(&dep))
    run_host_work();
}

/*
 * "The legacy default stream ... synchronizes with all other [blocking] streams in the same context" (CUDA
 * C++ Programming Guide): work in it waits for all earlier work of blocking streams, later work of those
 * waits for it.
 */
static void depend_on_default_stream(sim_stream_t *stream, sim_op_t *op)
{
  if (stream->nonblocking || (!sim_knobs.pool_orders && op->is_pool))
    return;
  if (stream->kind != SIM_STREAM_LEGACY) {
    sim_stream_t *legacy = stream->ctx->legacy;
    if (legacy->head)
      sim_op_depend(op, work_of(legacy));
    return;
  }
  for (unsigned i = 0; i < active_count; i++) {
    sim_stream_t *other = active[i];
    if (other != stream && other->ctx == stream->ctx && !other->nonblocking)
      sim_op_depend(op, work_of(other));
  }
}

void sim_sched_submit(sim_stream_t *stream, sim_op_t *op)
{
  if (sim_oracle_on)
    sim_oracle_submit(stream, op);
  depend_on_default_stream(stream, op);
  op->next = NULL;
  if (stream->tail)
    stream->tail->next = op;
  else
    stream->head = op;
  stream->tail = op;
  stream->submitted++;
  if (sim_knobs.pool_orders || !op->is_pool)
    stream->worked = stream->submitted;
  if (stream->active_index < 0)
    activate(stream);
  timed_count += sim_op_is_timed(op);
  begin_timed();
  if (++sim_pending > SIM_MAX_PENDING) {
    while (sim_pending > SIM_MAX_PENDING / 2 && run_any(false, 0))
      ;
  }
}
