/*
 * Performs the rows of a trace, with one or several threads.
 *
 * A program that is legal CUDA: a block is used only between its allocation and its free, and its uses on
 * different streams are ordered by events. What is left unordered is exactly what CUDA lets a program leave
 * unordered. In particular cudaFree is called while the stamps of the block are still being written or read.
 */
#include "replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct block {
  uint64_t address;
  uint64_t bytes;
  uint32_t stream; /* index, of its allocation */
  bool is_live;
} block_t;

typedef struct run {
  const replay_trace_t *trace;
  const replay_options_t *options;
  const replay_api_t *api;
  replay_totals_t *totals;
  void **streams;
  uint32_t stream_count;
  block_t *blocks; /* each is touched by one worker only */
  pthread_barrier_t barrier;
} run_t;

typedef struct worker {
  run_t *run;
  uint32_t index;
  uint32_t rows_since_sync;
  stamp_ring_t *ring;
  void **events; /* by stream, created at need */
  pthread_t thread;
} worker_t;

/* Ends the process as programs do, exit handlers included; by one thread, since exit() is not for two at
 * once. */
static _Noreturn void give_up(void)
{
  static atomic_flag ending = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&ending))
    exit(REPLAY_EXIT_CUDA);
  for (;;)
    pause();
}

void replay_must(const replay_api_t *api, const char *what, int code)
{
  if (code == 0)
    return;
  fprintf(stderr, "replay: %s failed: %s (%d)\n", what, api->error_name(code), code);
  give_up();
}

static void count(atomic_uint_fast64_t *counter)
{
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void count_live(replay_totals_t *totals, uint64_t bytes)
{
  uint_fast64_t live = atomic_fetch_add_explicit(&totals->live_bytes, bytes, memory_order_relaxed) + bytes;
  uint_fast64_t peak = atomic_load_explicit(&totals->peak_bytes, memory_order_relaxed);
  while (live > peak && !atomic_compare_exchange_weak(&totals->peak_bytes, &peak, live))
    ;
}

/* Work submitted to `after` from now on runs behind what `before` holds now. The host does not wait. */
static void order(worker_t *worker, uint32_t before, uint32_t after)
{
  const run_t *run = worker->run;
  if (before == after)
    return;
  void **event = &worker->events[before];
  if (!*event)
    replay_must(run->api, "event create", run->api->event_create(event));
  replay_must(run->api, "event record", run->api->event_record(*event, run->streams[before]));
  replay_must(run->api, "stream wait event", run->api->event_wait(run->streams[after], *event));
}

static void device_sync(worker_t *worker)
{
  const run_t *run = worker->run;
  replay_must(run->api, "device synchronize", run->api->device_sync());
  stamp_settle(worker->ring);
  worker->rows_since_sync = 0;
  /* Only a failed row may leave an error in the thread, and it takes its own away */
  if (run->api->last_error && run->api->last_error() != 0)
    count(&run->totals->error_mismatches);
}

static stamp_block_t stamp_of(const run_t *run, uint32_t block, uint32_t pass, uint32_t line)
{
  return (stamp_block_t){.address = run->blocks[block].address,
      .bytes = run->blocks[block].bytes,
      .block = block,
      .pass = pass,
      .line = line};
}

static bool is_async(const run_t *run, uint32_t block)
{
  const replay_options_t *options = run->options;
  return options->async == REPLAY_ASYNC_ALL ||
         (options->async == REPLAY_ASYNC_HALF && block / options->threads % 2 == 1);
}

static void row_alloc(worker_t *worker, const replay_row_t *row, uint32_t stream, uint32_t pass)
{
  const run_t *run = worker->run;
  const replay_api_t *api = run->api;
  block_t *block = &run->blocks[row->block];
  uint64_t address = 0;
  int code = 0;
  /* The APIs differ in what they say to a request of nothing, so none is made */
  if (row->bytes > 0)
    code = is_async(run, row->block) ? api->alloc_async(&address, row->bytes, run->streams[stream])
                                     : api->alloc(&address, row->bytes);
  if (code != 0) {
    if (api->last_error && api->last_error() != code)
      count(&run->totals->error_mismatches);
    if (code != api->out_of_memory)
      replay_must(api, "allocation", code);
    count(&run->totals->failed);
    return;
  }
  *block = (block_t){.address = address, .bytes = row->bytes, .stream = stream, .is_live = true};
  count(&run->totals->allocs);
  count_live(run->totals, row->bytes);
  stamp_block_t stamp = stamp_of(run, row->block, pass, row->line);
  stamp_write(worker->ring, &stamp, stream);
}

/* The last use of the block, if it has one, and its free happen on the given stream. */
static void block_free(worker_t *worker, uint32_t index, uint32_t stream, uint32_t pass, uint32_t line)
{
  const run_t *run = worker->run;
  const replay_api_t *api = run->api;
  block_t *block = &run->blocks[index];
  /* A plain free covers the pending write on whatever stream it is; a use or a free on a stream does not */
  if (run->options->check || is_async(run, index))
    order(worker, block->stream, stream);
  if (run->options->check) {
    stamp_block_t stamp = stamp_of(run, index, pass, line);
    stamp_read(worker->ring, &stamp, stream);
  }
  block->is_live = false;
  if (block->bytes > 0)
    replay_must(api, "free",
        is_async(run, index) ? api->free_async(block->address, run->streams[stream])
                             : api->free(block->address));
  count(&run->totals->frees);
  atomic_fetch_sub_explicit(&run->totals->live_bytes, block->bytes, memory_order_relaxed);
}

static void run_pass(worker_t *worker, uint32_t pass)
{
  const run_t *run = worker->run;
  const replay_options_t *options = run->options;
  worker->rows_since_sync = 0;
  for (size_t i = 0; i < run->trace->row_count; i++) {
    const replay_row_t *row = &run->trace->rows[i];
    if (row->block % options->threads != worker->index)
      continue;
    uint32_t stream = options->streams ? (uint32_t)(i % options->streams) : row->stream;
    if (row->is_alloc)
      row_alloc(worker, row, stream, pass);
    else if (run->blocks[row->block].is_live) /* not one whose allocation failed */
      block_free(worker, row->block, stream, pass, row->line);
    if (options->pause_us > 0)
      nanosleep(&(struct timespec){.tv_nsec = 1000L * (long)options->pause_us}, NULL);
    if (++worker->rows_since_sync == options->sync_every)
      device_sync(worker);
  }
  for (uint32_t i = worker->index; i < run->trace->block_count; i += options->threads)
    if (run->blocks[i].is_live) {
      block_free(worker, i, run->blocks[i].stream, pass, 0);
      count(&run->totals->survivors);
    }
  if (options->sync_every > 0)
    device_sync(worker);
}

static void *work(void *data)
{
  worker_t *worker = data;
  run_t *run = worker->run;
  const replay_api_t *api = run->api;
  replay_must(api, "set device", api->enter_thread());
  worker->ring = stamp_ring_create(api, run->trace, run->streams, run->stream_count);
  for (uint32_t pass = 1; pass <= run->options->repeat; pass++) {
    run_pass(worker, pass);
    pthread_barrier_wait(&run->barrier); /* passes do not overlap: each begins with nothing allocated */
  }
  device_sync(worker);
  atomic_fetch_add(&run->totals->wrong_stamps, stamp_wrong_count(worker->ring));
  stamp_ring_destroy(worker->ring);
  for (uint32_t i = 0; i < run->stream_count; i++)
    if (worker->events[i])
      replay_must(api, "event destroy", api->event_destroy(worker->events[i]));
  return NULL;
}

static void *allocate(size_t items, size_t item_bytes)
{
  void *memory = calloc(items ? items : 1, item_bytes);
  if (!memory)
    abort();
  return memory;
}

static void create_streams(run_t *run)
{
  run->stream_count = run->options->streams ? run->options->streams : run->trace->stream_count;
  run->streams = allocate(run->stream_count, sizeof(void *));
  for (uint32_t i = 0; i < run->stream_count; i++)
    if (run->options->streams ||
        run->trace->streams[i] != 0) /* a trace's stream 0 is the legacy default stream */
      replay_must(run->api, "stream create", run->api->stream_create(&run->streams[i]));
}

static double now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void replay_run(const replay_trace_t *trace, const replay_options_t *options, replay_totals_t *totals)
{
  run_t run = {.trace = trace, .options = options, .api = options->api, .totals = totals};
  replay_must(run.api, "initialization", run.api->open());
  if (options->programmatic)
    replay_must(run.api, "programmatic launch", run.api->launch_programmatic());
  create_streams(&run);
  run.blocks = allocate(trace->block_count, sizeof(block_t));
  pthread_barrier_init(&run.barrier, NULL, options->threads);

  worker_t *workers = allocate(options->threads, sizeof(worker_t));
  double start = now();
  for (uint32_t i = 0; i < options->threads; i++) {
    workers[i] = (worker_t){.run = &run, .index = i, .events = allocate(run.stream_count, sizeof(void *))};
    if (i > 0 && pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
      fprintf(stderr, "replay: cannot create thread %u\n", (unsigned)i);
      give_up();
    }
  }
  work(&workers[0]); /* the main thread is the first worker: one thread means no thread is created */
  for (uint32_t i = 1; i < options->threads; i++)
    pthread_join(workers[i].thread, NULL);
  totals->seconds = now() - start;

  for (uint32_t i = 0; i < run.stream_count; i++)
    if (run.streams[i])
      replay_must(run.api, "stream destroy", run.api->stream_destroy(run.streams[i]));
  for (uint32_t i = 0; i < options->threads; i++)
    free(workers[i].events);
  free(workers);
  pthread_barrier_destroy(&run.barrier);
  free(run.blocks);
  free(run.streams);
}
