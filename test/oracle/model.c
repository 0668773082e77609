/*
 * What is legal: objects exist when they are used, and each access to an allocation comes after the one
 * before it by what CUDA promises. An approximation from the safe side: what it accepts is legal, and it
 * accepts enough.
 *
 * For each allocation: the lane of its last access, the lanes whose next operation is ordered behind that
 * access, and whether the host knows it to be complete. Whatever changes this is a dependency of the next
 * access, so that a program that runs freely stays legal.
 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#define BIT(n) (UINT64_C(1) << (n))

typedef struct {
  bool live;
  uint8_t ctx, thread;
  enum { LEGACY, BLOCKING, NONBLOCKING } kind;
  int writer;
} lane_t;

typedef struct {
  bool live, recorded;
  uint8_t ctx;
  uint16_t version;
  int writer;
  int covers[MAX_MEMS]; /* the access that the last record comes after; -1: none */
} event_t;

typedef struct {
  bool live;
  uint8_t ctx;
  int writer;
  int count;
  uint8_t mems[GRAPH_NODES], values[GRAPH_NODES];
} graph_t;

/* A call in progress that steps stand inside */
typedef struct {
  int steps; /* still to come */
  step_t step;
  int index;
  uint16_t event_version;
  int covers[MAX_MEMS];
} around_t;

struct model {
  program_t *program;
  model_mem_t mems[MAX_MEMS];
  lane_t lanes[LANES];
  event_t events[MAX_EVENTS];
  graph_t graphs[MAX_GRAPHS];
  bool ctx_live[CTXS];
  int mem_count, lane_count, event_count, graph_count;
  int barrier; /* the last step that all later ones come after; -1: none */
  int capture, capture_thread, capture_mode;
  graph_t captured;
  around_t around;
  int last_of_thread[THREADS];
};

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
  model->lanes[LANE_LEGACY(c)] = (lane_t){true, (uint8_t)c, 0, LEGACY, -1};
  for (int t = 0; t < THREADS; t++)
    model->lanes[LANE_THREAD(c, t)] = (lane_t){true, (uint8_t)c, (uint8_t)t, BLOCKING, -1};
  model->lanes[LANE_GONE(c)] = (lane_t){false, (uint8_t)c, 0, BLOCKING, -1};
}

void model_reset(model_t *model, program_t *program)
{
  memset(model, 0, sizeof *model);
  model->program = program;
  program->count = 0;
  model->lane_count = LANE_CREATED;
  model->barrier = model->capture = -1;
  open_ctx(model, 0);
}

/* ---- what a generator asks ---- */

const model_mem_t *model_mem(const model_t *model, int mem)
{
  return &model->mems[mem];
}

bool model_lane_is_live(const model_t *model, int lane)
{
  return lane >= 0 && model->lanes[lane].live;
}

bool model_event_is_live(const model_t *model, int event)
{
  return model->events[event].live;
}

bool model_ctx_is_live(const model_t *model, int ctx)
{
  return model->ctx_live[ctx];
}

bool model_graph_is_live(const model_t *model, int graph)
{
  return model->graphs[graph].live;
}

int model_capture(const model_t *model)
{
  return model->capture;
}

int model_new_mem(const model_t *model)
{
  return model->mem_count < MAX_MEMS ? model->mem_count : -1;
}

int model_new_lane(const model_t *model)
{
  return model->lane_count < LANE_END ? model->lane_count : -1;
}

int model_new_event(const model_t *model)
{
  return model->event_count < MAX_EVENTS ? model->event_count : -1;
}

int model_new_graph(const model_t *model)
{
  return model->graph_count < MAX_GRAPHS ? model->graph_count : -1;
}

int model_lane_ctx(const model_t *model, int lane)
{
  return model->lanes[lane].ctx;
}

int model_open(const model_t *model)
{
  return model->around.steps;
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

static void barrier(model_t *model, int index)
{
  for (int i = 0; i < index; i++)
    after(model, index, i);
  model->barrier = index;
}

/* ---- order ---- */

static uint64_t lanes_of(const model_mem_t *mem)
{
  return mem->last < 0 ? 0 : mem->ordered | BIT(mem->last);
}

static uint64_t lanes_in(const model_t *model, int ctx, bool blocking_only)
{
  uint64_t mask = 0;
  for (int l = 0; l < LANES; l++) {
    if (model->lanes[l].ctx == ctx && (l < model->lane_count || l >= LANE_END) &&
        (!blocking_only || model->lanes[l].kind != NONBLOCKING))
      mask |= BIT(l);
  }
  return mask;
}

/* An operation joins the lane: the legacy stream and blocking ones wait for each other. */
static void submit(model_t *model, int index, int l)
{
  lane_t *lane = &model->lanes[l];
  touch(model, index, &lane->writer);
  if (lane->kind == NONBLOCKING)
    return;
  uint64_t from = lane->kind == LEGACY ? lanes_in(model, lane->ctx, true) : BIT(LANE_LEGACY(lane->ctx));
  for (int m = 0; m < model->mem_count; m++) {
    model_mem_t *mem = &model->mems[m];
    if ((lanes_of(mem) & from) && !(lanes_of(mem) & BIT(l))) {
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
    return lanes_of(mem) & lanes_in(model, lane->ctx, true);
  return lane->kind == BLOCKING && (lanes_of(mem) & BIT(LANE_LEGACY(lane->ctx)));
}

static bool is_of_two(step_kind_t kind)
{
  return kind == STEP_COPY || kind == STEP_TO_OTHER;
}

/* Kernels reach memory of their own context and of a peer's; copies reach all. */
static bool reaches(const model_t *model, int l, const model_mem_t *mem, bool copy)
{
  int ctx = model->lanes[l].ctx;
  return ctx == mem->ctx || copy || (ctx < 2 && mem->ctx < 2);
}

static bool may_access(const model_t *model, const step_t *step, int m)
{
  const model_mem_t *mem = &model->mems[m];
  return m < model->mem_count && mem->live && !mem->busy &&
         reaches(model, step->lane, mem, is_of_two(step->kind)) && would_be_ordered(model, mem, step->lane);
}

static void access(model_t *model, int index, const step_t *step, int m)
{
  model_mem_t *mem = &model->mems[m];
  touch(model, index, &mem->writer);
  mem->last = step->lane;
  mem->ordered = 0;
  mem->known = false;
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

/* ---- what may be done when ---- */

static bool lane_is_usable(const model_t *model, const step_t *step)
{
  if (step->lane >= model->lane_count) /* also the generator's -1, "there is none" */
    return false;
  const lane_t *lane = &model->lanes[step->lane];
  bool per_thread = step->lane >= CTXS && step->lane < LANE_CREATED;
  return lane->live && (!per_thread || lane->thread == step->thread);
}

static bool is_any_of(step_kind_t kind, const step_kind_t *kinds, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (kinds[i] == kind)
      return true;
  }
  return false;
}

/*
 * While a lane is being captured: fills in it become nodes. Calls that are not allowed then in any thread are
 * left out; those that the capturing thread must not make depend on the mode
 * (cuThreadExchangeStreamCaptureMode).
 */
static bool may_while_capturing(const model_t *model, const step_t *step)
{
  static const step_kind_t never[] = {STEP_CAPTURE_BEGIN, STEP_CTX_SYNC, STEP_CTX_RECORD, STEP_CTX_WAIT,
      STEP_CTX_CREATE, STEP_CTX_DESTROY, STEP_THREAD_END, STEP_GRAPH_LAUNCH, STEP_MEMSET_SYNC, STEP_TO_DEVICE,
      STEP_TO_HOST, STEP_TO_MANAGED, STEP_TO_OTHER, STEP_HOST_TO_HOST, STEP_HOST_FUNC, STEP_FREE_ASYNC};
  static const step_kind_t unsafe[] = {STEP_ALLOC, STEP_FREE, STEP_STREAM_SYNC, STEP_STREAM_QUERY,
      STEP_EVENT_SYNC, STEP_EVENT_QUERY, STEP_STREAM_CREATE, STEP_STREAM_DESTROY, STEP_EVENT_CREATE,
      STEP_EVENT_DESTROY, STEP_GRAPH_DESTROY};
  if (step->kind == STEP_CAPTURE_END)
    return step->lane == model->capture && step->thread == model->capture_thread;
  if (is_any_of(step->kind, never, sizeof never / sizeof *never))
    return false;
  if (model->capture_mode != 2 && step->thread == model->capture_thread &&
      is_any_of(step->kind, unsafe, sizeof unsafe / sizeof *unsafe))
    return false;
  if (!(step_infos[step->kind].flags & F_LANE) || step->kind == STEP_STREAM_CREATE)
    return true;
  if (step->lane == model->capture)
    return step->kind == STEP_FILL && model->captured.count < GRAPH_NODES;
  return model->lanes[step->lane].kind != LEGACY;
}

static bool object_is_there(const model_t *model, const step_t *step)
{
  unsigned flags = step_infos[step->kind].flags;
  bool makes_lane = step->kind == STEP_STREAM_CREATE, makes_event = step->kind == STEP_EVENT_CREATE;
  bool makes_graph = step->kind == STEP_CAPTURE_END, makes_ctx = step->kind == STEP_CTX_CREATE;
  if (flags & F_CTX && (step->ctx >= CTXS || model->ctx_live[step->ctx] == makes_ctx))
    return false;
  if (flags & F_LANE &&
      (makes_lane ? step->lane < model->lane_count || step->lane >= LANE_END : !lane_is_usable(model, step)))
    return false;
  if (flags & F_EVENT && (makes_event ? step->event < model->event_count || step->event >= MAX_EVENTS
                                      : !model->events[step->event].live))
    return false;
  if (flags & F_GRAPH && (makes_graph ? step->graph < model->graph_count || step->graph >= MAX_GRAPHS
                                      : !model->graphs[step->graph].live))
    return false;
  return true;
}

static bool reads_only(step_kind_t kind)
{
  return kind == STEP_EXPECT || kind == STEP_TO_HOST || kind == STEP_TO_MANAGED;
}

static bool mems_are_ready(const model_t *model, const step_t *step)
{
  const model_mem_t *mem = &model->mems[step->mem];
  bool default_only = step->kind >= STEP_MEMSET_SYNC && step->kind <= STEP_HOST_TO_HOST;
  if (step->kind == STEP_ALLOC)
    return step->mem >= model->mem_count && step->mem < MAX_MEMS;
  if (step->kind == STEP_FREE)
    return step->mem < model->mem_count && mem->live && !mem->busy;
  if (step->kind == STEP_FREE_ASYNC)
    return may_access(model, step, step->mem) && mem->ctx == model->lanes[step->lane].ctx;
  if (default_only && step->lane >= LANE_CREATED)
    return false;
  if (!(step_infos[step->kind].flags & F_ACCESS))
    return true;
  if (model->capture >= 0 && step->lane == model->capture) /* not before the graph is launched */
    return step->mem < model->mem_count && mem->live && mem->ctx == model->lanes[step->lane].ctx;
  if (!may_access(model, step, step->mem))
    return false;
  if (reads_only(step->kind) && !mem->written)
    return false;
  if (step->kind == STEP_FILL_EARLY && mem->last >= 0 &&
      !mem->known) /* it must not need the kernel before it */
    return false;
  return !is_of_two(step->kind) ||
         (step->mem2 != step->mem && may_access(model, step, step->mem2) && model->mems[step->mem2].written);
}

static bool graph_may_run(const model_t *model, const step_t *step)
{
  const graph_t *graph = &model->graphs[step->graph];
  for (int i = 0; i < graph->count; i++) {
    if (!may_access(model, step, graph->mems[i]))
      return false;
  }
  return graph->ctx == model->lanes[step->lane].ctx;
}

/* What other contexts do with the memory of one that ends has to be over. */
static bool ctx_may_end(const model_t *model, int c)
{
  for (int m = 0; m < model->mem_count; m++) {
    const model_mem_t *mem = &model->mems[m];
    if (mem->ctx == c && mem->last >= 0 && !mem->known && model->lanes[mem->last].ctx != c)
      return false;
  }
  return true;
}

static bool is_legal(const model_t *model, const step_t *step)
{
  const around_t *around = &model->around;
  unsigned flags = step_infos[step->kind].flags;
  if (around->steps && (!(flags & F_INSIDE) || step->thread == around->step.thread || step->inside))
    return false;
  if (around->steps && step->kind == STEP_ALLOC &&
      (around->step.kind == STEP_ALLOC || around->step.kind == STEP_FREE))
    return false; /* it may have to wait for that very call */
  if (step->inside && !(flags & F_AROUND))
    return false;
  if (!object_is_there(model, step) || !mems_are_ready(model, step) ||
      (model->capture >= 0 && !may_while_capturing(model, step)))
    return false;
  switch (step->kind) {
  case STEP_EVENT_RECORD: return model->events[step->event].ctx == model->lanes[step->lane].ctx;
  case STEP_EVENT_WAIT: return model->events[step->event].recorded;
  case STEP_CTX_WAIT: return model->events[step->event].recorded;
  case STEP_CTX_RECORD: return model->events[step->event].ctx == step->ctx;
  case STEP_STREAM_DESTROY: return step->lane >= LANE_CREATED;
  case STEP_CAPTURE_BEGIN: return step->lane >= LANE_CREATED;
  case STEP_CAPTURE_END: return model->capture >= 0 && step->lane == model->capture;
  case STEP_GRAPH_LAUNCH: return graph_may_run(model, step);
  case STEP_CTX_DESTROY: return ctx_may_end(model, step->ctx);
  default: return true;
  }
}

/* ---- effects ---- */

static void end_ctx(model_t *model, int index, int c)
{
  uint64_t lanes = lanes_in(model, c, false);
  for (int m = 0; m < model->mem_count; m++) {
    if (lanes_of(&model->mems[m]) & lanes)
      model->mems[m].known = true; /* its work is over */
    if (model->mems[m].ctx == c)
      model->mems[m].live = false;
  }
  for (int l = 0; l < LANES; l++)
    model->lanes[l].live &= model->lanes[l].ctx != c;
  for (int e = 0; e < model->event_count; e++)
    model->events[e].live &= model->events[e].ctx != c;
  for (int g = 0; g < model->graph_count; g++)
    model->graphs[g].live &= model->graphs[g].ctx != c;
  model->ctx_live[c] = false;
  barrier(model, index);
}

/* Its streams are not those of the thread that has its number next. */
static void end_thread(model_t *model, int index, int t)
{
  for (int c = 0; c < CTXS; c++) {
    int l = LANE_THREAD(c, t);
    for (int m = 0; m < model->mem_count; m++) {
      model->mems[m].ordered &= ~BIT(l);
      if (model->mems[m].last == l)
        model->mems[m].last = LANE_GONE(c);
    }
    touch(model, index, &model->lanes[l].writer);
  }
  barrier(model, index);
}

static void launch_graph(model_t *model, int index, const step_t *step)
{
  graph_t *graph = &model->graphs[step->graph];
  touch(model, index, &graph->writer);
  touch(model, index, &model->lanes[step->lane].writer);
  if (graph->count) /* an empty one orders nothing */
    submit(model, index, step->lane);
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
  if (is_of_two(step->kind)) {
    access(model, index, step, step->mem2);
    step->value = model->mems[step->mem2].value;
  }
  if (reads_only(step->kind))
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
  case STEP_CTX_SYNC: cover(model, lanes_in(model, step->ctx, false), ret_covers); break;
  case STEP_EVENT_SYNC:
    memcpy(ret_covers, model->events[step->event].covers, sizeof model->events[0].covers);
    break;
  default: cover(model, 0, ret_covers); break;
  }
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
  if (step->kind != STEP_EVENT_SYNC || model->events[step->event].version == around->event_version)
    know(model, index, around->covers);
}

static void apply(model_t *model, int index, step_t *step)
{
  event_t *event = &model->events[step->event];
  lane_t *lane = &model->lanes[step->lane];
  unsigned flags = step_infos[step->kind].flags;
  int covers[MAX_MEMS];

  begin_sync(model, step, covers);
  if (flags & F_EVENT)
    touch(model, index, &event->writer);
  switch (step->kind) {
  case STEP_ALLOC:
    model->mems[step->mem] =
        (model_mem_t){.live = true, .busy = step->inside > 0, .ctx = step->ctx, .last = -1, .writer = index};
    model->mems[step->mem].bytes = step->bytes;
    model->mem_count = step->mem + 1;
    break;
  case STEP_FREE:
    touch(model, index, &model->mems[step->mem].writer);
    model->mems[step->mem].live = false;
    break;
  case STEP_FREE_ASYNC:
    submit(model, index, step->lane);
    access(model, index, step, step->mem);
    model->mems[step->mem].live = false;
    break;
  case STEP_HOST_FUNC: submit(model, index, step->lane); break;
  case STEP_STREAM_CREATE:
    *lane = (lane_t){!step->inside, step->ctx, 0, step->flags & 1 ? NONBLOCKING : BLOCKING, index};
    model->lane_count = step->lane + 1;
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
    break;
  case STEP_CTX_RECORD:
    cover(model, lanes_in(model, step->ctx, false), event->covers);
    event->recorded = true;
    event->version++;
    for (int m = 0; m < model->mem_count; m++) {
      if (event->covers[m] >= 0)
        touch(model, index, &model->mems[m].writer);
    }
    break;
  case STEP_EVENT_WAIT:
    touch(model, index, &lane->writer);
    order(model, index, event->covers, BIT(step->lane));
    break;
  case STEP_CTX_WAIT:
    for (int l = 0; l < model->lane_count; l++) {
      if (model->lanes[l].live && model->lanes[l].ctx == step->ctx)
        touch(model, index, &model->lanes[l].writer);
    }
    /* Other threads' streams may not exist yet, so nothing is made of it but for those that were created. */
    for (int l = LANE_CREATED; l < model->lane_count; l++) {
      if (model->lanes[l].live && model->lanes[l].ctx == step->ctx)
        order(model, index, event->covers, BIT(l));
    }
    break;
  case STEP_CTX_CREATE:
    open_ctx(model, step->ctx);
    barrier(model, index);
    break;
  case STEP_CTX_DESTROY: end_ctx(model, index, step->ctx); break;
  case STEP_CAPTURE_BEGIN:
    model->capture = step->lane;
    model->capture_thread = step->thread;
    model->capture_mode = step->flags;
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

bool model_append(model_t *model, const step_t *step)
{
  program_t *program = model->program;
  int index = program->count;
  if (index == MAX_STEPS || !is_legal(model, step))
    return false;
  program->steps[index] = *step;
  program->count++;
  memset(program->after[index], 0, sizeof program->after[index]);
  after(model, index, model->barrier);
  apply(model, index, &program->steps[index]);
  return true;
}

bool model_check(program_t *program)
{
  static model_t model;
  program_t copy = *program;
  int count = program->count;
  bool legal = true;
  model_reset(&model, program);
  for (int i = 0; i < count && legal; i++)
    legal = model_append(&model, &copy.steps[i]);
  if (legal && model.around.steps == 0 && model.capture < 0)
    return true;
  *program = copy;
  return false;
}
