/*
 * Programs that have one stream for a while. A pool may then hand out memory at once, since all later work
 * comes behind all earlier work; so what is dangerous is the moment at which that ends. The memory that is
 * used in the new way then is what was handed out last, with its earlier owner's work right in front of it.
 */
#include "gen.h"

/* Memory that another owner had a moment ago, whose work is likely to be pending; it
 * has had no use since. */
static int reused(gen_t *gen)
{
  int m = allocate(gen, 0);
  if (m < 0 || !use(gen, m, LANE_LEGACY(0)) || !release(gen, m))
    return -1;
  return allocate(gen, 0);
}

/* The same, by another thread, while the call in progress goes on: n more steps have to stand inside it. */
static int reused_inside(gen_t *gen, int outer_thread)
{
  int m = -1;
  for (int tries = 0; model_open(gen->model) > 0; tries++) {
    step_t step = some(gen, model_open(gen->model) % 3 == 0   ? STEP_FILL
                            : model_open(gen->model) % 3 == 2 ? STEP_FREE
                                                              : STEP_ALLOC);
    step.thread = (uint8_t)((outer_thread + 1) % gen->threads);
    step.lane = LANE_LEGACY(0);
    step.bytes = gen->size;
    if (step.kind == STEP_FILL)
      m = pick_mem(gen);
    int mem = step.kind == STEP_ALLOC ? model_new_mem(gen->model) : m;
    step.mem = (uint8_t)(mem < 0 ? 0 : mem);
    if (mem < 0 || tries > 20 || !emit(gen, step)) {
      step.kind = STEP_STREAM_QUERY;
      m = -1;
      (void)emit(gen, step);
    } else {
      m = mem;
    }
  }
  return m;
}

/* A stream is made while another thread takes and gives memory. */
static void create_around(gen_t *gen)
{
  step_t step = some(gen, STEP_STREAM_CREATE);
  int m = allocate(gen, 0), lane = model_new_lane(gen->model);
  if (gen->threads < 2 || m < 0 || lane < 0 || gen->program->count + 8 > MAX_STEPS)
    return;
  step.lane = (uint8_t)lane;
  step.flags = 1;
  step.inside = (uint8_t)(chance(gen, 70) ? 3 : 6);
  step.moment = (uint8_t)draw(gen, 24);
  if (!emit(gen, step))
    return;
  m = reused_inside(gen, step.thread);
  if (m >= 0 && model_mem(gen->model, m)->live)
    (void)use(gen, m, lane);
}

static void in_new_stream(gen_t *gen, int m)
{
  int lane = new_lane(gen, 0);
  if (lane >= 0 && m >= 0)
    (void)use(gen, m, lane);
}

static void in_own_stream(gen_t *gen, int m)
{
  int thread = (int)draw(gen, (unsigned)gen->threads);
  if (m >= 0)
    (void)use(gen, m, LANE_THREAD(0, thread));
  if (gen->threads > 1 && (m = allocate(gen, 0)) >= 0) { /* from one thread's to another's */
    (void)use(gen, m, LANE_THREAD(0, thread));
    (void)release(gen, m);
    if ((m = allocate(gen, 0)) >= 0)
      (void)use(gen, m, LANE_THREAD(0, (thread + 1) % gen->threads));
  }
}

static void overlapping(gen_t *gen, int m)
{
  step_t step = some(gen, STEP_FILL_EARLY);
  step.lane = LANE_LEGACY(0);
  for (int i = 0; i < 2 && m >= 0; i++, m = reused(gen)) {
    step.mem = (uint8_t)m;
    (void)emit(gen, step);
  }
}

static void in_new_ctx(gen_t *gen, int m)
{
  step_t step = some(gen, STEP_CTX_CREATE);
  step.ctx = (uint8_t)(1 + draw(gen, CTXS - 1));
  if (gen->ctxs < CTXS || m < 0 || !emit(gen, step))
    return;
  step_t copy = some(gen, STEP_COPY);
  copy.lane = LANE_LEGACY(step.ctx);
  copy.mem = (uint8_t)m;
  int source = pick_mem(gen);
  copy.mem2 = (uint8_t)(source < 0 ? 0 : source);
  if (source < 0 || !model_mem(gen->model, source)->written || !emit(gen, copy))
    (void)use(gen, m, LANE_LEGACY(step.ctx));
}

/* Streams that are made during a capture, too. */
static void during_capture(gen_t *gen, int m)
{
  capture(gen);
  in_new_stream(gen, m);
}

void leave_single(gen_t *gen)
{
  int m = chance(gen, 80) ? reused(gen) : allocate(gen, 0);
  gen->single = false;
  switch (draw(gen, 8)) {
  case 0:
  case 1: in_new_stream(gen, m); break;
  case 2:
  case 3: create_around(gen); break;
  case 4: in_own_stream(gen, m); break;
  case 5:
    if (gen->options->programmatic)
      overlapping(gen, m);
    break;
  case 6: in_new_ctx(gen, m); break;
  default: during_capture(gen, m); break;
  }
  if (chance(gen, 50)) /* and the ones that come later */
    in_new_stream(gen, m >= 0 && model_mem(gen->model, m)->live ? m : -1);
}

/* The last stream goes in the middle of the synchronization, and with it work that this does not cover. */
static void synchronize_around(gen_t *gen, int lane, int m)
{
  step_t step = some(gen, STEP_CTX_SYNC);
  if (gen->threads < 2)
    return;
  step.inside = 2;
  step.moment = (uint8_t)draw(gen, 6);
  if (!emit(gen, step))
    return;
  step_t inner = some(gen, STEP_FILL);
  inner.thread = (uint8_t)((step.thread + 1) % gen->threads);
  inner.lane = (uint8_t)lane;
  inner.mem = (uint8_t)m;
  for (int tries = 0; model_open(gen->model) > 0; tries++) {
    if (tries < 2 && emit(gen, inner)) {
      inner.kind = STEP_STREAM_DESTROY;
      continue;
    }
    inner.kind = STEP_STREAM_QUERY;
    inner.lane = LANE_LEGACY(0);
    (void)emit(gen, inner);
  }
}

/* All streams are gone; memory that one of them works on is freed and taken while the synchronization has not
 * ended. */
static void free_around(gen_t *gen, int m)
{
  static const step_kind_t kinds[] = {STEP_FREE, STEP_ALLOC, STEP_FILL};
  step_t step = some(gen, STEP_CTX_SYNC);
  int next = model_new_mem(gen->model);
  step.inside = 3;
  step.moment = (uint8_t)draw(gen, 6);
  if (gen->threads < 2 || next < 0 || !emit(gen, step))
    return;
  for (int i = 0; model_open(gen->model) > 0; i++) {
    step_t inner = some(gen, i < 3 ? kinds[i] : STEP_STREAM_QUERY);
    inner.thread = (uint8_t)((step.thread + 1) % gen->threads);
    inner.lane = LANE_LEGACY(0);
    inner.mem = (uint8_t)(i == 0 ? m : next);
    inner.bytes = model_mem(gen->model, m)->bytes;
    (void)emit(gen, inner);
  }
}

void enter_single(gen_t *gen)
{
  int m = allocate(gen, 0), last = -1;
  if (m < 0 || model_capture(gen->model) >= 0)
    return;
  int lane = new_lane(gen, 0);
  if (lane >= 0 && use(gen, m, lane) && chance(gen, 30))
    last = lane;
  for (int c = 1; c < CTXS; c++) {
    step_t step = some(gen, STEP_CTX_DESTROY);
    step.ctx = (uint8_t)c;
    (void)emit(gen, step);
  }
  for (int l = LANE_CREATED; l < LANE_END; l++) {
    step_t step = some(gen, STEP_STREAM_DESTROY);
    step.lane = (uint8_t)l;
    if (l != last)
      (void)emit(gen, step);
  }
  for (int t = 1; t < gen->threads; t++) {
    step_t step = some(gen, STEP_THREAD_END);
    step.thread = (uint8_t)t;
    (void)emit(gen, step);
  }
  if (last >= 0)
    synchronize_around(gen, last, m);
  else if (chance(gen, 30))
    free_around(gen, m);
  else if (chance(gen, 70))
    (void)emit(gen, some(gen, STEP_CTX_SYNC));
  gen->single = true;
  if (model_mem(gen->model, m)->live && release(gen, m) && (m = allocate(gen, 0)) >= 0)
    (void)use(gen, m, LANE_LEGACY(0));
}
