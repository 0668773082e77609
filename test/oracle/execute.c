/*
 * Runs a program on the simulated GPU and says what was wrong.
 */
#include "perform.h"
#include "turns.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const program_t *program;
outcome_t *outcome;
pthread_mutex_t outcome_lock = PTHREAD_MUTEX_INITIALIZER;
CUdeviceptr mems[MAX_MEMS];
bool mem_live[MAX_MEMS], refused[MAX_MEMS];
CUstream lanes[LANES];
CUcontext ctxs[CTXS];
uint64_t ctx_numbers[CTXS];
CUfunction fills[CTXS], expects[CTXS], busies[CTXS], waits[CTXS], meets[CTXS], empties[CTXS];
uint32_t host_flags[MAX_WAITS];
CUgraphExec graphs[MAX_GRAPHS];

static int device_count;
static uint64_t last_ctx_number;
static atomic_bool step_done[MAX_STEPS];
static bool runs_freely;

static _Thread_local uint64_t current_number; /* of the context that this thread has made current */

/* The steps that stand inside this thread's step and have not been taken; moment: driver calls until they
 * are; -1: they are not begun in a call any more. */
static _Thread_local struct {
  int next, last, moment;
} inside = {0, -1, -1};

void say(const char *format, ...)
{
  va_list args;
  if (outcome->first[0])
    return;
  va_start(args, format);
  vsnprintf(outcome->first, sizeof outcome->first, format, args);
  va_end(args);
}

static void note(int index, CUresult result)
{
  if (result == CUDA_SUCCESS)
    return;
  pthread_mutex_lock(&outcome_lock);
  outcome->failed_calls++;
  say("step %d, %s: error %d", index, index < 0 ? "clean-up" : step_infos[program->steps[index].kind].name,
      (int)result);
  pthread_mutex_unlock(&outcome_lock);
}

static const driver_t *driver_of(const step_t *step)
{
  return step->route ? &by_version : &by_name;
}

/* ---- contexts ---- */

CUresult enter_ctx(const driver_t *driver, int c)
{
  if (current_number == ctx_numbers[c])
    return CUDA_SUCCESS;
  CUresult result = driver->cuCtxSetCurrent(ctxs[c]);
  if (result == CUDA_SUCCESS)
    current_number = ctx_numbers[c];
  return result;
}

/* A free is legal with any context current, so the thread's own stays. */
static CUresult enter_any(const driver_t *driver)
{
  int any = -1;
  for (int c = CTXS - 1; c >= 0; c--) {
    if (ctx_numbers[c] && current_number == ctx_numbers[c])
      return CUDA_SUCCESS;
    if (ctx_numbers[c])
      any = c;
  }
  return any < 0 ? CUDA_SUCCESS : enter_ctx(driver, any);
}

static CUresult enable_peers(const driver_t *driver, int c)
{
  CUresult result = CUDA_SUCCESS;
  if (c >= 2 || !ctx_numbers[1 - c])
    return CUDA_SUCCESS;
  for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
    result = enter_ctx(driver, i);
    if (result == CUDA_SUCCESS)
      result = driver->cuCtxEnablePeerAccess(ctxs[1 - i], 0);
    if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
      result = CUDA_SUCCESS;
  }
  return result;
}

/* Only for programs that need them: the others make the calls that their seeds were found with. */
static CUresult find_further(const driver_t *driver, int c, CUmodule module)
{
  CUresult result = driver->cuModuleGetFunction(&waits[c], module, "simcuda_wait");
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleGetFunction(&busies[c], module, "simcuda_busy");
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleGetFunction(&meets[c], module, "simcuda_meet");
  return result == CUDA_SUCCESS ? driver->cuModuleGetFunction(&empties[c], module, "empty") : result;
}

CUresult create_ctx(const driver_t *driver, int c)
{
  static char image[] = "no image";
  CUmodule module;
  CUresult result =
      c == 2 ? driver->cuCtxCreate_v2(&ctxs[c], 0, 0) : driver->cuDevicePrimaryCtxRetain(&ctxs[c], c);
  CUcontext ignored;
  if (result == CUDA_SUCCESS && c == 2)
    result = driver->cuCtxPopCurrent_v2(&ignored); /* creating pushes; the stack must not grow */
  if (result != CUDA_SUCCESS)
    return result;
  ctx_numbers[c] = ++last_ctx_number;
  current_number = 0;
  result = enter_ctx(driver, c);
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleLoadData(&module, image);
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleGetFunction(&fills[c], module, "simcuda_fill");
  if (result == CUDA_SUCCESS)
    result = driver->cuModuleGetFunction(&expects[c], module, "simcuda_expect");
  if (result == CUDA_SUCCESS && (program->options.waits || program->options.tight))
    result = find_further(driver, c, module);
  forget_places(c);
  for (int t = 0; t < THREADS; t++)
    lanes[LANE_THREAD(c, t)] = CU_STREAM_PER_THREAD;
  lanes[LANE_LEGACY(c)] = CU_STREAM_LEGACY;
  return result == CUDA_SUCCESS ? enable_peers(driver, c) : result;
}

CUresult destroy_ctx(const driver_t *driver, int c)
{
  CUresult result = c == 2 ? driver->cuCtxDestroy_v2(ctxs[c]) : driver->cuDevicePrimaryCtxReset_v2(c);
  ctx_numbers[c] = 0;
  return result;
}

int ctx_of(int lane)
{
  if (lane < CTXS)
    return lane;
  if (lane < LANE_CREATED)
    return (lane - CTXS) / THREADS;
  for (int i = 0; i < program->count; i++) {
    if (program->steps[i].kind == STEP_STREAM_CREATE && program->steps[i].lane == lane)
      return program->steps[i].ctx;
  }
  return 0;
}

/* ---- steps ---- */

static bool is_pool_call(step_kind_t kind)
{
  return kind == STEP_ALLOC_ASYNC || kind == STEP_FREE_ASYNC;
}

/* A primary context has to be current for a call that takes no context; -1: none */
static int ctx_needed(const step_t *step)
{
  unsigned flags = step_infos[step->kind].flags;
  if (step->kind == STEP_CTX_CREATE || step->kind == STEP_CTX_DESTROY || step->kind == STEP_THREAD_END)
    return -1;
  if (flags & F_CTX)
    return step->ctx;
  if (is_pool_call(step->kind) && program->options.ordered && step->lane >= LANE_CREATED &&
      step->value % 8 == 1)
    return -1; /* the stream says where */
  return flags & F_LANE ? ctx_of(step->lane) : -1;
}

static void take_step(int index)
{
  const step_t *step = &program->steps[index];
  const driver_t *driver = driver_of(step);
  int ctx = ctx_needed(step);
  CUresult result = CUDA_SUCCESS;

  at_step((uint64_t)index);
  if (ctx >= 0)
    result = enter_ctx(driver, ctx);
  else if (step->kind != STEP_CTX_CREATE && step->kind != STEP_CTX_DESTROY && step->kind != STEP_WRITE)
    result = enter_any(driver);
  if (step->inside && !runs_freely) {
    inside.next = index + 1;
    inside.last = index + step->inside < program->count ? index + step->inside : program->count - 1;
    inside.moment = step->moment;
  }
  if (result == CUDA_SUCCESS)
    result = perform(driver, step, index);
  note(index, result);
}

/* Ends when a step cannot be completed before the caller's. */
static void take_inside(void)
{
  bool done = true;
  inside.moment = -1;
  while (inside.next <= inside.last && done) {
    int index = inside.next++;
    done = turns_take(program->steps[index].thread, index);
  }
}

static void between_calls(int entering)
{
  (void)entering;
  if (inside.moment >= 0 && inside.moment-- == 0)
    take_inside();
}

bool is_alone(int index)
{
  bool nested = program->steps[index].inside > 0;
  for (int i = 0; i < index; i++)
    nested |= i + program->steps[i].inside >= index;
  return !runs_freely && !nested;
}

static void take_turn(int index)
{
  take_step(index);
  if (!program->steps[index].inside)
    return;
  for (turns_await(); inside.next <= inside.last; turns_await())
    take_inside();
}

/* ---- freely ---- */

static void await_earlier(int index)
{
  for (int i = 0; i < index; i++) {
    if (!(program->after[index][i / 64] >> (i % 64) & 1))
      continue;
    while (!atomic_load_explicit(&step_done[i], memory_order_acquire))
      sched_yield();
  }
}

static void run_thread(int thread)
{
  for (int i = 0; i < program->count; i++) {
    if (program->steps[i].thread != thread)
      continue;
    await_earlier(i);
    take_step(i);
    atomic_store_explicit(&step_done[i], true, memory_order_release);
  }
}

/* ---- whole programs ---- */

bool execute_init(void)
{
  if (!driver_find())
    return false;
  return by_name.cuInit(0) == CUDA_SUCCESS && by_name.cuDeviceGetCount(&device_count) == CUDA_SUCCESS;
}

static void clean_up(void)
{
  for (int c = 0; c < CTXS; c++) {
    if (!ctx_numbers[c])
      continue;
    note(-1, enter_ctx(&by_name, c));
    note(-1, by_name.cuCtxSynchronize());
  }
  for (int m = 0; m < MAX_MEMS; m++) {
    if (mem_live[m])
      note(-1, perform_free(&by_name, m));
  }
  for (int g = 0; g < MAX_GRAPHS; g++) {
    if (graphs[g])
      (void)by_name.cuGraphExecDestroy(graphs[g]); /* gone already, perhaps */
    graphs[g] = NULL;
  }
  for (int c = CTXS - 1; c >= 0; c--) {
    if (ctx_numbers[c])
      note(-1, destroy_ctx(&by_name, c));
  }
  current_number = 0;
}

static void judge(const simcuda_oracle_t *before)
{
  simcuda_oracle_t now;
  oracle_counts(&now);
  outcome->early_reuse = now.early_reuse - before->early_reuse;
  outcome->strays = now.strays - before->strays;
  outcome->violations = now.violations - before->violations;
  outcome->corrupt_stamps = now.corrupt_stamps - before->corrupt_stamps;
  outcome->reuses = now.reuses - before->reuses;
  outcome->pending_reuses = now.pending_reuses - before->pending_reuses;
  if (outcome->early_reuse || outcome->strays || outcome->violations || outcome->corrupt_stamps)
    say("%llu early reuses, %llu strays, %llu violations, %llu corrupt words",
        (unsigned long long)outcome->early_reuse, (unsigned long long)outcome->strays,
        (unsigned long long)outcome->violations, (unsigned long long)outcome->corrupt_stamps);
}

bool outcome_is_good(const outcome_t *result)
{
  return !result->failed_calls && !result->wrong_values && !result->early_reuse && !result->strays &&
         !result->violations && !result->corrupt_stamps;
}

void execute(const program_t *the_program, bool freely, outcome_t *ret_outcome)
{
  simcuda_oracle_t before;
  bool one_thread = true;

  program = the_program;
  outcome = ret_outcome;
  runs_freely = freely;
  memset(outcome, 0, sizeof *outcome);
  memset(host_flags, 0, sizeof host_flags);
  memset(refused, 0, sizeof refused);
  for (int i = 0; i < program->count; i++)
    one_thread &= program->steps[i].thread == 0;
  oracle_counts(&before);
  seed_driver(program->seed);
  note(-1, create_ctx(&by_name, 0));
  on_call(between_calls);
  if (one_thread) {
    for (int i = 0; i < program->count; i++)
      take_step(i);
  } else if (freely) {
    for (int i = 0; i < program->count; i++)
      atomic_store(&step_done[i], false);
    turns_begin(run_thread);
    turns_all(THREADS);
  } else {
    turns_begin(take_turn);
    for (int i = 0; i < program->count; i += 1 + program->steps[i].inside) {
      if (program->steps[i].kind == STEP_THREAD_END)
        turns_end_thread(program->steps[i].thread);
      else
        turns_take(program->steps[i].thread, i);
    }
  }
  on_call(NULL);
  if (!one_thread)
    turns_end();
  clean_up();
  judge(&before);
}
