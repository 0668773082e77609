/*
 * Kernels that wait: for a flag that the host writes, or, as the halves of a collective, for each other. In
 * between, the program does what natively does not wait: it allocates, makes streams and contexts, frees
 * where the driver allows it, and works in other streams. What is dangerous is a pool that waits for the
 * device, or has the driver wait, in one of these calls: while memory that the device has not finished with
 * could be used again, memory is short, or idle memory should go back.
 */
#include "gen.h"

void choose_waits(gen_t *gen)
{
  static const unsigned often[] = {8, 15, 30};
  gen->often = often[draw(gen, 3)];
  if (gen->options->late) {
    gen->often = 50;
    gen->single = false;
  }
  if (gen->options->tight) /* some of what fits, so that the rest is soon in use */
    gen->size = (uint32_t)(gen->options->tight >> (2 + draw(gen, 3)));
}

static int any_ctx(gen_t *gen)
{
  int c = (int)draw(gen, (unsigned)gen->ctxs);
  if (gen->single || !model_ctx_is_live(gen->model, c))
    c = 0;
  return model_ctx_is_live(gen->model, c) ? c : -1;
}

/* A new stream that no other waits for */
static int lane_apart(gen_t *gen, int ctx)
{
  step_t step = some(gen, STEP_STREAM_CREATE);
  int lane = model_new_lane(gen->model);
  if (lane < 0)
    return -1;
  step.lane = (uint8_t)lane;
  step.ctx = (uint8_t)ctx;
  step.flags = 1;
  return emit(gen, step) ? lane : -1;
}

/* Often apart, so that the rest of the program can go on */
static int waiting_lane(gen_t *gen, int ctx)
{
  if (gen->single)
    return LANE_LEGACY(ctx);
  return chance(gen, 60) ? lane_apart(gen, ctx) : pick_lane(gen, ctx);
}

static bool launch(gen_t *gen, step_kind_t kind, int number, int lane)
{
  step_t step = some(gen, kind);
  step.wait = (uint8_t)number;
  step.lane = (uint8_t)lane;
  return number >= 0 && lane >= 0 && emit(gen, step);
}

/* Memory that the device has not finished with, freed: what a pool would like to wait for. */
static void leave_deferred(gen_t *gen, int ctx)
{
  int m = allocate(gen, ctx), lane = m < 0 ? -1 : pick_lane(gen, ctx);
  step_t busy = some(gen, STEP_BUSY);
  if (lane < 0)
    return;
  busy.lane = (uint8_t)lane;
  if (chance(gen, 30))
    (void)emit(gen, busy);
  if (use(gen, m, lane))
    (void)release(gen, m);
}

/* Beside or behind the kernel in the lane */
static void go_on(gen_t *gen, int ctx, int lane)
{
  int m = chance(gen, 70) ? allocate(gen, ctx) : pick_mem(gen);
  if (m < 0)
    return;
  if (chance(gen, 30)) {
    step_t step = some(gen, STEP_FILL);
    step.mem = (uint8_t)m;
    step.lane = (uint8_t)lane;
    (void)emit(gen, step);
  } else {
    int other = pick_lane(gen, ctx);
    if (other >= 0)
      (void)use(gen, m, other);
  }
  if (chance(gen, 60))
    (void)release(gen, m);
}

static bool write_flag(gen_t *gen)
{
  step_t step = some(gen, STEP_WRITE);
  int number = model_open_wait(gen->model, false);
  step.wait = (uint8_t)number;
  return number >= 0 && emit(gen, step);
}

/* The other half of a collective, wherever it can be: the program is to end. */
static bool meet_anywhere(gen_t *gen, int number)
{
  for (int c = 0; c < CTXS; c++) {
    if (model_ctx_is_live(gen->model, c) && launch(gen, STEP_MEET, number, lane_apart(gen, c)))
      return true;
  }
  for (int l = 0; l < LANE_END; l++) {
    if (model_lane_is_live(gen->model, l) && launch(gen, STEP_MEET, number, l))
      return true;
  }
  return false;
}

/* In a stream that does not come behind the first half */
static bool meet(gen_t *gen)
{
  int number = model_open_wait(gen->model, true);
  for (int tries = 0; tries < 8 && number >= 0; tries++) {
    int ctx = any_ctx(gen), lane = ctx < 0 ? -1 : gen->single ? lane_apart(gen, ctx) : waiting_lane(gen, ctx);
    gen->single = false;
    if (launch(gen, STEP_MEET, number, lane))
      return true;
  }
  return false;
}

static bool begin(gen_t *gen, step_kind_t kind)
{
  int ctx = any_ctx(gen), number = model_new_wait(gen->model), next = model_new_lane(gen->model);
  if (ctx < 0 || number < 0 || next < 0 || next + 8 > LANE_END) /* some are left for the other halves */
    return false;
  while (chance(gen, 60))
    leave_deferred(gen, ctx);
  int lane = waiting_lane(gen, ctx);
  if (!launch(gen, kind, number, lane))
    return false;
  while (chance(gen, 60))
    go_on(gen, ctx, lane);
  return true;
}

/* Another thread launches one, or writes a flag, in the middle of a call of this one. */
static bool inside(gen_t *gen)
{
  static const step_kind_t outer[] = {STEP_ALLOC, STEP_ALLOC, STEP_STREAM_CREATE, STEP_FREE, STEP_STREAM_SYNC,
      STEP_CTX_SYNC, STEP_STREAM_QUERY};
  step_t step = some(gen, outer[draw(gen, sizeof outer / sizeof *outer)]);
  int ctx = any_ctx(gen), lane = ctx < 0 || gen->threads < 2 ? -1 : waiting_lane(gen, ctx);
  int m = step.kind == STEP_ALLOC ? model_new_mem(gen->model) : pick_mem(gen), own = pick_lane(gen, 0);
  if (lane < 0 || m < 0 || own < 0 || model_capture(gen->model) >= 0)
    return false;
  if (step.kind == STEP_STREAM_CREATE)
    own = model_new_lane(gen->model);
  step.lane = (uint8_t)own;
  step.ctx = step.kind == STEP_CTX_SYNC && ctx > 0 && chance(gen, 50) ? 0 : (uint8_t)ctx;
  step.mem = (uint8_t)m;
  step.bytes = gen->size;
  step.flags = 1;
  step.inside = (uint8_t)(1 + draw(gen, 3));
  step.moment = (uint8_t)draw(gen, 14);
  if (own < 0 || !emit(gen, step))
    return false;
  int outer_thread = gen->program->steps[gen->program->count - 1].thread;
  for (int tries = 0; model_open(gen->model) > 0; tries++) {
    static const step_kind_t inner[] = {STEP_WAIT, STEP_WAIT, STEP_MEET, STEP_WRITE, STEP_FREE};
    step = some(gen, inner[draw(gen, sizeof inner / sizeof *inner)]);
    bool meets = step.kind == STEP_MEET;
    int open = model_open_wait(gen->model, meets), number = model_new_wait(gen->model),
        victim = pick_mem(gen);
    if (step.kind != STEP_WAIT && open >= 0)
      number = open;
    step.thread = (uint8_t)((outer_thread + 1 + (int)draw(gen, (unsigned)gen->threads - 1)) % gen->threads);
    step.lane = (uint8_t)lane;
    step.wait = (uint8_t)number;
    step.mem = (uint8_t)(victim < 0 ? 0 : victim);
    if (number < 0 || victim < 0 || tries >= 10) {
      step.kind = STEP_STREAM_QUERY;
      step.lane = (uint8_t)LANE_LEGACY(ctx);
    }
    (void)emit(gen, step);
  }
  return true;
}

/* A new event, recorded in the lane; -1: there is none. */
static int record(gen_t *gen, int lane)
{
  step_t step = some(gen, STEP_EVENT_CREATE);
  int e = model_new_event(gen->model);
  step.event = (uint8_t)(e < 0 ? 0 : e);
  step.ctx = (uint8_t)model_lane_ctx(gen->model, lane);
  if (e < 0 || !emit(gen, step))
    return -1;
  step.kind = STEP_EVENT_RECORD;
  step.lane = (uint8_t)lane;
  return emit(gen, step) ? e : -1;
}

static bool wait_for_event(gen_t *gen, step_kind_t kind, int e, int lane)
{
  step_t step = some(gen, kind);
  step.event = (uint8_t)e;
  step.lane = (uint8_t)lane;
  return e >= 0 && lane >= 0 && emit(gen, step);
}

static bool use_late(gen_t *gen)
{
  for (int tries = 0; tries < 40; tries++) {
    int m = (int)draw(gen, MAX_MEMS);
    const model_mem_t *mem = model_late_mem(gen->model, m);
    int lane = mem ? pick_lane(gen, mem->ctx) : -1;
    step_t step = some(gen, mem && mem->written && chance(gen, 50) ? STEP_LATE_EXPECT : STEP_LATE_FILL);
    step.mem = (uint8_t)m;
    step.lane = (uint8_t)lane;
    if (lane >= 0 && emit(gen, step))
      return true;
  }
  return false;
}

static int take_for(gen_t *gen, int ctx, int lane)
{
  bool in_order = gen->options->ordered && chance(gen, 60);
  int m = in_order ? allocate_async(gen, lane) : allocate(gen, ctx);
  if (m >= 0)
    (void)use(gen, m, lane);
  return m;
}

static bool free_in(gen_t *gen, int m, int lane)
{
  step_t step = some(gen, STEP_FREE_ASYNC);
  step.mem = (uint8_t)m;
  step.lane = (uint8_t)lane;
  return m >= 0 && emit(gen, step);
}

/*
 * Memory is freed in a lane that waits for a flag, or for an event behind one that does, and used until the
 * flag is written. Meanwhile the library may give it to the next owner in that lane, and to no other. What
 * tells of the lane before it began to wait tells nothing of the free.
 */
static bool free_and_use(gen_t *gen)
{
  int ctx = any_ctx(gen), number = model_new_wait(gen->model);
  int lane = ctx < 0 || gen->single || number < 0 ? -1 : lane_apart(gen, ctx);
  if (lane < 0)
    return false;
  int m = take_for(gen, ctx, lane);
  if (chance(gen, 60))
    (void)free_in(gen, take_for(gen, ctx, lane), lane);
  step_t step = some(gen, STEP_STREAM_SYNC);
  step.lane = (uint8_t)lane;
  if (m < 0 || !emit(gen, step))
    return false;
  int before = chance(gen, 50) ? record(gen, lane) : -1,
      gated = chance(gen, 30) ? lane_apart(gen, ctx) : lane;
  if (!launch(gen, STEP_WAIT, number, gated) ||
      (gated != lane && !wait_for_event(gen, STEP_EVENT_WAIT, record(gen, gated), lane)))
    return false;
  if (!free_in(gen, m, lane))
    return false;
  while (chance(gen, 75)) {
    if (chance(gen, 40))
      (void)use_late(gen);
    else if (chance(gen, 40))
      (void)wait_for_event(
          gen, chance(gen, 60) ? STEP_EVENT_SYNC : STEP_EVENT_WAIT, before, pick_lane(gen, ctx));
    else if (chance(gen, 30))
      synchronize(gen);
    else
      go_on(gen, ctx, lane);
    if (gen->options->ordered && chance(gen, 40) && (m = allocate_async(gen, lane)) >= 0)
      (void)use(gen, m, lane);
  }
  return use_late(gen);
}

bool wait_somehow(gen_t *gen)
{
  bool open = model_open_wait(gen->model, false) >= 0, meets = model_open_wait(gen->model, true) >= 0;
  if (!chance(gen, gen->often))
    return false;
  if (chance(gen, gen->options->late ? 70 : 30))
    return open && chance(gen, 50) ? use_late(gen) : free_and_use(gen);
  switch (draw(gen, 6)) {
  case 0: return begin(gen, STEP_MEET);
  case 1:
  case 2: return open || meets ? inside(gen) : begin(gen, STEP_WAIT);
  case 3: return open ? write_flag(gen) : begin(gen, STEP_WAIT);
  case 4: return meets ? meet(gen) : inside(gen);
  default: return open ? write_flag(gen) : inside(gen);
  }
}

void end_waits(gen_t *gen)
{
  while (write_flag(gen))
    ;
  for (int number; (number = model_open_wait(gen->model, true)) >= 0;) {
    if (!meet(gen) && !meet_anywhere(gen, number))
      break;
  }
}
