#include "tools/replay/simulation.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/forwarded/forwarded.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/stream_records.h"

#define UNBOUNDED    (UINT64_C(1) << 46)
#define FIRST_STREAM UINT64_C(0x1000) /* a handle with no special meaning in CUDA */

/* The simulated memory of one block of the workload. */
typedef struct block {
  uint64_t address; /* 0: not allocated yet, refused, or freed */
  uint64_t size;    /* only for forwarded memory */
  bool is_forwarded;
} block_t;

/* A synchronization that has begun but not ended. */
typedef struct sync {
  uint64_t token; /* returned by gp_engine_sync_begin */
  uint64_t work;  /* `work` of the driver when the synchronization began */
} sync_t;

typedef struct run {
  const gp_workload_t *workload;
  gp_offline_device_t devices[GP_SNAPSHOT_DEVICES];
  gp_offline_driver_t driver;
  gp_engine_t *engine;
  gp_context_t *contexts[GP_SNAPSHOT_DEVICES]; /* NULL: the device is unused */
  block_t *blocks;
  sync_t *syncs;           /* by number of the synchronization */
  uint64_t began_ns;       /* time of the clock when the pass began */
  uint64_t next_forwarded; /* next address for forwarded memory */
  gp_simulated_pass_t *pass;
  uint64_t begun; /* bit mask of the devices with an allocation in this pass */
} run_t;

static void set_device(run_t *run, int ordinal, uint64_t capacity)
{
  const gp_workload_device_t *from = &run->workload->devices[ordinal];
  gp_offline_device_t *device = &run->devices[ordinal];

  const uint64_t total = capacity ? capacity : from->total ? from->total : UNBOUNDED;
  device->capacity =
      total < UNBOUNDED ? total : UNBOUNDED; /* so that addresses of a damaged file do not wrap around */
  if (!capacity && from->total)
    device->held_bytes = from->outside < device->capacity ? from->outside : device->capacity;
}

static int begin(run_t *run, const gp_options_t *options, uint64_t capacity)
{
  const gp_workload_t *workload = run->workload;

  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++)
    set_device(run, device, capacity);
  gp_offline_driver_init(&run->driver, run->devices);
  if (workload->ready.kind == GP_READY_LAG)
    run->driver.lag = workload->ready.number;
  run->blocks = calloc(workload->block_count + 1, sizeof(*run->blocks));
  run->syncs = calloc(workload->sync_count + 1, sizeof(*run->syncs));
  const gp_driver_t driver = gp_offline_driver_ops(&run->driver);
  run->engine = gp_engine_create(&driver, NULL, options);
  if (!run->blocks || !run->syncs || !run->engine)
    return ENOMEM;
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    if (!(workload->present >> device & 1))
      continue;
    const gp_driver_context_t context = {(void *)(uintptr_t)(device + 1), (uint64_t)device + 1, device, true};
    run->contexts[device] = gp_engine_context(run->engine, &context);
    if (!run->contexts[device])
      return ENOMEM;
    for (unsigned i = 0; i < workload->stream_count; i++)
      gp_stream_record_begin(run->engine, run->contexts[device],
          FIRST_STREAM + (uint64_t)device * workload->stream_count + i, false);
  }
  return 0;
}

static gp_stream_order_t order_of(const run_t *run, const gp_step_t *step)
{
  uint64_t stream = FIRST_STREAM + (uint64_t)step->device * run->workload->stream_count + step->stream;
  return (gp_stream_order_t){.context = run->contexts[step->device],
      .stream_record = gp_stream_record_of(run->engine, stream),
      .stream = stream};
}

/* Allocates memory outside the pool, which counts as forwarded. Returns false if there is not enough. */
static bool forward(run_t *run, int device, uint64_t bytes, gp_forwarded_kind_t kind, block_t *block)
{
  gp_context_t *context = run->contexts[device];
  gp_forwarded_retry_t retry = {.has_begun = false};

  if (!gp_engine_forwarded_reserve(run->engine, context, bytes, kind))
    return false;
  bool is_taken;
  do {
    is_taken = gp_offline_take(&run->driver, device, bytes);
  } while (!is_taken && gp_engine_forwarded_retry(run->engine, context, bytes, &retry));
  if (!is_taken) {
    gp_engine_forwarded_cancel(run->engine, context, bytes, kind);
    return false;
  }
  *block = (block_t){run->next_forwarded += GP_MIB, bytes, true};
  const gp_forwarded_t memory = {
      .key = block->address, .address = block->address, .size = bytes, .device = device, .kind = kind};
  gp_engine_forwarded_commit(run->engine, context, &memory, 0);
  return true;
}

static void give_back(run_t *run, int device, block_t *block)
{
  gp_forwarded_t memory;
  gp_space_t space = gp_forwarded_space(GP_FORWARDED_MANAGED);
  if (gp_engine_forwarded_take(run->engine, space, block->address, &memory))
    gp_engine_forwarded_freed(run->engine, &memory, run->driver.now_ns, 0);
  gp_offline_give(&run->driver, device, block->size);
}

/* Performs an allocation. Returns false if it fails. */
static bool allocate(run_t *run, const gp_step_t *step, block_t *block)
{
  int code = GP_OFFLINE_CODE_OUT_OF_MEMORY;

  if (step->size == 0)
    return true; /* CUDA returns NULL for size 0 */
  if (step->stream != GP_STEP_NO_STREAM) {
    const gp_stream_order_t order = order_of(run, step);
    if (gp_engine_alloc_async(run->engine, &order, step->size, &block->address, &code))
      return code == 0;
    return forward(run, step->device, step->size, GP_FORWARDED_MANAGED, block);
  }
  return gp_engine_alloc(run->engine, run->contexts[step->device], step->size, &block->address) == 0;
}

/* Argument of free_by_driver, which frees a stream-ordered block that the pool does not keep. */
typedef struct driver_free {
  gp_offline_driver_t *driver;
  uint64_t address;
} driver_free_t;

static int free_by_driver(void *arg, bool is_cut)
{
  const driver_free_t *call = arg;
  const gp_driver_context_t none = {.handle = NULL};
  return is_cut ? 0 : call->driver->ops.free(call->driver, &none, call->address);
}

/* Returns true if allocations, not frees, submit work to the device. With sync=N the program uses memory
 * until it synchronizes, so a free directly after a synchronization finds the device idle. Otherwise only the
 * frees show when there was work. */
static bool is_busy_by_allocations(const run_t *run)
{
  return run->workload->ready.kind == GP_READY_SYNC;
}

static void release(run_t *run, const gp_step_t *step, block_t *block)
{
  int code = 0;

  run->driver.work += !is_busy_by_allocations(run);
  if (block->address && block->is_forwarded) {
    give_back(run, step->device, block);
  } else if (block->address && step->stream != GP_STEP_NO_STREAM) {
    const gp_stream_order_t order = order_of(run, step);
    driver_free_t call = {&run->driver, block->address};
    (void)gp_engine_free_async(run->engine, &order, block->address, free_by_driver, &call, &code);
  } else if (block->address) {
    (void)gp_engine_free(run->engine, block->address, &code);
  }
  *block = (block_t){0, 0, false};
}

/* Counts a request that succeeded in the recording but fails here. The real program would have ended, or used
 * less memory. The simulation continues. */
static void note_refused(run_t *run, const gp_step_t *step)
{
  gp_simulated_device_t *device = &run->pass->devices[step->device];
  if (device->refused++ > 0)
    return;
  device->first_refused = run->driver.request;
  device->refused_size = step->size;
}

/*
 * Tries a request that failed in the recording. Frees the memory at once, because the program continued
 * without it. An allocation that had to wait for the device does not count as granted, because it is unknown
 * whether the work would have completed.
 */
static void attempt(run_t *run, const gp_step_t *step)
{
  gp_simulated_device_t *device = &run->pass->devices[step->device];
  uint64_t paused_ns = run->driver.paused_ns;
  block_t block = {0, 0, false};

  bool is_served = allocate(run, step, &block);
  bool is_granted = is_served && run->driver.paused_ns == paused_ns;
  device->granted += is_granted;
  device->declined += !is_granted;
  if (is_served)
    release(run, step, &block);
}

static void begin_sync(run_t *run, gp_context_t *context, sync_t *sync)
{
  *sync = (sync_t){gp_engine_sync_begin(run->engine), run->driver.work};
}

/* Ends a synchronization. With is_drained, all memory whose work is complete becomes reusable. The recorded
 * allocation did the same when it found no free block in the device's lists. If it was a miss, it is a miss
 * here, too, and takes the blocks that heaps keep by itself. */
static void end_sync(run_t *run, gp_context_t *context, const sync_t *sync, bool is_drained)
{
  if (sync->work > run->driver.complete)
    run->driver.complete = sync->work;
  gp_engine_sync_end(run->engine, context, sync->token);
  if (is_drained)
    gp_drain(run->engine, false);
}

static uint64_t call_count(const run_t *run)
{
  uint64_t count = 0;
  for (int call = 0; call < GP_OFFLINE_CALLS; call++)
    count += run->driver.calls[call];
  return count;
}

/* Performs the first allocation on a device. No kernel runs yet, so calls cost as much as on an idle
 * device. */
static void begin_device(run_t *run, const gp_step_t *step, block_t *block)
{
  const gp_offline_driver_t *driver = &run->driver;
  const double cost_ns = driver->cost_ns, busy_cost_ns = driver->busy_cost_ns;

  if (!allocate(run, step, block))
    note_refused(run, step);
  run->driver.busy_cost_ns = busy_cost_ns + (driver->cost_ns - cost_ns);
  run->begun |= UINT64_C(1) << step->device;
}

static void perform(run_t *run, const gp_step_t *step)
{
  gp_context_t *context = run->contexts[step->device];
  block_t *block = &run->blocks[step->kind == GP_STEP_ATTEMPT ? 0 : step->block];

  if (run->driver.now_ns < run->began_ns + step->time_ns)
    run->driver.now_ns = run->began_ns + step->time_ns;
  switch ((gp_step_kind_t)step->kind) {
  case GP_STEP_ALLOC:
    if (!(run->begun >> step->device & 1))
      begin_device(run, step, block);
    else if (!allocate(run, step, block))
      note_refused(run, step);
    break;
  case GP_STEP_FORWARDED_ALLOC:
    if (step->size > 0 && !forward(run, step->device, step->size, GP_FORWARDED_MANAGED, block))
      note_refused(run, step);
    break;
  case GP_STEP_FREE:
  case GP_STEP_FORWARDED_FREE: release(run, step, block); break;
  case GP_STEP_ATTEMPT: attempt(run, step); break;
  case GP_STEP_SYNC_BEGIN: begin_sync(run, context, &run->syncs[step->block]); break;
  case GP_STEP_SYNC_END: end_sync(run, context, &run->syncs[step->block], step->size > 0); break;
  }
  run->driver.request += step->kind <= GP_STEP_ATTEMPT;
  run->driver.work += step->kind == GP_STEP_ALLOC && is_busy_by_allocations(run);
}

/* Frees all memory that is still in use, and synchronizes. */
static void end_pass(run_t *run)
{
  const gp_workload_t *workload = run->workload;

  for (size_t i = 0; i < workload->step_count; i++) {
    gp_step_t step = workload->steps[i];
    if (step.kind != GP_STEP_ALLOC && step.kind != GP_STEP_FORWARDED_ALLOC)
      continue;
    if (run->blocks[step.block].address)
      release(run, &step, &run->blocks[step.block]);
  }
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    sync_t sync;
    if (!run->contexts[device])
      continue;
    begin_sync(run, run->contexts[device], &sync);
    end_sync(run, run->contexts[device], &sync, false);
  }
}

/* Resets the counts of calls, because calls between the passes belong to neither pass. */
static void forget_calls(run_t *run)
{
  for (int call = 0; call < GP_OFFLINE_CALLS; call++)
    run->driver.calls[call] = 0;
  run->driver.cost_ns = run->driver.busy_cost_ns = 0;
}

static void note_pass(run_t *run, gp_simulated_pass_t *pass)
{
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    if (!run->contexts[device])
      continue;
    const gp_workload_device_t *from = &run->workload->devices[device];
    uint64_t outside = run->devices[device].capacity == from->total ? from->outside : 0;
    gp_engine_stats(run->engine, device, &pass->devices[device].stats);
    pass->devices[device].held_peak = run->devices[device].peak_bytes - outside;
  }
  for (int call = 0; call < GP_OFFLINE_CALLS; call++)
    pass->calls[call] = run->driver.calls[call];
  pass->call_count = call_count(run);
  pass->cost_ns = run->driver.cost_ns;
  pass->busy_cost_ns = run->driver.busy_cost_ns;
}

static void make_pass(run_t *run, gp_simulated_pass_t *pass)
{
  run->pass = pass;
  run->begun = 0;
  forget_calls(run);
  run->began_ns = run->driver.now_ns;
  gp_engine_reset_peaks(run->engine, run->workload->present);
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++)
    run->devices[device].peak_bytes = run->devices[device].held_bytes;
  for (size_t i = 0; i < run->workload->step_count; i++)
    perform(run, &run->workload->steps[i]);
  note_pass(run, pass);
}

static int copy_blocks(run_t *run, gp_final_blocks_t *ret_blocks)
{
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    if (!run->contexts[device])
      continue;
    size_t count = gp_engine_blocks(run->engine, device, NULL, 0, NULL, NULL);
    gp_block_view_t *views = calloc(count + 1, sizeof(*views));
    if (!views)
      return ENOMEM;
    ret_blocks->counts[device] = gp_engine_blocks(run->engine, device, views, count, NULL, NULL);
    ret_blocks->views[device] = views;
  }
  return 0;
}

void gp_final_blocks_fini(gp_final_blocks_t *blocks)
{
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++)
    free(blocks->views[device]);
  *blocks = (gp_final_blocks_t){.counts = {0}};
}

int gp_simulate(gp_simulation_t *ret_simulation, const gp_workload_t *workload, const gp_options_t *options,
    uint64_t capacity, int passes, gp_final_blocks_t *ret_blocks)
{
  run_t *run = calloc(1, sizeof(*run));
  int error = ENOMEM;

  *ret_simulation = (gp_simulation_t){0};
  if (ret_blocks)
    *ret_blocks = (gp_final_blocks_t){.counts = {0}};
  if (run) {
    run->workload = workload;
    error = begin(run, options, capacity);
    for (int pass = 0; pass < passes && !error; pass++) {
      if (pass > 0)
        end_pass(run);
      make_pass(run, &ret_simulation->passes[pass]);
    }
    gp_assert_full(error || gp_engine_check(run->engine));
    if (ret_blocks && !error)
      error = copy_blocks(run, ret_blocks);
    if (run->engine)
      gp_engine_destroy(run->engine);
    gp_offline_driver_fini(&run->driver);
    free(run->blocks);
    free(run->syncs);
  }
  free(run);
  return error;
}
