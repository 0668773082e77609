/*
 * What is legal: objects exist when they are used, and each access to an allocation comes after the one
 * before it by what CUDA promises. An approximation from the safe side: what it accepts is legal, and it
 * accepts enough.
 *
 * For each allocation: the lane of its last access, the lanes whose next operation is ordered behind that
 * access, and whether the host knows it to be complete. Whatever changes this is a dependency of the next
 * access, so that a program that runs freely stays legal.
 *
 * And for kernels that wait for the host, or for each other (behind.h): no call is made that natively waits
 * for one before its flag is written or its other half launched. So that this holds in each order in which
 * threads that run freely can take their steps: a step that puts something behind such a kernel comes after
 * all earlier ones, and after the write if the flag is written already; a call that waits comes after all
 * earlier writes of flags; the other half of a collective comes after all earlier steps and before all later
 * ones.
 */
#include "model_state.h"

#include <stdlib.h>
#include <string.h>

const step_info_t step_infos[STEP_KINDS] = {
#define STEP(name, text, flags) [STEP_##name] = {text, flags},
#include "steps.def"
#undef STEP
};

model_t *model_new(void)
{
  model_t *model = calloc(1, sizeof *model);
  if (!model)
    abort();
  return model;
}

static void open_ctx(model_t *model, int c)
{
  model->ctx_live[c] = true;
  model->blocking_since[c] = -1;
  model->lanes[LANE_LEGACY(c)] = (lane_t){true, (uint8_t)c, 0, LEGACY, -1, 0};
  for (int t = 0; t < THREADS; t++)
    model->lanes[LANE_THREAD(c, t)] = (lane_t){true, (uint8_t)c, (uint8_t)t, BLOCKING, -1, 0};
  model->lanes[LANE_GONE(c)] = (lane_t){false, (uint8_t)c, 0, BLOCKING, -1, 0};
}

void model_reset(model_t *model, program_t *program)
{
  memset(model, 0, sizeof *model);
  model->program = program;
  program->count = 0;
  model->lane_count = LANE_CREATED;
  model->barrier = model->capture = model->last_launch = model->last_ctx_wait = -1;
  open_ctx(model, 0);
}

/* ---- dependencies ---- */

static void after(model_t *model, int index, int earlier)
{
  if (earlier >= 0 && earlier != index)
    model->program->after[index][earlier / 64] |= BIT(earlier % 64);
}

static void touch(model_t *model, int index, int *writer)
{
  after(model, index, *writer);
  *writer = index;
}

static void after_all(model_t *model, int index)
{
  for (int i = 0; i < index; i++)
    after(model, index, i);
}

static void after_each(model_t *model, int index, const uint64_t *steps)
{
  for (int i = 0; i < MAX_STEPS / 64; i++)
    model->program->after[index][i] |= steps[i];
}

static void barrier(model_t *model, int index)
{
  after_all(model, index);
  model->barrier = index;
}

/* ---- order ---- */

static uint64_t lanes_of(const model_mem_t *mem)
{
  return mem->last < 0 ? 0 : mem->ordered | BIT(mem->last);
}

uint64_t model_lanes_in(const model_t *model, int ctx, bool blocking_only)
{
  uint64_t mask = 0;
  for (int l = 0; l < LANES; l++) {
    if (model->lanes[l].ctx == ctx && (l < model->lane_count || l >= LANE_END) &&
        (!blocking_only || model->lanes[l].kind != NONBLOCKING))
      mask |= BIT(l);
  }
  return mask;
}

/* The kernels that the next operation of the lane comes behind */
uint32_t model_behind_next(const model_t *model, int l)
{
  const lane_t *lane = &model->lanes[l];
  uint64_t from = lane->kind == LEGACY     ? model_lanes_in(model, lane->ctx, true)
                  : lane->kind == BLOCKING ? BIT(LANE_LEGACY(lane->ctx))
                                           : 0;
  return model->behind.lanes[l] | behind_lanes(&model->behind, from);
}

/* Where flags are written already, the step comes after the writes: run freely it would else put what follows
 * behind a kernel that is still waiting. */
static void put_behind(model_t *model, int index, uint32_t *subject, uint32_t set)
{
  bool is_new = (set & ~*subject) != 0;
  if (behind_add(&model->behind, subject, set))
    after_all(model, index);
  else if (is_new)
    after_each(model, index, model->writes);
}

/*
 * The lanes by which the rule of the default stream orders what comes next behind the last access. Where the
 * two calls of stream-ordered memory are outside that rule: the lane of the access, unless it was such a
 * call.
 */
static uint64_t lanes_by_rule(const model_t *model, const model_mem_t *mem)
{
  const options_t *options = &model->program->options;
  if (!options->ordered || options->pool_orders)
    return lanes_of(mem);
  return mem->last < 0 || mem->is_new ? 0 : BIT(mem->last);
}

/* An operation joins the lane: the legacy stream and blocking ones wait for each other. */
static void submit(model_t *model, int index, int l)
{
  lane_t *lane = &model->lanes[l];
  touch(model, index, &lane->writer);
  put_behind(model, index, &model->behind.lanes[l], model_behind_next(model, l));
  if (lane->kind == NONBLOCKING)
    return;
  uint64_t from = lane->kind == LEGACY ? model_lanes_in(model, lane->ctx, true) : BIT(LANE_LEGACY(lane->ctx));
  for (int m = 0; m < model->mem_count; m++) {
    model_mem_t *mem = &model->mems[m];
    if ((lanes_by_rule(model, mem) & from) && !(lanes_of(mem) & BIT(l))) {
      mem->ordered |= BIT(l);
      touch(model, index, &mem->writer);
    }
  }
}

static bool would_be_ordered(const model_t *model, const model_mem_t *mem, int l)
{
  const lane_t *lane = &model->lanes[l];
  if (mem->last < 0 || mem->known || (lanes_of(mem) & BIT(l)))
    return true;
  if (lane->kind == LEGACY)
    return lanes_by_rule(model, mem) & model_lanes_in(model, lane->ctx, true);
  return lane->kind == BLOCKING && (lanes_by_rule(model, mem) & BIT(LANE_LEGACY(lane->ctx)));
}

bool model_is_of_two(step_kind_t kind)
{
  return kind == STEP_COPY || kind == STEP_TO_OTHER;
}

bool model_is_of_ctx(const model_t *model, const model_mem_t *mem)
{
  return !mem->is_async || model->program->options.leaving;
}

/* Kernels reach memory of their own context and of a peer's, and of their device's pool; copies reach all,
 * and so do frees in stream order. */
static bool reaches(const model_t *model, int l, const model_mem_t *mem, bool copy)
{
  int ctx = model->lanes[l].ctx;
  if (!model_is_of_ctx(model, mem))
    return copy || model_share_device(ctx, mem->ctx);
  return ctx == mem->ctx || copy || (ctx < 2 && mem->ctx < 2);
}

static bool may_access(const model_t *model, const step_t *step, const model_mem_t *mem)
{
  bool is_free = step->kind == STEP_FREE_ASYNC;
  if (!mem->live || mem->busy || !reaches(model, step->lane, mem, is_free || model_is_of_two(step->kind)))
    return false;
  if (is_free && model->program->options.ordered && !model->program->options.pool_orders)
    return mem->last < 0 || mem->known || (lanes_of(mem) & BIT(step->lane));
  return would_be_ordered(model, mem, step->lane);
}

bool model_may_access(const model_t *model, const step_t *step, int m)
{
  return m < model->mem_count && may_access(model, step, &model->mems[m]);
}

bool model_may_use_late(const model_t *model, const step_t *step)
{
  if (step->mem >= model->mem_count)
    return false;
  const late_t *late = &model->lates[step->mem];
  return late->gates && may_access(model, step, &late->mem) &&
         (!model_reads_only(step->kind) || late->mem.written);
}

static void access(model_t *model, int index, const step_t *step, int m)
{
  model_mem_t *mem = &model->mems[m];
  touch(model, index, &mem->writer);
  model->behind.mems[m] |= model->behind.lanes[step->lane];
  mem->last = step->lane;
  mem->ordered = 0;
  mem->known = mem->is_new = false;
  mem->stamp++;
}

static void cover(const model_t *model, uint64_t lanes, int *ret_covers)
{
  for (int m = 0; m < MAX_MEMS; m++)
    ret_covers[m] = m < model->mem_count && (lanes_of(&model->mems[m]) & lanes) ? model->mems[m].stamp : -1;
}

static void know(model_t *model, int index, const int *covers)
{
  for (int m = 0; m < model->mem_count; m++) {
    model_mem_t *mem = &model->mems[m];
    if (covers[m] == mem->stamp && !mem->known) {
      mem->known = true;
      touch(model, index, &mem->writer);
    }
  }
}

static void order(model_t *model, int index, const int *covers, uint64_t lanes)
{
  for (int m = 0; m < model->mem_count; m++) {
    model_mem_t *mem = &model->mems[m];
    if (covers[m] == mem->stamp && mem->last >= 0) {
      mem->ordered |= lanes;
      touch(model, index, &mem->writer);
    }
  }
}

/* ---- effects ---- */

static void end_late_uses(model_t *model, int index, uint32_t gates)
{
  for (int m = 0; m < model->mem_count; m++) {
    if (!(model->lates[m].gates & gates))
      continue;
    model->lates[m].gates = 0;
    touch(model, index, &model->mems[m].writer);
  }
}

static void end_ctx(model_t *model, int index, int c)
{
  uint64_t lanes = model_lanes_in(model, c, false);
  for (int m = 0; m < model->mem_count; m++) {
    if (lanes_of(&model->mems[m]) & lanes)
      model->mems[m].known = true; /* its work is over */
    if (model->mems[m].ctx == c && !model->mems[m].is_async)
      model->mems[m].live = model->mems[m].held = false;
  }
  for (int l = 0; l < LANES; l++)
    model->lanes[l].live &= model->lanes[l].ctx != c;
  for (int e = 0; e < model->event_count; e++)
    model->events[e].live &= model->events[e].ctx != c;
  for (int g = 0; g < model->graph_count; g++)
    model->graphs[g].live &= model->graphs[g].ctx != c;
  model->ctx_live[c] = false;
  end_late_uses(model, index, UINT32_MAX);
  barrier(model, index);
}

/* Its streams are not those of the thread that has its number next. */
static void end_thread(model_t *model, int index, int t)
{
  for (int c = 0; c < CTXS; c++) {
    int l = LANE_THREAD(c, t);
    for (int m = 0; m < model->mem_count; m++) {
      if (!model->lates[m].mem.known)
        model->lates[m].gates = 0;
      model->mems[m].ordered &= ~BIT(l);
      if (model->mems[m].last == l)
        model->mems[m].last = LANE_GONE(c);
    }
    touch(model, index, &model->lanes[l].writer);
    model->lanes[l].gates = 0;
    model->behind.lanes[LANE_GONE(c)] |= model->behind.lanes[l]; /* and l itself: run freely it goes on */
  }
  barrier(model, index);
}

static void launch_graph(model_t *model, int index, const step_t *step)
{
  graph_t *graph = &model->graphs[step->graph];
  touch(model, index, &graph->writer);
  touch(model, index, &model->lanes[step->lane].writer);
  if (graph->count || graph->has_memory) /* an empty one orders nothing */
    submit(model, index, step->lane);
  put_behind(model, index, &model->behind.lanes[step->lane], model->behind.graphs[step->graph]);
  put_behind(model, index, &model->behind.graphs[step->graph], model->behind.lanes[step->lane]);
  for (int i = 0; i < graph->count; i++) {
    access(model, index, step, graph->mems[i]);
    model->mems[graph->mems[i]].value = graph->values[i];
    model->mems[graph->mems[i]].written = true;
  }
}

static void access_step(model_t *model, int index, step_t *step)
{
  model_mem_t *mem = &model->mems[step->mem];
  if (step->lane == model->capture && model->capture >= 0) {
    touch(model, index, &model->lanes[step->lane].writer);
    touch(model, index, &mem->writer); /* its address is there */
    model->captured.mems[model->captured.count] = step->mem;
    model->captured.values[model->captured.count++] = step->value;
    return;
  }
  submit(model, index, step->lane);
  access(model, index, step, step->mem);
  if (model_is_of_two(step->kind)) {
    access(model, index, step, step->mem2);
    step->value = model->mems[step->mem2].value;
  }
  if (model_reads_only(step->kind))
    step->value = mem->value;
  if (step->kind == STEP_TO_HOST) /* the others may be pending when the call returns */
    mem->known = true;
  mem->value = step->value;
  mem->written = true;
}

/* What a synchronization tells the host, as of when it is called */
static void begin_sync(const model_t *model, const step_t *step, int *ret_covers)
{
  switch (step->kind) {
  case STEP_STREAM_SYNC: cover(model, BIT(step->lane), ret_covers); break;
  case STEP_CTX_SYNC: cover(model, model_lanes_in(model, step->ctx, false), ret_covers); break;
  case STEP_EVENT_SYNC:
    memcpy(ret_covers, model->events[step->event].covers, sizeof model->events[0].covers);
    break;
  default: cover(model, 0, ret_covers); break;
  }
}

/*
 * An allocation or a free in the order of a stream. A pool that serves it makes no operation in the stream,
 * so it orders nothing but the memory that it is about. Only in the legacy stream it orders others, where
 * there are blocking ones: created ones, or threads' own in which memory was asked for or freed.
 */
static void submit_pool_op(model_t *model, int index, int l)
{
  const options_t *options = &model->program->options;
  int c = model->lanes[l].ctx;
  if (!options->ordered ||
      (options->pool_orders && model->lanes[l].kind == LEGACY && model->blocking_since[c] >= 0)) {
    after(model, index, model->blocking_since[c]);
    submit(model, index, l);
    return;
  }
  if (model->lanes[l].kind == BLOCKING && model->blocking_since[c] < 0)
    model->blocking_since[c] = index;
  touch(model, index, &model->lanes[l].writer);
  put_behind(model, index, &model->behind.lanes[l], model_behind_next(model, l));
}

/* The same of a call that others stand inside: they may come before the operation or after it. */
static void begin_pool_op(model_t *model, int index, const step_t *step)
{
  if (!step->inside) {
    submit_pool_op(model, index, step->lane);
    return;
  }
  touch(model, index, &model->lanes[step->lane].writer);
  put_behind(model, index, &model->behind.lanes[step->lane], model_behind_next(model, step->lane));
}

static void free_async(model_t *model, int index, const step_t *step)
{
  model_mem_t *mem = &model->mems[step->mem];
  late_t *late = &model->lates[step->mem];
  *late = (late_t){.gates = step->inside ? 0 : model->lanes[step->lane].gates, .mem = *mem};
  model->freed_in_order = true;
  begin_pool_op(model, index, step);
  access(model, index, step, step->mem);
  mem->live = false;
}

/* The use, and the wait for its lane */
static void use_late(model_t *model, int index, step_t *step)
{
  model_mem_t *mem = &model->lates[step->mem].mem;
  int covers[MAX_MEMS];
  submit(model, index, step->lane);
  cover(model, BIT(step->lane), covers);
  know(model, index, covers);
  touch(model, index, &model->mems[step->mem].writer);
  if (model_reads_only(step->kind))
    step->value = mem->value;
  mem->value = step->value;
  mem->written = mem->known = true;
}

static void alloc_async(model_t *model, int index, const step_t *step)
{
  model_mem_t *mem = &model->mems[step->mem];
  begin_pool_op(model, index, step);
  *mem = (model_mem_t){.live = true,
      .busy = step->inside > 0,
      .held = true,
      .is_async = true,
      .ctx = model->lanes[step->lane].ctx,
      .last = -1,
      .writer = index,
      .bytes = step->bytes};
  model->mem_count = step->mem + 1;
  access(model, index, step, step->mem);
  mem->is_new = true;
}

/* The steps inside the call may have come behind its operation: in the legacy stream, too, that puts none of
 * them in front of what follows. */
static void end_pool_op(model_t *model, int index, const step_t *step)
{
  model_mem_t *mem = &model->mems[step->mem];
  if (model->lanes[step->lane].kind == LEGACY)
    begin_pool_op(model, index, step);
  else
    submit_pool_op(model, index, step->lane);
  if (step->kind != STEP_ALLOC_ASYNC)
    return;
  access(model, index, step, step->mem);
  mem->is_new = true;
  mem->busy = false;
}

/* Known from the step on that ends it, so that running freely no step has to wait for a later one. */
static void end_around(model_t *model, int index)
{
  const around_t *around = &model->around;
  const step_t *step = &around->step;
  after(model, index, around->index);
  if (step->kind == STEP_ALLOC)
    model->mems[step->mem].busy = false;
  if (step->kind == STEP_STREAM_CREATE)
    model->lanes[step->lane].live = true;
  if (step->kind == STEP_STREAM_CREATE && model->lanes[step->lane].kind == BLOCKING &&
      model->blocking_since[step->ctx] < 0)
    model->blocking_since[step->ctx] = index;
  if (step->kind == STEP_ALLOC_ASYNC || step->kind == STEP_FREE_ASYNC)
    end_pool_op(model, index, step);
  if (step->kind != STEP_EVENT_SYNC || model->events[step->event].version == around->event_version)
    know(model, index, around->covers);
}

/* All streams of the context wait for the event, each by an operation. */
static void ctx_waits(model_t *model, int index, const step_t *step)
{
  const event_t *event = &model->events[step->event];
  behind_t *behind = &model->behind;
  uint64_t lanes = model_lanes_in(model, step->ctx, false), blocking = model_lanes_in(model, step->ctx, true);
  model->last_ctx_wait = index;
  uint32_t joined = behind->events[step->event] | behind_lanes(behind, blocking);
  for (int l = 0; l < LANES; l++) {
    if (lanes >> l & 1)
      put_behind(model, index, &behind->lanes[l], blocking >> l & 1 ? joined : behind->events[step->event]);
  }
  for (int l = 0; l < model->lane_count; l++) {
    if (model->lanes[l].live && model->lanes[l].ctx == step->ctx)
      touch(model, index, &model->lanes[l].writer);
  }
  /* Other threads' streams may not exist yet, so nothing is made of it but for those that were created. */
  for (int l = LANE_CREATED; l < model->lane_count; l++) {
    if (model->lanes[l].live && model->lanes[l].ctx == step->ctx)
      order(model, index, event->covers, BIT(l));
  }
}

static void wait_step(model_t *model, int index, const step_t *step)
{
  behind_t *behind = &model->behind;
  if (step->kind == STEP_WRITE) {
    after(model, index, behind->kernels[step->wait].step);
    behind->kernels[step->wait].open = false;
    for (int l = 0; l < LANES; l++)
      model->lanes[l].gates &= ~(UINT32_C(1) << step->wait);
    for (int e = 0; e < MAX_EVENTS; e++)
      model->events[e].gates &= ~(UINT32_C(1) << step->wait);
    end_late_uses(model, index, UINT32_C(1) << step->wait);
    model->writes[index / 64] |= BIT(index % 64);
    return;
  }
  bool other_half = step->wait < behind->count;
  submit(model, index, step->lane);
  behind_launch(behind, step->wait, step->kind == STEP_MEET, step->lane, index);
  if (step->kind == STEP_WAIT)
    model->lanes[step->lane].gates |= UINT32_C(1) << step->wait;
  model->last_launch = index;
  if (other_half)
    barrier(model, index);
  else
    after_all(model, index);
}

/* Beside what orders accesses: see the head of this file, and may_launch_inside. */
static void order_waits(model_t *model, int index, const step_t *step)
{
  bool tight = model->program->options.tight;
  uint32_t set;
  if (model_waits_for(model, step, &set))
    after_each(model, index, model->writes);
  if (step->kind == STEP_CTX_SYNC || (step->kind == STEP_ALLOC && tight))
    after(model, index, model->last_launch);
  if (step->kind == STEP_ALLOC && tight)
    after_each(model, index, model->frees);
  if (step->kind == STEP_FREE)
    model->frees[index / 64] |= BIT(index % 64);
}

static void apply(model_t *model, int index, step_t *step)
{
  event_t *event = &model->events[step->event];
  lane_t *lane = &model->lanes[step->lane];
  unsigned flags = step_infos[step->kind].flags;
  int covers[MAX_MEMS];

  begin_sync(model, step, covers);
  order_waits(model, index, step);
  if (flags & F_EVENT)
    touch(model, index, &event->writer);
  switch (step->kind) {
  case STEP_ALLOC:
    model->mems[step->mem] =
        (model_mem_t){.live = true, .busy = step->inside > 0, .ctx = step->ctx, .last = -1, .writer = index};
    model->mems[step->mem].bytes = step->bytes;
    model->mems[step->mem].held = true;
    model->mem_count = step->mem + 1;
    break;
  case STEP_FREE:
    touch(model, index, &model->mems[step->mem].writer);
    model->mems[step->mem].live = model->mems[step->mem].held = false;
    break;
  case STEP_ALLOC_ASYNC: alloc_async(model, index, step); break;
  case STEP_CAPTURE_MEMORY:
    touch(model, index, &lane->writer);
    model->captured.has_memory = true;
    break;
  case STEP_FREE_ASYNC: free_async(model, index, step); break;
  case STEP_LATE_FILL:
  case STEP_LATE_EXPECT: use_late(model, index, step); break;
  case STEP_HOST_FUNC:
  case STEP_BUSY: submit(model, index, step->lane); break;
  case STEP_STREAM_CREATE:
    *lane = (lane_t){!step->inside, step->ctx, 0, step->flags & 1 ? NONBLOCKING : BLOCKING, index, 0};
    model->lane_count = step->lane + 1;
    after(model, index, model->last_ctx_wait); /* which does not concern it */
    if (!step->inside && lane->kind == BLOCKING && model->blocking_since[step->ctx] < 0)
      model->blocking_since[step->ctx] = index;
    break;
  case STEP_STREAM_DESTROY:
    touch(model, index, &lane->writer);
    lane->live = false;
    break;
  case STEP_STREAM_SYNC:
  case STEP_STREAM_QUERY: touch(model, index, &lane->writer); break;
  case STEP_EVENT_CREATE:
    *event = (event_t){.live = true, .ctx = step->ctx, .writer = index};
    model->event_count = step->event + 1;
    break;
  case STEP_EVENT_DESTROY: event->live = false; break;
  case STEP_EVENT_RECORD:
    submit(model, index, step->lane);
    cover(model, BIT(step->lane), event->covers);
    event->recorded = true;
    event->version++;
    event->gates = lane->gates;
    model->behind.events[step->event] = 0;
    put_behind(model, index, &model->behind.events[step->event], model->behind.lanes[step->lane]);
    break;
  case STEP_CTX_RECORD:
    cover(model, model_lanes_in(model, step->ctx, false), event->covers);
    event->recorded = true;
    event->version++;
    event->gates = 0;
    model->behind.events[step->event] = 0;
    put_behind(model, index, &model->behind.events[step->event],
        behind_lanes(&model->behind, model_lanes_in(model, step->ctx, false)));
    for (int m = 0; m < model->mem_count; m++) {
      if (event->covers[m] >= 0)
        touch(model, index, &model->mems[m].writer);
    }
    break;
  case STEP_EVENT_WAIT:
    touch(model, index, &lane->writer);
    put_behind(model, index, &model->behind.lanes[step->lane],
        model_behind_next(model, step->lane) | model->behind.events[step->event]);
    order(model, index, event->covers, BIT(step->lane));
    lane->gates |= event->gates;
    break;
  case STEP_CTX_WAIT: ctx_waits(model, index, step); break;
  case STEP_CTX_CREATE:
    open_ctx(model, step->ctx);
    barrier(model, index);
    break;
  case STEP_CTX_DESTROY: end_ctx(model, index, step->ctx); break;
  case STEP_CAPTURE_BEGIN:
    model->capture = step->lane;
    model->capture_thread = step->thread;
    model->capture_mode = step->flags;
    model->freed_in_order = false;
    model->captured = (graph_t){.live = true, .ctx = lane->ctx};
    barrier(model, index);
    break;
  case STEP_CAPTURE_END:
    model->captured.writer = index;
    model->graphs[step->graph] = model->captured;
    model->graph_count = step->graph + 1;
    model->capture = -1;
    barrier(model, index);
    break;
  case STEP_GRAPH_LAUNCH: launch_graph(model, index, step); break;
  case STEP_GRAPH_DESTROY:
    touch(model, index, &model->graphs[step->graph].writer);
    model->graphs[step->graph].live = false;
    break;
  case STEP_THREAD_END: end_thread(model, index, step->thread); break;
  case STEP_WAIT:
  case STEP_WRITE:
  case STEP_MEET: wait_step(model, index, step); break;
  default:
    if (flags & F_ACCESS)
      access_step(model, index, step);
    break;
  }
  if (step->inside) {
    model->around =
        (around_t){.steps = step->inside, .step = *step, .index = index, .event_version = event->version};
    memcpy(model->around.covers, covers, sizeof covers);
    for (int m = 0; m < model->mem_count; m++) {
      if (covers[m] >= 0)
        touch(model, index, &model->mems[m].writer); /* it tells of what was submitted before it */
    }
  } else if (model->around.steps) {
    if (--model->around.steps == 0)
      end_around(model, index);
  } else {
    know(model, index, covers);
  }
}

/* A step inside a call must not have it wait for a kernel that does not end: the call may have begun, or may
 * begin behind the step. */
static bool blocks_around(const model_t *model, const step_t *step, int index)
{
  static model_t after_step;
  static program_t scratch;
  step_t copy = *step;
  if (!model->around.steps || (behind_all(&model->behind) == 0 && !(step_infos[step->kind].flags & F_WAIT)))
    return false;
  after_step = *model;
  scratch = *model->program;
  after_step.program = &scratch;
  scratch.steps[index] = copy;
  apply(&after_step, index, &scratch.steps[index]);
  return model_would_hang(&after_step, &model->around.step);
}

bool model_append(model_t *model, const step_t *step)
{
  program_t *program = model->program;
  int index = program->count;
  if (index == MAX_STEPS || !model_is_legal(model, step) || blocks_around(model, step, index))
    return false;
  program->steps[index] = *step;
  program->count++;
  memset(program->after[index], 0, sizeof program->after[index]);
  after(model, index, model->barrier);
  apply(model, index, &program->steps[index]);
  return true;
}
