#include "test/fuzz/ring_workload.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pool/forwarded/forwarded.h"
#include "test/fuzz/address_driver.h"
#include "trace/region/record_file.h"
#include "trace/record/recorder.h"

#define CUT_SCALE 64 /* of sizes, where blocks are cut from segments of 64 MiB and more */

static workload_plan_t the_plan;
static workload_t *the_workload;
static gp_engine_t *engine;
static gp_context_t *context;

static uint64_t driver_now(void *self)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static const char *lookup(void *arg, const char *variable)
{
  if (strcmp(variable, "GPUPOOL_RECORD") == 0)
    return the_plan.root;
  if (strcmp(variable, "GPUPOOL_TRACE_EVENTS") == 0)
    return the_plan.events;
  if (strcmp(variable, "GPUPOOL_TYPE") == 0)
    return the_plan.type;
  return strcmp(variable, "GPUPOOL_MAX_CACHED") == 0 && !the_plan.uses_heaps ? "4MiB" : NULL;
}

workload_t *workload_make(void)
{
  void *pages = mmap(NULL, sizeof(workload_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

static void take(workload_log_t *log, workload_block_t *block, uint64_t size)
{
  uint64_t address;
  atomic_store(&log->allocating, size);
  if (gp_engine_alloc(engine, context, size, &address) != 0)
    abort();
  atomic_store(&block->size, size);
  atomic_store(&block->address, address);
  atomic_fetch_add(&log->allocs, 1);
  atomic_store(&log->allocating, 0);
}

static void give(workload_log_t *log, workload_block_t *block)
{
  int code;
  uint64_t address = atomic_load(&block->address);
  atomic_store(&log->freeing, address);
  if (gp_engine_free(engine, address, &code) != GP_FREE_DONE || code)
    abort();
  atomic_store(&block->address, 0);
  atomic_store(&log->freeing, 0);
}

static void *work(void *arg)
{
  workload_log_t *log = arg;
  uint32_t state = (uint32_t)(log - the_workload->logs) * 7919 + the_plan.seed;
  bool is_cut = the_plan.type && strcmp(the_plan.type, "segment") == 0;
  uint64_t scale = is_cut && !the_plan.uses_heaps ? CUT_SCALE : 1;
  unsigned sizes = the_plan.uses_heaps ? 4 : 16;
  for (;;) {
    state = state * 1664525u + 1013904223u;
    workload_block_t *block = &log->live[state >> 8 & (WORKLOAD_SLOTS - 1)];
    if (atomic_load(&block->address))
      give(log, block);
    else
      take(log, block, (512 + (uint64_t)(state >> 16 & (sizes - 1)) * 20000) * scale);
    if (state >> 27 == 0)
      gp_engine_sync_end(engine, context, gp_engine_sync_begin(engine));
    uint64_t done = atomic_fetch_add(&the_workload->operations, 1) + 1;
    if (the_plan.operations && done >= the_plan.operations)
      _exit(0);
  }
  return NULL;
}

static void run(void)
{
  static gp_options_t options;
  const gp_driver_ops_t ops = address_driver_ops(driver_now);
  const gp_driver_t driver = {&ops, NULL};
  const gp_driver_context_t of = {(void *)1, 1, 0, true};
  gp_options_parse(&options, lookup, NULL, NULL, NULL);
  gp_recorder_t *recorder = gp_recorder_create(&options, driver_now, NULL);
  if (!recorder)
    abort();
  gp_observer_t observer = gp_recorder_observer(recorder);
  engine = gp_engine_create(&driver, &observer, &options);
  context = gp_engine_context(engine, &of);
  for (unsigned i = 1; i < the_plan.threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, &the_workload->logs[i]))
      abort();
  }
  work(&the_workload->logs[0]);
}

pid_t workload_start(workload_t *workload, const workload_plan_t *plan)
{
  memset(workload, 0, sizeof(*workload));
  pid_t child = fork();
  if (child != 0)
    return child;
  the_workload = workload;
  the_plan = *plan;
  run();
  _exit(1);
}

/* Calls visit with the folder and each record's name; returns how many there were. */
static int visit_records(const char *root, void (*visit)(int folder, const char *name, void *arg), void *arg)
{
  const char *problem;
  int count = 0;
  int folder = gp_record_folder_open(root, false, &problem);
  DIR *stream = folder < 0 ? NULL : fdopendir(folder);
  const struct dirent *entry;
  while (stream && (entry = readdir(stream))) {
    if (entry->d_name[0] == '.')
      continue;
    visit(dirfd(stream), entry->d_name, arg);
    count++;
  }
  if (stream)
    closedir(stream);
  return count;
}

static void open_one(int folder, const char *name, void *arg)
{
  int *fd = arg;
  if (*fd >= 0)
    close(*fd);
  *fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
}

int workload_open_record(const char *root)
{
  int fd = -1;
  int count = visit_records(root, open_one, &fd);
  if (count == 1)
    return fd;
  if (fd >= 0)
    close(fd);
  return -1;
}

static void remove_one(int folder, const char *name, void *arg)
{
  (void)unlinkat(folder, name, 0);
}

void workload_remove_records(const char *root)
{
  (void)visit_records(root, remove_one, NULL);
}
