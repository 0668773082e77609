/*
 * Which step may come next: what its call is about exists, and it is legal CUDA that ends (see model.c).
 */
#include "model_state.h"

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
      STEP_TO_HOST, STEP_TO_MANAGED, STEP_TO_OTHER, STEP_HOST_TO_HOST, STEP_HOST_FUNC};
  static const step_kind_t unsafe[] = {STEP_ALLOC, STEP_FREE, STEP_STREAM_SYNC, STEP_STREAM_QUERY,
      STEP_EVENT_SYNC, STEP_EVENT_QUERY, STEP_STREAM_CREATE, STEP_STREAM_DESTROY, STEP_EVENT_CREATE,
      STEP_EVENT_DESTROY, STEP_GRAPH_DESTROY, STEP_ALLOC_ASYNC, STEP_FREE_ASYNC, STEP_TRIM, STEP_LATE_FILL,
      STEP_LATE_EXPECT};
  if (step->kind == STEP_CAPTURE_END)
    return step->lane == model->capture && step->thread == model->capture_thread;
  if (is_any_of(step->kind, never, sizeof never / sizeof *never) ||
      (step->kind == STEP_FREE_ASYNC && !model->program->options.ordered))
    return false;
  if (model->capture_mode != 2 && step->thread == model->capture_thread &&
      is_any_of(step->kind, unsafe, sizeof unsafe / sizeof *unsafe))
    return false;
  if (!(step_infos[step->kind].flags & F_LANE) || step->kind == STEP_STREAM_CREATE)
    return true;
  if (step->lane == model->capture)
    return step->kind == STEP_CAPTURE_MEMORY ||
           (step->kind == STEP_FILL && model->captured.count < GRAPH_NODES);
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

bool model_reads_only(step_kind_t kind)
{
  return kind == STEP_EXPECT || kind == STEP_LATE_EXPECT || kind == STEP_TO_HOST || kind == STEP_TO_MANAGED;
}

static bool mems_are_ready(const model_t *model, const step_t *step)
{
  const model_mem_t *mem = &model->mems[step->mem];
  bool default_only = step->kind >= STEP_MEMSET_SYNC && step->kind <= STEP_HOST_TO_HOST;
  if (step->kind == STEP_ALLOC || step->kind == STEP_ALLOC_ASYNC)
    return step->mem >= model->mem_count && step->mem < MAX_MEMS;
  if (step->kind == STEP_FREE)
    return step->mem < model->mem_count && mem->live && !mem->busy && (!mem->is_async || mem->known);
  if (step_infos[step->kind].flags & F_LATE)
    return model_may_use_late(model, step);
  if (step->kind == STEP_FREE_ASYNC)
    return model_may_access(model, step, step->mem) &&
           (mem->is_async || mem->ctx == model->lanes[step->lane].ctx);
  if (default_only && step->lane >= LANE_CREATED)
    return false;
  if (!(step_infos[step->kind].flags & F_ACCESS))
    return true;
  if (model->capture >= 0 && step->lane == model->capture) /* not before the graph is launched */
    return step->mem < model->mem_count && mem->live && mem->ctx == model->lanes[step->lane].ctx;
  if (!model_may_access(model, step, step->mem))
    return false;
  if (model_reads_only(step->kind) && !mem->written)
    return false;
  /* It must not need the kernel before it. An allocation in front of it is none. */
  if (step->kind == STEP_FILL_EARLY && mem->last >= 0 && !mem->known &&
      !(mem->is_new && mem->last == step->lane))
    return false;
  return !model_is_of_two(step->kind) ||
         (step->mem2 != step->mem && model_may_access(model, step, step->mem2) &&
             model->mems[step->mem2].written);
}

static bool graph_may_run(const model_t *model, const step_t *step)
{
  const graph_t *graph = &model->graphs[step->graph];
  for (int i = 0; i < graph->count; i++) {
    if (!model_may_access(model, step, graph->mems[i]))
      return false;
  }
  return graph->ctx == model->lanes[step->lane].ctx;
}

/*
 * What other contexts do with the memory of one that ends has to be over. Memory of a device's pool stays
 * when one of several contexts of the device is destroyed; where it does not, it has been freed before.
 */
static bool ctx_may_end(const model_t *model, int c)
{
  bool stays = c == 2 && model->ctx_live[0];
  for (int m = 0; m < model->mem_count; m++) {
    const model_mem_t *mem = &model->mems[m];
    if (mem->is_async && mem->live &&
        (model_is_of_ctx(model, mem) ? mem->ctx == c : !stays && model_share_device(mem->ctx, c)))
      return false;
    if (mem->ctx == c && model_is_of_ctx(model, mem) && mem->last >= 0 && !mem->known &&
        model->lanes[mem->last].ctx != c)
      return false;
  }
  return true;
}

/*
 * The kernels that a call waits for, natively; false: it is no call that waits. Copies with the host wait for
 * the stream that they are in; copies between devices and memsets of their memory do not, whatever their name
 * says.
 */
bool model_waits_for(const model_t *model, const step_t *step, uint32_t *ret_set)
{
  const behind_t *behind = &model->behind;
  switch (step->kind) {
  case STEP_STREAM_SYNC:
    *ret_set = model->lanes[step->lane].kind == LEGACY ? model_behind_next(model, step->lane)
                                                       : behind->lanes[step->lane];
    return true;
  case STEP_LATE_FILL:
  case STEP_LATE_EXPECT:
  case STEP_TO_DEVICE:
  case STEP_TO_HOST:
  case STEP_TO_MANAGED:
  case STEP_HOST_TO_HOST: *ret_set = model_behind_next(model, step->lane); return true;
  case STEP_EVENT_SYNC: *ret_set = behind->events[step->event]; return true;
  case STEP_CTX_SYNC:
  case STEP_CTX_DESTROY:
    *ret_set = behind_lanes(behind, model_lanes_in(model, step->ctx, false));
    return true;
  case STEP_FREE:
    *ret_set = model->program->options.free_is_async ? behind->mems[step->mem] : behind_all(behind);
    return true;
  default: *ret_set = 0; return false;
  }
}

bool model_would_hang(const model_t *model, const step_t *step)
{
  uint32_t set;
  return model_waits_for(model, step, &set) && behind_open(&model->behind, set);
}

/*
 * Kernels that wait are not launched in the middle of a call in which the library may give memory back: it
 * asks whether all work is done and then frees, and what another thread submits between the two natively
 * makes its free wait. A library that sees no submissions cannot close that gap. It gives memory back in
 * frees and synchronizations of contexts, and in allocations where memory is short.
 */
static bool may_launch_inside(const model_t *model)
{
  const options_t *options = &model->program->options;
  switch (model->around.step.kind) {
  case STEP_ALLOC:
  case STEP_ALLOC_ASYNC: return !options->tight;
  case STEP_FREE:
  case STEP_CTX_SYNC: return options->free_is_async && !options->tight;
  default: return true;
  }
}

/*
 * Drivers before 12.5 say of single streams only whether they are idle, and a library can ask those that it
 * knows: the ones that exist and were created, and the default one. Where memory is short it has to believe
 * them in the end, and natively waits for others. So no kernel waits in those.
 */
static bool may_wait_in(const model_t *model, int l)
{
  const options_t *options = &model->program->options;
  return options->ctx_events || !options->tight || l < CTXS || l >= LANE_CREATED;
}

static bool may_destroy(const model_t *model, int l)
{
  const options_t *options = &model->program->options;
  return l >= LANE_CREATED &&
         (options->ctx_events || !options->tight || behind_open(&model->behind, model->behind.lanes[l]) == 0);
}

static bool wait_is_legal(const model_t *model, const step_t *step)
{
  const behind_t *behind = &model->behind;
  int number = step->wait;
  if (number > behind->count || number >= MAX_WAITS)
    return false;
  if (step->kind != STEP_WRITE && model->around.steps && !may_launch_inside(model))
    return false;
  if (step->kind != STEP_WRITE && !may_wait_in(model, step->lane))
    return false;
  if (number == behind->count)
    return step->kind != STEP_WRITE;
  if (step->kind == STEP_WAIT || !behind->kernels[number].open ||
      behind->kernels[number].meets != (step->kind == STEP_MEET))
    return false;
  return step->kind == STEP_WRITE || behind_may_meet(behind, number, model_behind_next(model, step->lane));
}

#define PAGE (UINT64_C(2) << 20) /* for blocks of more than half of that, in pools from half of that on */

static uint64_t charge(uint32_t bytes, bool is_async)
{
  if (bytes > PAGE / 2 || (is_async && bytes == PAGE / 2))
    return (bytes + PAGE - 1) & ~(PAGE - 1);
  return (bytes + UINT64_C(511)) & ~UINT64_C(511);
}

/*
 * Memory is short, but natively there is enough. What was freed in stream order may come back late. Beside a
 * capture such frees reach the driver, which a library cannot ask then whether the memory is back: where the
 * pool holds the rest, the driver waits.
 */
static bool has_room(const model_t *model, const step_t *step, int ctx)
{
  uint64_t limit = model->program->options.tight, used = charge(step->bytes, step->kind == STEP_ALLOC_ASYNC);
  if (!limit)
    return true;
  if (step->kind == STEP_ALLOC_ASYNC && model->capture >= 0 && model->freed_in_order)
    return false;
  for (int m = 0; m < model->mem_count; m++) {
    const model_mem_t *mem = &model->mems[m];
    if (mem->held && model_share_device(mem->ctx, ctx))
      used += charge(mem->bytes, mem->is_async);
  }
  return used <= limit;
}

bool model_is_legal(const model_t *model, const step_t *step)
{
  const around_t *around = &model->around;
  unsigned flags = step_infos[step->kind].flags;
  if (around->steps && (!(flags & F_INSIDE) || step->thread == around->step.thread || step->inside))
    return false;
  if (around->steps && (step->kind == STEP_ALLOC || step->kind == STEP_ALLOC_ASYNC) &&
      step_infos[around->step.kind].flags & F_MEM)
    return false; /* it may have to wait for that very call */
  if (around->steps && step->kind == STEP_STREAM_DESTROY &&
      (step_infos[around->step.kind].flags & F_MEM ||
          (step_infos[around->step.kind].flags & F_LANE && step->lane == around->step.lane)))
    return false; /* that call is about the stream, or asks for it, for which its end would wait */
  if (step->inside && !(flags & F_AROUND))
    return false;
  if (!object_is_there(model, step) || !mems_are_ready(model, step) ||
      (model->capture >= 0 && !may_while_capturing(model, step)))
    return false;
  if (flags & F_WAIT && !wait_is_legal(model, step))
    return false;
  if (model_would_hang(model, step))
    return false;
  switch (step->kind) {
  case STEP_ALLOC: return has_room(model, step, step->ctx);
  case STEP_ALLOC_ASYNC: return has_room(model, step, model->lanes[step->lane].ctx);
  case STEP_CAPTURE_MEMORY: /* the driver counts it at the launch, and beyond the end of the graph */
    return model->capture >= 0 && step->lane == model->capture && !model->program->options.tight;
  case STEP_EVENT_RECORD: return model->events[step->event].ctx == model->lanes[step->lane].ctx;
  case STEP_EVENT_WAIT: return model->events[step->event].recorded;
  case STEP_CTX_WAIT: return model->events[step->event].recorded;
  case STEP_CTX_RECORD: return model->events[step->event].ctx == step->ctx;
  case STEP_STREAM_DESTROY: return may_destroy(model, step->lane);
  case STEP_CAPTURE_BEGIN: return step->lane >= LANE_CREATED;
  case STEP_CAPTURE_END: return model->capture >= 0 && step->lane == model->capture;
  case STEP_GRAPH_LAUNCH: return graph_may_run(model, step);
  case STEP_CTX_DESTROY: return ctx_may_end(model, step->ctx);
  default: return true;
  }
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
  if (legal && model.around.steps == 0 && model.capture < 0 && behind_all(&model.behind) == 0)
    return true;
  *program = copy;
  return false;
}
