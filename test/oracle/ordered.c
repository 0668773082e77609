/*
 * Memory of cudaMallocAsync. A pool that follows the order of streams hands it out again in the stream where
 * it was freed, with its earlier owner's work right in front. So what is dangerous is all that makes two
 * streams of one, or one stream of two: handles that are used again, threads' own streams, the default
 * stream's rule, calls of two threads in one stream, launches that overlap. Memory changes its lane by
 * events, by the rule, and by a host that has waited.
 */
#include "gen.h"

int allocate_async(gen_t *gen, int lane)
{
  static const uint32_t sizes[] = {512, 4096, 5000, 65536, 1u << 20, 3u << 20};
  step_t step = some(gen, STEP_ALLOC_ASYNC);
  int m = model_new_mem(gen->model);
  if (m < 0 || lane < 0)
    return -1;
  step.mem = (uint8_t)m;
  step.lane = (uint8_t)lane;
  step.bytes = chance(gen, 85) ? gen->size : sizes[draw(gen, sizeof sizes / sizeof *sizes)];
  return emit(gen, step) ? m : -1;
}

/* One that the default stream's rule orders behind the other: the legacy one, or, behind that, any. */
static int lane_by_rule(gen_t *gen, int lane)
{
  int ctx = model_lane_ctx(gen->model, lane);
  return lane == LANE_LEGACY(ctx) ? pick_lane(gen, ctx) : LANE_LEGACY(ctx);
}

static bool free_in(gen_t *gen, int m, int lane)
{
  step_t step = some(gen, STEP_FREE_ASYNC);
  step.mem = (uint8_t)m;
  step.lane = (uint8_t)lane;
  return lane >= 0 && emit(gen, step);
}

static bool free_by_host(gen_t *gen, int m)
{
  step_t step = some(gen, STEP_FREE);
  step_t sync = some(gen, chance(gen, 70) ? STEP_STREAM_SYNC : STEP_CTX_SYNC);
  int last = model_mem(gen->model, m)->last;
  step.mem = (uint8_t)m;
  sync.lane = (uint8_t)last;
  sync.ctx = (uint8_t)model_lane_ctx(gen->model, last);
  if (!model_mem(gen->model, m)->known && !emit(gen, sync)) {
    sync.kind = STEP_CTX_SYNC; /* it is another thread's own, or it is gone */
    (void)emit(gen, sync);
  }
  return emit(gen, step);
}

bool release_async(gen_t *gen, int m)
{
  int last = model_mem(gen->model, m)->last, ctx = model_lane_ctx(gen->model, last);
  unsigned way = draw(gen, 10);
  if (way < 5 && free_in(gen, m, last))
    return true;
  if (way < 8 && free_in(gen, m, lane_by_rule(gen, last)))
    return true;
  int lane = way < 9 && model_ctx_is_live(gen->model, ctx) ? pick_lane(gen, ctx) : -1;
  if (lane >= 0 && (free_in(gen, m, lane) || (order_behind(gen, m, lane) && free_in(gen, m, lane))))
    return true;
  return free_by_host(gen, m);
}

/* A lane takes the place of this one: its handle may have the same value. */
static int replace(gen_t *gen, int lane)
{
  int ctx = model_lane_ctx(gen->model, lane);
  step_t step = some(gen, STEP_STREAM_DESTROY);
  if (lane >= LANE_CREATED) {
    step.lane = (uint8_t)lane;
    if (!emit(gen, step))
      return lane;
  } else if (lane >= CTXS) {
    step.kind = STEP_THREAD_END;
    step.thread = (uint8_t)((lane - CTXS) % THREADS);
    if (step.thread > 0)
      (void)emit(gen, step);
    return lane;
  } else {
    return lane;
  }
  return model_ctx_is_live(gen->model, ctx) ? new_lane(gen, ctx) : -1;
}

static void trim(gen_t *gen, int ctx)
{
  step_t step = some(gen, STEP_TRIM);
  step.ctx = (uint8_t)ctx;
  (void)emit(gen, step);
}

/* What a program does between a free and the next allocation; the lane in which it goes on. */
static int pause(gen_t *gen, int lane)
{
  int ctx = model_lane_ctx(gen->model, lane);
  switch (draw(gen, 10)) {
  case 0:
  case 1: return replace(gen, lane);
  case 2: trim(gen, ctx); return lane;
  case 3: synchronize(gen); return lane;
  case 4: return lane_by_rule(gen, lane);
  case 5: return pick_lane(gen, ctx);
  default: return lane;
  }
}

/* Only this lane is waited for, and what the program then knows is used elsewhere. */
static void wait_for_lane(gen_t *gen, int m, int lane)
{
  step_t step = some(gen, STEP_STREAM_SYNC);
  step.lane = (uint8_t)lane;
  if (!emit(gen, step))
    return;
  int other = pick_lane(gen, model_lane_ctx(gen->model, lane));
  if (other >= 0)
    (void)use(gen, m, other);
}

/* Taken, used, freed, and taken again at once, with few things in between. */
static void churn(gen_t *gen)
{
  int ctx = pick_ctx(gen), lane = ctx < 0 ? -1 : pick_lane(gen, ctx);
  for (unsigned rounds = 1 + draw(gen, 3); rounds > 0 && lane >= 0; rounds--) {
    int m = allocate_async(gen, lane);
    if (m < 0)
      return;
    if (chance(gen, 25))
      wait_for_lane(gen, m, lane);
    int user = chance(gen, 70) ? lane : chance(gen, 50) ? lane_by_rule(gen, lane) : pick_lane(gen, ctx);
    if (user >= 0)
      (void)use(gen, m, user);
    if (chance(gen, 90) && release_async(gen, m))
      lane = pause(gen, lane);
    if (lane < 0 || !model_lane_is_live(gen->model, lane))
      return;
  }
}

/* Two owners of memory in lanes between which nothing but operations in the legacy stream makes an order. */
static void through_legacy(gen_t *gen)
{
  int ctx = pick_ctx(gen), lane = ctx < 0 ? -1 : pick_lane(gen, ctx);
  int m = lane < 0 ? -1 : allocate_async(gen, lane);
  if (m < 0)
    return;
  (void)use(gen, m, lane);
  int other = allocate_async(gen, LANE_LEGACY(ctx));
  if (other >= 0 && chance(gen, 60))
    (void)free_in(gen, other, LANE_LEGACY(ctx));
  lane = pick_lane(gen, ctx);
  if (lane >= 0)
    (void)use(gen, m, lane);
  (void)release_async(gen, m);
}

/* Memory of a blocking lane is used in the legacy one, and taken again: that lane is all that the host waits
 * for. */
static void around_legacy(gen_t *gen)
{
  int ctx = pick_ctx(gen), lane = ctx < 0 ? -1 : pick_lane(gen, ctx);
  int m = lane < 0 ? -1 : allocate_async(gen, lane);
  if (m < 0)
    return;
  (void)use(gen, m, LANE_LEGACY(ctx));
  if (free_in(gen, m, lane) && (m = allocate_async(gen, lane)) >= 0)
    wait_for_lane(gen, m, lane);
}

/* Other threads take and free memory, in the same lane, too, while a call of this one is in progress. */
static void interrupt(gen_t *gen)
{
  static const step_kind_t outer[] = {STEP_ALLOC_ASYNC, STEP_ALLOC_ASYNC, STEP_FREE_ASYNC, STEP_FREE_ASYNC,
      STEP_CTX_SYNC, STEP_STREAM_SYNC, STEP_ALLOC, STEP_STREAM_CREATE};
  static const step_kind_t inner[] = {STEP_FREE_ASYNC, STEP_FREE_ASYNC, STEP_FREE_ASYNC, STEP_ALLOC_ASYNC,
      STEP_ALLOC_ASYNC, STEP_FILL, STEP_FREE, STEP_TRIM, STEP_STREAM_DESTROY};
  int ctx = pick_ctx(gen), lane = ctx < 0 || gen->threads < 2 ? -1 : pick_lane(gen, ctx);
  step_t step = some(gen, outer[draw(gen, sizeof outer / sizeof *outer)]);
  bool takes = step.kind == STEP_ALLOC || step.kind == STEP_ALLOC_ASYNC;
  int m = takes ? model_new_mem(gen->model) : pick_mem(gen);
  int made = step.kind == STEP_STREAM_CREATE ? model_new_lane(gen->model) : lane;
  if (lane < 0 || made < 0 || m < 0 || model_capture(gen->model) >= 0 || gen->program->count + 12 > MAX_STEPS)
    return;
  if (step.kind == STEP_FREE_ASYNC && chance(gen, 70)) {
    int last = model_mem(gen->model, m)->last;
    lane = made = last < 0 ? lane : last;
  }
  step.mem = (uint8_t)m;
  step.lane = (uint8_t)made;
  step.ctx = (uint8_t)ctx;
  step.bytes = gen->size;
  step.flags = 1;
  step.inside = (uint8_t)(1 + draw(gen, 4));
  step.moment = (uint8_t)draw(gen, 8);
  if (!emit(gen, step))
    return;
  int outer_thread = gen->program->steps[gen->program->count - 1].thread;
  for (int tries = 0; model_open(gen->model) > 0; tries++) {
    int thread = (outer_thread + 1 + (int)draw(gen, (unsigned)gen->threads - 1)) % gen->threads;
    step = some(gen, inner[draw(gen, sizeof inner / sizeof *inner)]);
    int victim = pick_mem(gen);
    int last = victim < 0 ? -1 : model_mem(gen->model, victim)->last;
    step.thread = (uint8_t)thread;
    step.ctx = (uint8_t)ctx;
    step.mem = (uint8_t)(step.kind == STEP_ALLOC_ASYNC ? model_new_mem(gen->model) : victim < 0 ? 0 : victim);
    step.bytes = gen->size;
    step.lane = (uint8_t)(chance(gen, 60) || gen->single ? lane : LANE_THREAD(ctx, thread));
    if (step.kind == STEP_FREE_ASYNC && last >= 0 && chance(gen, 60))
      step.lane = (uint8_t)last;
    if (tries >= 20 || (victim < 0 && step.kind != STEP_ALLOC_ASYNC)) {
      step.kind = STEP_STREAM_QUERY;
      step.lane = (uint8_t)LANE_LEGACY(ctx);
    }
    (void)emit(gen, step);
  }
  for (int i = 0; i < 2 && model_lane_is_live(gen->model, lane); i++) { /* who gets that memory */
    m = allocate_async(gen, lane);
    if (m >= 0)
      (void)use(gen, m, lane);
  }
}

void ordered_somehow(gen_t *gen)
{
  unsigned gesture = draw(gen, 100);
  if (gesture < 60)
    churn(gen);
  else if (gesture < 66)
    around_legacy(gen);
  else if (gesture < 72)
    through_legacy(gen);
  else if (gesture < 92)
    interrupt(gen);
  else if (gesture < 95)
    trim(gen, 0);
  else if (gesture < 98 && !gen->single) /* single.c begins them by itself */
    capture(gen);
  else
    synchronize(gen);
}

void capture_memory(gen_t *gen)
{
  step_t step = some(gen, STEP_CAPTURE_MEMORY);
  step.lane = (uint8_t)model_capture(gen->model);
  (void)emit(gen, step);
}

void give_up_async(gen_t *gen, int ctx)
{
  for (int m = 0; m < MAX_MEMS; m++) {
    const model_mem_t *mem = model_mem(gen->model, m);
    if (mem->live && mem->is_async && !mem->busy && model_share_device(mem->ctx, ctx) &&
        (ctx < 2 || gen->options->leaving || chance(gen, 50)))
      (void)release_async(gen, m);
  }
}
