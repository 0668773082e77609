/*
 * A seed becomes a legal program. It leans to what is dangerous for a pool: few sizes, memory freed right
 * after work was submitted and taken again at once, use in another stream, events recorded again, streams
 * destroyed with work pending, and calls of other threads in the middle of a synchronization.
 */
#include "gen.h"

#include <stdlib.h>

unsigned draw(gen_t *gen, unsigned below)
{
  gen->random ^= gen->random << 13;
  gen->random ^= gen->random >> 7;
  gen->random ^= gen->random << 17;
  return (unsigned)((gen->random >> 32) % below);
}

bool chance(gen_t *gen, unsigned percent)
{
  return draw(gen, 100) < percent;
}

bool emit(gen_t *gen, step_t step)
{
  unsigned lane = step.lane;
  if ((step_infos[step.kind].flags & F_LANE) && lane >= CTXS && lane < LANE_CREATED)
    step.thread = (lane - CTXS) % THREADS; /* its own stream */
  if (step.thread >= gen->threads)
    return false;
  return model_append(gen->model, &step);
}

step_t some(gen_t *gen, step_kind_t kind)
{
  return (step_t){.kind = kind,
      .thread = (uint8_t)draw(gen, (unsigned)gen->threads),
      .route = (uint8_t)draw(gen, 2),
      .value = (uint8_t)(1 + draw(gen, 255))};
}

/*
 * Synchronous copies go to all kinds of memory, by the call that is for copies to the host. Decided by what
 * was drawn already, so that the seeds' programs are otherwise what they were. Not where memory is short: the
 * managed memory that they need could be refused.
 */
static void choose_places(const gen_t *gen, step_t *step)
{
  unsigned drawn = step->value;

  if (gen->options->tight)
    return;
  if (step->kind == STEP_COPY && step->lane < LANE_CREATED && drawn % 2) {
    step->kind = STEP_TO_OTHER;
  } else if (step->kind == STEP_TO_HOST) {
    step->flags = (uint8_t)(drawn % PLACES_ON_HOST);
    if (drawn % 8 < 4)
      step->kind = STEP_TO_MANAGED;
  } else if (step->kind == STEP_STREAM_SYNC && step->lane < LANE_CREATED && drawn % 2) {
    step->kind = STEP_HOST_TO_HOST; /* which says nothing of the stream */
  }
}

int pick_ctx(gen_t *gen)
{
  int c = gen->single || chance(gen, 70) ? 0 : (int)draw(gen, (unsigned)gen->ctxs);
  return model_ctx_is_live(gen->model, c) ? c : -1;
}

int new_lane(gen_t *gen, int ctx)
{
  step_t step = some(gen, STEP_STREAM_CREATE);
  int lane = model_new_lane(gen->model);
  if (lane < 0)
    return -1;
  step.lane = (uint8_t)lane;
  step.ctx = (uint8_t)ctx;
  step.flags = chance(gen, 65); /* non-blocking, as those of libraries are */
  return emit(gen, step) ? lane : -1;
}

/* A live lane of the context, often one that was just created; -1: none. */
int pick_lane(gen_t *gen, int ctx)
{
  if (gen->single)
    return LANE_LEGACY(ctx);
  if (chance(gen, 12))
    return new_lane(gen, ctx);
  for (int tries = 0; tries < 20; tries++) {
    unsigned kind = draw(gen, 10);
    int lane = kind < 2   ? LANE_LEGACY(ctx)
               : kind < 4 ? LANE_THREAD(ctx, (int)draw(gen, (unsigned)gen->threads))
                          : LANE_CREATED + (int)draw(gen, LANE_END - LANE_CREATED);
    if (lane == LANE_THREAD(ctx, 0) && !gen->own_streams)
      continue;
    if (model_lane_is_live(gen->model, lane) && model_lane_ctx(gen->model, lane) == ctx)
      return lane;
  }
  return LANE_LEGACY(ctx);
}

int pick_mem(gen_t *gen)
{
  for (int tries = 0; tries < 30; tries++) {
    int m = (int)draw(gen, MAX_MEMS);
    const model_mem_t *mem = model_mem(gen->model, m);
    if (mem->live && !mem->busy)
      return m;
  }
  return -1;
}

static int pick_event(gen_t *gen, int ctx)
{
  for (int tries = 0; tries < 10; tries++) {
    int e = (int)draw(gen, MAX_EVENTS);
    if (model_event_is_live(gen->model, e))
      return e;
  }
  step_t step = some(gen, STEP_EVENT_CREATE);
  int e = model_new_event(gen->model);
  if (e < 0)
    return -1;
  step.event = (uint8_t)e;
  step.ctx = (uint8_t)ctx;
  return emit(gen, step) ? e : -1;
}

/* Makes the next operation of the lane come after the last access of the allocation, or of a context where
 * there is none. */
bool order_behind(gen_t *gen, int m, int lane)
{
  int last = model_mem(gen->model, m)->last;
  unsigned way = draw(gen, 8);
  step_t step = some(gen, STEP_CTX_SYNC);
  step.ctx = last < 0 ? 0 : (uint8_t)model_lane_ctx(gen->model, last);
  if (!model_lane_is_live(gen->model, last) || way == 0)
    return emit(gen, step);
  step.kind = STEP_STREAM_SYNC;
  step.lane = (uint8_t)last;
  if (way == 1)
    return emit(gen, step);
  int e = pick_event(gen, step.ctx);
  if (e < 0)
    return false;
  step.kind = STEP_EVENT_RECORD;
  step.event = (uint8_t)e;
  if (!emit(gen, step))
    return false;
  step = some(gen, way == 2 ? STEP_EVENT_SYNC : STEP_EVENT_WAIT);
  step.event = (uint8_t)e;
  step.lane = (uint8_t)lane;
  return emit(gen, step);
}

bool use(gen_t *gen, int m, int lane)
{
  static const step_kind_t writes[] = {
      STEP_FILL, STEP_FILL, STEP_FILL, STEP_MEMSET, STEP_MEMSET_SYNC, STEP_TO_DEVICE, STEP_FILL_EARLY};
  static const step_kind_t reads[] = {STEP_EXPECT, STEP_EXPECT, STEP_TO_HOST};
  bool read = model_mem(gen->model, m)->written && chance(gen, 35);
  step_t step = some(gen,
      read ? reads[draw(gen, 3)] : writes[draw(gen, gen->options->programmatic && !gen->single ? 7 : 6)]);
  step.mem = (uint8_t)m;
  step.lane = (uint8_t)lane;
  if (chance(gen, 10)) {
    int source = pick_mem(gen);
    if (source >= 0 && model_mem(gen->model, source)->written) {
      step.kind = STEP_COPY;
      step.mem2 = (uint8_t)source;
    }
  }
  choose_places(gen, &step);
  return emit(gen, step) || (order_behind(gen, m, lane) && emit(gen, step));
}

int allocate(gen_t *gen, int ctx)
{
  static const uint32_t sizes[] = {4096, 4096, 5000, 65536, 1u << 20};
  if (gen->options->ordered && chance(gen, 50))
    return allocate_async(gen, pick_lane(gen, ctx));
  step_t step = some(gen, STEP_ALLOC);
  int m = model_new_mem(gen->model);
  if (m < 0)
    return -1;
  step.mem = (uint8_t)m;
  step.ctx = (uint8_t)ctx;
  step.bytes = chance(gen, 80) ? gen->size : sizes[draw(gen, sizeof sizes / sizeof *sizes)];
  return emit(gen, step) ? m : -1;
}

bool release(gen_t *gen, int m)
{
  if (model_mem(gen->model, m)->is_async)
    return release_async(gen, m);
  step_t step = some(gen, chance(gen, gen->options->ordered ? 30 : 5) ? STEP_FREE_ASYNC : STEP_FREE);
  step.mem = (uint8_t)m;
  int lane = pick_lane(gen, model_mem(gen->model, m)->ctx);
  step.lane = (uint8_t)(lane < 0 ? 0 : lane);
  if (emit(gen, step))
    return true;
  step.kind = STEP_FREE; /* not ordered behind the last access there */
  return emit(gen, step);
}

void synchronize(gen_t *gen)
{
  static const step_kind_t kinds[] = {STEP_CTX_SYNC, STEP_STREAM_SYNC, STEP_STREAM_QUERY, STEP_EVENT_SYNC,
      STEP_EVENT_QUERY, STEP_EVENT_RECORD, STEP_EVENT_WAIT, STEP_CTX_SYNC};
  step_t step = some(gen, kinds[draw(gen, sizeof kinds / sizeof *kinds)]);
  int ctx = pick_ctx(gen);
  if (ctx < 0)
    return;
  int lane = pick_lane(gen, ctx), event = pick_event(gen, ctx);
  if (lane < 0 || event < 0)
    return;
  step.ctx = (uint8_t)ctx;
  step.lane = (uint8_t)lane;
  step.event = (uint8_t)event;
  if (chance(gen, 3))
    step.kind = STEP_EVENT_DESTROY;
  else if (gen->options->ctx_events && chance(gen, 10))
    step.kind = chance(gen, 50) ? STEP_CTX_RECORD : STEP_CTX_WAIT;
  choose_places(gen, &step);
  (void)emit(gen, step); /* what is not legal now is left out */
}

/* Memory in use is freed, perhaps something is waited for, and memory of that size is
 * taken and used at once. */
static void churn(gen_t *gen)
{
  int ctx = pick_ctx(gen);
  int m = ctx < 0 ? -1 : allocate(gen, ctx);
  if (m < 0)
    return;
  for (unsigned i = 1 + draw(gen, 2); i > 0; i--) {
    int lane = pick_lane(gen, chance(gen, 90) ? ctx : pick_ctx(gen) < 0 ? ctx : pick_ctx(gen));
    if (lane >= 0)
      (void)use(gen, m, lane);
  }
  if (chance(gen, 80))
    (void)release(gen, m);
  if (chance(gen, 60))
    synchronize(gen);
  m = chance(gen, 80) && model_ctx_is_live(gen->model, ctx) ? allocate(gen, ctx) : -1;
  int lane = m < 0 ? -1 : pick_lane(gen, ctx);
  if (lane >= 0)
    (void)use(gen, m, lane);
}

static void destroy_lane(gen_t *gen)
{
  step_t step = some(gen, STEP_STREAM_DESTROY);
  int ctx = pick_ctx(gen);
  if (ctx < 0)
    return;
  step.lane = (uint8_t)pick_lane(gen, ctx);
  if (!emit(gen, step) || !chance(gen, 70))
    return;
  int lane = new_lane(gen, ctx); /* its handle has the same value */
  step_t sync = some(gen, STEP_STREAM_SYNC);
  sync.lane = (uint8_t)lane;
  if (lane >= 0 && chance(gen, 50))
    (void)emit(gen, sync);
}

/* Other threads work and free while a call of this one is in progress. */
static void interrupt(gen_t *gen)
{
  static const step_kind_t outer[] = {STEP_CTX_SYNC, STEP_CTX_SYNC, STEP_STREAM_SYNC, STEP_EVENT_SYNC,
      STEP_EVENT_QUERY, STEP_ALLOC, STEP_ALLOC, STEP_FREE};
  static const step_kind_t inner[] = {STEP_FREE, STEP_FREE, STEP_FREE, STEP_EVENT_RECORD, STEP_ALLOC};
  int ctx = pick_ctx(gen);
  if (gen->threads < 2 || ctx != 0 || model_capture(gen->model) >= 0 || gen->program->count + 12 > MAX_STEPS)
    return;
  step_t step = some(gen, outer[draw(gen, sizeof outer / sizeof *outer)]);
  int lane = pick_lane(gen, ctx), event = pick_event(gen, ctx), m = pick_mem(gen);
  if (step.kind == STEP_ALLOC)
    m = model_new_mem(gen->model);
  if (lane < 0 || event < 0 || m < 0)
    return;
  step.lane = (uint8_t)lane;
  step.event = (uint8_t)event;
  step.mem = (uint8_t)m;
  step.bytes = gen->size;
  step.inside = (uint8_t)(1 + draw(gen, 4));
  step.moment = (uint8_t)draw(gen, 14);
  bool taken = step.kind == STEP_ALLOC;
  if (!emit(gen, step))
    return;
  int outer_thread = gen->program->steps[gen->program->count - 1].thread;
  for (int tries = 0; model_open(gen->model) > 0; tries++) {
    int thread = (outer_thread + 1 + (int)draw(gen, (unsigned)gen->threads - 1)) % gen->threads;
    step = some(gen, inner[draw(gen, sizeof inner / sizeof *inner)]);
    int victim = pick_mem(gen), before = model_open(gen->model);
    step.thread = (uint8_t)thread;
    step.mem = (uint8_t)(step.kind == STEP_ALLOC ? model_new_mem(gen->model) : victim < 0 ? 0 : victim);
    step.bytes = gen->size;
    step.lane = (uint8_t)(gen->single ? LANE_LEGACY(0) : LANE_THREAD(0, thread));
    step.event = (uint8_t)event;
    if (step.kind == STEP_FREE && before > 1 && victim >= 0) { /* work on it first, in some stream */
      step_t fill = step;
      int last = model_mem(gen->model, victim)->last;
      fill.kind = STEP_FILL;
      if (!emit(gen, fill)) {
        fill.lane = (uint8_t)(last < 0 ? lane : last);
        (void)emit(gen, fill);
      }
    }
    if (victim >= 0 && tries < 20) {
      (void)emit(gen, step);
    } else {
      step.kind = STEP_STREAM_QUERY;
      (void)emit(gen, step);
    }
  }
  lane = gen->program->steps[gen->program->count - 1].kind == STEP_FREE || chance(gen, 50)
             ? pick_lane(gen, ctx)
             : -1;
  if (lane < 0)
    return;
  if (!taken && chance(gen, 70)) /* after a synchronization: who gets that memory, and when */
    m = allocate(gen, ctx);
  if (m >= 0 && (taken || model_mem(gen->model, m)->live))
    (void)use(gen, m, lane);
}

void capture(gen_t *gen)
{
  int capturing = model_capture(gen->model);
  step_t step = some(gen, STEP_CAPTURE_BEGIN);
  if (capturing >= 0) {
    step.kind = STEP_CAPTURE_END;
    step.lane = (uint8_t)capturing;
    step.graph = (uint8_t)model_new_graph(gen->model);
    for (int t = 0; t < gen->threads; t++) {
      step.thread = (uint8_t)t;
      if (emit(gen, step))
        return;
    }
    return;
  }
  int ctx = pick_ctx(gen), lane = ctx < 0 ? -1 : new_lane(gen, ctx);
  if (lane < 0 || model_new_graph(gen->model) < 0)
    return;
  step.lane = (uint8_t)lane;
  step.flags = (uint8_t)(1 + draw(gen, 2)); /* thread-local or relaxed */
  if (!emit(gen, step))
    return;
  for (int i = 0; i < 2; i++) {
    step_t fill = some(gen, STEP_FILL);
    int m = pick_mem(gen);
    fill.lane = (uint8_t)lane;
    fill.mem = (uint8_t)(m < 0 ? 0 : m);
    if (m >= 0)
      (void)emit(gen, fill);
  }
  if (gen->options->ordered && chance(gen, 60))
    capture_memory(gen);
}

static void launch(gen_t *gen)
{
  step_t step = some(gen, chance(gen, 80) ? STEP_GRAPH_LAUNCH : STEP_GRAPH_DESTROY);
  int ctx = pick_ctx(gen);
  for (int tries = 0; tries < 8; tries++) {
    step.graph = (uint8_t)draw(gen, MAX_GRAPHS);
    if (model_graph_is_live(gen->model, step.graph))
      break;
  }
  if (ctx < 0 || !model_graph_is_live(gen->model, step.graph))
    return;
  int lane = pick_lane(gen, ctx);
  if (lane < 0)
    return;
  step.lane = (uint8_t)lane;
  (void)emit(gen, step);
}

static void contexts(gen_t *gen)
{
  step_t step = some(gen, STEP_CTX_CREATE);
  step.ctx = (uint8_t)draw(gen, (unsigned)gen->ctxs);
  if (model_ctx_is_live(gen->model, step.ctx)) {
    step.kind = STEP_CTX_DESTROY;
    if (!chance(gen, 30))
      return;
    if (gen->options->ordered)
      give_up_async(gen, step.ctx);
  }
  (void)emit(gen, step);
}

void generate(program_t *program, uint64_t seed, const options_t *options)
{
  static model_t *model;
  static const uint32_t sizes[] = {4096, 65536, 1u << 20};
  gen_t gen = {.program = program, .options = options};
  if (!model)
    model = model_new();
  gen.model = model;
  gen.random = seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);
  program->seed = seed;
  program->options = *options;
  model_reset(model, program);
  unsigned kind = draw(&gen, 10);
  gen.threads = kind < 4 ? 1 : kind < 8 ? 2 : 3;
  gen.ctxs = chance(&gen, 70) ? 1 : options->devices > 1 ? 3 : 1;
  gen.size = sizes[draw(&gen, 3)];
  gen.single = chance(&gen, 50);
  gen.own_streams = chance(&gen, 60);
  if (options->waits)
    choose_waits(&gen);
  int target = 20 + (int)draw(&gen, 60);
  for (int tries = 0; program->count < target && tries < 1000; tries++) {
    if (options->waits && wait_somehow(&gen))
      continue;
    if (options->ordered && chance(&gen, 45)) {
      ordered_somehow(&gen);
      continue;
    }
    unsigned gesture = draw(&gen, 100);
    int m;
    if (gen.single ? gesture >= 86 && gesture < 97 : chance(&gen, 3)) {
      if (gen.single)
        leave_single(&gen);
      else
        enter_single(&gen);
    } else if (gen.single && gesture >= 65 && gesture < 69) {
      continue; /* there is no stream to destroy */
    } else if (gesture < 36) {
      churn(&gen);
    } else if (gesture < 46) {
      int ctx = pick_ctx(&gen), lane = ctx < 0 ? -1 : pick_lane(&gen, ctx);
      if (lane >= 0 && (m = pick_mem(&gen)) >= 0)
        (void)use(&gen, m, lane);
    } else if (gesture < 52) {
      if ((m = pick_mem(&gen)) >= 0)
        (void)release(&gen, m);
    } else if (gesture < 65) {
      synchronize(&gen);
    } else if (gesture < 69) {
      destroy_lane(&gen);
    } else if (gesture < 86) {
      interrupt(&gen);
    } else if (gesture < 90) {
      capture(&gen);
    } else if (gesture < 94) {
      launch(&gen);
    } else if (gesture < 97) {
      contexts(&gen);
    } else {
      step_t step = some(&gen, chance(&gen, 50) ? STEP_THREAD_END : STEP_HOST_FUNC);
      step.lane = LANE_LEGACY(0);
      if (step.thread > 0 || step.kind == STEP_HOST_FUNC)
        (void)emit(&gen, step);
    }
  }
  while (model_capture(model) >= 0 && program->count < MAX_STEPS) {
    int count = program->count;
    capture(&gen);
    if (program->count == count)
      break;
  }
  end_waits(&gen);
}
