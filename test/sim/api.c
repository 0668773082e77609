/*
 * The frame of every driver call: counting, fault injection, preconditions, a step of the scheduler, the log.
 */
#include "oracle.h"
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const sim_api_t sim_api_table[SIM_API_COUNT] = {
#define SIM_API(name, base, since, flags) {#name, #base, since, flags},
#include "api.def"
#undef SIM_API
};

static bool started;
static void (*on_call)(int entering);

void simcuda_on_call(void (*fn)(int entering))
{
  pthread_mutex_lock(&sim_mutex);
  __atomic_store_n(&on_call, fn, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&sim_mutex);
}

static void tell(int entering)
{
  void (*fn)(int) = __atomic_load_n(&on_call, __ATOMIC_ACQUIRE);
  if (fn)
    fn(entering);
}

static void start(void)
{
  started = true;
  sim_state_init();
  sim_knobs_read();
  sim_log_open();
  sim_sched_seed(sim_knobs.seed);
  sim_oracle_on = sim_knobs.oracle;
}

static bool check(sim_call_t *call, unsigned flags)
{
  const sim_thread_t *thread = sim_thread_self();
  if (!sim_initialized && (flags & SIM_F_INIT)) {
    call->result = CUDA_ERROR_NOT_INITIALIZED;
    return false;
  }
  bool needs_ctx = (flags & SIM_F_CTX) == SIM_F_CTX;
  if (needs_ctx || ((flags & SIM_F_STREAM) == SIM_F_STREAM && thread->depth > 0 && sim_ctx_current())) {
    if (thread->depth == 0) {
      call->result = CUDA_ERROR_INVALID_CONTEXT;
      return false;
    }
    call->ctx = sim_ctx_current();
    if (!call->ctx) {
      call->result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
      return false;
    }
    if (call->ctx->sticky != CUDA_SUCCESS) {
      call->result = call->ctx->sticky;
      return false;
    }
  }
  if ((flags & SIM_F_UNSAFE) && sim_captures && sim_capture_forbids(thread)) {
    call->result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return false;
  }
  return true;
}

bool sim_call_begin(sim_call_t *call, enum sim_api api)
{
  unsigned flags = sim_api_table[api].flags;
  call->api = api;
  call->ctx = NULL;
  call->result = CUDA_SUCCESS;
  tell(1);
  pthread_mutex_lock(&sim_mutex);
  if (!started)
    start();
  sim_calls[api]++;
  if (sim_thread_self()->in_callback && (flags & SIM_F_INIT)) {
    call->result = CUDA_ERROR_NOT_PERMITTED; /* "callbacks must not make any CUDA API calls" (cuda.h,
                                                cuLaunchHostFunc) */
    return false;
  }
  if (sim_fault_hit(api, &call->result)) {
    sim_ctx_t *ctx = sim_initialized ? sim_ctx_current() : NULL;
    if (ctx && sim_error_is_sticky(call->result) && ctx->sticky == CUDA_SUCCESS)
      ctx->sticky = call->result;
    return false;
  }
  if (flags & SIM_F_ALWAYS)
    return true;
  if (sim_finished) {
    call->result = CUDA_ERROR_DEINITIALIZED;
    return false;
  }
  if (sim_forked) {
    call->result = CUDA_ERROR_NOT_INITIALIZED;
    return false;
  }
  if (sim_is_locked() && !(flags & SIM_F_LOCKED)) {
    sim_violation(
        "%s while the process is locked for a checkpoint: it would not return", sim_api_table[api].name);
    call->result = CUDA_ERROR_NOT_READY;
    return false;
  }
  if (!check(call, flags))
    return false;
  if (sim_pending) {
    sim_sched_notice();
    sim_sched_poke();
  }
  return true;
}

CUresult sim_call_end(sim_call_t *call, const char *format, ...)
{
  CUresult result = call->result;
  if (sim_log_on) {
    char line[512];
    int n = snprintf(line, sizeof line, "%s ", sim_api_table[call->api].name);
    va_list args;
    va_start(args, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    if (n > (int)sizeof line - 24)
      n = (int)sizeof line - 24;
    n += snprintf(line + n, sizeof line - (size_t)n, "=%d\n", (int)result);
    sim_log_line(line, (size_t)n);
  }
  pthread_mutex_unlock(&sim_mutex);
  tell(0);
  return result;
}

/* Entry points that are exported but not modelled: seen, logged and counted like the others. */
int sim_stub_call(int api)
{
  sim_call_t call;
  if (sim_call_begin(&call, (enum sim_api)api))
    call.result = CUDA_ERROR_NOT_SUPPORTED;
  return sim_call_end(&call, "not modelled");
}
